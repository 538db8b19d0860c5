"""What the package says of itself. It is installed from the wheel."""

import subprocess
import sys
import sysconfig
from importlib.metadata import distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_the_package_contains_the_texts_of_both_licences():
    package = distribution("tollgate")
    assert package.metadata["License-Expression"] == "MIT OR Apache-2.0"
    assert sorted(package.metadata.get_all("License-File")) == ["LICENSE-APACHE", "LICENSE-MIT"]
    for name in ["LICENSE-APACHE", "LICENSE-MIT"]:
        assert package.read_text(f"licenses/{name}") == (ROOT / name).read_text(encoding="utf-8"), name


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="needs a free-threaded interpreter")
def test_a_free_threaded_interpreter_has_its_lock_once_the_package_is_imported():
    program = "import sys, tollgate; print(sys._is_gil_enabled())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True\n", done.stderr
