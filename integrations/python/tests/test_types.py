import subprocess
import sys

import pytest

PROGRAM = """
from tollgate import Decision, Limiter
from tollgate.asgi import RateLimitMiddleware
from tollgate.keys import client_ip

limiter = Limiter("100/s", on_full={"shared": "1000/s"})
decision: Decision = limiter.check(b"a", cost=2)
wait: float | None = decision.retry_after

class Named(Limiter):
    def name(self) -> str:
        return self.quota

name: str = Named("1/s").name()

async def main() -> float:
    return await limiter.wait_async("a", timeout=1)

async def app(scope: object, receive: object, send: object) -> None: ...

RateLimitMiddleware(app, limiter, key=client_ip(1), cost=lambda request: len(request.path))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    # mypy leaves a cache where it runs.
    folder = tmp_path_factory.mktemp("mypy")

    def run(*words):
        words = [sys.executable, "-m", *words]
        return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300)

    return run


def test_the_stubs_are_those_of_the_module(run):
    done = run("mypy.stubtest", "tollgate._tollgate")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_passes_the_type_check(run):
    done = run("mypy", "--strict", "--package", "tollgate")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_program_passes_the_strict_type_check_and_a_wrong_one_does_not(run, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = run("mypy", "--strict", str(program))
    assert done.returncode == 0, done.stdout + done.stderr
    program.write_text(PROGRAM + "limiter.check(7)\n")
    done = run("mypy", "--strict", str(program))
    assert done.returncode == 1 and 'incompatible type "int"' in done.stdout
