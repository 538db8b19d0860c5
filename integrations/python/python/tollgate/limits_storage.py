"""A storage for the package `limits`, and so for Flask-Limiter and SlowApi.

Importing this module registers the schemes `tollgate` and `async+tollgate`:

    import tollgate.limits_storage

    Limiter(get_remote_address, app=app, storage_uri="tollgate:///dev/shm/app-limits")

With a path, all processes of the machine that name it share their counts. Without one (`tollgate://`), they are of
this process. A table holds the windows of one length, or the logs of one limit. It is made when it is first needed.
"""

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache
from math import floor
from operator import index
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from weakref import WeakSet

from limits.aio.storage.base import MovingWindowSupport as AsyncMovingWindowSupport
from limits.aio.storage.base import SlidingWindowCounterSupport as AsyncSlidingWindowCounterSupport
from limits.aio.storage.base import Storage as AsyncStorage
from limits.errors import ConfigurationError
from limits.limits import GRANULARITIES
from limits.storage import MemoryStorage
from limits.storage.base import (
    MovingWindowSupport,
    SlidingWindowCounterSupport,
    Storage,
    TimestampedSlidingWindow,
)

from tollgate._tollgate import Limiter, WindowCounts

__all__ = ["AsyncTollgateStorage", "TollgateStorage"]

#: The largest count of a table.
_COUNT_MAX = 2**29 - 1
#: The most cells that a log keeps.
_LOG_MAX = 65_536
#: A table of logs has at least one cell in so many seconds: 366 days.
_CELL_SECS_MAX = 366 * 24 * 3_600
#: The most tables of one storage.
_TABLES_MAX = 256
_CENTURY_SECS = 100 * 365 * 24 * 3_600


def _read_count(count: int | str) -> int:
    number = int(count) if isinstance(count, str) else index(count)
    if number < 1:
        raise ValueError("less than one")
    return number


def _read_mode(mode: int | str) -> int:
    number = int(mode, 8) if isinstance(mode, str) else index(mode)
    # The number 600 is 0o1130.
    if number not in range(0o1000):
        raise ValueError("not nine bits")
    return number


_OPTIONS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "capacity": (_read_count, "a whole number of at least 1"),
    "moving_window_capacity": (_read_count, "a whole number of at least 1"),
    "on_full": (str, "a text"),
    "mode": (_read_mode, "an octal number up to 777, as text or as 0o600"),
}


def _read_options(uri: str | None, options: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    parts = urlsplit(uri or "tollgate://")
    if parts.netloc:
        raise ConfigurationError(f"{uri}: a path begins with a third slash, as in tollgate:///dev/shm/app-limits")
    if parts.fragment:
        raise ConfigurationError(f"{uri}: a path cannot contain #")
    chosen = {"capacity": 100_000, "moving_window_capacity": 10_000, "on_full": "evict", "mode": 0o600}
    for name, value in [*parse_qsl(parts.query, keep_blank_values=True), *options.items()]:
        if name not in _OPTIONS:
            raise ConfigurationError(f"{uri}: there is no option {name}: use {', '.join(_OPTIONS)}")
        read, form = _OPTIONS[name]
        try:
            chosen[name] = read(value)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"{uri}: {name} is {value!r}: give {form}") from error
    return parts.path.rstrip("/") or None, chosen


def _amount_and_expiry_of(key: str) -> tuple[int, int] | tuple[None, None]:
    """The limit that a key of `limits` ends with, as in `LIMITER/user/10/1/minute`: 10 in 60 seconds."""
    *_, amount, multiples, granularity = ["", "", "", *key.rsplit("/", 3)]
    item = GRANULARITIES.get(granularity)
    if item is None or not (amount.isdecimal() and multiples.isdecimal()):
        return None, None
    return int(amount), int(multiples) * item.GRANULARITY.seconds


def _large_amount_of(key: str) -> int:
    """The limit that a key of `limits` ends with, if it is larger than a table's counts; otherwise 0."""
    # Only the end is kept: the program chooses it, and a client may choose the rest.
    return _large_amount_of_end("/".join(["", *key.rsplit("/", 3)[1:]]))


@lru_cache(maxsize=4_096)
def _large_amount_of_end(end: str) -> int:
    amount, _ = _amount_and_expiry_of(end)
    return amount if amount is not None and amount > _COUNT_MAX else 0


def _is_log(limit: int, expiry: int) -> bool:
    """Whether a table keeps logs of so many cells in so many seconds."""
    return limit <= _LOG_MAX and expiry <= limit * _CELL_SECS_MAX


#: The storages whose locks a child of `fork` renews: a thread of the parent may hold one, and none of the child does.
_storages: "WeakSet[TollgateStorage]" = WeakSet()


def _renew_locks() -> None:
    for storage in _storages:
        storage._making = threading.Lock()
        if storage._beyond_tables is not None:
            # Its timer's thread holds the lock of each key in turn.
            storage._beyond_tables.locks = defaultdict(threading.RLock)


os.register_at_fork(after_in_child=_renew_locks)


class TollgateStorage(
    Storage, MovingWindowSupport, SlidingWindowCounterSupport, TimestampedSlidingWindow
):
    """Counts in tables of tollgate.

    Options, in the URI's query or by keyword: `capacity` (keys of a table, 100,000), `moving_window_capacity` (keys
    of a table of logs, 10,000), `on_full` ("evict", "deny", "admit"), `mode` (the permissions of files, octal, 600).
    """

    STORAGE_SCHEME: list[str] | None = ["tollgate"]

    def __init__(self, uri: str | None = None, wrap_exceptions: bool = False, **options: Any) -> None:
        super().__init__(uri, wrap_exceptions=wrap_exceptions)
        self._path, chosen = _read_options(uri, options)
        self._moving_window_capacity = chosen.pop("moving_window_capacity")
        self._choices = chosen
        self._making = threading.Lock()
        self._begin()
        # Another thread may fork from here on, so the storage has all that the child renews.
        _storages.add(self)
        # A mistake in the options is found here, not at the first request.
        self._counts_of(60)

    def _begin(self) -> None:
        self._counts: dict[int, WindowCounts] = {}
        self._logs: dict[tuple[int, int], Limiter] = {}
        # The storage of limits that exceed a table's counts and logs. It is exact, and belongs to this process.
        self._beyond_tables: MemoryStorage | None = None
        # Counts resets: the keys after one are others than those before it, in all processes.
        self._resets = None
        if self._path:
            path, mode = f"{self._path}.resets", self._choices["mode"]
            self._resets = WindowCounts(_CENTURY_SECS, capacity=1, shared=path, mode=mode)

    @property
    def base_exceptions(self) -> tuple[type[Exception], ...]:
        return (ValueError, OverflowError)

    def _table(self, tables: dict[Any, Any], name: Any, suffix: str, make: Callable[[str | None], Any]) -> Any:
        with self._making:
            if name not in tables:
                if len(self._counts) + len(self._logs) >= _TABLES_MAX:
                    raise ValueError(f"a storage has at most {_TABLES_MAX} tables, one for each length of a window")
                tables[name] = make(f"{self._path}.{suffix}" if self._path else None)
            return tables[name]

    def _counts_of(self, expiry: int) -> WindowCounts:
        counts = self._counts.get(expiry)
        if counts is None:
            def make(path: str | None) -> Any:
                return WindowCounts(expiry, shared=path, **self._choices)

            counts = self._table(self._counts, expiry, f"{expiry}s", make)
        return counts

    def _log_of(self, limit: int, expiry: int) -> Limiter:
        log = self._logs.get((limit, expiry))
        if log is None:
            def make(path: str | None) -> Any:
                choices = {**self._choices, "capacity": self._moving_window_capacity}
                return Limiter(f"{limit} per {expiry} s", algorithm="sliding-log", shared=path, **choices)

            log = self._table(self._logs, (limit, expiry), f"{limit}-in-{expiry}s", make)
        return log

    def _since_reset(self, key: str) -> str:
        if self._resets is None:
            return key
        resets, _ = self._resets.get("")
        return f"{resets}\0{key}" if resets else key

    def _window(self, key: str) -> tuple[int, float]:
        """The count of a key and the seconds until its window ends."""
        own = self._since_reset(key)
        _, expiry = _amount_and_expiry_of(key)
        counts = [] if expiry is None else [self._counts_of(expiry)]
        for table in [*counts, *list(self._counts.values())]:
            count, secs = table.get(own)
            if count:
                return count, secs
        if expiry is not None and not self._admits_new(self._counts_of(expiry), own):
            return _COUNT_MAX + 1, float(expiry)
        return 0, 0.0

    def _admits_new(self, table: WindowCounts | Limiter, key: str) -> bool:
        """Whether the table admits a request of a key that has no count in it."""
        return self._choices["on_full"] != "deny" or table.finds_slot(key)

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        if large := _large_amount_of(key):
            return self._beyond_counts(large).incr(key, expiry, amount)
        return self._counts_of(expiry).add(self._since_reset(key), amount)

    def get(self, key: str) -> int:
        if large := _large_amount_of(key):
            return self._beyond_counts(large).get(key)
        return self._window(key)[0]

    def get_expiry(self, key: str) -> float:
        if large := _large_amount_of(key):
            return self._beyond_counts(large).get_expiry(key)
        return time.time() + self._window(key)[1]

    def clear(self, key: str) -> None:
        own = self._since_reset(key)
        amount, expiry = _amount_and_expiry_of(key)
        if amount is not None and expiry is not None:
            self._counts_of(expiry)
            # Another process may have made a log of the key that this one has not opened.
            if self._path and os.path.exists(f"{self._path}.{amount}-in-{expiry}s"):
                self._log_of(amount, expiry)
        for table in list(self._counts.values()):
            table.clear(own)
        for log in list(self._logs.values()):
            log.reset(own)
        if self._beyond_tables is not None:
            self._beyond_tables.clear(key)

    def reset(self) -> int:
        with self._making:
            live = sum(table.live_keys() for table in self._counts.values())
            live += sum(log.live_keys() for log in self._logs.values())
            if self._beyond_tables is not None:
                live += self._beyond_tables.reset() or 0
            if self._resets is None:
                self._begin()
            else:
                self._resets.add("", 1)
        return live

    def check(self) -> bool:
        return True

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        if amount > limit:
            return False
        if limit < 1:  # no quota is so small
            return True
        if not _is_log(limit, expiry):
            return self._beyond_logs(limit, expiry).acquire_entry(key, limit, expiry, amount)
        return self._log_of(limit, expiry).allow(self._since_reset(key), amount)

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        if limit < 1:
            return time.time(), 0
        if not _is_log(limit, expiry):
            return self._beyond_logs(limit, expiry).get_moving_window(key, limit, expiry)
        log, own = self._log_of(limit, expiry), self._since_reset(key)
        now = time.time()
        left = log.peek(own, 0).remaining
        if left == limit:
            return now, 0 if self._admits_new(log, own) else limit
        # The oldest entry leaves when one cell more than is left would be admitted.
        until_it_leaves = log.peek(own, left + 1).retry_after or 0.0
        return now + until_it_leaves - expiry, limit - left

    # What a table cannot hold is counted by the package's own storage, unless processes share it.

    def _beyond_counts(self, limit: int) -> MemoryStorage:
        return self._unshared(
            f"a window that processes share counts up to {_COUNT_MAX}, which is below the limit of {limit}: count in "
            "larger units, or use tollgate:// without a path"
        )

    def _beyond_logs(self, limit: int, expiry: int) -> MemoryStorage:
        return self._unshared(
            f"a moving window that processes share has at most {_LOG_MAX} entries and at least one in 366 days, not "
            f"{limit} in {expiry} s: use the strategy sliding-window-counter, or tollgate:// without a path"
        )

    def _unshared(self, problem: str) -> MemoryStorage:
        if self._path:
            raise ValueError(problem)
        with self._making:
            self._beyond_tables = self._beyond_tables or MemoryStorage()
            return self._beyond_tables

    def _counts_to_weigh(self, expiry: int) -> WindowCounts:
        """Counts that last for their window and the next one, in which they are weighed."""
        # Those of a table may end 1/1,000 of its length early.
        return self._counts_of(2 * expiry + expiry // 250 + 1)

    def acquire_sliding_window_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        if limit > _COUNT_MAX:
            return self._beyond_counts(limit).acquire_sliding_window_entry(key, limit, expiry, amount)
        previous, previous_secs, current_key, _ = self._sliding_window(key, expiry)
        # The previous window is over, and its count does not change, unless by a thread that was stopped here since it
        # read the time. So one charge of the current one, up to what that leaves of the limit, decides for all threads
        # and processes.
        left = limit - floor(previous * previous_secs / expiry)
        return left >= amount and self._counts_to_weigh(expiry).add_within(current_key, amount, left)

    def get_sliding_window(self, key: str, expiry: int) -> tuple[int, float, int, float]:
        if large := _large_amount_of(key):
            return self._beyond_counts(large).get_sliding_window(key, expiry)
        previous, previous_secs, current_key, current_secs = self._sliding_window(key, expiry)
        counts = self._counts_to_weigh(expiry)
        current, _ = counts.get(current_key)
        if not (current or self._admits_new(counts, current_key)):
            current = _COUNT_MAX + 1
        return previous, previous_secs, current, current_secs

    def _sliding_window(self, key: str, expiry: int) -> tuple[int, float, str, float]:
        """The previous window's count and the seconds that it still weighs, and the current window's key and end."""
        now = time.time()
        previous_key, current_key = self.sliding_window_keys(self._since_reset(key), expiry, now)
        previous, _ = self._counts_to_weigh(expiry).get(previous_key)
        rest = expiry - now % expiry
        return previous, rest if previous else 0.0, current_key, rest + expiry

    def clear_sliding_window(self, key: str, expiry: int) -> None:
        for its in self.sliding_window_keys(self._since_reset(key), expiry, time.time()):
            self._counts_to_weigh(expiry).clear(its)
        if self._beyond_tables is not None:
            self._beyond_tables.clear_sliding_window(key, expiry)


class AsyncTollgateStorage(
    AsyncStorage, AsyncMovingWindowSupport, AsyncSlidingWindowCounterSupport, TimestampedSlidingWindow
):
    """The same for tasks. No call waits for anything, so none is handed to a thread."""

    STORAGE_SCHEME: list[str] | None = ["async+tollgate"]

    def __init__(self, uri: str | None = None, wrap_exceptions: bool = False, **options: Any) -> None:
        super().__init__(uri, wrap_exceptions=wrap_exceptions)
        self._storage = TollgateStorage(uri, **options)

    @property
    def base_exceptions(self) -> tuple[type[Exception], ...]:
        return self._storage.base_exceptions

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        return self._storage.incr(key, expiry, amount)

    async def get(self, key: str) -> int:
        return self._storage.get(key)

    async def get_expiry(self, key: str) -> float:
        return self._storage.get_expiry(key)

    async def clear(self, key: str) -> None:
        self._storage.clear(key)

    async def reset(self) -> int:
        return self._storage.reset()

    async def check(self) -> bool:
        return self._storage.check()

    async def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return self._storage.acquire_entry(key, limit, expiry, amount)

    async def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        return self._storage.get_moving_window(key, limit, expiry)

    async def acquire_sliding_window_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return self._storage.acquire_sliding_window_entry(key, limit, expiry, amount)

    async def get_sliding_window(self, key: str, expiry: int) -> tuple[int, float, int, float]:
        return self._storage.get_sliding_window(key, expiry)

    async def clear_sliding_window(self, key: str, expiry: int) -> None:
        self._storage.clear_sliding_window(key, expiry)
