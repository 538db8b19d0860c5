#!/usr/bin/env bash
# Checks whether the tests notice a change in the code. cargo-mutants changes one expression after the other.
# Each change meets the fast tests of its crate first, with few cases and a fixed seed, and all tests of
# the crate only if those miss it, so that most changes cost seconds.
#
#   ci/check.sh mutants                  all areas: algo table cell http rules
#   ci/check.sh mutants algo cell        these areas
#   ci/check.sh mutants algo 3/50        one of fifty shares of them, spread over all files (0/50 to 49/50)
#   ci/check.sh mutants --list           how many changes there are in each file
#
# It can be stopped and started again: a change that was tried with the same files is not repeated. Needs
# cargo-mutants. It works in a copy of the repository.
#
# Survivors that make no difference are in ci/checks/mutants-known.txt, each with its reason. Any other
# survivor fails the check, and so does a run of all areas that catches less than 95 %.
set -euo pipefail
cd "$(dirname "$0")/../.."

piece_size=20
areas=() share='' list=''
for arg in "$@"; do
    case "$arg" in
        algo | table | cell | http | rules) areas+=("$arg") ;;
        [0-9]*/[1-9]*) share="$arg" ;;
        --list) list=yes ;;
        *)
            sed -n '6,9s/^# *//p' "$0" >&2
            exit 2
            ;;
    esac
done
[ ${#areas[@]} -gt 0 ] || areas=(algo table cell http rules)
share_index="${share%/*}" shares="${share#*/}"
if [ -n "$share" ] && [ "$share_index" -ge "$shares" ]; then
    echo "mutants: shares are numbered from 0: the last one of $shares is $((shares - 1))/$shares" >&2
    exit 2
fi
if ! cargo mutants --version >/dev/null 2>&1; then
    echo 'mutants: SKIPPED: install cargo-mutants first: cargo install cargo-mutants --locked'
    exit 0
fi

# Sets for an area which files are changed, in which package, and which tests are fast.
describe() {
    fast=(--lib --tests)
    case "$1" in
        algo) package=tollgate paths=('src/algo/*.rs' 'src/algo/*/*.rs') ;;
        table) package=tollgate paths=('src/table/*.rs' 'src/table/*/*.rs') ;;
        cell) package=tollgate paths=('src/cell/*.rs') ;;
        http) package=tollgate-http paths=('crates/http/src/key/*.rs') ;;
        rules) package=tollgate-rules paths=('crates/rules/src/*.rs' 'crates/rules/src/*/*.rs') ;;
    esac
    case "$1" in
        # Tests of a second or more are left out: they ask millions of times.
        algo) fast=(--lib --test fuzz_bodies --test oracle -- --skip polling_loses --skip a_client_that_retries
            --skip who_polls --skip six_hundred --skip a_large_log) ;;
        table | cell) fast=(--lib --test fuzz_bodies --test limiter) ;;
    esac
    selection=(--package "$package" --no-config)
    local path
    for path in "${paths[@]}"; do selection+=(--file "$path"); done
    # The rest is compared with the oracles; memory_loom.rs is compiled for loom only.
    selection+=(--exclude '**/oracle/**' --exclude '**/oracle.rs' --exclude '**/tests.rs'
        --exclude '**/memory_loom.rs')
}

if [ -n "$list" ]; then
    for area in "${areas[@]}"; do
        describe "$area"
        cargo mutants --list "${selection[@]}" | sed 's/:.*//' | sort | uniq -c
    done
    exit 0
fi

out="$(mkdir -p "${CARGO_TARGET_DIR:-target}/mutants" && cd "${CARGO_TARGET_DIR:-target}/mutants" && pwd)"
revision="$(git rev-parse HEAD)-$( (git diff HEAD; git status --porcelain) | sha256sum | cut -c1-12)"
tree="$out/tree"
export CARGO_TARGET_DIR="$out/target"
export PROPTEST_RNG_SEED=7 PROPTEST_MAX_SHRINK_ITERS=0

# A stage of a piece: its name, what to change, `--`, the tests. Leaves the lists of outcomes in `piece`.
attempt() {
    local stage="$1" code=0
    shift
    (cd "$tree" && cargo mutants --in-place --baseline=skip --timeout 600 --colors=never \
        --output "$out" "$@") >"$piece/$stage.log" 2>&1 || code=$?
    case "$code" in
        0 | 2 | 3) ;;
        *)
            tail -20 "$piece/$stage.log" >&2
            echo "mutants: cargo-mutants ended with $code" >&2
            exit 1
            ;;
    esac
    local kind
    for kind in caught timeout missed unviable; do
        cp "$out/mutants.out/$kind.txt" "$piece/$stage.$kind"
    done
}

# An expression that matches this text and no other.
exactly() {
    sed 's/[][\.*^$+?(){}|/&~#-]/\\&/g; s/^/^/; s/$/$/' <<<"$1"
}

try_piece() {
    local mutant kind again=()
    mkdir -p "$piece"
    [ -f "$piece/fast.done" ] || PROPTEST_CASES=64 attempt fast "${selection[@]}" \
        --sharding round-robin --shard "$1" -- "${fast[@]}"
    touch "$piece/fast.done"
    if [ -s "$piece/fast.missed" ]; then
        while IFS= read -r mutant; do
            again+=(--file "${mutant%%:*}" --re "$(exactly "$mutant")")
        done <"$piece/fast.missed"
        attempt full --package "$package" --no-config "${again[@]}"
        # Fields left out of a literal are tried whatever is asked for (cargo-mutants 27).
        for kind in caught timeout missed; do
            grep -Fxf "$piece/fast.missed" "$out/mutants.out/$kind.txt" >"$piece/full.$kind" || true
        done
    fi
    touch "$piece/done"
}

# A survivor as the list of known ones names it: lines move, so the name holds the line's text.
name_of() {
    local file line rest
    IFS=: read -r file line rest <<<"$1"
    printf '%s: %s | %s' "$file" "${rest#*: }" "$(sed -n "${line}s/^ *//p" "$file")"
}

lines_in() {
    cat "$@" 2>/dev/null | grep -c . || true
}

rm -rf "$tree" && mkdir -p "$tree"
git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -cf - -T - 2>/dev/null \
    | tar -xmf - -C "$tree"
# A change costs a build and a run: building without optimisation makes up for running slower.
mkdir -p "$tree/.cargo"
printf '[profile.dev]\nopt-level = 0\ndebug = 0\n[profile.dev.package."*"]\nopt-level = 1\n' \
    >"$tree/.cargo/config.toml"
# Every area starts from a tree whose tests are built and pass.
for area in "${areas[@]}"; do
    describe "$area"
    if ! (cd "$tree" && PROPTEST_CASES=64 cargo test --quiet --package "$package" "${fast[@]}") >"$out/baseline.log" 2>&1; then
        tail -20 "$out/baseline.log" >&2
        echo 'mutants: the tests fail without any change; see above' >&2
        exit 1
    fi
done
failed=0 caught_in_all=0 viable_in_all=0
for area in "${areas[@]}"; do
    describe "$area"
    pieces=$((($(cargo mutants --list "${selection[@]}" | wc -l) + piece_size - 1) / piece_size))
    done_pieces=()
    for ((number = 0; number < pieces; number++)); do
        if [ -n "$share" ] && [ $((number % shares)) -ne "$share_index" ]; then continue; fi
        piece="$out/$revision/$area/$number-of-$pieces"
        [ -f "$piece/done" ] || try_piece "$number/$pieces"
        done_pieces+=("$piece")
    done
    [ ${#done_pieces[@]} -gt 0 ] || continue
    survivors="$out/$area-survivors.txt"
    known=0
    : >"$survivors"
    while IFS= read -r mutant; do
        if grep -qF -- "$(name_of "$mutant") # " ci/checks/mutants-known.txt; then
            known=$((known + 1))
        else
            name_of "$mutant" >>"$survivors"
            echo >>"$survivors"
        fi
    done < <(cat "${done_pieces[@]/%//full.missed}" 2>/dev/null)
    missed="$(lines_in "$survivors")"
    caught="$(lines_in "${done_pieces[@]/%//fast.caught}" "${done_pieces[@]/%//fast.timeout}" \
        "${done_pieces[@]/%//full.caught}" "${done_pieces[@]/%//full.timeout}")"
    viable=$((caught + missed + known))
    [ "$viable" -gt 0 ] || continue
    cat "$survivors"
    echo "mutants: $area: $caught of $viable caught ($((100 * caught / viable)) %), $known known to make no" \
        "difference, $missed not listed; $(lines_in "${done_pieces[@]/%//fast.unviable}") could not be built"
    [ "$missed" -eq 0 ] || failed=1
    caught_in_all=$((caught_in_all + caught)) viable_in_all=$((viable_in_all + viable))
done
if [ -z "$share" ] && [ ${#areas[@]} -eq 5 ] && [ $((100 * caught_in_all)) -lt $((95 * viable_in_all)) ]; then
    echo "mutants: $caught_in_all of $viable_in_all caught, which is less than 95 %"
    failed=1
fi
exit $failed
