#!/usr/bin/env bash
# Looks for data races in the tests with real threads, by the thread sanitizer, on a standard library that is
# built with it too. The sanitizer does not know fences, but only atomics depend on our fences, so no warning
# has to be suppressed. First it must find a planted race. Needs the nightly toolchain with rust-src, which
# it adds where rustup can. Some ten minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
if ! rustup toolchain list 2>/dev/null | grep '^nightly' >/dev/null; then
    echo 'races: SKIPPED: no nightly toolchain; rustup toolchain install nightly'
    exit 0
fi
if ! rustup +nightly component list --installed 2>/dev/null | grep '^rust-src' >/dev/null \
    && ! rustup +nightly component add rust-src >/dev/null 2>&1; then
    echo 'races: SKIPPED: rustup cannot add rust-src here'
    exit 0
fi
host="$(rustc +nightly -vV | sed -n 's/^host: //p')"
export RUSTFLAGS='-Zsanitizer=thread' CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/tsan"
export CARGO_PROFILE_DEV_DEBUG=line-tables-only TSAN_OPTIONS='halt_on_error=1 exitcode=66'
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

mkdir "$work/src"
cat >"$work/Cargo.toml" <<'TOML'
[package]
name = "planted"
version = "0.0.0"
edition = "2024"

[profile.dev] # as the library's, so that the standard library is built once
opt-level = 2
debug = "line-tables-only"
lto = "off"
codegen-units = 4

[profile.dev.package."*"]
opt-level = 0
debug-assertions = false
overflow-checks = false
TOML
cat >"$work/src/main.rs" <<'RUST'
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

static STARTED: AtomicU32 = AtomicU32::new(0);
static mut SUM: u64 = 0;

fn add_without_order() {
    STARTED.fetch_add(1, Relaxed);
    while STARTED.load(Relaxed) < 2 {
        std::thread::yield_now();
    }
    (0..1_000).for_each(|n| unsafe { SUM = std::hint::black_box(SUM + n) });
}

fn main() {
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(add_without_order))));
}
RUST
cargo +nightly build --quiet -Zbuild-std --target "$host" --manifest-path "$work/Cargo.toml"
code=0
"$CARGO_TARGET_DIR/$host/debug/planted" >"$work/planted.txt" 2>&1 || code=$?
if [ $code -ne 66 ] || ! grep -q 'planted::add_without_order\|src/main.rs' "$work/planted.txt"; then
    cat "$work/planted.txt" >&2
    echo 'races: the planted race was not found' >&2
    exit 1
fi

# Left out: the test that measures the memory of the process, which is mostly the sanitizer's here.
cargo +nightly test --locked -Zbuild-std --target "$host" -p tollgate \
    --test threads --test waiting --test adversaries -- --skip ten_million_keys | tee "$work/tests.txt"
count="$(awk '/^test result: ok/ { sum += $4 } END { print sum + 0 }' "$work/tests.txt")"
if [ "$count" -lt 50 ]; then
    echo "races: only $count tests ran" >&2
    exit 1
fi
echo "races: none in $count tests of threads, waiters and adversaries; the planted one is found"
