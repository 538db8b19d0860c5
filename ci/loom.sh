#!/usr/bin/env bash
# The models of the atomic protocols. How far each is explored: docs/model-checking.md.
#
#   ci/loom.sh        2 threads at 2 or 3 preemptions with stale values, 3 threads at 3 or 4 with the
#                     latest ones
#   ci/loom.sh full   one or two preemptions more, or all; 4 threads at 3; and those that take minutes
#                     to show a mistake that others show in seconds
set -euo pipefail
cd "$(dirname "$0")/.."
[ "${1:-}" = full ] && export TOLLGATE_LOOM_DEPTH=full
RUST_BACKTRACE=0 RUSTFLAGS='--cfg tollgate_loom' CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom" \
    cargo test -p loom-tests --release --locked --tests -- --nocapture $([ "${1:-}" = full ] && echo --include-ignored)
