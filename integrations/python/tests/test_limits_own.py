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


def run(source, left_out, memory_folder=None):
    chosen = " and ".join(["in-memory", *(f"not {name}" for name in left_out)])
    # They compare times with tolerances of 10 to 30 ms, and their authors repeat some of them. A busy machine is
    # later than that, so all may be repeated.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "-k", chosen,
               "--force-flaky", "--max-runs=4", "--no-flaky-report", *(f"tests/{file}" for file in FILES)]
    environment = {**os.environ, "TOLLGATE_FOLDER": str(memory_folder or "")}
    return subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, timeout=600)


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
    passed = re.search(r"(\d+) passed", done.stdout)
    assert done.returncode == 0 and passed and "skipped" not in done.stdout, done.stdout[-8_000:] + done.stderr
    assert int(passed[1]) >= at_least, done.stdout
    print(f"limits: {passed[1]} of its own tests pass in {memory}")
