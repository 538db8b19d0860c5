#!/usr/bin/env bash
# Lints, the layers, and documentation without warnings.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    printf 'lint: %s\n' "$1" >&2
    exit 1
}

# Atomics are named in the cell, the table and src/sync.rs only, and come from src/sync.rs.
if grep -rnE '\b(core|std)::sync::atomic|loom::|shuttle::' src --include='*.rs' | grep -v '^src/sync\.rs:'; then
    fail 'atomics, loom and shuttle are named in src/sync.rs only'
fi
if grep -rnE '\bAtomicU64\b|compare_exchange|fetch_' src --include='*.rs' \
    | grep -vE '^src/(sync\.rs|cell/|table/)'; then
    fail 'atomics are used in src/cell, src/table and src/sync.rs only'
fi
# The algorithms are pure: no atomics, no clock, no allocation, no float.
impure='crate::(sync|cell|table|clock|limiter|direct|builder)|\b(Box|Vec|String|Arc|Rc)\b|\bf(32|64)\b'
if grep -nE "$impure" $(find src/algo -name '*.rs' -not -path '*oracle*' -not -name tests.rs) src/quota.rs src/decision.rs src/word.rs | grep -vE ':[0-9]+: *//'; then
    fail 'values and algorithms are pure, and know none of the layers above'
fi
if grep -rn 'quanta::' src --include='*.rs' | grep -v '^src/clock\.rs:'; then
    fail 'quanta is named in src/clock.rs only'
fi
# The cells and the table know nothing of the limiter.
if grep -nE 'crate::(limiter|direct|builder|clock|stats)' src/cell/*.rs src/table/*.rs; then
    fail 'cells and table know none of the layers above'
fi
# Unsafe code lives in one file.
if grep -rnE '\bunsafe\b' src --include='*.rs' | grep -v '^src/table/memory\.rs:'; then
    fail 'unsafe code lives in src/table/memory.rs only'
fi

cargo clippy --workspace --all-targets --all-features --locked -- -D warnings
RUSTFLAGS='--cfg tollgate_loom' CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom" \
    cargo clippy -p tollgate -p loom-tests --all-targets --locked -- -D warnings
RUSTFLAGS='--cfg tollgate_shuttle' CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/shuttle" \
    cargo clippy -p shuttle-tests --all-targets --locked -- -D warnings
# Without the standard library; and where there is none, nor an allocator, nor atomics of 64 bits.
cargo clippy -p tollgate --lib --no-default-features --locked -- -D warnings
bare=thumbv7em-none-eabi
if rustup target add "$bare" >/dev/null 2>&1; then
    cargo clippy -p tollgate --lib --no-default-features --locked --target "$bare" -- -D warnings
else
    echo "lint: SKIPPED: $bare, which rustup cannot add here"
fi
RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked --quiet
