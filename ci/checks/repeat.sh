#!/usr/bin/env bash
# The ordinary tests again and again, each run with the cases of another seed. Prints the number of runs
# that failed, and the seed and the log of each.
#
#   ci/check.sh repeat [RUNS] [--load BUSY] [--first SEED]
#
# RUNS is 50, BUSY threads compete for the processors meanwhile (none by default), and seeds count from
# SEED, 1000 by default. Doctests, models and histories draw nothing, and are left out. The tests are built
# with optimisation, since they run often; assertions and overflow checks stay.
set -euo pipefail
cd "$(dirname "$0")/../.."
runs=50 load=0 first=1000
while [ $# -gt 0 ]; do
    case "$1" in
        --load | --first)
            [[ "${2:-}" =~ ^[0-9]+$ ]] || { echo "repeat: $1 takes a whole number" >&2; exit 2; }
            if [ "$1" = --load ]; then load="$2"; else first="$2"; fi
            shift 2
            ;;
        *)
            [[ "$1" =~ ^[1-9][0-9]*$ ]] || { echo "repeat: '$1': give a number of runs" >&2; exit 2; }
            runs="$1"
            shift
            ;;
    esac
done
ci/check.sh programs
logs="$(mktemp -d)"
busy=()
stop() { [ ${#busy[@]} -eq 0 ] || kill "${busy[@]}" 2>/dev/null || true; }
trap stop EXIT

ordinary() {
    cargo test --profile repeat --workspace --all-features --locked --quiet --tests \
        --exclude loom-tests --exclude shuttle-tests --no-fail-fast "$@"
}
ordinary --no-run
# A case that fails is not kept: later runs would begin with it, and fail too. The log has it and its seed.
export PROPTEST_DISABLE_FAILURE_PERSISTENCE=1
for _ in $(seq "$load"); do
    while :; do :; done &
    busy+=($!)
done
failed=0
for seed in $(seq "$first" $((first + runs - 1))); do
    log="$logs/$seed.log"
    began=$SECONDS
    if PROPTEST_RNG_SEED="$seed" ordinary >"$log" 2>&1; then
        echo "repeat: seed $seed: $(awk '/^test result: ok/ { n += $4 } END { print n + 0 }' "$log") passed, $((SECONDS - began)) s"
        rm "$log"
    else
        failed=$((failed + 1))
        echo "repeat: seed $seed failed: $log"
        grep -E '^test .* FAILED|panicked at' "$log" | head -5 || true
    fi
done
echo "repeat: $runs runs of the ordinary tests, seeds from $first, under a load of $load: $failed failed"
[ "$failed" -eq 0 ]
