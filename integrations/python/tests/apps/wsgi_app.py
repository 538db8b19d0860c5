import os
import time
from pathlib import Path

from tollgate import Limiter
from tollgate.wsgi import RateLimitMiddleware


def application(environ, start_response):
    time.sleep(0.005)  # the worker accepts no connection meanwhile, so that others do
    start_response("200 OK", [("content-type", "text/plain")])
    return [str(os.getpid()).encode()]


limiter = Limiter("100 per day", shared=os.environ["TOLLGATE_SHARED"])
application = RateLimitMiddleware(application, limiter)
Path(os.environ["TOLLGATE_READY"], str(os.getpid())).touch()
