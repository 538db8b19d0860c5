import os
import time
from pathlib import Path

from tollgate import Limiter
from tollgate.asgi import RateLimitMiddleware


async def application(scope, receive, send):
    if scope["type"] != "http":
        raise NotImplementedError
    time.sleep(0.005)  # the worker accepts no connection meanwhile, so that others do
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": str(os.getpid()).encode()})


limiter = Limiter("100 per day", shared=os.environ["TOLLGATE_SHARED"])
application = RateLimitMiddleware(application, limiter)
Path(os.environ["TOLLGATE_READY"], str(os.getpid())).touch()
