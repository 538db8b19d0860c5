#!/usr/bin/env bash
# Looks for undefined behaviour, data races and effects of weak memory, by Miri: tests/miri.rs runs all
# protocols with real threads under several schedules, and twice on targets with 32-bit words and with
# big-endian bytes.
# Needs the nightly toolchain with miri and rust-src, which it adds where rustup can.
#
#   ci/check.sh miri [SEEDS] [TARGET ...]    8 schedules on the first target, and all targets, by default
set -euo pipefail
cd "$(dirname "$0")/../.."

seeds="${1:-8}"
targets=(x86_64-unknown-linux-gnu i686-unknown-linux-gnu s390x-unknown-linux-gnu
    aarch64-unknown-linux-gnu)
[ $# -lt 2 ] || targets=("${@:2}")
if ! rustup toolchain list 2>/dev/null | grep '^nightly' >/dev/null; then
    echo 'miri: SKIPPED: no nightly toolchain; rustup toolchain install nightly'
    exit 0
fi
has() { rustup +nightly component list --installed 2>/dev/null | grep "^$1" >/dev/null; }
if ! { has miri && has rust-src; } && ! rustup +nightly component add miri rust-src >/dev/null 2>&1; then
    echo 'miri: SKIPPED: rustup cannot add miri and rust-src here'
    exit 0
fi
done_count=0
for target in "${targets[@]}"; do
    seeds_here=$seeds
    # The first target runs all schedules; the others check widths, byte orders and barriers.
    [ "$target" = "${targets[0]}" ] || seeds_here=$((seeds < 2 ? seeds : 2))
    if ! cargo +nightly miri setup --target "$target" >/dev/null 2>&1; then
        echo "miri: SKIPPED: $target, for which there is no library"
        continue
    fi
    export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-many-seeds=0..$seeds_here"
    cargo +nightly miri test --locked --target "$target" -p tollgate --test miri
    done_count=$((done_count + 1))
    echo "miri: $target: $seeds_here schedules"
done
echo "miri: $done_count targets, $seeds schedules on the first"
