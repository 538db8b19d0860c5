import os

from tollgate import Limiter
from tollgate.wsgi import RateLimitMiddleware


def application(environ, start_response):
    start_response("200 OK", [("content-type", "text/plain")])
    return [str(os.getpid()).encode()]


limiter = Limiter("100 per day", shared=os.environ["TOLLGATE_SHARED"])
application = RateLimitMiddleware(application, limiter)
