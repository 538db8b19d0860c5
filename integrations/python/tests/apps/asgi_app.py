import os

from tollgate import Limiter
from tollgate.asgi import RateLimitMiddleware


async def application(scope, receive, send):
    if scope["type"] != "http":
        raise NotImplementedError
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": str(os.getpid()).encode()})


limiter = Limiter("100 per day", shared=os.environ["TOLLGATE_SHARED"])
application = RateLimitMiddleware(application, limiter)
