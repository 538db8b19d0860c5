#!/usr/bin/env bash
# Whether the tests notice a change in the code: cargo-mutants changes one expression after the other
# in the algorithms, cells, tables, keys and rules. Hours in all; a part of it with K/N.
#
#   ci/mutants.sh          all
#   ci/mutants.sh 3/50     the third of fifty parts (numbered from 0)
#
# Survivors that are known to make no difference stand in ci/mutants-known.txt, each with its reason.
# Fails below 95 % of those that could be built.
set -euo pipefail
cd "$(dirname "$0")/.."

shard=()
[ -n "${1:-}" ] && shard=(--shard "$1")
if ! cargo mutants --version >/dev/null 2>&1 \
    && ! cargo install --quiet --locked cargo-mutants >/dev/null 2>&1; then
    echo 'mutants: SKIPPED: cargo-mutants cannot be installed here'
    exit 0
fi
out="${CARGO_TARGET_DIR:-target}/mutants"
mkdir -p "$out"
# Models and histories are left out: they take minutes for each, and find what others do not.
files=(--file 'src/algo/*.rs' --file 'src/algo/*/*.rs' --file 'src/cell/*.rs' --file 'src/table/*.rs'
    --file 'src/table/*/*.rs' --file 'crates/tollgate-http/src/key/*.rs'
    --file 'crates/tollgate-rules/src/*.rs' --file 'crates/tollgate-rules/src/parse/*.rs'
    --exclude '**/oracle/**' --exclude '**/oracle.rs' --exclude '**/tests.rs')
cargo mutants --workspace "${files[@]}" "${shard[@]}" --output "$out" --timeout 300 --no-shuffle \
    --test-workspace=false --baseline=run -- --lib --tests || true
found="$out/mutants.out"
count() { grep -c . "$found/$1" 2>/dev/null || true; }
caught=$(($(count caught.txt) + $(count timeout.txt)))
known=0 missed=0
: >"$out/survivors.txt"
while IFS= read -r mutant; do
    # Lines move: what is known is told by file, function and change.
    if grep -qF -- "$(sed 's/:[0-9]*:[0-9]*: /: /' <<<"$mutant")" ci/mutants-known.txt 2>/dev/null; then
        known=$((known + 1))
    else
        missed=$((missed + 1))
        echo "$mutant" >>"$out/survivors.txt"
    fi
done < <(cat "$found/missed.txt" 2>/dev/null || true)
all=$((caught + missed))
if [ "$all" = 0 ]; then
    echo 'mutants: nothing was tried; see the output above' >&2
    exit 1
fi
percent=$((100 * caught / all))
cat "$out/survivors.txt"
echo "mutants: $caught of $all caught ($percent %), $known known to make no difference"
[ "$percent" -ge 95 ]
