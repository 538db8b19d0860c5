#!/usr/bin/env bash
# Fuzzes each target, from the corpus in the repository, as many at a time as there are processors, and
# says how many executions that were. A crash is kept in fuzz/artifacts, and fails.
#
#   ci/fuzz.sh [SECONDS] [TARGET ...]    60 seconds each on average, and all targets, unless said
#
# Each target's share of the time follows what it is worth. Tables are fuzzed with the address sanitizer,
# where there is a nightly compiler; what has no unsafe code of ours runs faster without one.
#
# TOLLGATE_FUZZ_JOBS: how many at a time.
set -euo pipefail
cd "$(dirname "$0")/.."

# Target, parts of the time, longest input, sanitizer.
table=(
    'words 16 320 none'
    'operations 20 320 address'
    'accounts 16 400 none'
    'changes 12 400 none'
    'snapshot 8 160 address'
    'rules 8 1024 none'
    'forwarded 6 768 none'
    'fields 4 256 none'
    'log_lines 6 1024 none'
    'replies 4 256 none'
)
seconds_each="${1:-60}"
wanted=" ${*:2} "
rows=()
for file in fuzz/fuzz_targets/*.rs; do
    name="$(basename "$file" .rs)"
    row="$(printf '%s\n' "${table[@]}" | grep "^$name " || true)"
    if [ -z "$row" ]; then
        echo "fuzz: $name has no line in ci/fuzz.sh" >&2
        exit 2
    fi
    if [ $# -lt 2 ] || [[ "$wanted" == *" $name "* ]]; then rows+=("$row"); fi
done
if [ ${#rows[@]} -eq 0 ] || { [ $# -ge 2 ] && [ ${#rows[@]} -ne $(($# - 1)) ]; }; then
    echo "fuzz: no such target among: ${table[*]%% *}" >&2
    exit 2
fi

tools="${CARGO_TARGET_DIR:-$PWD/target}/tools"
export PATH="$PATH:$tools/bin"
if ! cargo fuzz --version >/dev/null 2>&1 \
    && ! cargo install --quiet --locked --root "$tools" cargo-fuzz; then
    echo 'fuzz: SKIPPED: cargo-fuzz cannot be installed here'
    exit 0
fi
# The package has a lock file of its own, and flags that would build everything else anew.
base="${CARGO_TARGET_DIR:-$PWD/target}/fuzz"
mkdir -p "$base"
if rustup toolchain list 2>/dev/null | grep -q '^nightly'; then
    fuzz=(cargo +nightly fuzz)
else
    export RUSTC_BOOTSTRAP=1
    fuzz=(cargo fuzz)
    rows=("${rows[@]/%address/none}")
fi

parts=0
for row in "${rows[@]}"; do
    read -r name part _ sanitizer <<<"$row"
    parts=$((parts + part))
    CARGO_TARGET_DIR="$base/$sanitizer" "${fuzz[@]}" build --sanitizer "$sanitizer" "$name"
done

one() {
    local name="$1" part="$2" longest="$3" sanitizer="$4"
    local seconds=$((seconds_each * ${#rows[@]} * part / parts))
    # What is found goes beside the build: only a little of it is worth keeping in the repository.
    mkdir -p "$base/corpus/$name" "fuzz/artifacts/$name"
    "$base/$sanitizer/$(rustc -vV | sed -n 's/^host: //p')/release/$name" \
        "$base/corpus/$name" "fuzz/corpus/$name" -artifact_prefix="fuzz/artifacts/$name/" \
        -max_total_time="$((seconds > 0 ? seconds : 1))" -max_len="$longest" -timeout=20 -rss_limit_mb=4096 \
        -print_final_stats=1 >"$base/$name.log" 2>&1
}

running=0
failed=()
finish() {
    wait -n || true
    running=$((running - 1))
}
for row in "${rows[@]}"; do
    read -r name part longest sanitizer <<<"$row"
    [ "$running" -lt "${TOLLGATE_FUZZ_JOBS:-$(nproc)}" ] || finish
    rm -f "$base/$name.failed"
    { one "$name" "$part" "$longest" "$sanitizer" || touch "$base/$name.failed"; } &
    running=$((running + 1))
done
while [ "$running" -gt 0 ]; do finish; done

for row in "${rows[@]}"; do
    name="${row%% *}"
    awk -v target="$name" '
        /^Done / { runs = $2; seconds = $5 }
        /^#.*cov: / { for (i = 1; i < NF; i++) if ($i == "cov:") cov = $(i + 1) }
        END { printf "fuzz: %s: %d runs in %d s, %d a second, %d edges\n", target, runs, seconds, runs / (seconds ? seconds : 1), cov }
    ' "$base/$name.log" | tee "$base/$name.sum"
    if [ -e "$base/$name.failed" ]; then
        failed+=("$name")
        tail -60 "$base/$name.log"
    fi
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "fuzz: FAILED: ${failed[*]}: what did it is in fuzz/artifacts, and becomes a test"
    exit 1
fi
for row in "${rows[@]}"; do cat "$base/${row%% *}.sum"; done \
    | awk '{ runs += $3 } END { printf "fuzz: %d targets, %d executions in all, no crash\n", NR, runs }'
