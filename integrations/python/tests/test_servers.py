"""Real servers with four workers, which share one limit."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

APPS = Path(__file__).parent / "apps"
WORKERS = 4
GUNICORN = ["gunicorn", "--workers", str(WORKERS), "--bind", "fd://{fd}", "--log-level", "warning"]
UVICORN = ["uvicorn", "--workers", str(WORKERS), "--fd", "{fd}", "--log-level", "warning"]


class Server:
    """A server on loopback, and its port."""

    def __init__(self, command, app, shared, **environment):
        # Each worker makes a file here when it has read the application.
        self.ready = tempfile.TemporaryDirectory()
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(1_024)
            self.port = listener.getsockname()[1]
            words = [word.format(fd=listener.fileno()) for word in command]
            self.process = subprocess.Popen(
                [sys.executable, "-m", *words, f"{app}:application"],
                cwd=APPS,
                env={
                    **os.environ,
                    "TOLLGATE_SHARED": str(shared),
                    "TOLLGATE_READY": self.ready.name,
                    **environment,
                },
                pass_fds=[listener.fileno()],
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.ready.cleanup()

    def get(self, _=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", "/")
            response = connection.getresponse()
            return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
        finally:
            connection.close()

    def get_all(self, count):
        with ThreadPoolExecutor(16) as pool:
            return list(pool.map(self.get, range(count)))


def started_workers(server, wanted, secs=60):
    """Waits until so many workers have read the application, for otherwise the first would serve all requests."""
    ready = Path(server.ready.name)
    end = time.monotonic() + secs
    while len(list(ready.iterdir())) < wanted and time.monotonic() < end:
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("command", "app"), [(GUNICORN, "wsgi_app"), (UVICORN, "asgi_app")], ids=["gunicorn", "uvicorn"]
)
def test_four_workers_admit_exactly_the_quota_of_all_requests(shared, command, app):
    with Server(command, app, shared) as server:
        started_workers(server, WORKERS)
        responses = server.get_all(400)
    statuses = [status for status, _, _ in responses]
    assert (statuses.count(200), statuses.count(429)) == (100, 300)
    workers = {body for status, _, body in responses if status == 200}
    assert len(workers) > 1, "one worker served all requests"
    for status, fields, _ in responses:
        assert fields["ratelimit-policy"] == '"default";q=100;w=86400'
        if status == 429:
            assert 1 <= int(fields["retry-after"]) <= 864
            assert fields["ratelimit"].startswith('"default";r=0;t=')


@pytest.mark.parametrize("strategy", ["fixed-window", "moving-window", "sliding-window-counter"])
def test_flask_limiter_in_four_workers_admits_exactly_the_limit(shared, strategy):
    with Server(GUNICORN, "flask_app", shared, TOLLGATE_STRATEGY=strategy) as server:
        started_workers(server, WORKERS)
        responses = server.get_all(200)
    statuses = [status for status, _, _ in responses]
    assert (statuses.count(200), statuses.count(429)) == (100, 100)
    assert len({body for status, _, body in responses if status == 200}) > 1
    assert all(0 < int(fields["retry-after"]) <= 2 * 86_400 for status, fields, _ in responses if status == 429)
