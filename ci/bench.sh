#!/usr/bin/env bash
# Runs every benchmark, saves the results, and makes the pages from them.
#
#   ci/bench.sh          every bench, about 15 minutes; saved to target/bench-results
#   ci/bench.sh --keep   the same, saved to benches/results, with the README's table
#   ci/bench.sh full     the long cases as well, under 45 minutes; saved to benches/results
#   ci/bench.sh --help   prints this
#
# Results are saved in a folder named after the processor; TOLLGATE_BENCH_PROCESSOR names another.
# Run nothing else meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."

length=(--rounds 15 --millions 20) keep=no
for arg in "$@"; do
    case "$arg" in
        full) length=(--rounds 25 --millions 50 --full) keep=yes ;;
        --keep) keep=yes ;;
        -h | --help)
            sed -n '2,10s/^# \{0,1\}//p' "$0"
            exit 0
            ;;
        *)
            echo 'usage: ci/bench.sh [full] [--keep]' >&2
            exit 2
            ;;
    esac
done
if [ "$keep" = yes ]; then
    results="$PWD/benches/results" pages=()
else
    results="$PWD/target/bench-results" pages=(--no-readme)
    echo 'bench: not for the pages; `--keep` or `full` saves to benches/results'
fi
report=(cargo run --release --locked --quiet -p tollgate-benches --bin report --)
processor="${TOLLGATE_BENCH_PROCESSOR:-$("${report[@]}" --processor)}"
folder="$results/$processor"
mkdir -p "$folder"

# The row of DPDK's meter needs its header.
if [ -z "${DPDK_INCLUDE:-}" ]; then
    DPDK_INCLUDE="$(ci/checks/dpdk.sh)"
    export DPDK_INCLUDE
fi

# Every package of benchmarks: "manifest bench". A bench that is added to a package needs no line here.
benches=()
for manifest in benches/Cargo.toml benches/peers/Cargo.toml; do
    echo "bench: building $manifest" >&2
    cargo bench --locked --quiet --no-run --manifest-path "$manifest" --bench '*'
    for source in "$(dirname "$manifest")"/benches/*; do
        benches+=("$manifest $(basename "$source" .rs)")
    done
done

# The seconds that a bench took when it was last saved, on any processor.
usual() {
    sed -n 's/.*"seconds": *\([0-9]*\).*/\1/p' "$folder/$1.json" benches/results/*/"$1.json" 2>/dev/null \
        | grep -v '^0$' | head -1 || true
}

declare -A took
left=0
for bench in "${benches[@]}"; do
    took[$bench]="$(usual "${bench#* }")"
    took[$bench]="${took[$bench]:-20}"
    left=$((left + ${took[$bench]}))
done
# The time left is scaled: the time that the benches so far took, over the time that they usually take.
start=$SECONDS usual_so_far=0 index=0
for bench in "${benches[@]}"; do
    index=$((index + 1)) spent=$((SECONDS - start)) minutes=$((left / 60 + 1))
    if [ "$usual_so_far" -gt 0 ]; then
        minutes=$((left * spent / usual_so_far / 60 + 1))
    fi
    echo "bench: $index of ${#benches[@]}, ${bench#* }; $((spent / 60)) min passed, about $minutes min left" >&2
    cargo bench --locked --quiet --manifest-path "${bench% *}" --bench "${bench#* }" -- \
        "${length[@]}" --save "$folder"
    usual_so_far=$((usual_so_far + ${took[$bench]})) left=$((left - ${took[$bench]}))
done
"${report[@]}" "$results" ${pages[@]+"${pages[@]}"}
echo "bench: saved to $folder after $(((SECONDS - start) / 60)) min"
