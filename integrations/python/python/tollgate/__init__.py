"""A keyed rate limiter that never grants more than the quota.

    >>> from tollgate import Limiter
    >>> limiter = Limiter("100/s burst 20")
    >>> decision = limiter.check("192.0.2.7")
    >>> bool(decision), decision.remaining
    (True, 19)

`tollgate.asgi` and `tollgate.wsgi` are middleware. `tollgate.limits_storage` is a storage for the package
`limits`, which Flask-Limiter and SlowApi use.
"""

import asyncio as _asyncio
import weakref as _weakref
from collections.abc import Callable as _Callable

from tollgate import _tollgate
from tollgate._tollgate import Decision

__all__ = ["Decision", "Limiter"]


def _while_held(function: _Callable[[], None]) -> _Callable[[], None]:
    """A function that calls `function` while something else holds that."""
    held = _weakref.ref(function)

    def call() -> None:
        if (its := held()) is not None:
            its()

    return call


class Limiter(_tollgate.Limiter):
    """A limiter that gives every key a bucket of its own, in fixed memory."""

    __slots__ = ()

    async def wait_async(self, key: str | bytes, cost: int = 1, timeout: float | None = None) -> float:
        """As `wait`, for a task of asyncio. A task that is cancelled before its turn is charged nothing.

        After its turn, "gcra" refunds what time has not restored since. By other algorithms the cells are spent.
        """
        waiter = self._waiter(key, cost, timeout)
        loop = _asyncio.get_running_loop()
        woken = _asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(woken.set)

        try:
            while True:
                woken.clear()
                # The queue holds what it is to call. If it held `wake`, a task whose loop was closed would never be
                # collected, and would stay in the queue.
                is_over, secs = waiter.poll(_while_held(wake))
                if is_over:
                    return secs
                # Before Python 3.12, `wait_for` loses a cancellation that comes just after a wake.
                timer = loop.call_later(secs, woken.set)
                try:
                    await woken.wait()
                finally:
                    timer.cancel()
        finally:
            waiter.leave()
