import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def memory_folder():
    """A folder for shared tables, in memory where that is possible."""
    parent = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="tollgate-", dir=parent))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def shared(memory_folder):
    """The path of a shared table that does not exist yet."""
    return Path(tempfile.mkdtemp(dir=memory_folder)) / "table"
