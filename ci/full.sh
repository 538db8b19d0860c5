#!/usr/bin/env bash
# The full verification, which takes hours and prints one table at the end. It can be stopped and started
# again: a stage that has passed with the same files is not repeated. Files that hold results may change.
#
#   ci/full.sh              all stages
#   ci/full.sh NAME ...     these stages
#   ci/full.sh --list       the stages
#   ci/full.sh --again      forgets what has passed
#   ci/full.sh --for 60     ends each stage after 60 seconds, which only shows that it starts
#   ci/full.sh --keep       writes the outcome of each stage to docs/verification.md as well
#   ci/full.sh --help       prints this
#
# A stage that lacks a tool is SKIPPED, which does not count as passed.
set -uo pipefail
cd "$(dirname "$0")/.."

# Name, command, what it shows.
stages=(
    'tests|ci/test.sh --new-seed|every ordinary test, the models and the tool on real logs'
    'lint|ci/lint.sh|lints, layers, documentation without warnings'
    'loom|ci/check.sh loom full|the models of every atomic protocol, deeper, and of 4 threads'
    'shuttle|ci/check.sh shuttle full|random schedules, each history checked for linearizability'
    'states|ci/check.sh states full|the protocols between processes and a server, in every state'
    'faults|ci/check.sh faults|hundreds of faults on redis-server and on Valkey, against stated bounds'
    'proofs|ci/check.sh proofs|the steps of all rate algorithms over all inputs'
    'oracles|ci/check.sh oracles 10000000000|10^10 decisions of all algorithms, each compared with its oracle'
    'fuzz-decisions|ci/check.sh fuzz 300M decisions|114 million executions of two fuzz targets'
    'fuzz-states|ci/check.sh fuzz 300M states|41 million of four targets, which keep or change states'
    'fuzz-parsers|ci/check.sh fuzz 300M parsers|145 million of seven targets, which read what others write'
    'miri|ci/check.sh miri|undefined behaviour and weak memory, on four kinds of machine'
    'races|ci/check.sh races|the tests with real threads under the thread sanitizer'
    'shared-memory|ci/check.sh shared-memory|10,000 processes killed that share a limiter, and their clocks'
    'packages|ci/check.sh packages|licences, advisories, least versions, each feature, oldest compiler'
    'newcomers|ci/check.sh newcomers|what each quick start says, in an empty folder, to the first denial'
    'mutants|ci/check.sh mutants|that tests notice what is changed in the code'
    'pingora|ci/check.sh pingora|the filter for Pingora'
    'actix|ci/check.sh actix|the middleware of actix-web'
    'reqwest|ci/check.sh reqwest|the middleware of reqwest clients'
    'python|ci/check.sh python|the Python package, the tests of limits on its storage, servers of four workers'
    'repeat|ci/check.sh repeat 50|the ordinary tests with the cases of 50 other seeds'
    'soak|ci/check.sh soak 3600|the proxy under load for an hour, rules and Redis coming and going'
)

state="${CARGO_TARGET_DIR:-target}/full"
mkdir -p "$state"
only=()
limit=()
keep=no
while [ $# -gt 0 ]; do
    arg="$1"
    shift
    case "$arg" in
        --list)
            for stage in "${stages[@]}"; do
                IFS='|' read -r name command about <<<"$stage"
                printf '%-15s %-35s %s\n' "$name" "$command" "$about"
            done
            exit 0
            ;;
        --again) rm -f "$state"/*.passed ;;
        --keep) keep=yes ;;
        --for)
            if ! [[ "${1:-}" =~ ^[1-9][0-9]*$ ]]; then
                echo 'full: --for takes a number of seconds' >&2
                exit 2
            fi
            limit=(timeout --kill-after=30 "$1")
            shift
            ;;
        -h | --help)
            sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
            exit 0
            ;;
        -*)
            sed -n '5,11s/^# *//p' "$0" >&2
            exit 2
            ;;
        *) only+=("$arg") ;;
    esac
done
for name in ${only[@]+"${only[@]}"}; do
    if ! printf '%s\n' "${stages[@]}" | grep "^$name|" >/dev/null; then
        echo "full: no stage is named $name; ci/full.sh --list lists them" >&2
        exit 2
    fi
done

# The files that are verified: all except those that hold results.
verified=(-- . ':!CHANGELOG.md' ':!docs/model-checking.md' ':!docs/verification.md')
revision="$( (git ls-tree -r HEAD | grep -vE '\s(CHANGELOG|docs/model-checking|docs/verification)\.md$'
    git diff HEAD "${verified[@]}"
    git ls-files --others --exclude-standard -z "${verified[@]}" | xargs -0r sha256sum) | sha256sum | cut -c1-32)"

# Prints the row of a stage that has just ended.
row() {
    local commit machine
    commit="$(git rev-parse --short HEAD)"
    [ -z "$(git status --porcelain "${verified[@]}")" ] || commit+=+
    machine="$(awk -F '[ \t]*: *' '{ field[$1] = $2 }
        END { printf "%s, family %s, model %s", field["model name"], field["cpu family"], field["model"] }' \
        /proc/cpuinfo), $(nproc) cores"
    echo "| $1 | $2 | $3 | ${4//|/\\|} | $(date -u +%F) | $commit | $machine |"
}

# Writes the row of a stage to docs/verification.md, in the order of the stages. The other rows stay.
keep_row() {
    local page=docs/verification.md stage rows
    rows="$(grep -v "^| $1 |" "$page"; printf '%s\n' "$2")"
    {
        sed '/^|---/q' "$page"
        for stage in "${stages[@]}"; do
            grep "^| ${stage%%|*} |" <<<"$rows" || echo "| ${stage%%|*} | not run | | | | | |"
        done
    } >"$state/page.md"
    mv "$state/page.md" "$page"
}

# Servers and clients that some stages run.
ci/check.sh programs

table="$state/table.txt"
: >"$table"
failed=0
for stage in "${stages[@]}"; do
    IFS='|' read -r name command _ <<<"$stage"
    if [ ${#only[@]} -gt 0 ] && ! printf '%s\n' "${only[@]}" | grep -x "$name" >/dev/null; then
        continue
    fi
    log="$state/$name.log"
    if [ "$(head -1 "$state/$name.passed" 2>/dev/null)" = "$revision" ]; then
        printf '%-15s %-8s %8s  %s\n' "$name" passed "$(sed -n 2p "$state/$name.passed")" \
            '(earlier, with the same files)' >>"$table"
        [ $keep = no ] || keep_row "$name" "$(sed -n 3p "$state/$name.passed")"
        continue
    fi
    echo "full: $name: $command"
    began=$SECONDS
    # shellcheck disable=SC2086 # the command is words
    ${limit[@]+"${limit[@]}"} $command >"$log" 2>&1
    code=$?
    took="$((SECONDS - began)) s"
    # A line that only counts what was skipped has no reason behind a colon.
    skipped="$(grep -c 'SKIPPED:' "$log")"
    if [ ${#limit[@]} -gt 0 ] && [ $code -eq 124 ]; then
        outcome=stopped note="when its time was up: $(tail -1 "$log" | cut -c1-60)"
    elif [ $code -ne 0 ]; then
        outcome=FAILED note="see $log"
        failed=1
    elif [ "$skipped" -gt 0 ]; then
        outcome=SKIPPED note="$skipped left out: $(grep -m1 'SKIPPED:' "$log")"
    else
        # The stages of one check have names such as fuzz-states, and its lines begin with the check's name.
        outcome=passed note="$(sed -nE "s/^($name|${name%%-*}): //p" "$log" | tail -1)"
        # A stage without such a line has test results.
        [ -n "$note" ] || note="$(awk '/^test result: ok/ { sum += $4 } END { if (sum) print sum, "tests passed" }' "$log")"
        printf '%s\n%s\n%s\n' "$revision" "$took" "$(row "$name" passed "$took" "$note")" >"$state/$name.passed"
    fi
    printf '%-15s %-8s %8s  %s\n' "$name" "$outcome" "$took" "$note" >>"$table"
    if [ $keep = yes ] && [ $outcome != stopped ]; then
        keep_row "$name" "$(row "$name" "$outcome" "$took" "$note")"
    fi
done
echo
cat "$table"
exit $failed
