from slowapi import Limiter, _rate_limit_exceeded_handler
from slowapi.errors import RateLimitExceeded
from slowapi.util import get_remote_address
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

import tollgate
import tollgate.limits_storage  # noqa: F401 (registers the scheme)
from tollgate.asgi import RateLimitMiddleware


def test_slowapi_counts_in_shared_memory(shared):
    def client():
        limiter = Limiter(key_func=get_remote_address, storage_uri=f"tollgate://{shared}")

        @limiter.limit("5 per day")
        async def hello(request: Request):
            return PlainTextResponse("hello")

        app = Starlette(routes=[Route("/", hello)])
        app.state.limiter = limiter
        app.add_exception_handler(RateLimitExceeded, _rate_limit_exceeded_handler)
        return TestClient(app)

    first, second = client(), client()
    statuses = [its.get("/").status_code for _ in range(4) for its in (first, second)]
    assert statuses == [200] * 5 + [429] * 3


def test_starlette_takes_the_middleware():
    async def hello(request):
        return PlainTextResponse("hello")

    middleware = Middleware(RateLimitMiddleware, limiter=tollgate.Limiter("2/h"), key=lambda request: request.path)
    client = TestClient(Starlette(routes=[Route("/", hello)], middleware=[middleware]))
    responses = [client.get("/") for _ in range(3)]
    assert [response.status_code for response in responses] == [200, 200, 429]
    assert responses[2].headers["retry-after"] == "1800"
    assert responses[2].headers["content-type"] == "application/problem+json"
