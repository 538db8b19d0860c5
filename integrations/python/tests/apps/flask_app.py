import os
import time
from pathlib import Path

from flask import Flask
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address

import tollgate.limits_storage  # noqa: F401 (registers the scheme)

application = Flask(__name__)
limiter = Limiter(
    get_remote_address,
    app=application,
    default_limits=["100 per day"],
    storage_uri=f"tollgate://{os.environ['TOLLGATE_SHARED']}",
    strategy=os.environ["TOLLGATE_STRATEGY"],
    headers_enabled=True,
)


@application.get("/")
def hello():
    time.sleep(0.005)  # the worker accepts no connection meanwhile, so that others do
    return str(os.getpid())


Path(os.environ["TOLLGATE_READY"], str(os.getpid())).touch()
