import inspect
import re
from pathlib import Path

import pytest

from tollgate import Limiter, _tollgate

README = (Path(__file__).parent.parent / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("number", range(3))
def test_an_example_of_the_readme_runs(number, shared, capsys):
    assert len(EXAMPLES) == 3
    example = EXAMPLES[number].replace("/dev/shm/app-limits", str(shared))
    names = {}
    exec(compile(example, "README.md", "exec"), names)
    if number == 0:
        assert capsys.readouterr().out == "go ahead, 19 left\n"
    elif number == 1:
        environ = {"REQUEST_METHOD": "GET", "REMOTE_ADDR": "192.0.2.7"}
        statuses = []
        for _ in range(101):
            names["app"](environ, lambda status, fields: statuses.append(status))
        assert statuses == ["200 OK"] * 100 + ["429 Too Many Requests"]
        assert shared.exists()


def test_the_readme_names_every_option_and_call():
    parameters = inspect.signature(_tollgate.Limiter).parameters
    options = [name for name, its in parameters.items() if its.kind is its.KEYWORD_ONLY]
    calls = [name for name in dir(Limiter) if not name.startswith("_")]
    assert "algorithm" in options and "wait_async" in calls
    for name in options + calls:
        assert re.search(rf"`(?:await )?{name}[`(]", README), name
