#!/usr/bin/env bash
# The models of the atomic protocols: 2 threads at 3 preemptions with stale
# values, 3 threads at 4 with the latest ones. About 5 million interleavings, some ten minutes on two cores.
#
#   ci/loom.sh        all but those that take minutes to show a mistake that others show in seconds
#   ci/loom.sh full   those too
set -euo pipefail
cd "$(dirname "$0")/.."
RUST_BACKTRACE=0 RUSTFLAGS='--cfg tollgate_loom' CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom" \
    cargo test -p loom-tests --release --locked --tests -- --nocapture $([ "${1:-}" = full ] && echo --include-ignored)
