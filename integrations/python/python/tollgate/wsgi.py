"""Middleware for WSGI: Flask, Django, Pyramid and others.

    from tollgate import Limiter
    from tollgate.wsgi import RateLimitMiddleware

    app.wsgi_app = RateLimitMiddleware(app.wsgi_app, Limiter("100/min", shared="/dev/shm/app-limits"))
"""

from collections.abc import Callable as _Callable
from http import HTTPStatus as _HTTPStatus
from typing import Any as _Any

from tollgate._http import Policy as _Policy
from tollgate._tollgate import Limiter as _Limiter
from tollgate.keys import Request as _RequestView
from tollgate.keys import peer_ip as _peer_ip

__all__ = ["RateLimitMiddleware"]


class _Request:
    __slots__ = ("raw",)

    def __init__(self, environ: dict[str, _Any]) -> None:
        self.raw = environ

    @property
    def peer(self) -> str | None:
        return self.raw.get("REMOTE_ADDR") or None

    @property
    def method(self) -> str:
        return str(self.raw["REQUEST_METHOD"])

    @property
    def path(self) -> str:
        # Each character is a byte of the path (PEP 3333). Servers of ASGI decode the bytes themselves.
        text: str = self.raw.get("SCRIPT_NAME", "") + self.raw.get("PATH_INFO", "")
        return text.encode("latin-1").decode("utf-8", "replace")

    def header(self, name: str) -> str | None:
        name = name.upper().replace("-", "_")
        prefix = "" if name in ("CONTENT_TYPE", "CONTENT_LENGTH") else "HTTP_"
        return self.raw.get(prefix + name)

    def header_lines(self, name: str) -> list[str]:
        joined = self.header(name)
        return [] if joined is None else [joined]


class RateLimitMiddleware:
    """Denies requests beyond a limit with 429, and tells every client what it has left.

    - `key`: a function of the request, see `tollgate.keys`; the peer's address unless given.
    - `cost`: the cells of a request, or a function of the request that returns them.
    - `name`: the limit's name in the fields.
    - `on_no_key`: "deny" (400, or 500 if the server does not provide the key) or "admit". A malformed key is denied.
    """

    def __init__(
        self,
        app: _Callable[..., _Any],
        limiter: _Limiter,
        *,
        key: _Callable[[_RequestView], str | bytes | None] = _peer_ip,
        cost: int | _Callable[[_RequestView], int] = 1,
        name: str = "default",
        on_no_key: str = "deny",
    ) -> None:
        self.app = app
        self._policy = _Policy(limiter, key=key, cost=cost, name=name, on_no_key=on_no_key)

    def __call__(self, environ: dict[str, _Any], start_response: _Callable[..., _Any]) -> _Any:
        answer = self._policy.ask(_Request(environ))
        if answer.denial is not None:
            status, fields, body = answer.denial
            start_response(f"{status} {_HTTPStatus(status).phrase}", [*fields, *answer.fields(None)])
            return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

        def start_with_fields(status: str, headers: list[tuple[str, str]], *exc_info: _Any) -> _Any:
            retry = next((value for name, value in headers if name.lower() == "retry-after"), None)
            return start_response(status, [*headers, *answer.fields(retry)], *exc_info)

        return self.app(environ, start_with_fields)
