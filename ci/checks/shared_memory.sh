#!/usr/bin/env bash
# Real processes that share a limiter. Kills them at random instants while four others use it, compares what all
# of them were granted, with what is left of every key, with the limit, and asks whether every slot is usable.
# Then compares the clocks of two processes for a while, and the clocks of five with the system's for a minute.
#
#   ci/check.sh shared-memory [KILLS [SECONDS]]    10,000 kills and 90 seconds by default; 7 minutes
set -euo pipefail
cd "$(dirname "$0")/../.."
kills="${1:-10000}"
seconds="${2:-90}"
if ! [[ "$kills" =~ ^[1-9][0-9]*$ && "$seconds" =~ ^[1-9][0-9]*$ ]]; then
    sed -n '6s/^# *//p' "$0" >&2
    exit 2
fi
log="$(mktemp)"
trap 'rm -f "$log"' EXIT
# Two tests, each with five kinds of limiter.
export TOLLGATE_KILLS="$(((kills + 9) / 10))" TOLLGATE_CLOCK_SECONDS="$seconds"
cargo test -p tollgate --features shared-memory --test shared_memory --locked -- \
    --nocapture --test-threads=1 | tee "$log"
cargo test -p tollgate --features shared-memory --test clock --locked -- --ignored
awk '
    match($0, /[0-9]+ processes killed, [0-9]+ of them after a decision/) {
        split(substr($0, RSTART), words, " ")
        killed += words[1]
        working += words[4]
    }
    match($0, /clocks: compared .*/) { clocks = substr($0, RSTART + 8) }
    END {
        if (!killed || clocks == "") exit 1
        printf "shared-memory: %d processes killed, %d of them after a decision: within the limits, every key and slot usable; clocks %s\n", killed, working, clocks
    }
' "$log"
