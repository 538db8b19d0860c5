#!/usr/bin/env bash
# Runs every benchmark, saves its results, and makes the report of them.
#
#   ci/bench.sh          few rounds, under 10 minutes; saved to target/bench-results
#   ci/bench.sh --keep   the same, saved to benches/results, with the README's table
#   ci/bench.sh full     more rounds and the long cases, under 45 minutes; saved likewise
#
# Figures in benches/results are what the pages show: let nothing else run meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."

length=(--rounds 5 --millions 10) keep=no
for arg in "$@"; do
    case "$arg" in
        full) length=(--rounds 25 --millions 50 --full) keep=yes ;;
        --keep) keep=yes ;;
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
mkdir -p "$results"

# Every package of benchmarks; one that is added to a package is run without a line here.
for manifest in benches/Cargo.toml benches/peers/Cargo.toml; do
    if [ -f "$manifest" ]; then
        cargo bench --locked --manifest-path "$manifest" --bench '*' -- \
            "${length[@]}" --save "$results"
    fi
done
cargo run --release --locked --quiet -p tollgate-benches --bin report -- "$results" "${pages[@]}"
echo "bench: saved to $results"
