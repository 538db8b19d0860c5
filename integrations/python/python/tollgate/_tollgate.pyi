from os import PathLike
from typing import final

from typing_extensions import Self, disjoint_base

__all__ = ["Decision", "Limiter", "Waiter", "WindowCounts"]

@final
class Decision:
    """A decision. It is true if the request was admitted. Spans are seconds."""

    def __bool__(self) -> bool: ...
    @property
    def admitted(self) -> bool: ...
    @property
    def limit(self) -> int:
        """The most cells that the key can spend at once."""
    @property
    def remaining(self) -> int:
        """The whole cells that are left."""
    @property
    def retry_after(self) -> float | None:
        """Seconds until the same request would be admitted: 0.0 if it was, None if it never can be."""
    @property
    def reset_after(self) -> float:
        """Seconds until the key is as if it had never been used."""
    @property
    def delay(self) -> float:
        """Seconds to wait before the request goes ahead, if the algorithm is "leaky-queue"."""

@disjoint_base
class Limiter:
    def __new__(
        cls,
        quota: str,
        *,
        algorithm: str = "gcra",
        capacity: int = 100_000,
        on_full: str | dict[str, str] | None = None,
        shared: str | PathLike[str] | None = None,
        mode: int = 0o600,
        max_waiters: int = 1_024,
    ) -> Self: ...
    def check(self, key: str | bytes, cost: int = 1) -> Decision: ...
    def allow(self, key: str | bytes, cost: int = 1) -> bool: ...
    def peek(self, key: str | bytes, cost: int = 1) -> Decision: ...
    def reset(self, key: str | bytes) -> None: ...
    def wait(self, key: str | bytes, cost: int = 1, timeout: float | None = None) -> float: ...
    def _waiter(self, key: str | bytes, cost: int = 1, timeout: float | None = None) -> Waiter: ...
    def live_keys(self) -> int: ...
    def stats(self) -> dict[str, int]: ...
    @property
    def memory_bytes(self) -> int: ...
    @property
    def quota(self) -> str: ...
    @property
    def limit(self) -> int: ...
    @property
    def period(self) -> float: ...
    @property
    def algorithm(self) -> str: ...

@final
class Waiter:
    def poll(self, wake: object) -> tuple[bool, float]: ...
    def leave(self) -> None: ...

@final
class WindowCounts:
    def __new__(
        cls,
        seconds: int,
        *,
        capacity: int = 100_000,
        on_full: str | dict[str, str] | None = None,
        shared: str | PathLike[str] | None = None,
        mode: int = 0o600,
    ) -> Self: ...
    def add(self, key: str | bytes, cells: int) -> int: ...
    def add_within(self, key: str | bytes, cells: int, limit: int) -> bool: ...
    def get(self, key: str | bytes) -> tuple[int, float]: ...
    def clear(self, key: str | bytes) -> None: ...
    def live_keys(self) -> int: ...
