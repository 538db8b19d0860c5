#!/usr/bin/env bash
# Fuzzes each target, from the corpus in the repository: on the nightly toolchain with the address
# sanitizer, else on stable without one. A crash is kept in fuzz/artifacts, and ends it.
#
#   ci/fuzz.sh [SECONDS] [TARGET ...]    60 seconds each, and all targets, unless said
set -euo pipefail
cd "$(dirname "$0")/.."
seconds_each="${1:-60}"
targets=("${@:2}")
if [ ${#targets[@]} -eq 0 ]; then
    for file in fuzz/fuzz_targets/*.rs; do targets+=("$(basename "$file" .rs)"); done
fi
tools="${CARGO_TARGET_DIR:-$PWD/target}/tools"
export PATH="$PATH:$tools/bin"
if ! cargo fuzz --version >/dev/null 2>&1 \
    && ! cargo install --quiet --locked --root "$tools" cargo-fuzz; then
    echo 'fuzz: SKIPPED: cargo-fuzz cannot be installed here'
    exit 0
fi
# The package has a lock file of its own, and flags that would build everything else anew.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/fuzz"
if rustup toolchain list 2>/dev/null | grep -q '^nightly'; then
    run=(cargo +nightly fuzz run)
else
    export RUSTC_BOOTSTRAP=1
    run=(cargo fuzz run --sanitizer none)
fi
log="$(mktemp)"
trap 'rm -f "$log"' EXIT
for target in "${targets[@]}"; do
    "${run[@]}" "$target" -- -max_total_time="$seconds_each" -max_len=1024 -print_final_stats=1 2>&1 \
        | tee "$log"
    awk -v target="$target" '
        /^Done / { runs = $2; seconds = $5 }
        /^#.*cov: / { for (i = 1; i < NF; i++) if ($i == "cov:") cov = $(i + 1) }
        END { printf "fuzz: %s: %d runs in %d s, %d a second, %d edges\n", target, runs, seconds, runs / (seconds ? seconds : 1), cov }
    ' "$log"
done
echo "fuzz: ${#targets[@]} targets for $seconds_each s each, no crash"
