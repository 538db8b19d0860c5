#!/usr/bin/env bash
# Every test: units, properties, oracles, conformance, doctests, the tool on real logs and between
# real clients and servers, models, histories, protocols.
#
#   ci/test.sh              draws the same cases in each run
#   ci/test.sh --new-seed   draws new cases, by a seed that is printed
#   ci/test.sh --help       prints this
#
# PROPTEST_RNG_SEED=SEED ci/test.sh draws the cases of that seed again.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
    '') export PROPTEST_RNG_SEED="${PROPTEST_RNG_SEED:-1}" ;;
    --new-seed) export PROPTEST_RNG_SEED="$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')" ;;
    -h | --help)
        sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    *)
        echo "test: '$1': say --new-seed, or nothing" >&2
        exit 2
        ;;
esac
# Keeping what a later build could use takes 40 s of a build from nothing. CARGO_INCREMENTAL=1 keeps it.
export CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"
echo "test: cases are drawn by PROPTEST_RNG_SEED=$PROPTEST_RNG_SEED"

# Models, histories and protocols have builds of their own. They run at the lowest priority beside the ordinary
# tests, and use the processor while these install programs, link, sleep, or run on one core.
models="$(mktemp)"
set -m # a process group of its own, so that it can be ended as a whole
nice -n 19 bash -c 'ci/check.sh loom && ci/check.sh shuttle && ci/check.sh states' >"$models" 2>&1 &
set +m
background=$!
trap 'kill -- -"$background" 2>/dev/null || true; rm -f "$models"' EXIT

ci/check.sh programs
# Many tests of servers sleep until a time-out, so more of them run at once than there are processors.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$((2 * $(nproc)))}"
# Lints cover the examples; the documentation tests what they show. The packages left out have no test
# without their own flags.
cargo test --workspace --all-features --locked --tests \
    --exclude loom-tests --exclude shuttle-tests
cargo test --workspace --all-features --locked --doc

passed=yes
wait "$background" || passed=no
cat "$models"
if [ "$passed" = no ]; then
    echo 'test: models, histories or protocols failed, see above' >&2
    exit 1
fi
