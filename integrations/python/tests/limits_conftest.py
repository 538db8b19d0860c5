"""Takes the place of the `conftest.py` of the tests of `limits`, which are not changed: what they know as the
storage in memory is that of tollgate. With TOLLGATE_FOLDER, its tables are files there.
"""

import itertools
import os

from limits._storage_scheme import SCHEMES

from tollgate.limits_storage import AsyncTollgateStorage, TollgateStorage

folder = os.environ.get("TOLLGATE_FOLDER")
numbers = itertools.count()


def storages(kind):
    # Each test begins with an empty storage.
    def make(uri, **options):
        path = f"{folder}/{next(numbers)}" if folder else ""
        # Keys are counted exactly, as a test of `reset` wants it, in tables of up to some 16,000 slots.
        return kind(f"tollgate://{path}?capacity=5000&moving_window_capacity=5000", **options)

    return make


SCHEMES["memory"] = storages(TollgateStorage)
SCHEMES["async+memory"] = storages(AsyncTollgateStorage)
