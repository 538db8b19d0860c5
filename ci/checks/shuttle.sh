#!/usr/bin/env bash
# Histories of whole limiters on shuttle's schedules, checked for linearizability, and planted faults that
# must be caught.
#
#   ci/check.sh shuttle         300,000 histories in all, the same ones each time
#   ci/check.sh shuttle N       about N
#   ci/check.sh shuttle full    20 million, on schedules of their own
#
# A history that is not explained is printed with its schedule. To play it again:
#   TOLLGATE_SHUTTLE_REPLAY=SCHEDULE ci/check.sh shuttle replay FAMILY
# where FAMILY is the test that failed, such as wide_claims.
set -euo pipefail
cd "$(dirname "$0")/../.."
export RUST_BACKTRACE=0 RUSTFLAGS='--cfg tollgate_shuttle' CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/shuttle"
shuttle() {
    cargo test -p shuttle-tests --release --locked --quiet "$@"
}

count="${1:-300000}"
case "$count" in
    full)
        count=20000000
        export TOLLGATE_SHUTTLE_SEED="${TOLLGATE_SHUTTLE_SEED:-$(date +%s)}"
        ;;
    replay)
        shuttle --test histories -- --nocapture --exact "${2:?which family?}"
        exit
        ;;
    *[!0-9]* | '')
        echo "ci/check.sh shuttle: '$count': give a number of histories, full, or replay" >&2
        exit 2
        ;;
esac

families=$(shuttle --test histories -- --list | grep -c ': test$')
export TOLLGATE_SHUTTLE_HISTORIES=$((count / families + 1))
shuttle --lib --test faults -- --nocapture
shuttle --test histories -- --nocapture | awk '
    { print }
    match($0, /: [0-9]+ histories, [0-9]+% overlapping/) {
        split(substr($0, RSTART + 2), words, " ")
        all += words[1]
        overlapping += words[1] * words[3] / 100
    }
    END {
        if (!all) exit 1
        printf "%d histories in all, calls overlap in at least %.0f%%\n", all, 100 * overlapping / all
    }'
