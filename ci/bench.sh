#!/usr/bin/env bash
# Runs every benchmark, saves the results, and makes the pages from them.
#
#   ci/bench.sh          few rounds, under 10 minutes; saved to target/bench-results
#   ci/bench.sh --keep   the same, saved to benches/results, with the README's table
#   ci/bench.sh full     more rounds and the long cases, under 45 minutes; saved to benches/results
#   ci/bench.sh --help   prints this
#
# Results are saved in a folder named after the processor; TOLLGATE_BENCH_PROCESSOR names another.
# Run nothing else meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."

length=(--rounds 5 --millions 10) keep=no
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
    echo 'bench: short, and not for the pages; `full` or `--keep` saves to benches/results'
fi
# "Intel(R) Xeon(R) Processor" becomes intel-xeon.
processor="$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -1 | tr '[:upper:]' '[:lower:]' \
    | sed -E 's/\((r|tm)\)//g; s/ @.*//; s/\b(processor|cpu)\b//g; s/[^a-z0-9]+/-/g; s/^-+|-+$//g')"
folder="$results/${TOLLGATE_BENCH_PROCESSOR:-${processor:-unknown}}"
mkdir -p "$folder"

# Every package of benchmarks; a bench that is added to a package needs no line here.
for manifest in benches/Cargo.toml benches/peers/Cargo.toml; do
    if [ -f "$manifest" ]; then
        cargo bench --locked --manifest-path "$manifest" --bench '*' -- \
            "${length[@]}" --save "$folder"
    fi
done
cargo run --release --locked --quiet -p tollgate-benches --bin report -- "$results" ${pages[@]+"${pages[@]}"}
echo "bench: saved to $folder"
