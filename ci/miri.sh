#!/usr/bin/env bash
# Undefined behaviour, data races and weak memory, by Miri: the unit tests of words and algorithms
# and the tests of threads, under several seeds, also where words are 32 bits and where bytes are
# the other way around. Needs the nightly toolchain with miri and rust-src, which it adds where
# rustup can. Minutes for each target.
set -euo pipefail
cd "$(dirname "$0")/.."

seeds="${1:-8}"
if ! rustup toolchain list 2>/dev/null | grep -q '^nightly'; then
    echo 'miri: SKIPPED: no nightly toolchain; rustup toolchain install nightly'
    exit 0
fi
if ! rustup +nightly component add miri rust-src >/dev/null 2>&1; then
    echo 'miri: SKIPPED: rustup cannot add miri and rust-src here'
    exit 0
fi
# Fewer cases, since each takes a thousand times as long.
export PROPTEST_CASES=2 TOLLGATE_TEST_SHORT=1
done_count=0
for target in x86_64-unknown-linux-gnu i686-unknown-linux-gnu aarch64-unknown-linux-gnu \
    s390x-unknown-linux-gnu; do
    seeds_here=$seeds
    # The first knows all of them; the others are about widths, byte orders and barriers.
    [ "$target" = x86_64-unknown-linux-gnu ] || seeds_here=1
    if ! cargo +nightly miri setup --target "$target" >/dev/null 2>&1; then
        echo "miri: SKIPPED: $target, for which there is no library"
        continue
    fi
    export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-many-seeds=0..$seeds_here"
    cargo +nightly miri test --locked --target "$target" -p tollgate --test miri
    done_count=$((done_count + 1))
done
echo "miri: $done_count targets, $seeds seeds on the first"
