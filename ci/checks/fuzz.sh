#!/usr/bin/env bash
# Fuzzes each target from the corpus in the repository, as many at a time as there are processors, and
# prints how many executions that were. A crash is kept in fuzz/artifacts, and fails the check.
#
#   ci/check.sh fuzz [SECONDS] [TARGET ...]    60 seconds a target, and all targets, by default
#   ci/check.sh fuzz 300M [TARGET ...]         so many million executions of all targets, or these
#                                              targets' share of them
#
# `decisions`, `states` and `parsers` stand for the targets of that group.
#
# Each target has a share of the executions, so that the time follows from how fast they are. With a
# nightly compiler, tables are fuzzed with the address sanitizer; targets without unsafe code of ours run
# faster without one. Comparisons are not traced: tracing took two thirds of the time, for hints that numbers
# have no use for, and texts have dictionaries.
#
# TOLLGATE_FUZZ_JOBS: how many at a time.
set -euo pipefail
cd "$(dirname "$0")/../.."

# Target, group, its part of the executions, longest input, sanitizer; the slowest of a group is first.
table=(
    'operations decisions 1 320 address'
    'words decisions 117 320 none'
    'block states 1 600 address'
    'changes states 28 400 none'
    'accounts states 10 400 none'
    'snapshot states 4 160 address'
    'forwarded parsers 45 768 none'
    'fields parsers 40 256 none'
    'replies parsers 41 256 none'
    'advice parsers 10 256 none'
    'log_lines parsers 2 1024 none'
    'rules parsers 2 1024 none'
    'paths parsers 10 128 none'
)
amount="${1:-60}"
if ! [[ "$amount" =~ ^[1-9][0-9]*M?$ ]]; then
    sed -n '5,7s/^# *//p' "$0" >&2
    exit 2
fi
wanted=("${@:2}")
for word in ${wanted[@]+"${wanted[@]}"}; do
    if ! printf '%s\n' "${table[@]}" | awk '{ print $1; print $2 }' | grep -xFe "$word" >/dev/null; then
        echo "fuzz: $word is no target and no group; targets are: ${table[*]%% *}" >&2
        exit 2
    fi
done
rows=() parts=0
for row in "${table[@]}"; do
    read -r name group part _ <<<"$row"
    parts=$((parts + part))
    # Without a word, each target is wanted.
    for word in "${wanted[@]:-$name}"; do
        if [ "$word" = "$name" ] || [ "$word" = "$group" ]; then
            rows+=("$row")
            break
        fi
    done
done
for file in fuzz/fuzz_targets/*.rs; do
    name="$(basename "$file" .rs)"
    if ! printf '%s\n' "${table[@]}" | grep "^$name " >/dev/null; then
        echo "fuzz: $name has no line in ci/checks/fuzz.sh" >&2
        exit 2
    fi
done

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
if rustup toolchain list 2>/dev/null | grep '^nightly' >/dev/null; then
    fuzz=(cargo +nightly fuzz)
else
    export RUSTC_BOOTSTRAP=1
    fuzz=(cargo fuzz)
    rows=("${rows[@]/%address/none}")
fi

for row in "${rows[@]}"; do
    read -r name _ _ _ sanitizer <<<"$row"
    CARGO_TARGET_DIR="$base/$sanitizer" "${fuzz[@]}" build --no-trace-compares --sanitizer "$sanitizer" "$name"
done
# An error must not walk the stack, nor must an allocation. Memory that is returned to the system after
# each input has to be requested again.
export RUST_LIB_BACKTRACE=0 MALLOC_TRIM_THRESHOLD_=100000000 MALLOC_MMAP_THRESHOLD_=100000000
export ASAN_OPTIONS="${ASAN_OPTIONS:-malloc_context_size=4:detect_stack_use_after_return=0:quarantine_size_mb=32}"

# The words of a target's dictionary. Those of a rules file that a table in a document has are written there.
dictionary() {
    [ ! -e "fuzz/dictionaries/$1.dict" ] || cat "fuzz/dictionaries/$1.dict"
    [ "$1" != rules ] || { grep '^| `key` |' docs/rules.md && grep '^|' docs/guide/algorithms.md; } |
        grep -oE '`"[a-z-]+"`' | sort -u | sed 's/^`"\(.*\)"`$/"\\"\1\\""/'
}

one() {
    local name="$1" part="$2" longest="$3" sanitizer="$4" until words=()
    case "$amount" in
        *M) until="-runs=$((${amount%M} * 1000000 * part / parts + 1))" ;;
        *) until="-max_total_time=$amount" ;;
    esac
    dictionary "$name" >"$base/$name.dict"
    [ ! -s "$base/$name.dict" ] || words=("-dict=$base/$name.dict")
    # New inputs go beside the build: few of them are worth keeping in the repository.
    mkdir -p "$base/corpus/$name" "fuzz/artifacts/$name"
    "$base/$sanitizer/$(rustc -vV | sed -n 's/^host: //p')/release/$name" \
        "$base/corpus/$name" "fuzz/corpus/$name" -artifact_prefix="fuzz/artifacts/$name/" \
        "$until" ${words[@]+"${words[@]}"} -max_len="$longest" -timeout=20 -rss_limit_mb=4096 \
        -print_final_stats=1 >"$base/$name.log" 2>&1
}

running=0
failed=()
finish() {
    wait -n || true
    running=$((running - 1))
}
for row in "${rows[@]}"; do
    read -r name _ part longest sanitizer <<<"$row"
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
    echo "fuzz: FAILED: ${failed[*]}: the input is in fuzz/artifacts; make it a test"
    exit 1
fi
for row in "${rows[@]}"; do cat "$base/${row%% *}.sum"; done \
    | awk '{ runs += $3 } END { printf "fuzz: %d targets, %d executions in all, no crash\n", NR, runs }'
