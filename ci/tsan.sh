#!/usr/bin/env bash
# Data races in the tests with real threads, by the thread sanitizer. Fences are not known to it, so
# the library is built with what sync.rs has in their place for that (see there), if anything.
# Needs the nightly toolchain with rust-src, which it adds where rustup can.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! rustup toolchain list 2>/dev/null | grep -q '^nightly'; then
    echo 'races: SKIPPED: no nightly toolchain; rustup toolchain install nightly'
    exit 0
fi
if ! rustup +nightly component add rust-src >/dev/null 2>&1; then
    echo 'races: SKIPPED: rustup cannot add rust-src here'
    exit 0
fi
host="$(rustc -vV | sed -n 's/^host: //p')"
export RUSTFLAGS='-Zsanitizer=thread' CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/tsan"
export TSAN_OPTIONS='halt_on_error=1'
cargo +nightly test --locked -Zbuild-std --target "$host" -p tollgate \
    --test threads --test waiting --test adversaries
echo 'races: none in the tests of threads, waiters and adversaries'
