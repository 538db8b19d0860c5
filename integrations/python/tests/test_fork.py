"""Forks: a child uses no wait of its parent, and waits for no lock that a thread of its parent held."""

import os
import signal
import subprocess
import sys
import threading
import traceback

import pytest
from limits.storage import storage_from_string

import tollgate.limits_storage
from tollgate import Limiter
from tollgate.limits_storage import TollgateStorage

#: The longest time of a child, in seconds. It only ends one that would hang.
PATIENCE = 30


def exit_code_of_child(work):
    """Runs `work` in a child. 0: it returned true."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            signal.alarm(PATIENCE)
            code = 0 if work() else 1
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("algorithm", ["gcra", "fixed-window"])
def test_a_wait_of_the_parent_is_neither_charged_nor_refunded_by_the_child(shared, algorithm):
    limiter = Limiter("1/h", shared=shared, algorithm=algorithm)
    limiter.wait("a")
    first, second = limiter._waiter("a"), limiter._waiter("a")
    for waiter in (first, second):
        assert not waiter.poll(print)[0]
    before = limiter.peek("a").retry_after

    def leave_and_poll():
        first.leave()
        with pytest.raises(RuntimeError, match="another process has begun this wait, and forked: wait again"):
            second.poll(print)
        return True

    assert exit_code_of_child(leave_and_poll) == 0
    # A charge or a refund would be an hour.
    assert before - 1_800 < limiter.peek("a").retry_after <= before
    first.leave()
    second.leave()
    assert limiter.peek("a").retry_after <= 3_600


def test_the_child_has_a_queue_of_its_own():
    limiter = Limiter("1/h", max_waiters=1)
    limiter.wait("a")
    waiter = limiter._waiter("a")
    assert not waiter.poll(print)[0]

    def wait():
        limiter.wait("b")
        # There is room for a waiter.
        return not limiter._waiter("b").poll(print)[0]

    assert exit_code_of_child(wait) == 0
    with pytest.raises(TimeoutError, match="1 are waiting, which is the maximum"):
        limiter.wait("a", timeout=36_000)
    waiter.leave()


def test_children_wait_while_threads_of_the_parent_wait():
    limiter = Limiter("1000000/s", max_waiters=1_000)
    is_over = threading.Event()

    def wait():
        while not is_over.is_set():
            limiter.wait("a")

    threads = [threading.Thread(target=wait) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        codes = [exit_code_of_child(lambda: limiter.wait("b") >= 0.0) for _ in range(100)]
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert codes == [0] * 100


def test_a_thread_may_fork_while_another_makes_a_storage(monkeypatch):
    begin = TollgateStorage._begin

    def fork_and_begin(storage):
        # What a child does first. An error in it would leave the locks of other storages as they are.
        tollgate.limits_storage._renew_locks()
        begin(storage)

    monkeypatch.setattr(TollgateStorage, "_begin", fork_and_begin)
    storage_from_string("tollgate://")


def test_a_signal_handler_that_forks_ends_the_wait_of_the_child_only(shared):
    program = """
import os, signal, sys
from tollgate import Limiter
limiter = Limiter("1 per 300 ms burst 1", shared=sys.argv[1])
limiter.wait("a")
children = []
signal.signal(signal.SIGALRM, lambda *_: children.append(os.fork()))
signal.setitimer(signal.ITIMER_REAL, 0.05)
try:
    limiter.wait("a")
except RuntimeError as error:
    os._exit(7 if "wait again" in str(error) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]))
"""
    command = [sys.executable, "-c", program, str(shared)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == "7\n", done.stdout + done.stderr


def test_a_storage_makes_tables_in_a_child_while_a_thread_of_the_parent_makes_one():
    storage = storage_from_string("tollgate://")
    with storage._making:
        assert exit_code_of_child(lambda: storage.incr("a", 17) == 1) == 0


def test_a_child_uses_a_limit_beyond_the_tables_while_a_thread_of_the_parent_holds_a_key_of_it():
    storage = storage_from_string("tollgate://")
    assert storage.acquire_entry("a", 70_000, 3_600)
    beyond = storage._beyond_tables
    holds, is_over = threading.Event(), threading.Event()

    def hold():
        with beyond.locks["a"]:
            holds.set()
            is_over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    holds.wait()
    try:
        assert exit_code_of_child(lambda: storage.acquire_entry("a", 70_000, 3_600)) == 0
    finally:
        is_over.set()
        thread.join()
