"""Runs the tests of the package `limits`, from its source distribution, with the storage of tollgate.

The folder of the unpacked distribution is in TOLLGATE_LIMITS_SOURCE; `ci/check.sh python` fetches it.
"""

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

HERE = Path(__file__).parent
#: Asks whether the storage is a MemoryStorage.
NOT_OURS = ["test_storage_string"]
#: Has a million entries in one window, which is an error where processes share it: tests/test_limits_storage.py shows it.
NOT_SHARED = ["test_moving_window_huge_cost"]
#: How many tests may be late on a busy machine.
MAX_LATE = 5
FILES = ["test_strategy.py", "test_storage.py", "integration/test_concurrency.py", "aio/test_strategy.py",
         "aio/test_storage.py"]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    source = os.environ.get("TOLLGATE_LIMITS_SOURCE")
    if not source or not Path(source, "tests", "test_strategy.py").exists():
        pytest.skip("SKIPPED: the source distribution of limits is not here (TOLLGATE_LIMITS_SOURCE)")
    folder = tmp_path_factory.mktemp("limits")
    shutil.copytree(Path(source, "tests"), folder / "tests")
    shutil.copy(HERE / "limits_conftest.py", folder / "tests" / "conftest.py")
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    return folder


def run_pytest(source, memory_folder, *arguments):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "--no-flaky-report",
               *arguments]
    environment = {**os.environ, "TOLLGATE_FOLDER": str(memory_folder or "")}
    return subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, timeout=600)


def run(source, left_out, memory_folder=None):
    """All tests, as often as their authors let them run. They compare times with tolerances of 10 to 30 ms, and a busy
    machine is later than that. So a test that fails may show by itself that it passes in three of four runs; a storage
    that is wrong more often does not.
    """
    chosen = " and ".join(["in-memory", *(f"not {name}" for name in left_out)])
    done = run_pytest(source, memory_folder, "-k", chosen, *(f"tests/{file}" for file in FILES))
    failed = re.findall(r"^FAILED (\S+)", done.stdout, re.MULTILINE)
    if not 0 < len(failed) <= MAX_LATE or "skipped" in done.stdout:
        return [done]
    again = run_pytest(source, memory_folder, "--force-flaky", "--max-runs=4", "--min-passes=3", *failed)
    return [done, again]


@pytest.fixture(scope="module")
def outcomes(source, memory_folder):
    """Both runs at once, since they mostly sleep."""
    with ThreadPoolExecutor() as pool:
        own = pool.submit(run, source, NOT_OURS)
        shared = pool.submit(run, source, NOT_OURS + NOT_SHARED, memory_folder)
        return {"the memory of a process": own.result(), "shared memory": shared.result()}


@pytest.mark.parametrize(("memory", "at_least"), [("the memory of a process", 59), ("shared memory", 57)])
def test_the_tests_of_limits_pass(outcomes, memory, at_least):
    done = outcomes[memory]
    said = "\n".join(run.stdout[-8_000:] + run.stderr for run in done)
    passed = [int(count) for run in done for count in re.findall(r"(\d+) passed", run.stdout)]
    assert done[-1].returncode == 0 and "skipped" not in said, said
    assert sum(passed) >= at_least, said
    print(f"limits: {sum(passed)} of its own tests pass in {memory}, {sum(passed[1:])} of them in a second run")
