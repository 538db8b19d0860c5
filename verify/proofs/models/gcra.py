"""The token bucket (`src/algo/gcra/mod.rs`, `src/algo/gcra/refund.rs`).

The exact level: a theoretical arrival time `T`, any integer; `max(T, f) - f` is the debt at the unit
`f`; `n` cells are admitted iff `debt + n * cell <= capacity`, and then `T' = max(T, f) + n * cell`.
"""

import kit
from grid import Grid
from kit import (
    MAX, NEVER, U128, And, Fault, If, Iff, Implies, Not, Or, Property, U, fact, integer, number,
    raw, where,
)
from words import Field, Packed

PAYLOAD_BITS, COMPACT_BITS = 53, 37
TAT, COMPACT_TAT = Field(0, PAYLOAD_BITS), Field(0, COMPACT_BITS)
ENDLESS_UNIT_NANOS = 2_500
UNITS_IN_BURST_MIN = 1_000
BURST_UNITS_MAX = 1 << (PAYLOAD_BITS - 3)
COMPACT_UNIT_NANOS = 250_000
COMPACT_UNIT_NANOS_MIN = 640
COMPACT_BURST_UNITS_MAX = 1 << (COMPACT_BITS - 6)
COMPACT_LONG_UNIT_NANOS = 1_000
COMPACT_DEBT_UNITS_MAX = COMPACT_TAT.max // 4
PLANS_UNITS_IN_CELL = 1_000
DEBT_BURSTS = 16

CELLS_MAX = 1 << 40
PERIOD_NANOS_MAX = 100 * 365 * 24 * 3_600 * 1_000_000_000
EMISSION_INTERVAL_NANOS_MAX = 366 * 24 * 3_600 * 1_000_000_000
REFILL_NANOS_MAX = 1 << 62


class Quota:
    """A valid quota (`src/quota/mod.rs`)."""

    def __init__(self, limit, period, burst):
        self.limit, self.period, self.burst = limit, period, burst

    @classmethod
    def any_valid(cls):
        limit, burst = number("limit", 1, CELLS_MAX), number("burst", 1, CELLS_MAX)
        period = number("period", 1, PERIOD_NANOS_MAX)
        fact(period >= limit, period.v <= EMISSION_INTERVAL_NANOS_MAX * limit.v)
        fact(burst.v * period.v <= REFILL_NANOS_MAX * limit.v)
        return cls(limit, period, burst)


def units_in_cell(quota, least):
    interval_nanos = quota.period // quota.limit
    units = (
        (interval_nanos // ENDLESS_UNIT_NANOS)
        .max(U(UNITS_IN_BURST_MIN).div_ceil(quota.burst))
        .max(least)
        .min(interval_nanos)
        .min(U(BURST_UNITS_MAX) // quota.burst)
    )
    kit.CONTEXT.require(units != 0, "at most 10^9 cells a second, at most 2^40 at once")
    return units


def compact_units_in_cell(quota):
    """The units, and whether such units exist."""
    interval_nanos = quota.period // quota.limit
    units = (
        (interval_nanos // COMPACT_UNIT_NANOS)
        .max(U(UNITS_IN_BURST_MIN).div_ceil(quota.burst))
        .min(U(COMPACT_BURST_UNITS_MAX) // quota.burst)
    )
    some = units != 0
    with where(some):
        fine = units * quota.burst >= UNITS_IN_BURST_MIN
        exists = And(some, fine, interval_nanos // units >= COMPACT_UNIT_NANOS_MIN)
    return units, exists


def debt_units(capacity, units_max):
    return capacity.saturating_mul(DEBT_BURSTS).min(units_max)


class Step:
    def __init__(self, admits, next):
        self.admits, self.next = admits, next


class Gcra:
    def __init__(self, grid, cell, capacity, burst, first_debt):
        self.grid, self.cell, self.capacity = grid, cell, capacity
        self.burst, self.first_debt = burst, first_debt

    @classmethod
    def built(cls, limit, period, burst, start_empty=False, compact=False, for_plans=False):
        """Builds it from a quota of constants, as the Rust does. `None`: there is no compact state."""
        quota = Quota(U(limit), U(period), U(burst))
        if compact:
            cell, exists = compact_units_in_cell(quota)
            if not exists:
                return None
            unit_nanos = period // limit // cell.v
            long = unit_nanos >= COMPACT_LONG_UNIT_NANOS
            field, debt_max = COMPACT_TAT, COMPACT_DEBT_UNITS_MAX if long else COMPACT_BURST_UNITS_MAX
        else:
            cell = units_in_cell(quota, PLANS_UNITS_IN_CELL if for_plans else 1)
            field, debt_max = TAT, BURST_UNITS_MAX
        capacity = U(burst) * cell
        debt = debt_max if for_plans else debt_units(capacity, debt_max).v
        units = U(limit) * cell
        grid = Grid.with_debt(units.v, period, field.max, capacity.v, debt)
        return cls(grid, cell, capacity, U(burst), capacity if start_empty else U(0))

    @classmethod
    def any_built(cls, bits, endless):
        """Any bucket on any grid, including overdrawn ones, those of another quota, and those that may
        be charged ahead of time. Its assumptions are proved below for each way to build a bucket."""
        cell, burst, capacity = number("cell", 1), number("burst", 1), number("capacity")
        fact(burst.v * cell.v <= capacity.v)
        grid = Grid.any_built(bits, endless)
        fact(capacity <= grid.reach)
        bucket = cls(grid, cell, capacity, burst, U(0))
        # A wide state ignores the bits above it; a compact state has none.
        bucket.above = 2**11 - 1 if bits == PAYLOAD_BITS else 0
        return bucket

    def any_state(self, floor):
        """Any exact `T` that `floor` can tell apart, and any word that holds it."""
        at, held = self.grid.instant("T", floor)
        return at, Packed({(0, PAYLOAD_BITS): held}, number("above", 0, self.above).v)

    def any_cells(self, name="n"):
        n = number(name)
        # `no more cells cost no more`, proved below.
        fact(Implies(n <= self.burst, n.v * self.cell.v <= self.burst.v * self.cell.v))
        fact(n.v * self.cell.v >= 0)
        return n

    # As in the Rust.

    def cost(self, cells):
        return cells.saturating_mul(self.cell)

    def debt(self, word, floor):
        return self.grid.ahead(TAT.of(word), floor)

    def with_capacity(self, capacity):
        burst = (capacity // self.cell).max(1)
        return type(self)(self.grid, self.cell, capacity, burst, self.first_debt)

    def fresh(self, now):
        return TAT.of(self.grid.later(self.grid.floor(now), self.first_debt))

    def step(self, word, now, n):
        floor = self.grid.floor(now)
        debt = self.debt(word, floor)
        with where(And(n != 0, n <= self.burst)):
            cost = n * self.cell
            room = self.capacity - cost
        denies = Or(n > self.burst, debt > room)
        with where(And(n != 0, Not(denies))):
            next = self.grid.later(floor, debt + cost)
            kit.CONTEXT.require(next <= TAT.max, "the TAT fits its field")
        return Step(Or(n == 0, Not(denies)), If(n == 0, TAT.of(word), next))

    def step_by_branch(self, word, now, n):
        tat, floor = TAT.of(word), self.grid.floor(now)
        with where(And(n != 0, n <= self.burst)):
            cost = n * self.cell
            room = self.capacity - cost
        distance = tat.wrapping_sub(floor) & self.grid.mask
        ahead = distance <= self.grid.ahead_max
        denies = Or(n > self.burst, And(ahead, distance > room))
        next = self.grid.later(If(ahead, tat, floor), cost)
        return Step(Or(n == 0, Not(denies)), If(n == 0, tat, next))

    def debt_after(self, word, now, n):
        """The debt that a permit reports."""
        floor = self.grid.floor(now)
        return self.debt(word, floor) + self.cost(n)

    def room_after(self, debt):
        return self.capacity.saturating_sub(debt)

    def wait(self, word, now, n):
        """Units that a denial says to wait, or `NEVER`."""
        floor = self.grid.floor(now)
        debt = self.debt(word, floor)
        with where(n <= self.burst):
            wait = (debt + n * self.cell).saturating_sub(self.capacity)
        return If(n > self.burst, U(NEVER), wait)

    def idle(self, word, instant):
        """Whether a state is idle, and for how many units it has been idle, or is in debt."""
        debt = self.debt(word, instant)
        idle = debt == 0
        return idle, If(idle, self.grid.behind(TAT.of(word), instant), debt)

    def refund(self, word, receipt_cells, receipt_at, now, n):
        floor = self.grid.floor(now)
        passed = floor.saturating_sub(self.grid.floor(receipt_at))
        owed = self.cost(receipt_cells).saturating_sub(passed)
        debt = self.debt(word, floor)
        left = self.grid.later(floor, debt - debt.min(self.cost(n)).min(owed))
        return If(debt == 0, TAT.of(word), left)

    def add(self, word, now, n):
        floor = self.grid.floor(now)
        debt = self.debt(word, floor)
        return If(debt == 0, TAT.of(word), self.grid.later(floor, debt.saturating_sub(self.cost(n))))

    def overdrawn(self):
        return self.with_capacity(self.grid.reach)

    def within(self, floor, last):
        """`floor` is the unit that has begun by now; `last`, the unit that has begun by the end of the wait."""
        capacity = self.capacity.saturating_add(last - floor)
        return self.with_capacity(capacity.min(self.grid.reach))


def in_word(held):
    """The word of a TAT, with nothing above it."""
    return Packed({(0, PAYLOAD_BITS): held})


class Level:
    """The exact level: integers without bounds."""

    def __init__(self, bucket, at):
        self.bucket, self.at = bucket, at

    def debt(self, floor):
        return If(self.at > floor.v, self.at - floor.v, 0)

    def admits(self, floor, n):
        after = self.debt(floor) + n.v * self.bucket.cell.v
        return Or(n == 0, And(n <= self.bucket.burst, after <= self.bucket.capacity.v))

    def charged(self, floor, n):
        return If(self.at > floor.v, self.at, floor.v) + n.v * self.bucket.cell.v


class State:
    """A bucket, an exact state, the word that holds it, the instant of a request, and its cells."""

    def __init__(self, bits, endless):
        self.bucket = Gcra.any_built(bits, endless)
        self.grid = self.bucket.grid
        self.floor = self.grid.any_floor("f")
        at, self.word = self.bucket.any_state(self.floor)
        self.level = Level(self.bucket, at)
        self.n = self.bucket.any_cells()

    def step(self, floor=None):
        return self.bucket.step(self.word, floor or self.floor, self.n)


KINDS = [(PAYLOAD_BITS, True), (PAYLOAD_BITS, False), (COMPACT_BITS, True), (COMPACT_BITS, False)]


def each(state):
    def claims():
        for bits, endless in KINDS:
            label = f"{bits} bits, {'endless' if endless else 'wrapping'}"
            yield label, lambda: state(State(bits, endless))
    return claims


def costs_rise():
    """No more cells cost no more."""
    n, burst, cell = number("n"), number("burst"), number("cell")
    fact(n <= burst)
    return And(n.v * cell.v <= burst.v * cell.v, n.v * cell.v >= 0)


def admits_what_the_level_admits(at):
    return Iff(at.step().admits, at.level.admits(at.floor, at.n))


def writes_the_level(at):
    step = at.step()
    after = at.level.charged(at.floor, at.n)
    return Implies(And(step.admits, at.n != 0), And(
        at.grid.is_at(step.next, after), at.grid.sees(after, at.floor), after >= at.level.at,
        after - at.floor.v <= at.bucket.capacity.v,
    ))


def no_cells_change_nothing(at):
    fact(at.n == 0)
    step = at.step()
    return And(step.admits, at.grid.is_at(step.next, at.level.at))


def any_word_grants_at_most_the_burst(at):
    """Even from a word that no clock can have written, the debt after a charge is at least the charge."""
    held = number("held", 0, at.grid.field_max)
    word = Packed({(0, PAYLOAD_BITS): held}, number("above", 0, at.bucket.above).v)
    step = at.bucket.step(word, at.floor, at.n)
    idle = at.bucket.step(in_word(at.bucket.fresh(at.floor)), at.floor, at.n)
    debt = at.bucket.debt(in_word(step.next), at.floor)
    return Implies(And(step.admits, at.n != 0), And(debt.v >= at.n.v * at.bucket.cell.v, idle.admits))


def by_branch_is_the_same(at):
    """From any word, as above."""
    held = number("held", 0, at.grid.field_max)
    word = Packed({(0, PAYLOAD_BITS): held}, number("above", 0, at.bucket.above).v)
    step, by_branch = (step(word, at.floor, at.n) for step in (at.bucket.step, at.bucket.step_by_branch))
    return And(Iff(step.admits, by_branch.admits), Implies(step.admits, step.next == by_branch.next))


def idle_is_absent(at):
    fact(at.level.at <= at.floor.v)
    born = at.grid.any_floor("born")
    fact(at.grid.sees(born.v, at.floor), born <= at.floor)
    step, absent = at.step(), at.bucket.step(in_word(at.bucket.fresh(born)), at.floor, at.n)
    return And(Iff(step.admits, absent.admits),
               Implies(And(step.admits, at.n != 0), step.next == absent.next))


def idle_is_exact(at):
    idle, units = at.bucket.idle(at.word, at.floor)
    apart = at.level.at - at.floor.v
    return And(Iff(idle, apart <= 0), units == If(apart <= 0, -apart, apart))


def waits_are_sufficient_and_minimal(at):
    fact(Not(at.step().admits), at.n <= at.bucket.burst)
    wait, passed = at.bucket.wait(at.word, at.floor, at.n), number("passed")
    later = U(at.floor.v + passed.v)
    fact(passed <= wait, later <= at.grid.last_unit)
    return And(wait >= 1, wait != NEVER, Iff(at.step(later).admits, passed == wait))


def no_wait_admits_more_than_the_burst(at):
    fact(at.n > at.bucket.burst)
    return And(Not(at.step().admits), at.bucket.wait(at.word, at.floor, at.n) == NEVER)


def stale_grants_no_more(at):
    stale = at.grid.any_floor("stale")
    fact(stale <= at.floor, at.grid.sees(at.level.at, stale))
    by_stale, by_true = at.step(stale), at.step()
    # The state after the charge owes at least what the state before owed, and the charge: a stale clock
    # neither grants time nor takes it.
    return Implies(And(by_stale.admits, at.n != 0), And(
        by_true.admits, at.level.charged(stale, at.n) >= at.level.at + at.n.v * at.bucket.cell.v,
    ))


def a_permit_reports_the_level(at):
    """No answer overflows, and the room is what the exact level leaves."""
    fact(at.step().admits)
    # Only a request within the burst is admitted.
    with where(at.n <= at.bucket.burst):
        debt = at.bucket.debt_after(at.word, at.floor, at.n)
    exactly = at.level.debt(at.floor) + at.n.v * at.bucket.cell.v
    return And(debt == exactly, Implies(at.n != 0,
               at.bucket.room_after(debt) == at.bucket.capacity.v - exactly))


# Refunds: the invariant that `src/algo/gcra/refund.rs` argues for. `A` is the TAT. `W` is what the TAT
# would be if the cells that are refunded, now or later, had never been charged. A receipt of `K` units
# charged at `a`, of which `U` are to be refunded, is worth `r(t) = max(0, min(U, K - (t - a)))`. Always
# `max(A, t) >= max(W, t) + sum of r(t)`, and `W >= a + K - U` for each receipt. The sum of the other
# receipts is `rest`. Each receipt is refunded once.


def worth(units, back, at, now):
    left = If(back < units - (now - at), back, units - (now - at))
    return If(left > 0, left, 0)


def latest(a, b):
    return If(a > b, a, b)


def any_receipt():
    units, back, at = integer("K"), integer("U"), integer("a")
    fact(0 <= back, back <= units)
    return units, back, at


def a_charge_keeps_the_invariant():
    """A charge moves A by all of its units, and W by those that are not refunded. The receipt is worth the rest."""
    a, w, rest, now = (integer(x) for x in ["A", "W", "rest", "t"])
    units, back, _ = any_receipt()
    fact(latest(a, now) >= latest(w, now) + rest, rest >= 0)
    after, without = latest(a, now) + units, latest(w, now) + units - back
    return And(latest(after, now) >= latest(without, now) + rest + worth(units, back, now, now),
               without >= now + units - back, without >= w)


def shrinks(w, then, now, sum_then, sum_now):
    """How the worth of several receipts changes from one time to another: it never grows, and after W it
    shrinks as fast as time passes, or is zero."""
    passed = If(now > latest(then, w), now - latest(then, w), 0)
    return And(sum_now >= 0, sum_now <= sum_then, Or(sum_now == 0, sum_now <= sum_then - passed))


def time_keeps_the_invariant():
    """Time passes, for one receipt beside the others."""
    a, w, then, now = (integer(x) for x in ["A", "W", "then", "now"])
    rest_then, rest_now = integer("rest_then"), integer("rest_now")
    units, back, at = any_receipt()
    fact(at <= then, then <= now, w >= at + units - back, shrinks(w, then, now, rest_then, rest_now))
    sum_then = rest_then + worth(units, back, at, then)
    sum_now = rest_now + worth(units, back, at, now)
    fact(latest(a, then) >= latest(w, then) + sum_then)
    return And(latest(a, now) >= latest(w, now) + sum_now, shrinks(w, then, now, sum_then, sum_now))


def a_refund_keeps_the_invariant(at):
    """A refund is at most what the receipt is worth, and at most the debt."""
    bucket, grid = at.bucket, at.grid
    charged_at, cells, back = grid.any_floor("a"), number("k", 0, CELLS_MAX), number("u")
    fact(charged_at <= at.floor, back <= cells)
    # `no more cells cost no more`; and no charge costs more than the reach.
    units, back_units = cells.v * bucket.cell.v, back.v * bucket.cell.v
    fact(back_units >= 0, back_units <= units, units <= grid.reach.v)
    w, rest, now = integer("W"), integer("rest"), at.floor.v
    fact(rest >= 0, latest(at.level.at, now) >= latest(w, now) + rest
         + worth(units, back_units, charged_at.v, now))
    held = bucket.refund(at.word, cells, charged_at, at.floor, back)
    debt = bucket.debt(in_word(held), at.floor).v
    return And(now + debt >= latest(w, now) + rest, debt <= at.level.debt(at.floor))


def cells_are_added(at):
    """Added cells reduce the debt by their cost, and not below zero."""
    held = at.bucket.add(at.word, at.floor, at.n)
    debt, was = at.bucket.debt(in_word(held), at.floor), at.level.debt(at.floor)
    cost = at.n.v * at.bucket.cell.v
    return debt == If(was > cost, was - cost, 0)


def is_valid(bucket):
    return And(bucket.burst.v * bucket.cell.v <= bucket.capacity.v, bucket.capacity <= bucket.grid.reach,
               bucket.burst >= 1)


def overdrawn(at):
    return is_valid(at.bucket.overdrawn())


def ahead_of_time(at):
    last = at.grid.any_floor("last")
    fact(last >= at.floor)  # Floors rise with time.
    made = at.bucket.within(at.floor, last)
    return And(is_valid(made), made.capacity >= at.bucket.capacity,
               made.capacity.v <= at.bucket.capacity.v + last.v - at.floor.v)


def by_another_quota(at):
    """The cost of a cell is rounded up, on a grid on which `units` units are `nanos` nanoseconds."""
    units, nanos = number("units", 1), number("nanos", 1, 2**63 - 1)
    quota = Quota.any_valid()
    exact = U128(quota.period.v) * units.v
    shares = U128(quota.limit.v) * nanos.v
    cell = exact.div_ceil(shares)
    return And(cell.v * shares.v >= exact.v, (cell.v - 1) * shares.v < exact.v, cell.v >= 1)


def wide_buckets(for_plans):
    def state():
        quota = Quota.any_valid()
        cell = units_in_cell(quota, PLANS_UNITS_IN_CELL if for_plans else 1)
        return can_be_on_a_grid(quota, cell, BURST_UNITS_MAX, TAT, BURST_UNITS_MAX)
    return state


def compact_buckets():
    quota = Quota.any_valid()
    cell, exists = compact_units_in_cell(quota)
    fact(exists)
    return can_be_on_a_grid(quota, cell, COMPACT_BURST_UNITS_MAX, COMPACT_TAT, COMPACT_DEBT_UNITS_MAX)


def can_be_on_a_grid(quota, cell, burst_units_max, field, debt_max):
    interval = quota.period // quota.limit
    # `no more cells cost no more`, for the limit and for the burst.
    fact(Implies(cell <= interval, quota.limit.v * cell.v <= quota.limit.v * interval.v))
    most = U(burst_units_max) // quota.burst
    fact(Implies(cell <= most, quota.burst.v * cell.v <= quota.burst.v * most.v))
    capacity = quota.burst * cell
    units = quota.limit * cell
    debt = debt_units(capacity, debt_max)
    return And(
        cell >= 1, units <= quota.period, quota.period < 2**63, capacity <= burst_units_max,
        capacity <= field.max // 4, debt <= field.max // 4, debt_max <= field.max // 4,
    )


PROPERTIES = [
    Property("no more cells cost no more", lambda: iter([("any", costs_rise)])),
    Property("every bucket that can be built fits its grid", lambda: iter([
        ("wide", wide_buckets(False)), ("wide, for plans", wide_buckets(True)), ("compact", compact_buckets)])),
    Property("an overdrawn bucket, and one charged ahead of time, are valid buckets", lambda: iter(
        [*((f"overdrawn {k}", s) for k, s in each(overdrawn)()),
         *((f"ahead {k}", s) for k, s in each(ahead_of_time)())])),
    Property("the cost of a cell by another quota is rounded up", lambda: iter([("any", lambda: by_another_quota(None))])),
    Property("admits exactly what the exact level admits", each(admits_what_the_level_admits)),
    Property("writes the exact level, which never moves back and is at most the burst", each(writes_the_level)),
    Property("a charge of no cells writes the same state", each(no_cells_change_nothing)),
    Property("any word grants at most the burst", each(any_word_grants_at_most_the_burst)),
    Property("a step by branches is the same step", each(by_branch_is_the_same)),
    Property("idle is the same as absent", each(idle_is_absent)),
    Property("whether and how long a state is idle is exact", each(idle_is_exact)),
    Property("retry_after is sufficient and minimal", each(waits_are_sufficient_and_minimal)),
    Property("a request above the burst is denied for ever", each(no_wait_admits_more_than_the_burst)),
    Property("a stale clock grants no more", each(stale_grants_no_more)),
    Property("a permit reports the exact level", each(a_permit_reports_the_level)),
    Property("after a refund, no more is left than without the charge", lambda: iter(
        [("a charge", a_charge_keeps_the_invariant), ("time", time_keeps_the_invariant), *each(a_refund_keeps_the_invariant)()])),
    Property("added cells reduce the debt exactly", each(cells_are_added)),
]

FAULTS = [
    Fault("fewer cells cost more", "no more cells cost no more", "fact(n <= burst)", "fact(n <= burst + 1)"),
    Fault("the units are not bounded by the interval", "every bucket that can be built fits its grid",
          "        .min(interval_nanos)\n", ""),
    Fault("a bucket beyond the reach", "an overdrawn bucket, and one charged ahead of time, are valid buckets",
          "self.with_capacity(capacity.min(self.grid.reach))", "self.with_capacity(capacity)"),
    Fault("the cost rounded down", "the cost of a cell by another quota is rounded up",
          "cell = exact.div_ceil(shares)", "cell = exact // shares"),
    Fault("`>=` for `>`", "admits exactly what the exact level admits",
          "denies = Or(n > self.burst, debt > room)", "denies = Or(n > self.burst, debt >= room)"),
    Fault("a cost that wraps", "admits exactly what the exact level admits",
          "denies = Or(n > self.burst, debt > room)",
          "denies = debt > self.capacity.saturating_sub(n.wrapping_mul(self.cell))"),
    Fault("the debt is read from the whole word", "admits exactly what the exact level admits",
          "return self.grid.ahead(TAT.of(word), floor)",
          "return self.grid.ahead(U(TAT.of(word).v + 2**53 * word.above), floor)"),
    Fault("without max(TAT, now): an idle state earns credit",
          "writes the exact level, which never moves back and is at most the burst",
          "next = self.grid.later(floor, debt + cost)", "next = self.grid.later(TAT.of(word), cost)"),
    Fault("a charge is added to now, not to the debt",
          "writes the exact level, which never moves back and is at most the burst",
          "next = self.grid.later(floor, debt + cost)", "next = self.grid.later(floor, cost)"),
    Fault("a charge of no cells forgives the debt", "a charge of no cells writes the same state",
          "If(n == 0, TAT.of(word), next)", "If(n == 0, self.grid.later(floor, U(0)), next)"),
    Fault("a charge that saturates below the cost", "any word grants at most the burst",
          "next = self.grid.later(floor, debt + cost)", "next = self.grid.later(floor, (debt + cost).min(self.cell))"),
    Fault("a step by branches adds to an old TAT", "a step by branches is the same step",
          "self.grid.later(If(ahead, tat, floor), cost)", "self.grid.later(tat, cost)"),
    Fault("a charge is added to an old TAT", "idle is the same as absent",
          "next = self.grid.later(floor, debt + cost)", "next = self.grid.later(TAT.of(word), cost)"),
    Fault("one unit of debt counts as idle", "whether and how long a state is idle is exact",
          "idle = debt == 0", "idle = debt <= 1"),
    Fault("a wait of one unit too few", "retry_after is sufficient and minimal",
          "wait = (debt + n * self.cell).saturating_sub(self.capacity)",
          "wait = (debt + n * self.cell).saturating_sub(self.capacity).saturating_sub(1).max(1)"),
    Fault("a wait until idle", "retry_after is sufficient and minimal",
          "wait = (debt + n * self.cell).saturating_sub(self.capacity)", "wait = debt + 0 * n"),
    Fault("a request above the burst is told to wait", "a request above the burst is denied for ever",
          "If(n > self.burst, U(NEVER), wait)", "If(n > self.burst + 1, U(NEVER), wait)"),
    Fault("a debt beyond the bucket reads as idle", "a stale clock grants no more",
          "return self.grid.ahead(TAT.of(word), floor)",
          "return If(self.grid.ahead(TAT.of(word), floor) > self.capacity, U(0),"
          " self.grid.ahead(TAT.of(word), floor))"),
    Fault("a permit reports the debt before the charge", "a permit reports the exact level",
          "return self.debt(word, floor) + self.cost(n)", "return self.debt(word, floor)"),
    Fault("cells that time has restored are refunded too", "after a refund, no more is left than without the charge",
          "debt - debt.min(self.cost(n)).min(owed)", "debt - debt.min(self.cost(n))"),
    Fault("added cells make a credit", "added cells reduce the debt exactly",
          "debt.saturating_sub(self.cost(n))", "debt.wrapping_sub(self.cost(n))"),
]
