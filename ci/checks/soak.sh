#!/usr/bin/env bash
# The proxy under load: wrk sends requests, the rules are reloaded every second, and Redis is killed every
# minute. At the end, requests, answers and counts must agree, and the proxy's memory must not have grown.
#
#   ci/check.sh soak [SECONDS]    an hour by default; 120 is the least that shows something
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds="${1:-3600}"
for program in wrk redis-server curl; do
    if ! command -v "$program" >/dev/null; then
        echo "soak: SKIPPED: $program is missing; see ci/check.sh programs"
        exit 0
    fi
done
cargo build --release --locked --quiet -p tollgate-cli
tollgate="${CARGO_TARGET_DIR:-target}/release/tollgate"
work="$(mktemp -d)"
pids=()
cleanup() {
    for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
    [ -f "$work/redis.pid" ] && kill -9 "$(cat "$work/redis.pid")" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
redis_port="$(free_port)" port="$(free_port)" admin="$(free_port)"
start_redis() {
    redis-server --port "$redis_port" --bind 127.0.0.1 --save '' --appendonly no \
        --dir "$work" --logfile "$work/redis.log" >/dev/null 2>&1 &
    echo $! >"$work/redis.pid"
}
rules() {
    cat >"$work/rules.new" <<TOML
# $1
[[rule]]
name = "local"
limits = "1000000/s burst $((1000 + $1 % 7))"

[[rule]]
name = "shared"
match = { path = "/shared/**" }
limits = "2000/s burst 1000"
store = { url = "redis://127.0.0.1:$redis_port", fallback = "local" }
TOML
    mv "$work/rules.new" "$work/rules.toml"
}
start_redis
rules 0
"$tollgate" proxy --listen "127.0.0.1:$port" --admin "127.0.0.1:$admin" --rules "$work/rules.toml" \
    >"$work/proxy.log" 2>&1 &
proxy=$!
pids+=("$proxy")
for _ in $(seq 50); do curl -sf "http://127.0.0.1:$admin/metrics" >/dev/null && break; sleep 0.1; done

resident_kb() { awk '/^VmRSS/ { print $2 }' "/proc/$proxy/status"; }
metric() { curl -s "http://127.0.0.1:$admin/metrics" | awk -v name="$1" 'index($0, name) == 1 { sum += $NF } END { printf "%.0f", sum }'; }

( for n in $(seq "$seconds"); do rules "$n"; sleep 1; done ) &
pids+=($!)
( while sleep 60; do kill -9 "$(cat "$work/redis.pid")"; sleep 5; start_redis; done ) &
pids+=($!)
# By then the proxy has met every key and every connection.
wrk -t1 -c16 -d15s "http://127.0.0.1:$port/" >"$work/warm.txt"
wrk -t1 -c16 -d15s "http://127.0.0.1:$port/shared/x" >>"$work/warm.txt"
before_kb="$(resident_kb)"
wrk -t1 -c16 -d"${seconds}s" "http://127.0.0.1:$port/shared/x" >"$work/shared.txt" &
shared=$!
wrk -t1 -c16 -d"${seconds}s" "http://127.0.0.1:$port/" >"$work/local.txt"
wait "$shared"
after_kb="$(resident_kb)"

asked="$(awk '/requests in/ { sum += $1 } END { print sum }' "$work"/{warm,shared,local}.txt)"
errors="$(cat "$work"/{warm,shared,local}.txt | awk '/Socket errors/ { n++ } END { print n + 0 }')"
counted="$(metric tollgate_decisions_total)"
failed=0
echo "soak: $asked answers in wrk, $counted decisions, memory $before_kb to $after_kb kB"
# wrk leaves up to one request of each of its connections unanswered when it ends.
if [ "$errors" != 0 ]; then grep -h 'Socket errors' "$work"/*.txt; failed=1; fi
if [ $((counted - asked)) -lt 0 ] || [ $((counted - asked)) -gt 64 ]; then
    echo 'soak: the counts do not agree' >&2
    failed=1
fi
if [ "$after_kb" -gt $((before_kb + before_kb / 5 + 4096)) ]; then
    echo 'soak: memory has grown' >&2
    failed=1
fi
if grep -m3 panicked "$work/proxy.log"; then failed=1; fi
echo "soak: $seconds s, rules read every second, Redis killed $((seconds / 65)) times: $([ $failed = 0 ] && echo passed || echo FAILED)"
exit $failed
