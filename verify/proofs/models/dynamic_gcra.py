"""A token bucket whose quota can change (`src/algo/dynamic_gcra/mod.rs`): a token bucket with a virtual
clock, over words from which a base is subtracted. The bucket is proved in `gcra`; here it is proved that
base and clock preserve the states.

The exact state is a token bucket's: a theoretical arrival time `T` by the virtual clock, any integer.
"""

import kit
from gcra import (
    DEBT_BURSTS, PAYLOAD_BITS, TAT, UNITS_IN_BURST_MIN, Gcra, Quota, Step, debt_units, in_word,
    units_in_cell,
)
from grid import Grid
from kit import MAX, And, Fault, If, Iff, Implies, Not, Or, Property, U, fact, integer, number
from words import Packed

BURST_UNITS_MAX = 1 << (PAYLOAD_BITS - 6)
REACH_MAX = 1 << (PAYLOAD_BITS - 3)
HEADROOM, UNITS_IN_CELL, UNITS_IN_CELL_MIN = 32, 1_000, 100
RING = 2**PAYLOAD_BITS


class Denied(Exception):
    pass


def bucket(quota, cell, reach, start_empty):
    """Builds the bucket of a valid quota of constants."""
    units, capacity = quota.limit.v * cell, quota.burst.v * cell
    if cell == 0 or units > quota.period.v or capacity > BURST_UNITS_MAX:
        raise Denied
    debt = max(debt_units(U(capacity), BURST_UNITS_MAX).v, reach)
    grid = Grid.wrapping(units, quota.period.v, TAT.max, debt)
    return Gcra(grid, U(cell), U(capacity), quota.burst, U(capacity) if start_empty else U(0))


class DynamicGcra:
    def __init__(self, gcra, since, base):
        self.gcra, self.since, self.base = gcra, since, base

    @classmethod
    def built(cls, limit, period, burst, start_empty):
        quota = Quota(U(limit), U(period), U(burst))
        interval_nanos = period // limit
        cell = max(units_in_cell(quota, 1).v, min(UNITS_IN_CELL, interval_nanos // HEADROOM))
        cell = min(cell, BURST_UNITS_MAX // burst)
        return cls(bucket(quota, cell, 0, start_empty), U(0), U(0))

    def change(self, limit, period, burst, inherit, now):
        quota, since = Quota(U(limit), U(period), U(burst)), now.max(self.since)
        here = self.absolute(self.gcra.grid.floor(self.elapsed(since)))
        cell, old, new = self.gcra.cell, self.gcra.burst, quota.burst
        grid = self.gcra.grid
        cell, base, reach = self.inherited(inherit, cell, old, new, here, grid.reach, new.v > old.v)
        made = bucket(quota, cell.v, min(reach.v, REACH_MAX), self.gcra.first_debt.v > 0)
        return DynamicGcra(made, since, base & TAT.max)

    # As in the Rust.

    @staticmethod
    def inherited(inherit, cell, old, new, here, reach, grows):
        grown = new.wrapping_sub(old).wrapping_mul(cell)
        if inherit == "spent" or inherit == "additive" and grows:
            return cell, here, reach
        if inherit in ("as-is", "additive"):
            reach = reach.saturating_add(new.saturating_sub(old).saturating_mul(cell))
            return cell, here.wrapping_sub(grown), reach
        if inherit == "proportional":
            whole = cell.v * old.v
            scaled = whole // new.v
            if scaled > MAX or not (whole % new.v == 0 or scaled >= UNITS_IN_CELL_MIN):
                raise Denied
            return U(scaled), here, reach
        # No debt of the previous quota is left.
        return cell, here.wrapping_add(reach), U(0)

    def elapsed(self, now):
        return now.saturating_sub(self.since)

    def relative(self, word):
        return TAT.of(word.wrapping_sub(self.base))

    def absolute(self, word):
        return TAT.of(word.wrapping_add(self.base))

    def fresh(self, now):
        return self.absolute(self.gcra.fresh(self.elapsed(now)))

    def step(self, word, now, n):
        step = self.gcra.step(self.relative(word), self.elapsed(now), n)
        return Step(step.admits, If(step.admits, self.absolute(step.next), U(0)))

    def instant(self, now):
        before = self.since.saturating_sub(now)
        passed = self.gcra.grid.floor(self.elapsed(now))
        if before.v == 0:
            return self.absolute(passed)
        units = self.gcra.grid.floor(before).saturating_add(1)
        return self.absolute(U(0).wrapping_sub(units))


def any_base():
    gcra = Gcra.any_built(PAYLOAD_BITS, False)
    return DynamicGcra(gcra, U(0), number("base", 0, TAT.max))


def words_come_back():
    """Subtracting the base from a word and adding it again gives the word, for any upper bits."""
    at, word = any_base(), number("word")
    return And(at.absolute(at.relative(word)) == TAT.of(word),
               at.relative(at.absolute(word)) == TAT.of(word))


def distances_stay():
    """The distance from the clock is the same with the base and without it, so the bucket decides by the
    word's own debt."""
    at, instant, now = any_base(), number("instant", 0, TAT.max), number("now")
    by_word = at.absolute(instant).wrapping_sub(at.absolute(now)) & TAT.max
    by_base = instant.wrapping_sub(now) & TAT.max
    return by_word == by_base


def clocks_rise():
    since, now, later = number("since"), number("now"), number("later")
    fact(now <= later)
    at = DynamicGcra(None, since, None)
    return And(at.elapsed(now) <= at.elapsed(later),
               Implies(now >= since, at.elapsed(later).v - at.elapsed(now).v == later.v - now.v))


class Change:
    """A quota changes when the virtual clock is at `here`, and a key has a debt of `debt` units."""

    def __init__(self, inherit, grows=None):
        self.cell, self.old, self.new = number("cell", 1), number("old", 1), number("new", 1)
        self.here, self.reach = number("here", 0, TAT.max), number("reach", 1, REACH_MAX)
        self.debt = number("debt", 0, self.reach)
        most = BURST_UNITS_MAX
        fact(self.old.v * self.cell.v <= most, self.new.v * self.cell.v <= most)
        fact(self.old.v * self.cell.v >= self.old.v, self.new.v * self.cell.v >= self.new.v)
        if grows is not None:
            fact(self.new > self.old if grows else self.new <= self.old)
        new = self.new
        # Lemmas proved as `a wrapped product` and `a wrapped product modulo 2^64`.
        product, shrunk = new.wrapping_sub(self.old).v * self.cell.v, integer("shrunk")
        fact(shrunk == self.old.v * self.cell.v - new.v * self.cell.v)
        fact(wraps_back(product, shrunk))
        made = DynamicGcra.inherited(inherit, self.cell, self.old, new, self.here, self.reach, grows)
        _, self.base, self.reach_after = made
        # The word, as the new bucket reads it. The new bucket's clock begins at 0.
        word = U((self.here.v + self.debt.v) % RING)
        relative = DynamicGcra(None, None, U(self.base.v % RING)).relative(word)
        self.ahead = relative
        self.behind = RING - relative.v


def wrapped_product(wrapped, cell, shrunk):
    return If(shrunk > 0, wrapped * cell == 2**64 * cell - shrunk * cell, wrapped * cell == -shrunk * cell)


def a_wrapped_product():
    old, new, cell = number("old"), number("new"), number("cell")
    return wrapped_product(new.wrapping_sub(old).v, cell.v, old.v - new.v)


def wraps_back(product, shrunk):
    return product % 2**64 == If(shrunk > 0, 2**64 - shrunk, -shrunk)


def a_wrapped_product_modulo():
    product, cell, shrunk = integer("product"), number("cell"), integer("shrunk")
    fact(shrunk <= BURST_UNITS_MAX, shrunk >= -BURST_UNITS_MAX)
    fact(If(shrunk > 0, product == 2**64 * cell.v - shrunk, product == -shrunk))
    return wraps_back(product, shrunk)


def as_is_keeps_the_remaining_cells(grows):
    """`burst - debt` is the same before and after the change, in units. A negative debt lies behind the clock."""
    def state():
        at = Change("as-is", grows)
        after = at.debt.v + at.new.v * at.cell.v - at.old.v * at.cell.v
        return And(If(after >= 0, at.ahead.v == after, at.behind == -after),
                   If(after >= 0, after <= at.reach_after.v, True))
    return state


def additive_adds_the_growth_of_the_burst():
    at = Change("additive", True)
    return And(at.ahead == at.debt, at.ahead <= at.reach_after)


def spent_keeps_the_debt(grows):
    """The debt is the same before and after the change, whether the burst grows or shrinks."""
    def state():
        at = Change("spent", grows)
        return And(at.ahead == at.debt, at.ahead <= at.reach_after)
    return state


def reset_clears_the_debt():
    at = Change("reset")
    # The TAT is at the clock, or behind it by at most the reach.
    return Or(at.ahead == 0, And(at.behind <= at.reach.v, at.behind >= 0))


PROPERTIES = [
    Property("the base changes no word", lambda: iter([("any", words_come_back)])),
    Property("the base changes no distance", lambda: iter([("any", distances_stay)])),
    Property("the virtual clock does not move back", lambda: iter([("any", clocks_rise)])),
    Property("as is: the remaining cells stay", lambda: iter(
        [("a wrapped product", a_wrapped_product), ("a wrapped product modulo 2^64", a_wrapped_product_modulo),
         ("a burst that grows", as_is_keeps_the_remaining_cells(True)), ("that shrinks", as_is_keeps_the_remaining_cells(False))])),
    Property("additive: the growth of the burst is added", lambda: iter([("any", additive_adds_the_growth_of_the_burst)])),
    Property("spent: the debt stays", lambda: iter(
        [("a burst that grows", spent_keeps_the_debt(True)), ("that shrinks", spent_keeps_the_debt(False))])),
    Property("reset: no debt is left", lambda: iter([("any", reset_clears_the_debt)])),
]

FAULTS = [
    Fault("a base that saturates", "the base changes no word",
          "TAT.of(word.wrapping_add(self.base))", "TAT.of(word.saturating_add(self.base))"),
    Fault("the base is subtracted and saturates at 0", "the base changes no distance",
          "TAT.of(word.wrapping_add(self.base))", "TAT.of(word.saturating_sub(self.base))"),
    Fault("a time before the change wraps", "the virtual clock does not move back",
          "return now.saturating_sub(self.since)", "return now.wrapping_sub(self.since)"),
    Fault("the clock moves the wrong way", "as is: the remaining cells stay",
          "here.wrapping_sub(grown)", "here.wrapping_add(grown)"),
    Fault("the largest debt does not grow with the burst", "as is: the remaining cells stay",
          "reach = reach.saturating_add(new.saturating_sub(old).saturating_mul(cell))", "reach = reach"),
    Fault("the clock moves forward by a cell", "additive: the growth of the burst is added",
          "return cell, here, reach", "return cell, here.wrapping_add(cell), reach"),
    Fault("the clock moves back by a cell", "spent: the debt stays",
          "return cell, here, reach", "return cell, here.wrapping_sub(cell), reach"),
    Fault("the clock moves one unit too little", "reset: no debt is left",
          "here.wrapping_add(reach)", "here.wrapping_add(reach - 1)"),
]
