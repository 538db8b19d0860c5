#!/usr/bin/env bash
# Counts the instructions of a decision, and compares them with benches/instructions.txt.
#
#   ci/instructions.sh            fails where a count grew by more than 3 %, or a decision in shared memory
#                                 takes other instructions than one of a single process
#   ci/instructions.sh --update   writes the file
#
# Unlike times, counts repeat on any machine, but not with another compiler. Where rustc or the target's
# features differ from the file's, nothing is compared. Takes half a minute and the build. Needs valgrind,
# which it installs where that is possible.
set -euo pipefail
cd "$(dirname "$0")/.."

file=benches/instructions.txt
# A multiple of the windows in benches/instructions/src/main.rs.
decisions=20000
most_percent=3

compiler="$(rustc --version)"
target="$(rustc -vV | sed -n 's/^host: //p')"
features="$(rustc --print cfg ${RUSTFLAGS:-} | sed -n 's/^target_feature="\(.*\)"$/\1/p' | paste -sd,)"
machine="$target, $features"

update=no
case "${1:-}" in
    '') ;;
    --update) update=yes ;;
    -h | --help)
        sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    *)
        echo 'usage: ci/instructions.sh [--update]' >&2
        exit 2
        ;;
esac

# The value of a field in the file's head.
recorded() {
    sed -n "s/^# $1: //p" "$file"
}
if [ "$update" = no ]; then
    for pair in "rustc:$compiler" "target:$machine"; do
        field="${pair%%:*}" now="${pair#*:}"
        if [ "$(recorded "$field")" != "$now" ]; then
            echo "instructions: SKIPPED: counted with $field $(recorded "$field"), here it is $now;"
            echo 'instructions: counts of different compilers do not compare. To begin anew:'
            echo 'instructions: ci/instructions.sh --update, on the commit before the change'
            exit 0
        fi
    done
fi

if ! command -v valgrind >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get install -y --no-install-recommends valgrind >/dev/null 2>&1 \
        || { apt-get update >/dev/null && apt-get install -y --no-install-recommends valgrind >/dev/null; } || true
fi
if ! command -v valgrind >/dev/null; then
    echo 'instructions: valgrind is missing; install it, e.g. apt-get install valgrind' >&2
    exit 1
fi

# The profile of benchmarks; its files are where those of a release are.
cargo build --locked --quiet --profile bench -p instructions
program="${CARGO_TARGET_DIR:-target}/release/instructions"

# Instructions of a whole run with so many decisions.
run() {
    local log
    if ! log="$(valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null \
        "$program" "$1" "$2" 2>&1)"; then
        printf '%s\n' "$log" >&2
        return 1
    fi
    printf '%s\n' "$log" | awk '/I +refs:/ { gsub(",", "", $NF); print $NF; found = 1 }
        END { if (!found) exit 1 }'
}

counts="$(mktemp)"
trap 'rm -f "$counts"' EXIT
"$program" | while read -r kind; do
    once="$(run "$kind" "$decisions")"
    twice="$(run "$kind" "$((2 * decisions))")"
    # Both counts include what fills the limiter.
    awk -v kind="$kind" -v all="$((twice - once))" -v count="$decisions" \
        'BEGIN { printf "%-30s %10.1f\n", kind, all / count }'
done >"$counts"

if [ "$update" = yes ]; then
    {
        echo '# Instructions of a decision, the loop around it included. Written by'
        echo '# ci/instructions.sh --update; ci/instructions.sh compares.'
        echo "# rustc: $compiler"
        echo "# target: $machine"
        cat "$counts"
    } >"$file"
    cat "$file"
    exit 0
fi

awk -v most="$most_percent" '
    /^#/ { next }
    FNR == NR { before[$1] = $2; next }
    {
        now[$1] = 1
        count[$1] = $2
        if (!($1 in before)) {
            printf "%-30s %10s -> %10.1f  NEW\n", $1, "", $2
            missing = 1
            next
        }
        percent = 100 * ($2 / before[$1] - 1)
        word = percent > most ? "GREW" : percent < -most ? "shrank" : ""
        if (word == "GREW") grew = 1
        if (word == "shrank") shrank = 1
        printf "%-30s %10.1f -> %10.1f  %+6.1f %%  %s\n", $1, before[$1], $2, percent, word
    }
    END {
        for (kind in before) if (!(kind in now)) {
            printf "%-30s is no longer counted\n", kind
            missing = 1
        }
        if (shrank) print "instructions: some shrank; keep them so: ci/instructions.sh --update"
        if (missing) print "instructions: the kinds changed; run ci/instructions.sh --update"
        if (grew) {
            printf "instructions: some grew by more than %d %%; ", most
            print "if that is worth it, say so in the commit: ci/instructions.sh --update"
        }
        # A limiter in shared memory decides by the same instructions as one of a single process.
        for (kind in now) if (kind ~ /^shared-gcra-(admit|deny)$/) {
            private = kind
            sub(/^shared/, "keyed", private)
            if (count[kind] != count[private]) {
                printf "instructions: %s takes %.1f, and %s %.1f\n", kind, count[kind], private, count[private]
                differ = 1
            }
        }
        exit grew || missing || differ
    }
' "$file" "$counts"
