"""What the package says of itself. It is installed from the wheel."""

from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_package_contains_the_texts_of_both_licences():
    package = distribution("tollgate")
    assert package.metadata["License-Expression"] == "MIT OR Apache-2.0"
    assert sorted(package.metadata.get_all("License-File")) == ["LICENSE-APACHE", "LICENSE-MIT"]
    for name in ["LICENSE-APACHE", "LICENSE-MIT"]:
        assert package.read_text(f"licenses/{name}") == (ROOT / name).read_text(encoding="utf-8"), name
