"""Fixed windows (`src/algo/fixed_window/params.rs`, `src/algo/fixed_window/refund.rs`).

The exact window: it ends at `E`, any integer, and has counted `C` cells; past `E` it has counted none.
`n` cells are admitted iff `C + n <= limit`. A charge goes into the open window, or opens one.
"""

import kit
from gcra import COMPACT_BITS, PAYLOAD_BITS, Quota, Step
from grid import Grid
from kit import (
    NEVER, U128, And, Fault, If, Iff, Implies, Not, Or, Property, U, fact, number, raw, where,
)
from words import Field, Packed, fits

LIMIT_MAX = (1 << 30) - 1
DAY_SECS = 24 * 3_600
WEEK_NANOS = 7 * DAY_SECS * 1_000_000_000
EPOCH_INTO_WEEK_NANOS = 3 * DAY_SECS * 1_000_000_000
COMPACT_HORIZON_MIN, COMPACT_TOLERANCE_MIN = DAY_SECS * 10**9, 10 * 10**9


def into_window(period, origin, offset_secs):
    into_week = EPOCH_INTO_WEEK_NANOS if period % WEEK_NANOS == 0 else 0
    return (origin + offset_secs * 1_000_000_000 + into_week) % period


def units_in_window(limit, period, end):
    fast = limit * 1_000 > period
    least = 1_000 if fast else 10_000
    endless_unit_nanos = (2**64 // (end.max + 1)) * 5 // 4
    steps = (factor * 10**decade for decade in range(20) for factor in (1, 2, 5))
    unit_nanos = next(nanos for nanos in steps if nanos >= endless_unit_nanos)
    return min(max(period // unit_nanos, least), period)


class FixedWindow:
    def __init__(self, grid, limit, length, ahead_nanos, count, end):
        self.grid, self.limit, self.length = grid, limit, length
        self.ahead_nanos, self.count, self.end = ahead_nanos, count, end

    @classmethod
    def built(cls, limit, period, origin=0, offset_secs=None, compact=False):
        """Builds it from constants, as the Rust does. `None`: there is no compact state."""
        bits = COMPACT_BITS if compact else PAYLOAD_BITS
        count = Field(0, (limit + 1).bit_length())
        end = count.above(bits - count.bits)
        if offset_secs is None:
            length, ahead_nanos = units_in_window(limit, period, end), 0
        else:
            length, ahead_nanos = 1, into_window(period, origin, offset_secs)
        if length > end.max // 4:
            assert compact, "22 bits of time are enough for 10,000 units ahead"
            return None
        grid = Grid.new(length, period, end.max, length)
        if compact and not grid.endless:
            span = lambda units: raw(units) * raw(grid.nanos) // raw(grid.units)
            horizon = span(grid.field_max + 1 - raw(grid.ahead_max) - 2)
            if horizon < COMPACT_HORIZON_MIN or span(grid.tolerance) < COMPACT_TOLERANCE_MIN:
                return None
        return cls(grid, U(limit), U(length), U(ahead_nanos), count, end)

    @classmethod
    def any_built(cls, bits, count_bits, endless):
        """Any window with `count_bits` bits for the count and the bits above for its end. The limit is
        any number below the largest count, or the largest count, which an overdrawn window has."""
        count = Field(0, count_bits)
        end = count.above(bits - count_bits)
        length, limit = number("length", 1), number("limit", 1, count.max)
        grid = Grid.any_built(end.bits, endless)
        fact(length <= grid.reach)
        return cls(grid, limit, length, U(0), count, end)

    def any_state(self, floor):
        """The exact end of any window, what it has counted, and any word that holds both."""
        at, held = self.grid.instant("E", floor)
        counted = number("C", 0, self.count.max)
        return at, counted, self.word_of(held, counted)

    def word_of(self, end, counted):
        parts = {(0, self.count.bits): counted, (self.count.bits, self.end.bits): end}
        return Packed(parts)

    # As in the Rust.

    def aligned(self, now):
        return now.saturating_add(self.ahead_nanos)

    def view(self, word, now):
        floor = self.grid.floor(self.aligned(now))
        ahead = self.grid.ahead(self.end.of(word), floor)
        return floor, If(ahead > 0, self.count.of(word), U(0)), ahead

    def ahead_after(self, counted, ahead):
        return If(counted > 0, ahead, ahead.max(self.length))

    def fresh(self, now):
        return self.end.set(U(0), self.grid.floor(self.aligned(now)))

    def step(self, word, now, n):
        floor, counted, ahead = self.view(word, now)
        with where(n <= self.limit):
            total = counted + n
        denies = Or(n > self.limit, total > self.limit)
        with where(And(n != 0, Not(denies))):
            # The Rust adds to the word, in which the count is in the lowest bits.
            with where(counted > 0):
                kit.CONTEXT.require(total <= self.count.max, "the count overflows into the end")
            kept = self.count.set(word, total)
            end = self.grid.later(floor, self.ahead_after(counted, ahead))
            opened = self.end.set(n, end)
            next = If(counted > 0, kept, opened)
            kit.CONTEXT.require(fits(next, PAYLOAD_BITS), "the state fits the payload")
        same = self.end.set(self.count.of(word), self.end.of(word))
        return Step(Or(n == 0, Not(denies)), If(n == 0, same, next))

    def wait(self, word, now, n):
        floor, counted, ahead = self.view(word, now)
        return If(n > self.limit, U(NEVER), ahead)

    def until_idle_after(self, word, now, n):
        """What a permit reports: the cells counted, and the units until idle."""
        floor, counted, ahead = self.view(word, now)
        total = counted.saturating_add(n)
        return total, If(total == 0, U(0), self.ahead_after(counted, ahead))

    def idle(self, word, instant):
        end, counted = self.end.of(word), self.count.of(word)
        ahead = self.grid.ahead(end, instant)
        units = If(ahead == 0, self.grid.behind(end, instant), If(counted == 0, U(0), counted))
        return Or(ahead == 0, counted == 0), units

    def refund(self, word, receipt_cells, receipt_at, receipt_next, now, n):
        floor, counted, _ = self.view(word, now)
        charged_at, end = self.grid.floor(self.aligned(receipt_at)), self.end.of(receipt_next)
        is_open = floor.saturating_sub(charged_at) <= self.grid.ahead(end, charged_at)
        same_window = And(self.end.of(word) == end, is_open)
        return self.less(word, counted, If(same_window, n.min(receipt_cells), U(0)))

    def add(self, word, now, n):
        return self.less(word, self.view(word, now)[1], n)

    def less(self, word, counted, n):
        known = And(counted > 0, counted < self.count.max)
        left = If(known, counted.saturating_sub(n), self.count.of(word))
        return self.end.set(left, self.end.of(word))


class State:
    def __init__(self, bits, count_bits, endless):
        self.window = FixedWindow.any_built(bits, count_bits, endless)
        self.grid = self.window.grid
        self.floor = self.grid.any_floor("f")
        self.end, self.count, self.word = self.window.any_state(self.floor)
        self.n = number("n")
        self.counted = self.exactly(self.floor)

    def exactly(self, floor):
        """The cells that the exact window has counted at `floor`."""
        return If(self.end > floor.v, self.count.v, 0)

    def step(self, floor=None):
        return self.window.step(self.word, floor or self.floor, self.n)

    def end_after(self):
        opened = self.floor.v + self.window.length.v
        open_ = And(self.counted > 0)
        return If(open_, self.end, If(self.end > opened, self.end, opened))


# Wide states: every width of the count that a limit can need. Compact states: every width that leaves
# room for a window of a thousand units.
KINDS = [(PAYLOAD_BITS, c) for c in range(1, 32)] + [(COMPACT_BITS, c) for c in range(1, 26)]


def each(state):
    def claims():
        for bits, count_bits in KINDS:
            for endless in (True, False):
                label = f"{count_bits} of {bits} bits, {'endless' if endless else 'wrapping'}"
                yield label, lambda: state(State(bits, count_bits, endless))
    return claims


def admits_exactly(at):
    admits = Or(at.n == 0, at.counted + at.n.v <= at.window.limit.v)
    return Iff(at.step().admits, admits)


def writes_exactly(at):
    step, end = at.step(), at.end_after()
    count = at.window.count.of(step.next)
    return Implies(And(step.admits, at.n != 0), And(
        count.v == at.counted + at.n.v, count <= at.window.limit,
        at.grid.is_at(at.window.end.of(step.next), end), at.grid.sees(end, at.floor),
        end >= at.end, end > at.floor.v,
    ))


def a_window_counts_all_it_grants(at):
    """While a window with a count is open, its end stays the same and its count only rises. So it grants
    at most the limit."""
    step = at.step()
    fact(at.end > at.floor.v, at.count > 0, step.admits)
    return And(at.window.count.of(step.next).v == at.count.v + at.n.v,
               at.grid.is_at(at.window.end.of(step.next), at.end),
               Implies(at.n != 0, at.count.v + at.n.v <= at.window.limit.v))


def idle_is_absent(at):
    born = at.grid.any_floor("born")
    fact(Or(at.end <= at.floor.v, And(at.count == 0, at.end <= at.floor.v)))
    fact(at.grid.sees(born.v, at.floor), born <= at.floor)
    step, absent = at.step(), at.window.step(at.window.fresh(born), at.floor, at.n)
    return And(Iff(step.admits, absent.admits),
               Implies(And(step.admits, at.n != 0), step.next == absent.next))


def idle_is_exact(at):
    idle, units = at.window.idle(at.word, at.floor)
    return And(Iff(idle, at.counted == 0), Implies(And(idle, at.end <= at.floor.v),
                                                   units == at.floor.v - at.end))


def waits_are_sufficient_and_minimal(at):
    fact(Not(at.step().admits), at.n <= at.window.limit)
    wait, passed = at.window.wait(at.word, at.floor, at.n), number("passed")
    later = U(at.floor.v + passed.v)
    fact(passed <= wait, later <= at.grid.last_unit)
    return And(wait >= 1, wait != NEVER, Iff(at.step(later).admits, passed == wait))


def stale_grants_no_more(at):
    stale = at.grid.any_floor("stale")
    fact(stale <= at.floor, at.grid.sees(at.end, stale))
    return Implies(at.step(stale).admits, at.step().admits)


def a_refund_is_of_this_window(at):
    """A refund reaches only the window that was charged, while that window is open. A count at its
    maximum may stand for more cells, and is never reduced."""
    cells, back = number("cells"), number("back")
    charged_at = at.grid.any_floor("charged_at")
    charged_end = at.end - 0
    word = at.window.refund(at.word, cells, charged_at, at.word, at.floor, back)
    count = at.window.count.of(word)
    most = If(back < cells, back.v, cells.v)
    left = If(at.count.v > most, at.count.v - most, 0)
    return And(count.v >= left, count <= at.count, at.grid.is_at(at.window.end.of(word), charged_end),
               Implies(Or(at.end <= at.floor.v, at.count == at.window.count.max), count == at.count))


def no_refund_to_another_window(at):
    cells, back = number("cells"), number("back")
    end, counted = number("other", 0, at.window.end.max), number("other_count", 0, at.window.count.max)
    other = at.window.word_of(end, counted)
    charged_at = at.grid.any_floor("charged_at")
    fact(at.window.end.of(other) != at.window.end.of(at.word))
    word = at.window.refund(at.word, cells, charged_at, other, at.floor, back)
    return at.window.count.of(word) == at.count


def instants_align():
    """Aligned instants rise with time, and saturate at the end of it: the last window never ends."""
    now, later, ahead = number("now"), number("later"), number("ahead")
    fact(now <= later)
    a, b = now.saturating_add(ahead), later.saturating_add(ahead)
    return And(a <= b, a >= now, Implies(b.v < 2**64 - 1, b.v - a.v == later.v - now.v),
               b.v - a.v <= later.v - now.v)


PROPERTIES = [
    Property("admits exactly what the exact window admits", each(admits_exactly)),
    Property("writes the exact window, which never moves back", each(writes_exactly)),
    Property("a window counts all that it grants, up to the limit", each(a_window_counts_all_it_grants)),
    Property("idle is the same as absent", each(idle_is_absent)),
    Property("whether and how long a state is idle is exact", each(idle_is_exact)),
    Property("retry_after is sufficient and minimal", each(waits_are_sufficient_and_minimal)),
    Property("a stale clock grants no more", each(stale_grants_no_more)),
    Property("a refund was charged in this window", each(a_refund_is_of_this_window)),
    Property("another window gets no refund", each(no_refund_to_another_window)),
    Property("aligned instants rise, and saturate on the limit's side", lambda: iter([("any", instants_align)])),
]

FAULTS = [
    Fault("`counted + n >= limit`", "admits exactly what the exact window admits",
          "denies = Or(n > self.limit, total > self.limit)", "denies = Or(n > self.limit, total >= self.limit)"),
    Fault("the limit is compared with a sum that wraps", "admits exactly what the exact window admits",
          "denies = Or(n > self.limit, total > self.limit)", "denies = counted.wrapping_add(n) > self.limit"),
    Fault("the count of a window that has ended still counts", "admits exactly what the exact window admits",
          "If(ahead > 0, self.count.of(word), U(0))", "self.count.of(word)"),
    Fault("a window that is ahead of the clock is reset", "writes the exact window, which never moves back",
          "return If(counted > 0, ahead, ahead.max(self.length))", "return If(counted > 0, ahead.min(self.length), self.length)"),
    Fault("every event moves the end of the window", "a window counts all that it grants, up to the limit",
          "kept = self.count.set(word, total)",
          "kept = self.end.set(self.count.set(word, total), self.grid.later(floor, self.length))"),
    Fault("a new window begins where the last one ended", "idle is the same as absent",
          "end = self.grid.later(floor, self.ahead_after(counted, ahead))",
          "end = self.grid.later(self.end.of(word), self.length)"),
    Fault("an instant without a count is taken for a window", "whether and how long a state is idle is exact",
          "return Or(ahead == 0, counted == 0), units", "return ahead == 0, units"),
    Fault("every wait is a whole window", "retry_after is sufficient and minimal",
          "return If(n > self.limit, U(NEVER), ahead)", "return If(n > self.limit, U(NEVER), ahead.max(self.length))"),
    Fault("an end beyond a window's length reads as ended", "a stale clock grants no more",
          "If(ahead > 0, self.count.of(word), U(0)), ahead",
          "If(And(ahead > 0, ahead <= self.length), self.count.of(word), U(0)), ahead"),
    Fault("a refund reduces the largest count", "a refund was charged in this window",
          "known = And(counted > 0, counted < self.count.max)", "known = counted > 0"),
    Fault("a refund does not compare the window", "another window gets no refund",
          "same_window = And(self.end.of(word) == end, is_open)", "same_window = is_open"),
    Fault("an aligned instant that wraps", "aligned instants rise, and saturate on the limit's side",
          "a, b = now.saturating_add(ahead), later.saturating_add(ahead)",
          "a, b = now.wrapping_add(ahead), later.wrapping_add(ahead)"),
]
