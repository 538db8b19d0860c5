import subprocess
import sys

import pytest

from tollgate import Limiter

PROGRAM = """
import sys
from tollgate import Limiter
limiter = Limiter("100 per day", algorithm=sys.argv[2], shared=sys.argv[1], capacity=1000)
print(sum(limiter.allow("a") for _ in range(100)))
"""


@pytest.mark.parametrize("algorithm", ["gcra", "fixed-window", "sliding-log"])
def test_four_processes_are_granted_exactly_the_quota(shared, algorithm):
    command = [sys.executable, "-c", PROGRAM, str(shared), algorithm]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    granted = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert sum(granted) == 100, granted


def test_a_second_limiter_of_the_same_file_sees_what_was_charged(shared):
    first = Limiter("2/h", shared=shared)
    assert first.check("a").remaining == 1
    assert Limiter("2/h", shared=str(shared)).check("a").remaining == 0
    assert not first.check("a")
    assert shared.stat().st_mode & 0o777 == 0o600


def test_another_quota_for_the_same_file_is_an_error(shared):
    Limiter("2/h", shared=shared)
    with pytest.raises(ValueError, match="in the file, .* here: make the same choice, or give another path"):
        Limiter("3/h", shared=shared)


def test_windows_of_the_wall_clock_are_shared(shared):
    first, second = (Limiter("2/d", shared=shared, algorithm="fixed-window-aligned") for _ in range(2))
    decisions = [first.check("a"), second.check("a")]
    # Midnight may fall between the two.
    assert [decision.remaining for decision in decisions] in ([1, 0], [1, 1])


def test_the_mode_of_a_file_can_be_chosen(shared):
    Limiter("2/h", shared=shared, mode=0o660)
    assert shared.stat().st_mode & 0o777 in (0o660, 0o640)  # less the umask


def test_waiters_of_two_limiters_of_one_file_are_granted_no_more_than_the_quota(shared):
    first, second = Limiter("10/s burst 1", shared=shared), Limiter("10/s burst 1", shared=shared)
    assert first.wait("a") == 0.0
    assert second.wait("a") > 0.05
