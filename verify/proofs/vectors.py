"""Compares the models with the Rust, request by request. Here the models run on Python integers; their text
is the text that the proofs are about."""

import importlib
import random
import subprocess
from time import monotonic

from gcra import PAYLOAD_BITS
from kit import MAX, NEVER, Panic, U, raw

SECOND = 10**9
YEAR = 365 * 24 * 3_600 * SECOND
QUOTAS = [
    (1, SECOND, 1), (10, SECOND, 10), (3, SECOND, 7), (7, SECOND, 20), (100, SECOND, 20),
    (1_000, SECOND, 1_000), (1_000_000, SECOND, 5), (10**9, SECOND, 10**9), (10**9, SECOND, 1),
    (20, 60 * SECOND, 20), (1, YEAR, 100), (1_000, SECOND, 1 << 32), (5, 86_400 * SECOND, 5),
    (1 << 40, 86_400 * SECOND, 1 << 40), (1, 1, 1), (12_345, 67_891 * SECOND, 678),
    (1, 7 * 86_400 * SECOND, 1), (9_999_991, 999_983 * 10**6, 3), (123, 3_600 * SECOND, 500),
]
SEED, EACH = 20_260_101, 4_000


class Chance(random.Random):
    def wide(self, bits=64):
        """A number of any magnitude, or near a power of two."""
        number = self.getrandbits(self.randint(1, bits))
        return self.choice([number, number, 2**bits - 1 - number])

    def quota(self):
        if self.random() < 0.7:
            return self.choice(QUOTAS)
        return self.randint(1, 2_000), self.randint(1, 400) * self.choice([10**6, SECOND, 60 * SECOND]), self.randint(1, 3_000)

    def instant(self):
        return self.choice([0, 1, MAX, MAX - 1, self.getrandbits(64), self.getrandbits(61), self.getrandbits(40), self.wide()])

    def cells(self, most):
        return self.choice([0, 1, 1, 1, 2, most, most - 1 if most > 1 else 1, most + 1, self.randint(1, max(most, 1)), self.wide(), MAX])


def near(chance, at, scale, bits):
    """A number near `at`, within `scale` of it, most often at the edges."""
    off = chance.choice([0, 1, -1, scale, scale - 1, scale + 1, -scale, chance.randint(0, 2 * scale + 1), -chance.randint(0, 2 * scale + 1), chance.wide(bits)])
    return (at + off) % 2**bits


def span(scale, units):
    return scale.span(U(units))


def fields(parts):
    return " ".join(f"{name}={value}" for name, value in parts)


class GcraVectors:
    name = "gcra"
    # The fields of the answer that are compared; none named: all of them.
    compared = ()

    def __init__(self, model):
        self.model = model

    def request(self, chance):
        limit, period, burst = chance.quota()
        request = dict(limit=limit, period=period, burst=burst)
        for option, share in [("empty", 0.2), ("compact", 0.3), ("plans", 0.1), ("overdrawn", 0.1)]:
            if chance.random() < share:
                request[option] = 1
        if "compact" in request:
            request.pop("plans", None)
        return request

    def params(self, request):
        given = [raw(request[name]) for name in ("limit", "period", "burst")]
        made = self.model.Gcra.built(*given, "empty" in request, "compact" in request, "plans" in request)
        return made.overdrawn() if made and "overdrawn" in request else made

    def grid_floor(self, params, now):
        return raw(params.grid.floor(U(now)))

    def state(self, chance, params, request):
        now = chance.instant()
        bits = 37 if "compact" in request else 64
        word = near(chance, self.grid_floor(params, now), raw(params.capacity), bits)
        return dict(word=word, now=now, n=chance.cells(raw(params.burst)))

    def extra(self, chance, params, request):
        which = chance.random()
        if "overdrawn" in request or which < 0.7:
            return
        if which < 0.8:
            request["add"] = 1
            return
        charged = chance.choice([request["now"], near(chance, request["now"], 10**9, 64), chance.instant()])
        request.update(cells=chance.cells(self.most(params)), charged=charged,
                       next=chance.choice([request["word"], request["word"], chance.wide(53)]))

    def most(self, params):
        return raw(params.burst)

    def answer(self, request):
        params = self.params(request)
        if params is None:
            return "none"
        word, now, n = U(request["word"]), U(request["now"]), U(request["n"])
        if "add" in request:
            return f"word {raw(params.add(word, now, n))}"
        if "cells" in request:
            return f"word {raw(self.refund(params, request, word, now, n))}"
        return self.stepped(params, word, now, n)

    def refund(self, params, request, word, now, n):
        return params.refund(word, U(request["cells"]), U(request["charged"]), now, n)

    def stepped(self, params, word, now, n):
        floor = params.grid.floor(now)
        idle, units = params.idle(word, floor)
        step = params.step(word, now, n)
        common = [("fresh", raw(params.fresh(now))), ("idle" if idle else "live", raw(units))]
        return self.decision(params, params.grid.scale(now, floor), word, now, n, step, common)

    def decision(self, params, scale, word, now, n, step, common):
        left = lambda debt: raw(params.room_after(debt) // params.cell)
        if step.admits:
            debt, delay = self.permit(params, word, now, n)
            return "admit " + fields([*common, ("next", raw(step.next)), ("published", ""), ("remaining", left(debt)),
                                    ("reset", span(scale, debt)), ("delay", span(scale, delay))])
        debt, wait = params.debt(word, params.grid.floor(now)), raw(params.wait(word, now, n))
        retry = "never" if wait == NEVER else span(scale, wait)
        return "deny " + fields([*common, ("remaining", left(debt)), ("reset", span(scale, debt)), ("retry", retry)])

    def permit(self, params, word, now, n):
        return params.debt_after(word, now, n), 0


class LeakyVectors(GcraVectors):
    name = "leaky_queue"

    def request(self, chance):
        limit, period, burst = chance.quota()
        request = dict(limit=limit, period=period, burst=burst, immediate=chance.choice([0, 1, 2, burst, MAX, chance.wide()]))
        if chance.random() < 0.3:
            request["compact"] = 1
        return request

    def params(self, request):
        given = [request[name] for name in ("limit", "period", "burst")]
        bucket = importlib.import_module("gcra").Gcra.built(*given, False, "compact" in request)
        if bucket is not None:
            bucket.queue = self.model.LeakyQueue(bucket, U(request["immediate"]))
        return bucket

    def extra(self, chance, params, request):
        pass

    def permit(self, params, word, now, n):
        return params.queue.permit(word, now, n)


class DynamicVectors(GcraVectors):
    name = "dynamic_gcra"

    def request(self, chance):
        limit, period, burst = chance.quota()
        request = dict(limit=limit, period=period, burst=burst)
        if chance.random() < 0.3:
            request["empty"] = 1
        if chance.random() < 0.8:
            limit, period, burst = chance.choice([chance.quota(), (limit, period, burst * 2), (limit, period, max(burst // 2, 1)), (limit * 2, period, burst)])
            inherit = chance.choice(["as-is", "additive", "spent", "proportional", "reset"])
            request.update(new_limit=limit, new_period=period, new_burst=burst, inherit=inherit, at=chance.instant())
            # A reset sets the clock forward by the largest debt of the quota before it.
            if chance.random() < 0.5:
                request["reset"] = 1
        return request

    def params(self, request):
        given = [request[name] for name in ("limit", "period", "burst")]
        made = self.model.DynamicGcra.built(*given, "empty" in request)
        if "at" in request:
            new = [request[name] for name in ("new_limit", "new_period", "new_burst")]
            made = made.change(*new, request["inherit"], U(request["at"]))
        if "reset" in request:
            made = made.change(*given, "reset", U(request["at"]))
        return made

    def state(self, chance, params, request):
        now = chance.choice([chance.instant(), near(chance, raw(params.since), 10**10, 64)])
        word = near(chance, raw(params.instant(U(now))), raw(params.gcra.capacity), 64)
        return dict(word=word, now=now, n=chance.cells(raw(params.gcra.burst)))

    def extra(self, chance, params, request):
        pass

    def answer(self, request):
        try:
            params = self.params(request)
        except self.model.Denied:
            return "denied"
        word, now, n = U(request["word"]), U(request["now"]), U(request["n"])
        bucket, here, relative = params.gcra, params.elapsed(now), params.relative(word)
        floor = bucket.grid.floor(here)
        idle, units = bucket.idle(word, params.instant(now))
        common = [("fresh", raw(params.fresh(now))), ("idle" if idle else "live", raw(units))]
        scale = BehindScale(bucket.grid.scale(here, floor), raw(params.since.saturating_sub(now)))
        return self.decision(bucket, scale, relative, here, n, params.step(word, now, n), common)


class BehindScale:
    """The scale of an instant, for a clock that is `gap` nanoseconds behind it."""

    def __init__(self, scale, gap):
        self.scale, self.gap = scale, gap

    def span(self, units):
        return min(raw(self.scale.span(units)) + self.gap, MAX) if raw(units) else 0


class WindowVectors(GcraVectors):
    name = "fixed_window"

    def request(self, chance):
        limit, period, burst = chance.quota()
        request = dict(limit=min(limit, 2**30 - 1), period=period, burst=1)
        if chance.random() < 0.4:
            request.update(offset=chance.randint(-86_399, 86_399), origin=chance.choice([0, 1_735_689_600 * SECOND, chance.wide()]))
        for option, share in [("compact", 0.3), ("overdrawn", 0.1)]:
            if chance.random() < share:
                request[option] = 1
        return request

    def params(self, request):
        made = self.model.FixedWindow.built(
            request["limit"], request["period"], request.get("origin", 0), request.get("offset"), "compact" in request)
        if made and "overdrawn" in request:
            made.limit = U(made.count.max)
        return made

    def state(self, chance, params, request):
        now, bits = chance.instant(), 37 if "compact" in request else 64
        limit, width = raw(params.limit), params.count.bits
        end = near(chance, raw(params.grid.floor(params.aligned(U(now)))), raw(params.length), bits - width)
        count = chance.choice([0, 1, limit, limit - 1, params.count.max, chance.getrandbits(width)])
        return dict(word=end * 2**width + count, now=now, n=chance.cells(limit))

    def most(self, params):
        return raw(params.limit)

    def refund(self, params, request, word, now, n):
        return params.refund(word, U(request["cells"]), U(request["charged"]), U(request["next"]), now, n)

    def stepped(self, params, word, now, n):
        floor, counted, ahead = params.view(word, now)
        idle, units = params.idle(word, floor)
        scale = params.grid.scale(params.aligned(now), floor)
        common = [("fresh", raw(params.fresh(now))), ("idle" if idle else "live", raw(units))]
        step = params.step(word, now, n)
        left = lambda counted: raw(params.limit.saturating_sub(counted))
        if step.admits:
            total, until = params.until_idle_after(word, now, n)
            return "admit " + fields([*common, ("next", raw(step.next)), ("published", ""), ("remaining", left(total)),
                                    ("reset", span(scale, until)), ("delay", 0)])
        wait = raw(params.wait(word, now, n))
        retry = "never" if wait == NEVER else span(scale, wait)
        until = 0 if raw(counted) == 0 else ahead
        return "deny " + fields([*common, ("remaining", left(counted)), ("reset", span(scale, until)), ("retry", retry)])


class RingVectors(GcraVectors):
    """Sub-windows, and the sliding counter, which weighs the oldest sub-window."""

    name = "sub_windows"

    def request(self, chance):
        limit, period, burst = chance.quota()
        request = dict(limit=min(limit, 2**27), period=period, burst=1)
        request["count" if self.name == "sub_windows" else "older"] = chance.choice([2, 3, 3, 4, 6, 60, 256])
        if self.name == "sliding_counter" and chance.random() < 0.4:
            request["older"] = 1
        request["origin"] = chance.choice([0, 1_735_689_600 * SECOND, chance.wide()])
        return request

    def params(self, request):
        given = request["limit"], request["period"], request["origin"]
        if self.name == "sub_windows":
            return self.model.SubWindows.built(*given, request["count"], request["count"] - 1, False)
        return self.model.SubWindows.built(*given, request["older"], request["older"], True)

    def state(self, chance, params, request):
        now, limit, width = chance.instant(), raw(params.limit), params.count.bits
        floor = raw(params.grid.floor(params.aligned(U(now))))
        last = near(chance, floor, params.older, 53 - width)
        counts = [chance.choice([0, 0, 1, limit // 2, limit // (params.older + 1), chance.getrandbits(width)]) for _ in range(params.older + 1)]
        ring = [chance.choice([0, chance.wide()]) for _ in range(params.cells)]
        for back in range(1, params.older + 1):
            index = (last - back) % 2**(53 - width)
            if chance.random() < 0.8:
                ring[index % params.cells] = index * 2**width + counts[back] % 2**width
        total = chance.choice([sum(counts), sum(counts), min(sum(counts), limit), chance.getrandbits(width)]) % 2**width
        word = last * 2**width + total
        if chance.random() < 0.1:
            word = chance.wide()
        return dict(word=word, now=now, n=chance.cells(limit), ring=",".join(map(str, ring)))

    def extra(self, chance, params, request):
        pass

    def answer(self, request):
        params = self.params(request)
        ring = [U(int(cell)) for cell in request["ring"].split(",")]
        word, now, n = U(request["word"]), U(request["now"]), U(request["n"])
        evaluated = params.evaluate(word, ring, now, n)
        idle, units = params.idle(word, params.grid.floor(params.aligned(now)))
        common = [("fresh", raw(params.fresh(now))), ("idle" if idle else "live", raw(units))]
        if evaluated.admits:
            cell = raw(evaluated.published)
            published = f"{raw(params.place(params.index.of(U(cell))))}:{cell}" if cell else ""
            until, scale = params.reset_of_permit(evaluated, now, n)
            left = params.remaining(evaluated, n)
            return "admit " + fields([*common, ("next", raw(evaluated.next)), ("published", published), ("remaining", raw(left)),
                                    ("reset", span(scale, until)), ("delay", 0)])
        idle, wait, scale = evaluated.waits
        retry = "never" if raw(wait) == NEVER else span(scale, wait)
        return "deny " + fields([*common, ("remaining", raw(params.remaining(evaluated, U(0)))),
                                 ("reset", span(scale, idle)), ("retry", retry)])


class CounterVectors(RingVectors):
    name = "sliding_counter"

    def __init__(self, model):
        super().__init__(importlib.import_module("sub_windows"))


class LogVectors(GcraVectors):
    """Admission, remaining cells, and the wait; the oracle tests compare the rest."""

    name = "sliding_log"
    compared = ("next", "retry")

    def request(self, chance):
        limit, period, burst = chance.quota()
        return dict(limit=min(limit, chance.choice([1, 2, 3, 7, 8, 40])), period=period, burst=1)

    def params(self, request):
        return self.model.SlidingLog.built(request["limit"], request["period"])

    def state(self, chance, params, request):
        now, limit, window = chance.instant(), raw(params.limit), raw(params.window)
        floor = raw(params.floor(U(now)))
        lap, place = chance.randrange(4), chance.randrange(limit)
        times = sorted((near(chance, floor, window, 52) for _ in range(limit + 1)), reverse=chance.random() < 0.5)
        laps = [chance.choice([lap, lap ^ 1, chance.randrange(4)]) for _ in times]
        ring = [lap << 52 | time for lap, time in zip(laps, times)]
        ring[-1] = chance.choice([1 << 52, 1 << 52 | times[0]])
        time = chance.choice([max(times), near(chance, floor, window, 52)]) % (params.time.max + 1)
        word = place | lap << params.lap.shift | time << params.time.shift
        if chance.random() < 0.1:
            word = chance.wide()
        return dict(word=word, now=now, n=chance.cells(limit), ring=",".join(map(str, ring)))

    def extra(self, chance, params, request):
        pass

    def answer(self, request):
        params, now = self.params(request), U(request["now"])
        ring = [int(cell) for cell in request["ring"].split(",")]
        next, wait = params.step(U(request["word"]), ring, now, U(request["n"]))
        if next is not None:
            return f"admit next={next}"
        floor = params.floor(now)
        scale = params.grid.scale(now, floor.wrapping_sub(params.window))
        return f"deny retry={'never' if wait == NEVER else span(scale, wait)}"


class WarmVectors(GcraVectors):
    name = "warm_up"

    def request(self, chance):
        limit, period, burst = chance.choice([(5, SECOND, 5), (5, SECOND, 100), (1, 60 * SECOND, 3), (100, SECOND, 10), (1_000, SECOND, 1), chance.quota()])
        return dict(limit=limit, period=period, burst=burst, warm=chance.choice([0, SECOND, 4 * SECOND, 60 * SECOND, chance.getrandbits(38)]),
                    cold=chance.choice([1, 2, 3, 3, 10, 100, chance.randint(1, 100)]), wait=chance.choice([0, 0, SECOND, chance.getrandbits(34)]))

    def params(self, request):
        return self.model.WarmUp.built(*(request[x] for x in ("limit", "period", "burst", "warm", "cold", "wait")))

    def state(self, chance, params, request):
        now, width = chance.instant(), params.warmth.bits
        scale = chance.choice([raw(params.max_wait) + raw(params.period), raw(params.cell), raw(params.period)])
        cold = near(chance, raw(params.grid.floor(U(now))), scale, 64 - width)
        warmth = chance.choice([0, 1, raw(params.period), raw(params.ramp), chance.getrandbits(width)])
        return dict(word=cold * 2**width + warmth % 2**width, now=now, n=chance.cells(raw(params.burst)))

    def extra(self, chance, params, request):
        pass

    def answer(self, request):
        params = self.params(request)
        word, now, n = U(request["word"]), U(request["now"]), U(request["n"])
        floor = params.grid.floor(now)
        scale, view = params.grid.scale(now, floor), params.view(word, floor)
        idle, units = params.idle(word, floor)
        common = [("fresh", raw(params.fresh(now))), ("idle" if idle else "live", raw(units))]
        step = params.step(word, now, n)
        state = lambda view: [("remaining", raw(params.burst) if view[0] <= params.max_wait else 0),
                             ("reset", span(scale, view[0] + view[1]))]
        if step.admits:
            after = view if n == 0 else params.charged(view, n)
            delay = 0 if n == 0 else span(scale, view[0])
            return "admit " + fields([*common, ("next", raw(step.next)), ("published", ""), *state(after), ("delay", delay)])
        wait = raw(params.wait(word, now, n))
        return "deny " + fields([*common, *state(view), ("retry", "never" if wait == NEVER else span(scale, wait))])


KINDS = {kind.name: kind for kind in [GcraVectors, LeakyVectors, DynamicVectors, WindowVectors, RingVectors, CounterVectors, LogVectors, WarmVectors]}
# Models of no algorithm, which the models of algorithms use.
SHARED = {"grid", "words"}


def kind_of(name):
    """How requests of a model's algorithm are made and answered: here, or in the model's own file as `VECTORS`."""
    return KINDS.get(name) or importlib.import_module(name).VECTORS


def valid(limit, period, burst, **_):
    """Whether `Quota::validate` accepts the quota. The Rust rejects others, so comparing them shows nothing."""
    return (limit <= 1 << 40 and burst <= 1 << 40 and period >= limit and period <= 366 * 86_400 * SECOND * limit and period <= 100 * YEAR
            and burst * period <= (1 << 62) * limit)


def requests(kind, chance):
    while True:
        request = kind.request(chance)
        if not valid(**request):
            continue
        if "new_limit" in request and not valid(request["new_limit"], request["new_period"], request["new_burst"]):
            continue
        try:
            params = kind.params(request)
        except Exception as denied:
            if type(denied).__name__ not in ("Denied", "OutOfRange"):
                raise
            params = None
            if type(denied).__name__ == "OutOfRange":
                continue
        if params is None:
            yield {**request, "word": 0, "now": 0, "n": 1}
            continue
        for _ in range(8):
            made = {**request, **kind.state(chance, params, request)}
            # A machine is given a state; the bits above it are the table's.
            made["word"] &= (1 << PAYLOAD_BITS) - 1
            kind.extra(chance, params, made)
            yield made


def line(name, request):
    return " ".join([name, *(f"{option}={value}" for option, value in request.items())])


def compare(program, name, count=EACH):
    kind, chance = kind_of(name)(importlib.import_module(name)), Chance(SEED)
    asked, source = [], requests(kind, chance)
    asked = [next(source) for _ in range(count)]
    text = "".join(line(name, request) + "\n" for request in asked)
    ran = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    answers = ran.stdout.splitlines()
    assert len(answers) == len(asked), "an answer for each request"
    decided = {}
    for request, answer in zip(asked, answers):
        try:
            expected = kind.answer(request)
        except Panic as panic:
            expected = f"panic: {panic}"
        if kind.compared:
            word, *parts = answer.split()
            answer = " ".join([word, *(p for p in parts if p.split("=")[0] in kind.compared)])
        if answer != expected:
            return f"{line(name, request)}\n         Rust:  {answer}\n         model: {expected}", decided
        word = answer.split()[0]
        decided[word] = decided.get(word, 0) + 1
    return "", decided


def compare_all(program, names, report):
    good = True
    for name in (name for name in names if name not in SHARED):
        begun = monotonic()
        differs, decided = compare(program, name)
        # A comparison with few admissions or few denials shows little.
        enough = min(decided.get("admit", 0), decided.get("deny", 0)) >= EACH // 20
        counts = ", ".join(f"{count} {word}" for word, count in sorted(decided.items()))
        report("EQUAL" if not differs and enough else "DIFFERS", name,
               f"{sum(decided.values())} requests ({counts})", monotonic() - begun, differs)
        good &= not differs and enough
    return good
