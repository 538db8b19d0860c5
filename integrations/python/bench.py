"""Times decisions beside the package limits, with its storages in memory and on Redis, in one thread.

    python bench.py [SECONDS]     about that long, 30 unless given

Prints a table in Markdown. Rounds are interleaved; a figure is the median of the rounds, and a ratio is that of two
medians. Redis is started on a loopback port, without persistence, if redis-server is installed.
"""

import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from limits import RateLimitItemPerMinute
from limits.storage import storage_from_string
from limits.strategies import STRATEGIES

import tollgate
import tollgate.limits_storage

KEYS = [f"192.0.2.{number}" for number in range(1_000)]
LIMIT = 100
ROUND_SECS = 0.02


def processor():
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return "unknown processor"


def start_redis(folder):
    """The server, the URI and the process; `None` without redis-server."""
    if shutil.which("redis-server") is None:
        return None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no", "--dir", folder]
    process = subprocess.Popen(["redis-server", *words], stdout=subprocess.DEVNULL)
    uri = f"redis://127.0.0.1:{port}"
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return uri, process
        except OSError:
            time.sleep(0.1)
    process.terminate()
    raise SystemExit("redis-server does not answer")


def cases(folder, redis):
    """What is timed, by row and column: a function of a key."""
    found = {}
    quota = f"{LIMIT}/min"
    for column, options in (("tollgate", {}), ("tollgate, shared", {"shared": f"{folder}/limiter"})):
        limiter = tollgate.Limiter(quota, **options)
        found["`Limiter.check`", column] = limiter.check
        found["`Limiter.allow`", column] = limiter.allow
    storages = {
        "limits, memory": "memory://",
        "tollgate": "tollgate://",
        "tollgate, shared": f"tollgate://{folder}/storage",
    }
    if redis:
        storages["limits, Redis"] = redis
    for column, uri in storages.items():
        for name, strategy in STRATEGIES.items():
            limiter = strategy(storage_from_string(uri))
            # On Redis the strategies have values of different types.
            item = RateLimitItemPerMinute(LIMIT, namespace=name)
            found[f"`limits`, {name}", column] = lambda key, limiter=limiter, item=item: limiter.hit(item, key)
    return found


def time_round(ask, calls):
    keys = (KEYS * (calls // len(KEYS) + 1))[:calls]
    begin = time.perf_counter()
    for key in keys:
        ask(key)
    return (time.perf_counter() - begin) / calls * 1e9


def measure(found, seconds):
    calls = {case: max(20, int(ROUND_SECS * 1e9 / time_round(ask, 200))) for case, ask in found.items()}
    times = {case: [] for case in found}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for case, ask in found.items():
            times[case].append(time_round(ask, calls[case]))
    return {case: statistics.median(rounds) for case, rounds in times.items()}, len(next(iter(times.values())))


def print_table(medians):
    columns = ["tollgate", "tollgate, shared", "limits, memory", "limits, Redis"]
    print("| | tollgate | tollgate, shared | limits, memory | limits, Redis |\n|---|---:|---:|---:|---:|")
    for row in dict.fromkeys(row for row, _ in medians):
        base = medians[row, "tollgate"]
        cells = [f"{base / 1_000:.2f} µs"]
        for column in columns[1:]:
            median = medians.get((row, column))
            cells.append("" if median is None else f"{median / base:.1f}")
        print(f"| {row} | {' | '.join(cells)} |")


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    parent = "/dev/shm" if os.path.isdir("/dev/shm") else None
    folder = tempfile.mkdtemp(prefix="tollgate-bench-", dir=parent)
    redis = start_redis(folder)
    try:
        medians, rounds = measure(cases(folder, redis and redis[0]), seconds)
    finally:
        if redis:
            redis[1].terminate()
            redis[1].wait()
        shutil.rmtree(folder)
    if not redis:
        print("SKIPPED: limits, Redis: redis-server is not installed")
    print(f"{processor()}, Python {sys.version.split()[0]}, {rounds} rounds\n")
    print_table(medians)


main()
