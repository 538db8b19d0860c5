#!/usr/bin/env bash
# Fuzzes every target for SECONDS_EACH (60 unless given), from the corpus in the repository.
# Needs cargo-fuzz; uses the nightly toolchain where there is one, else stable.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds_each="${1:-60}"
if ! cargo fuzz --version >/dev/null 2>&1; then
    echo 'fuzz: install cargo-fuzz first: cargo install cargo-fuzz --locked' >&2
    exit 1
fi
if rustup toolchain list 2>/dev/null | grep -q '^nightly'; then
    run=(cargo +nightly fuzz run)
else
    export RUSTC_BOOTSTRAP=1
    run=(cargo fuzz run --sanitizer none)
fi
for target in fuzz/fuzz_targets/*.rs; do
    name="$(basename "$target" .rs)"
    "${run[@]}" "$name" -- -max_total_time="$seconds_each" -max_len=1024
done
