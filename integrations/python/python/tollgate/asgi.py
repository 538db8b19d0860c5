"""Middleware for ASGI: Starlette, FastAPI, Django, Litestar and others.

    from tollgate import Limiter
    from tollgate.asgi import RateLimitMiddleware

    app = RateLimitMiddleware(app, Limiter("100/min", shared="/dev/shm/app-limits"))
"""

from collections.abc import Callable as _Callable
from typing import Any as _Any

from tollgate._http import Answer as _Answer
from tollgate._http import Denial as _Denial
from tollgate._http import Policy as _Policy
from tollgate._tollgate import Limiter as _Limiter
from tollgate.keys import Request as _RequestView
from tollgate.keys import peer_ip as _peer_ip

__all__ = ["RateLimitMiddleware"]

_DENIALS = "websocket.http.response"
_TRY_AGAIN_LATER = 1013


class _Request:
    __slots__ = ("raw",)

    def __init__(self, scope: dict[str, _Any]) -> None:
        self.raw = scope

    @property
    def peer(self) -> str | None:
        client = self.raw.get("client")
        return client[0] or None if client else None

    @property
    def method(self) -> str:
        return str(self.raw.get("method", "GET"))

    @property
    def path(self) -> str:
        return str(self.raw["path"])

    def header(self, name: str) -> str | None:
        lines = self.header_lines(name)
        return ", ".join(lines) if lines else None

    def header_lines(self, name: str) -> list[str]:
        wanted = name.lower().encode("latin-1")
        return [value.decode("latin-1") for its, value in self.raw["headers"] if its.lower() == wanted]


def _encoded(fields: list[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]


class RateLimitMiddleware:
    """Denies requests beyond a limit with 429, and tells every client what it has left.

    Its arguments are those of `tollgate.wsgi.RateLimitMiddleware`. A WebSocket is charged when it is opened.
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

    async def __call__(self, scope: _Any, receive: _Any, send: _Any) -> None:
        kind = scope["type"]
        if kind not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        answer = self._policy.ask(_Request(scope))
        if answer.denial is not None:
            await self._deny(scope, send, answer, answer.denial)
            return

        async def send_with_fields(message: dict[str, _Any]) -> None:
            if message["type"] in ("http.response.start", f"{_DENIALS}.start", "websocket.accept"):
                headers = list(message.get("headers", ()))
                retry = next((value for name, value in headers if name.lower() == b"retry-after"), None)
                retry = None if retry is None else retry.decode("latin-1")
                message = {**message, "headers": headers + _encoded(answer.fields(retry))}
            await send(message)

        await self.app(scope, receive, send_with_fields)

    async def _deny(self, scope: _Any, send: _Any, answer: _Answer, denial: _Denial) -> None:
        status, fields, body = denial
        headers = _encoded([*fields, *answer.fields(None)])
        start = "http.response"
        if scope["type"] == "websocket":
            if _DENIALS not in (scope.get("extensions") or {}):
                # Closed before it is accepted: the server answers 403.
                await send({"type": "websocket.close", "code": _TRY_AGAIN_LATER})
                return
            start = _DENIALS
        body = b"" if scope.get("method") == "HEAD" else body
        await send({"type": f"{start}.start", "status": status, "headers": headers})
        await send({"type": f"{start}.body", "body": body})
