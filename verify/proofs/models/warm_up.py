"""Warm-up (`src/algo/warm_up/mod.rs`).

The exact state: the time `G` at which the next request may go, and the warmth `h` at that time, both
integers; after `G` it cools down. `n` cells are admitted iff `max(G, f) - f <= max_wait`, and `G` then
advances by `n * cell + extra`. The extra (a square, divided) is proved by itself, for every cold factor;
the step is proved for any extra up to a period.
"""

from math import gcd

import kit
from gcra import CELLS_MAX, PAYLOAD_BITS, Step
from grid import YEAR_NANOS, Grid
from kit import MAX, NEVER, U128, And, Fault, If, Iff, Implies, Not, Or, Property, U, fact, integer, number, raw, where
from words import Field, Packed, fits

UNITS_IN_CELL_MIN, RING_PER_REACH_MIN = 16, 64


class OutOfRange(Exception):
    pass


class WarmUp:
    def __init__(self, grid, burst, cell, refill, factor, period, max_wait, warmth, cold_at):
        self.grid, self.burst, self.cell, self.refill, self.factor = grid, burst, cell, refill, factor
        self.period, self.max_wait, self.warmth, self.cold_at = period, max_wait, warmth, cold_at
        self.ramp = period * 4 // (5 + factor)
        self.steepness, self.flatness = (5 + factor) * (factor - 1), self.ramp * (4 * (1 + factor))

    @classmethod
    def with_units(cls, limit, period_nanos, burst, warm_nanos, factor, wait_nanos, cell):
        units, parts = limit * cell, 5 + factor
        part = max(-(-warm_nanos * units // (period_nanos * parts)), 1)
        period = part * parts
        time_bits = PAYLOAD_BITS - period.bit_length()
        if time_bits <= 0:
            return None
        warmth = Field(0, period.bit_length())
        cold_at = warmth.above(time_bits)
        max_wait = wait_nanos * units // period_nanos
        reach = max_wait + burst * cell + 2 * period
        if reach * RING_PER_REACH_MIN > cold_at.max:
            return None
        grid = Grid.new(units, period_nanos, cold_at.max, reach)
        refill = 2 * (1 + factor) * cell // parts
        return cls(grid, U(burst), U(cell), U(refill), factor, U(period), U(max_wait), warmth, cold_at)

    @classmethod
    def built(cls, limit, period, burst, warm, factor, wait):
        divisor = (5 + factor) // gcd(5 + factor, 2 * (1 + factor))
        cell = -(-UNITS_IN_CELL_MIN // (2 * divisor)) * 2 * divisor
        interval = period // limit
        params = None if cell > interval else cls.with_units(limit, period, burst, warm, factor, wait, cell)
        if params is None:
            raise OutOfRange
        while cell <= interval // 2:
            cell *= 2
            finer = cls.with_units(limit, period, burst, warm, factor, wait, cell)
            if finer is None or not finer.lasts_a_year():
                break
            params = finer
        return params

    # As in the Rust.

    def lasts_a_year(self):
        ring = self.grid.ring()
        return ring is None or ring * raw(self.grid.nanos) >= YEAR_NANOS * raw(self.grid.units)

    def fresh(self, now):
        return self.cold_at.set(U(0), self.grid.floor(now))

    def view(self, word, floor):
        """Units until the next request may go, and units of warmth."""
        until_cold = self.grid.ahead(self.cold_at.of(word), floor)
        warmth = self.warmth.of(word).min(self.period).min(until_cold)
        return until_cold - warmth, warmth

    def charged(self, view, n):
        wait, warmth = view
        warmed = warmth + n * self.refill
        cost = n * self.cell + self.extra(warmth, warmed)
        return wait + cost, warmed.min(self.period)

    def extra(self, before, after):
        start = self.ramp.saturating_sub(before)
        to = self.ramp.saturating_sub(after)
        area = (start - to) * (start + to) * self.steepness
        return If(start == 0, U(0), area.div_ceil(self.flatness))

    def step(self, word, now, n):
        floor = self.grid.floor(now)
        wait, warmth = view = self.view(word, floor)
        denies = Or(n > self.burst, wait > self.max_wait)
        with where(And(n != 0, Not(denies))):
            wait_after, warmth_after = self.charged(view, n)
            cold_at = self.grid.later(floor, wait_after + warmth_after)
            kit.CONTEXT.require(cold_at <= self.cold_at.max, "the instant fits its field")
            next = self.cold_at.set(warmth_after, cold_at)
        same = self.cold_at.set(self.warmth.of(word), self.cold_at.of(word))
        return Step(Or(n == 0, Not(denies)), If(n == 0, same, next))

    def wait(self, word, now, n):
        wait, _ = self.view(word, self.grid.floor(now))
        return If(n > self.burst, U(NEVER), wait.saturating_sub(self.max_wait))

    def idle(self, word, instant):
        debt = self.grid.ahead(self.cold_at.of(word), instant)
        return debt == 0, If(debt == 0, self.grid.behind(self.cold_at.of(word), instant), debt)


class AnyExtra(WarmUp):
    """With any extra up to a period, which is proved as `the extra is less than a period`."""

    def extra(self, before, after):
        return If(before >= self.ramp, U(0), self.some_extra)


class State:
    def __init__(self, warmth_bits, factor, endless):
        warmth = Field(0, warmth_bits)
        cold_at = warmth.above(PAYLOAD_BITS - warmth_bits)
        burst, cell, refill = number("burst", 1, CELLS_MAX), number("cell", 1), number("refill")
        parts, max_wait = number("part", 1), number("max_wait")
        period = U(parts.v * (5 + factor))
        grid = self.grid = Grid.any_built(cold_at.bits, endless)
        fact(period <= warmth.max, refill.v * (5 + factor) == 2 * (1 + factor) * cell.v)
        # `built` makes the ring at least 64 times as large as this.
        fact(max_wait.v + burst.v * cell.v + 2 * period.v <= grid.reach.v)
        fact((max_wait.v + burst.v * cell.v + 2 * period.v) * RING_PER_REACH_MIN <= cold_at.max)
        self.warm = AnyExtra(grid, burst, cell, refill, factor, period, max_wait, warmth, cold_at)
        self.warm.ramp, self.warm.some_extra = U(4 * parts.v), number("extra", 0, period)
        self.floor, self.n = grid.any_floor("f"), number("n")
        # `no more cells cost no more`, of the cost and of the warmth.
        fact(Implies(self.n <= burst, And(self.n.v * cell.v <= burst.v * cell.v, self.n.v * refill.v <= 2 * self.n.v * cell.v)))
        fact(self.n.v * cell.v >= 0, self.n.v * refill.v >= 0)
        self.cold, held = grid.instant("C", self.floor)
        self.h = number("h", 0, warmth.max)
        self.word = Packed({(0, warmth.bits): self.h, (warmth.bits, cold_at.bits): held}, number("above", 0, 2**11 - 1).v)
        # The exact time at which the next request may go.
        self.go = self.cold - If(self.h.v < period.v, self.h.v, period.v)

    def wait(self, floor):
        return If(self.go > floor.v, self.go - floor.v, 0)

    def step(self, floor=None):
        return self.warm.step(self.word, floor or self.floor, self.n)


def each(state):
    def claims():
        for bits, factor in [(5, 1), (12, 3), (22, 10), (22, 100)]:
            for endless in (True, False):
                yield f"{bits} bits, cold factor {factor}, {'endless' if endless else 'wrapping'}", lambda: state(State(bits, factor, endless))
    return claims


def admits_exactly(at):
    return Iff(at.step().admits, Or(at.n == 0, And(at.n <= at.warm.burst, at.wait(at.floor) <= at.warm.max_wait.v)))


def advances(at):
    """The time to go advances by the cost of the cells and the extra, and never moves back."""
    step = at.step()
    fact(step.admits, at.n != 0)
    after = at.warm.cold_at.of(step.next)
    wait, warmth = at.warm.view(at.word, at.floor)
    extra = at.warm.extra(warmth, warmth)
    go = If(at.go > at.floor.v, at.go, at.floor.v) + at.n.v * at.warm.cell.v + extra.v
    cold = go + at.warm.warmth.of(step.next).v
    return And(at.grid.is_at(after, cold), at.grid.sees(cold, at.floor), go >= at.go, cold >= at.cold,
               at.warm.warmth.of(step.next) <= at.warm.period, fits(step.next, PAYLOAD_BITS))


def waits_are_sufficient_and_minimal(at):
    fact(Not(at.step().admits), at.n <= at.warm.burst)
    wait, passed = at.warm.wait(at.word, at.floor, at.n), number("passed")
    later = U(at.floor.v + passed.v)
    fact(passed <= wait, later <= at.grid.last_unit)
    return And(wait >= 1, wait != NEVER, Iff(at.step(later).admits, passed == wait))


def cold_is_absent(at):
    fact(at.cold <= at.floor.v)
    idle, units = at.warm.idle(at.word, at.floor)
    view = at.warm.view(at.word, at.floor)
    born = at.warm.view(at.warm.fresh(at.floor), at.floor)
    return And(idle, units.v == at.floor.v - at.cold, view[0] == born[0], view[1] == born[1])


def stale_grants_no_more(at):
    stale = at.grid.any_floor("stale")
    fact(stale <= at.floor, at.grid.sees(at.cold, stale))
    return Implies(at.step(stale).admits, at.step().admits)


def extras():
    """For every cold factor: no overflow, less than a period, and rounded up."""
    for factor in range(1, 101):
        def state():
            part, before, after = number("part", 1), number("before"), number("after")
            period = U(part.v * (5 + factor))
            fact(period < 2**23, before <= after)
            warm = WarmUp(None, None, None, None, factor, period, None, None, None)
            warm.ramp = U(4 * part.v)
            warm.flatness = U(16 * (1 + factor) * part.v)
            # The lemma `squares`, for parts of the ramp.
            start = warm.ramp.saturating_sub(before)
            to = warm.ramp.saturating_sub(after)
            fact((start.v - to.v) * (start.v + to.v) <= warm.ramp.v * warm.ramp.v, (start.v - to.v) * (start.v + to.v) >= 0)
            extra = warm.extra(before, after)
            return And(extra <= period, extra >= 0)
        yield f"cold factor {factor}", state


def squares():
    """The lemma: `(a - b) * (a + b) <= c * c` for `b <= a <= c`."""
    a, b, c = number("a"), number("b"), number("c")
    fact(b <= a, a <= c)
    return And((a.v - b.v) * (a.v + b.v) <= c.v * c.v, (a.v - b.v) * (a.v + b.v) >= 0)


PROPERTIES = [
    Property("the extra is less than a period, and never overflows", lambda: iter([("squares", squares), *extras()])),
    Property("admits exactly what the exact time to go admits", each(admits_exactly)),
    Property("the time to go advances by the cost, and never back", each(advances)),
    Property("retry_after is sufficient and minimal", each(waits_are_sufficient_and_minimal)),
    Property("cold is the same as absent", each(cold_is_absent)),
    Property("a stale clock grants no more", each(stale_grants_no_more)),
]

FAULTS = [
    Fault("the area is not divided", "the extra is less than a period, and never overflows",
          "area.div_ceil(self.flatness)", "area"),
    Fault("`wait >= max_wait`", "admits exactly what the exact time to go admits",
          "wait > self.max_wait)\n", "wait >= self.max_wait)\n"),
    Fault("the warmth does not cool down", "admits exactly what the exact time to go admits",
          "self.warmth.of(word).min(self.period).min(until_cold)", "self.warmth.of(word)"),
    Fault("a charge counts from now, not from the time to go", "the time to go advances by the cost, and never back",
          "return wait + cost, warmed", "return cost, warmed"),
    Fault("a wait until the time to go", "retry_after is sufficient and minimal",
          "wait.saturating_sub(self.max_wait))", "wait)"),
    Fault("a cold state is warm", "cold is the same as absent",
          "self.warmth.of(word).min(self.period).min(until_cold)", "self.warmth.of(word).min(self.period)"),
    Fault("a time to go beyond the longest wait counts as now", "a stale clock grants no more",
          "return until_cold - warmth, warmth", "return If(until_cold - warmth > self.max_wait + self.max_wait, U(0), until_cold - warmth), warmth"),
]
