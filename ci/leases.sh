#!/usr/bin/env bash
# Checks the protocols of tollgate-redis with stateright, in every state that faults can lead to,
# and planted mistakes that must be found. A minute on two cores. A package of its own: the checker
# brings 40.
#
#   ci/leases.sh [full]    full: also lints, and the largest models, which take minutes more
set -euo pipefail
cd "$(dirname "$0")/../verify/states"
export RUST_BACKTRACE=0 CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-../../target}/leases"
if ! cargo fetch --locked --quiet; then
    echo 'leases: SKIPPED: its dependencies cannot be fetched here'
    exit 0
fi
# The included files have tests of their own, which run in their crate.
[ "${1:-}" != full ] || cargo clippy --lib --test leases --test batches --test shares --locked --quiet -- -D warnings
largest=()
[ "${1:-}" != full ] || largest=(--include-ignored)
cargo test --release --locked --quiet -- --nocapture ${largest[@]+"${largest[@]}"} | awk '
    { print }
    match($0, /: [0-9]+ states, all within/) { split(substr($0, RSTART + 2), words, " "); states += words[1]; models++ }
    /planted: beyond the bound/ || /said to add nothing: beyond/ { found++ }
    END {
        if (!models || !found) exit 1
        printf "leases: %d models, %d states, all within their bounds; %d planted mistakes found\n", models, states, found
    }'
