import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import limits.storage.memory
import pytest
from limits import (
    RateLimitItemPerDay,
    RateLimitItemPerHour,
    RateLimitItemPerMinute,
    RateLimitItemPerSecond,
    RateLimitItemPerYear,
)
from limits.errors import ConfigurationError, StorageError
from limits.storage import MemoryStorage, storage_from_string
from limits.strategies import (
    STRATEGIES,
    FixedWindowRateLimiter,
    MovingWindowRateLimiter,
    SlidingWindowCounterRateLimiter,
)

import tollgate.limits_storage
from tollgate.limits_storage import TollgateStorage

PROGRAM = """
import sys
from limits import RateLimitItemPerDay
from limits.storage import storage_from_string
from limits.strategies import STRATEGIES
import tollgate.limits_storage
limiter = STRATEGIES[sys.argv[2]](storage_from_string("tollgate://" + sys.argv[1]))
print(sum(limiter.hit(RateLimitItemPerDay(100), "a") for _ in range(100)))
"""


@pytest.fixture(params=["own", "shared"])
def storage(request, shared):
    return storage_from_string("tollgate://" if request.param == "own" else f"tollgate://{shared}")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_four_processes_are_granted_exactly_the_limit(shared, strategy):
    command = [sys.executable, "-c", PROGRAM, str(shared), strategy]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    granted = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert sum(granted) == 100, granted


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_threads_are_granted_exactly_the_limit(storage, strategy):
    limiter, item, granted = STRATEGIES[strategy](storage), RateLimitItemPerDay(1_000), []

    def ask():
        granted.append(sum(limiter.hit(item, "a") for _ in range(300)))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(granted) == 1_000
    assert limiter.get_window_stats(item, "a").remaining == 0


def test_a_fixed_window_counts_what_is_beyond_the_limit_as_well(storage):
    key, other = RateLimitItemPerMinute(3).key_for("a"), RateLimitItemPerMinute(3).key_for("b")
    assert [storage.incr(key, 60) for _ in range(5)] == [1, 2, 3, 4, 5]
    assert storage.incr(key, 60, amount=10) == 15
    assert (storage.get(key), storage.get(other)) == (15, 0)
    assert 55 < storage.get_expiry(key) - time.time() <= 60
    assert abs(storage.get_expiry(other) - time.time()) < 1
    # The largest count stays until the window ends, and is above every limit.
    assert storage.incr(key, 60, amount=1 << 40) == 1 << 29
    assert storage.incr(key, 60) == 1 << 29


def test_a_fixed_window_ends_its_period_after_its_first_request(storage):
    limiter, item = FixedWindowRateLimiter(storage), RateLimitItemPerSecond(2)
    assert [limiter.hit(item) for _ in range(3)] == [True, True, False]
    # A window may end one 10,000th of its length early.
    time.sleep(limiter.get_window_stats(item).reset_time - time.time() + 0.001)
    assert limiter.get_window_stats(item).remaining == 2
    assert limiter.hit(item)


def test_a_moving_window_tells_when_its_oldest_entry_leaves(storage):
    limiter, item = MovingWindowRateLimiter(storage), RateLimitItemPerSecond(4, 2)
    assert limiter.hit(item, cost=1)
    began = time.time()
    time.sleep(0.5)
    assert limiter.hit(item, cost=2)
    reset, remaining = limiter.get_window_stats(item)
    assert remaining == 1 and abs(reset - began - 2) < 0.3
    assert limiter.test(item) and not limiter.test(item, cost=2)
    time.sleep(max(0, began + 2.05 - time.time()))
    assert limiter.get_window_stats(item).remaining == 2
    assert not limiter.hit(item, cost=3) and limiter.hit(item, cost=2)


def test_a_sliding_window_weighs_the_previous_window(storage, monkeypatch):
    limiter, item = SlidingWindowCounterRateLimiter(storage), RateLimitItemPerHour(100)
    key = item.key_for("a")
    # The wall clock says which window it is. The counts themselves last by the monotonic clock.
    begin = (time.time() // 3_600) * 3_600.0
    now = [begin + 1_800]
    monkeypatch.setattr(tollgate.limits_storage.time, "time", lambda: now[0])
    assert sum(limiter.hit(item, "a") for _ in range(150)) == 100
    # A quarter into the next window, three quarters of the 100 count.
    now[0] = begin + 4_500
    assert storage.get_sliding_window(key, 3_600) == (100, 2_700.0, 0, 6_300.0)
    assert sum(limiter.hit(item, "a") for _ in range(150)) == 25
    assert limiter.get_window_stats(item, "a").remaining == 0
    assert not limiter.test(item, "a")
    # 74.99 of the 100 count as 74.
    now[0] = begin + 4_500.5
    assert [limiter.hit(item, "a") for _ in range(2)] == [True, False]
    limiter.clear(item, "a")
    assert limiter.get_window_stats(item, "a").remaining == 100


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_cleared_key_starts_afresh_and_others_do_not(storage, strategy):
    limiter, item = STRATEGIES[strategy](storage), RateLimitItemPerHour(1)
    assert limiter.hit(item, "a") and limiter.hit(item, "b")
    limiter.clear(item, "a")
    assert limiter.hit(item, "a") and not limiter.hit(item, "b")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_reset_is_seen_by_all_storages_of_a_file(shared, strategy):
    # Keys are counted exactly in tables of up to some 16,000 slots.
    options = "capacity=1000&moving_window_capacity=1000"
    first, second = (TollgateStorage(f"tollgate://{shared}?{options}") for _ in range(2))
    item = RateLimitItemPerHour(1)
    assert STRATEGIES[strategy](first).hit(item, "a")
    assert not STRATEGIES[strategy](second).hit(item, "a")
    for _ in range(2):
        assert first.reset() >= 1
        assert STRATEGIES[strategy](second).hit(item, "a")
        assert not STRATEGIES[strategy](first).hit(item, "a")


def test_a_reset_counts_the_keys_of_limits_beyond_the_tables():
    storage = TollgateStorage("tollgate://")
    limiter, item = MovingWindowRateLimiter(storage), RateLimitItemPerHour(70_000)
    for key in "abc":
        assert limiter.hit(item, key)
    assert storage.reset() == 3 and storage.reset() == 0


@pytest.mark.parametrize("strategy", ["moving-window", "fixed-window"])
def test_a_key_that_another_process_has_charged_can_be_read_and_cleared(shared, strategy):
    item = RateLimitItemPerHour(1)
    assert STRATEGIES[strategy](TollgateStorage(f"tollgate://{shared}")).hit(item, "a")
    other = STRATEGIES[strategy](TollgateStorage(f"tollgate://{shared}"))
    assert not other.test(item, "a")
    STRATEGIES[strategy](TollgateStorage(f"tollgate://{shared}")).clear(item, "a")
    assert other.hit(item, "a")


def test_a_moving_window_beyond_a_logs_length_is_exact_in_a_process_and_an_error_where_it_is_shared(shared):
    item = RateLimitItemPerHour(65_537)
    own = MovingWindowRateLimiter(TollgateStorage("tollgate://"))
    assert own.hit(item, cost=65_537) and not own.hit(item)
    for wraps, kind in ((False, ValueError), (True, StorageError)):
        both = MovingWindowRateLimiter(TollgateStorage(f"tollgate://{shared}", wrap_exceptions=wraps))
        with pytest.raises(kind) as raised:
            both.hit(item)
        error = raised.value.storage_error if wraps else raised.value
        assert "at most 65536 entries and at least one in 366 days, not 65537 in 3600 s: use" in str(error)


def test_a_moving_window_below_a_cell_in_366_days_is_exact_in_a_process_and_an_error_where_it_is_shared(shared):
    item = RateLimitItemPerYear(1, 2)
    own = MovingWindowRateLimiter(TollgateStorage("tollgate://"))
    assert own.test(item) and own.hit(item) and not own.hit(item) and not own.test(item)
    own.clear(item)
    assert own.hit(item)
    with pytest.raises(ValueError, match="at least one in 366 days, not 1 in"):
        MovingWindowRateLimiter(TollgateStorage(f"tollgate://{shared}")).hit(item)


@pytest.mark.parametrize("strategy", ["fixed-window", "sliding-window-counter"])
def test_a_limit_beyond_a_tables_counts_is_exact_in_a_process_and_an_error_where_it_is_shared(shared, strategy):
    item, largest = RateLimitItemPerDay(1 << 29), RateLimitItemPerDay((1 << 29) - 1)
    own = STRATEGIES[strategy](TollgateStorage("tollgate://"))
    assert own.hit(item, cost=(1 << 29) - 1) and own.test(item)
    assert [own.hit(item) for _ in range(2)] == [True, False]
    stats = own.get_window_stats(item)
    assert not own.test(item) and stats.remaining == 0 and 0 < stats.reset_time - time.time() <= 2 * 86_400
    own.clear(item)
    assert own.hit(item)
    both = STRATEGIES[strategy](TollgateStorage(f"tollgate://{shared}"))
    for ask in (both.hit, both.test, both.get_window_stats):
        with pytest.raises(ValueError, match="counts up to 536870911, which is below the limit of 536870912: count"):
            ask(item)
    assert both.hit(largest, cost=(1 << 29) - 1) and not both.hit(largest) and not both.test(largest)


@pytest.mark.parametrize("item", [RateLimitItemPerSecond(9), RateLimitItemPerMinute(9), RateLimitItemPerHour(9)])
def test_the_count_of_a_sliding_window_lasts_to_the_end_of_the_next_one(storage, item):
    began, expiry = time.monotonic(), item.get_expiry()
    key = storage.sliding_window_keys(item.key_for("a"), expiry, time.time())[1]
    counts = storage._counts_to_weigh(expiry)
    counts.add(key, 1)
    _, secs = counts.get(key)
    assert secs >= 2 * expiry - (time.monotonic() - began)


def test_a_sliding_window_may_be_decades(storage):
    limiter = SlidingWindowCounterRateLimiter(storage)
    for years in (1, 2, 40):
        item = RateLimitItemPerYear(2, years)
        assert [limiter.hit(item, cost=2), limiter.hit(item)] == [True, False]
        limiter.clear(item)
        assert [limiter.hit(item) for _ in range(3)] == [True, True, False]
        assert limiter.hit(item, cost=0) and limiter.get_window_stats(item).remaining == 0


def test_a_request_of_no_cells_is_admitted_as_in_memory_after_a_full_window(storage, monkeypatch):
    item, now = RateLimitItemPerHour(10), [(time.time() // 3_600) * 3_600.0 + 1_800]
    for module in (tollgate.limits_storage, limits.storage.memory):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: now[0]))
    begun = now[0]
    for limiter in map(SlidingWindowCounterRateLimiter, (storage, MemoryStorage())):
        now[0] = begun
        assert limiter.hit(item, cost=10)
        now[0] += 1_800
        assert limiter.get_window_stats(item).remaining == 0
        assert limiter.test(item, cost=0) and limiter.hit(item, cost=0)
        assert not limiter.test(item) and not limiter.hit(item)


def test_options_are_read_from_the_uri_and_from_keywords(shared):
    storage = storage_from_string(f"tollgate://{shared}?capacity=1&on_full=deny&mode=640", moving_window_capacity="1")
    admitted = sum(storage.incr(f"{key}/1/1/hour", 3_600) == 1 for key in range(20_000))
    assert admitted < 20_000
    logged = sum(storage.acquire_entry(f"{key}/1/1/hour", 1, 3_600) for key in range(20_000))
    assert logged < 20_000
    files = sorted(file.name for file in shared.parent.iterdir())
    assert files == ["table.1-in-3600s", "table.3600s", "table.60s", "table.resets"]
    assert {file.stat().st_mode & 0o777 for file in shared.parent.iterdir()} == {0o640}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_key_without_a_slot_is_denied_by_all_calls_or_by_none(strategy):
    item = RateLimitItemPerHour(3)
    for on_full in ("deny", "admit", "evict"):
        options = f"capacity=1&moving_window_capacity=1&on_full={on_full}"
        limiter, denied = STRATEGIES[strategy](TollgateStorage(f"tollgate://?{options}")), 0
        for key in map(str, range(200)):
            stats, may = limiter.get_window_stats(item, key), limiter.test(item, key)
            assert (stats.remaining, may) in ((3, True), (0, False))
            assert limiter.hit(item, key) == may
            denied += not may
            if not may:
                assert stats.reset_time > time.time()
        assert (denied > 100) == (on_full == "deny"), (on_full, denied)


def test_a_mode_may_be_a_number(shared):
    TollgateStorage(f"tollgate://{shared}", mode=0o640)
    assert {file.stat().st_mode & 0o777 for file in shared.parent.iterdir()} == {0o640}
    with pytest.raises(ConfigurationError, match="mode is 600: give an octal number"):
        TollgateStorage(f"tollgate://{shared}", mode=600)


def test_a_moving_window_of_no_cells_denies_as_in_memory():
    item = RateLimitItemPerHour(0)
    ours, theirs = (MovingWindowRateLimiter(storage) for storage in (TollgateStorage(), MemoryStorage()))
    for limiter in (ours, theirs):
        assert not limiter.test(item) and not limiter.hit(item) and limiter.hit(item, cost=0)
        assert limiter.get_window_stats(item).remaining == 0
    assert abs(ours.get_window_stats(item).reset_time - theirs.get_window_stats(item).reset_time) < 5


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("tollgate://dev/shm/x", "a path begins with a third slash"),
        ("tollgate://?capacitee=1", "there is no option capacitee: use capacity, "),
        ("tollgate://?capacity=many", "capacity is 'many': give a whole number of at least 1"),
        ("tollgate://?moving_window_capacity=-1", "moving_window_capacity is '-1': give a whole number"),
        ("tollgate://?capacity=", "capacity is '': give a whole number"),
        ("tollgate://?mode=1777", "mode is '1777': give an octal number up to 777"),
        ("tollgate:///dev/shm/app#1", "a path cannot contain #"),
        ("tollgate://?on_full=share", "on_full is \"evict\""),
        ("tollgate:///proc/none/x", "check the path, its permissions"),
        ("async+tollgate://?capacity=0", "capacity is '0': give a whole number of at least 1"),
    ],
)
def test_a_wrong_option_is_an_error_when_the_storage_is_made(uri, message):
    with pytest.raises((ConfigurationError, ValueError), match=message):
        storage_from_string(uri)


def test_the_number_of_tables_is_bounded():
    storage = storage_from_string("tollgate://?capacity=1")
    with pytest.raises(ValueError, match="at most 256 tables"):
        for expiry in range(1, 300):
            storage.incr("a", expiry)
