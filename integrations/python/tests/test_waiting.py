import asyncio
import gc
import subprocess
import sys
import threading
import time

import pytest

from tollgate import Limiter


def test_a_thread_waits_for_its_turn():
    limiter = Limiter("10/s burst 1")
    began = time.monotonic()
    assert limiter.wait("a") == 0.0
    waited = limiter.wait("a")
    assert waited > 0.09
    assert time.monotonic() - began >= waited


def test_the_interpreter_lock_is_released_while_a_thread_waits():
    limiter = Limiter("1/s burst 1")
    limiter.wait("a")
    ended = threading.Event()

    def wait():
        limiter.wait("a")
        ended.set()

    thread = threading.Thread(target=wait)
    thread.start()
    # With the lock held, this thread would run again only after the wait.
    steps = 0
    while not ended.is_set():
        steps += 1
        time.sleep(0.01)
    thread.join()
    assert steps > 10


@pytest.mark.parametrize("algorithm", ["gcra", "sliding-log"])
def test_a_wait_beyond_the_timeout_fails_at_once_and_charges_nothing(algorithm):
    limiter = Limiter("1/h", algorithm=algorithm, capacity=100)
    limiter.wait("a", timeout=0)
    before = limiter.peek("a").retry_after
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="the turn would come in .*: allow a longer wait"):
        limiter.wait("a", timeout=60)
    assert time.monotonic() - began < 10
    assert limiter.peek("a").retry_after <= before


def test_a_wait_that_can_never_end_is_an_error():
    with pytest.raises(ValueError, match="exceeds the burst of 1 cells"):
        Limiter("1/h").wait("a", cost=2)
    for timeout in (-1, float("nan"), -(10**400)):
        with pytest.raises(ValueError, match="give seconds, 0 or more, or None"):
            Limiter("1/h").wait("a", timeout=timeout)
    for timeout in (float("inf"), 10**400):
        assert Limiter("1/h").wait("a", timeout=timeout) == 0.0


def test_more_waiters_than_the_maximum_are_denied():
    limiter = Limiter("1/h", max_waiters=0)
    limiter.wait("a")
    with pytest.raises(TimeoutError, match="0 are waiting, which is the maximum"):
        limiter.wait("a")


def test_ctrl_c_ends_a_wait():
    program = """
import _thread, signal, threading, time
from tollgate import Limiter
# A job in the background of a shell ignores Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
limiter = Limiter("1/h")
limiter.wait("a")
threading.Timer(0.3, _thread.interrupt_main).start()
began = time.monotonic()
try:
    limiter.wait("a")
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - began < 30)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "interrupted True\n", done.stderr


@pytest.mark.parametrize("algorithm", ["gcra", "fixed-window"])
def test_tasks_wait_in_the_order_of_their_arrival(algorithm):
    limiter = Limiter("1 per 100 ms", algorithm=algorithm)
    order = []

    async def wait(number):
        await limiter.wait_async("a")
        order.append(number)

    async def main():
        began = time.monotonic()
        await asyncio.gather(*(wait(number) for number in range(5)))
        return time.monotonic() - began

    assert asyncio.run(main()) > 0.35
    assert order == [0, 1, 2, 3, 4]


def test_a_reset_wakes_the_tasks_that_wait_for_its_key():
    limiter = Limiter("1/h", algorithm="fixed-window")
    limiter.wait("a")

    async def main():
        waiter = asyncio.create_task(limiter.wait_async("a"))
        await asyncio.sleep(0.05)
        limiter.reset("a")
        await asyncio.wait_for(waiter, timeout=10)

    asyncio.run(main())


def test_a_task_that_is_cancelled_leaves_the_queue_and_is_charged_nothing():
    limiter = Limiter("1/h")

    async def main():
        await limiter.wait_async("a")
        before = limiter.peek("a").retry_after
        task = asyncio.create_task(limiter.wait_async("a"))
        await asyncio.sleep(0.05)
        # The first waiter is charged ahead of its turn.
        assert limiter.peek("a").retry_after > before + 3_000
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert limiter.peek("a").retry_after <= before

    asyncio.run(main())


@pytest.mark.parametrize("algorithm", ["fixed-window", "sliding-log", "leaky-queue"])
def test_a_task_that_is_cancelled_before_its_turn_is_charged_nothing_by_any_algorithm(algorithm):
    limiter = Limiter("1 per 400 ms", algorithm=algorithm)

    async def main():
        await limiter.wait_async("a")
        task = asyncio.create_task(limiter.wait_async("a"))
        await asyncio.sleep(0.05)
        before = limiter.peek("a").retry_after
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert limiter.peek("a").retry_after <= before
        return await limiter.wait_async("a", timeout=0.6)

    assert asyncio.run(main()) < 0.5


def test_a_task_is_woken_if_the_one_before_it_leaves():
    limiter = Limiter("1 per 2 s")

    async def main():
        await limiter.wait_async("a")
        first = asyncio.create_task(limiter.wait_async("a"))
        await asyncio.sleep(0.05)
        second = asyncio.create_task(limiter.wait_async("a"))
        await asyncio.sleep(0.05)
        first.cancel()
        waited = await second
        assert 1 < waited < 3.5  # not 4

    asyncio.run(main())


def test_a_task_that_waits_lets_others_run_and_fails_at_once_beyond_its_timeout():
    limiter = Limiter("1 per 500 ms")

    async def main():
        await limiter.wait_async("a")
        with pytest.raises(TimeoutError):
            await limiter.wait_async("a", timeout=0.01)
        with pytest.raises(ValueError):
            await limiter.wait_async("a", cost=2)
        task = asyncio.create_task(limiter.wait_async("a"))
        steps = 0
        while not task.done():
            await asyncio.sleep(0.01)
            steps += 1
        assert steps > 5

    asyncio.run(main())


@pytest.mark.parametrize("iterations", range(9))
def test_a_cancellation_just_after_a_wake_is_not_lost(iterations):
    async def main():
        limiter = Limiter("1 per 300 ms burst 1")
        limiter.check("a")
        first, second = (asyncio.create_task(limiter.wait_async("a")) for _ in range(2))
        await asyncio.sleep(0.02)
        first.cancel()  # the turn of the second is earlier now, and it is woken
        for _ in range(iterations):
            await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait([first, second], timeout=5)
        assert first.cancelled() and second.cancelled()

    asyncio.run(main())


def test_a_task_that_is_left_behind_in_a_closed_loop_leaves_the_queue_when_it_is_collected():
    limiter = Limiter("1/h")
    limiter.check("a")
    before = limiter.peek("a").retry_after

    async def main():
        tasks = [asyncio.create_task(limiter.wait_async("a")) for _ in range(2)]
        await asyncio.sleep(0.05)
        assert not any(task.done() for task in tasks)
        assert limiter.peek("a").retry_after > before + 3_000

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # "Task was destroyed but it is pending!"
    loop.run_until_complete(main())
    loop.close()
    gc.collect()
    assert limiter.peek("a").retry_after <= before
