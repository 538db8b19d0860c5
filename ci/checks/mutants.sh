#!/usr/bin/env bash
# Checks whether the tests notice a change in the code: an operator, a number, a condition, a statement that is
# left out, a value that is returned. verify/mutants builds all changes of a package into one program, runs
# each test once to see which places it reaches, and then switches on one change after the other. Memory
# orderings are not changed: that is what ci/check.sh loom is for.
#
#   ci/check.sh mutants                          all packages: core http rules; the tool's own tests first. Fast
#                                                tests come first, and slow ones try what these do not notice
#   ci/check.sh mutants core                     one package
#   ci/check.sh mutants core --file src/algo     the changes in some files; --options lists more
#   ci/check.sh mutants core --lib               with the unit tests only: minutes, where all tests take hours
#   ci/check.sh mutants core --longest-test 1    without tests that take more than a second: far faster to record
#   ci/check.sh mutants core --for 3600          stops after an hour
#
# It can be stopped and started again: a change that was tried with the same files is not repeated.
#
# Survivors that make no difference are in ci/checks/mutants-known.txt, each with its reason. Any other
# survivor fails the check, and so does a change that no test reaches.
set -euo pipefail
cd "$(dirname "$0")/../.."

out="$(mkdir -p "${CARGO_TARGET_DIR:-target}/mutants" && cd "${CARGO_TARGET_DIR:-target}/mutants" && pwd)"
run_tool() {
    CARGO_TARGET_DIR="$out/tool" cargo "$1" --locked --quiet --manifest-path verify/mutants/Cargo.toml "${@:2}"
}

areas=()
while [[ "${1:-}" =~ ^(core|http|rules)$ ]]; do
    areas+=("$1")
    shift
done
if [ ${#areas[@]} -eq 0 ]; then
    areas=(core http rules)
    [ $# -gt 0 ] || run_tool test
fi
run_tool build
tool="$out/tool/debug/mutants"
if [ "${1:-}" = --options ]; then
    "$tool" --help
    exit 0
fi

# Few cases, the same in each run: most changes fail the first.
export PROPTEST_RNG_SEED=7 PROPTEST_CASES="${PROPTEST_CASES:-64}"
# A function with thousands of switches takes minutes to optimise, which makes up for running slower.
export CARGO_PROFILE_DEV_OPT_LEVEL="${CARGO_PROFILE_DEV_OPT_LEVEL:-0}"
failed=0
for area in "${areas[@]}"; do
    case "$area" in
        # The oracles are what the tests compare with.
        core) selection=(--package tollgate --exclude src/algo/oracle) ;;
        http) selection=(--package tollgate-http) ;;
        rules) selection=(--package tollgate-rules) ;;
    esac
    try=(nice -n 19 "$tool" "${selection[@]}" --out "$out" --known ci/checks/mutants-known.txt)
    if [ $# -gt 0 ]; then
        "${try[@]}" "$@" || failed=1
        continue
    fi
    # Unit tests are built in a minute and notice most changes; fast integration tests notice most of the others.
    # A change that a test has noticed is not tried again, so slow tests run for few changes. Only the last run's
    # report counts.
    for first in '--lib' '--longest-test 1'; do
        status=0
        # shellcheck disable=SC2086 # several words
        "${try[@]}" $first >/dev/null || status=$?
        [ "$status" -le 1 ] || exit "$status"
    done
    "${try[@]}" || failed=1
done
exit $failed
