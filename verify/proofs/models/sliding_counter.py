"""The sliding window counter (`src/algo/sliding_counter.rs`). It extends the model of sub-windows: the oldest
count is weighed by its overlap. Proved here: `floor(whole + oldest * overlap / nanos) + n` is compared with
the limit in integers without bounds, and waits are shares of a sub-window."""

import kit
import sub_windows
from kit import MAX, U128, And, Fault, If, Iff, Implies, Not, Or, Property, U, fact, integer, number, where
from sub_windows import SubWindows


class Nanos:
    """The only part of a grid that weighing needs: a sub-window has `nanos` shares."""

    def __init__(self):
        self.nanos = number("nanos", 1, 2**63 - 1)


class Counter(SubWindows):
    # As in the Rust; the rest is in `sub_windows`.

    def fits(self, whole, oldest, overlap, n):
        too_many = Or(n > self.limit, whole.v > self.limit.v - n.v)
        with where(Not(too_many)):
            room = U128((self.limit - n - whole).v) + 1
        return And(Not(too_many), self.weighs_less(oldest, overlap, room))

    def weighs_less(self, oldest, overlap, room):
        return U128(oldest.v) * overlap.v < room.saturating_mul(self.grid.nanos.v).v


def any_counter():
    """Any limit that fits a word: counts have 30 bits at most."""
    limit = number("limit", 1, 2**30 - 1)
    return Counter(Nanos(), limit, limit, 1, True, U(0), None, None, 2)


class State:
    def __init__(self):
        self.counter = any_counter()
        self.nanos = self.counter.grid.nanos
        self.whole, self.oldest = number("whole", 0, 2**31), number("oldest", 0, 2**31)
        self.overlap, self.n = number("overlap", 0, self.nanos), number("n")


def compares_exactly():
    at = State()
    fits = at.counter.fits(at.whole, at.oldest, at.overlap, at.n)
    weighed, rest = integer("weighed"), integer("rest")
    fact(at.oldest.v * at.overlap.v == weighed * at.nanos.v + rest, rest >= 0, rest < at.nanos.v, weighed >= 0)
    exactly = at.whole.v + weighed + at.n.v <= at.counter.limit.v
    # Of whole numbers, `weighed * nanos + rest < room * nanos` iff `weighed < room`.
    room = at.counter.limit.v - at.n.v - at.whole.v + 1
    fact(Iff(weighed * at.nanos.v + rest < room * at.nanos.v, weighed < room))
    return Iff(fits, exactly)


def whole_numbers():
    """The lemma for it: `q * b + r < m * b` iff `q < m`."""
    b, r = number("b", 1, 2**63 - 1), number("r")
    q, m = integer("q"), integer("m")
    fact(r < b)
    return And(Implies(q + 1 <= m, q * b.v + r.v < m * b.v), Implies(q >= m, q * b.v + r.v >= m * b.v))


def no_more_than_the_oldest():
    """The weighed part is at most the whole."""
    at = State()
    part = sub_windows.part(at.oldest, at.overlap, at.nanos)
    return And(part <= at.oldest, part.v * at.nanos.v <= at.oldest.v * at.overlap.v)


class Wait:
    """The oldest count, and the room for it, in the sub-window in which the wait ends."""

    def __init__(self):
        self.nanos = number("nanos", 1, 2**63 - 1)
        self.oldest, self.room = number("oldest", 1, 2**31), number("room", 1, 2**31)
        self.fits, self.passed = SubWindows.shares_of(self.oldest, self.room, self.nanos)
        fact(self.fits)
        # `fits` compares `oldest * (nanos - passed) < room * nanos`.
        self.weighs = lambda passed: self.oldest.v * (self.nanos.v - passed)


def waits_suffice():
    at = Wait()
    return And(at.weighs(at.passed.v) < at.room.v * at.nanos.v, at.passed < at.nanos)


def waits_are_minimal():
    at = Wait()
    fact(at.passed >= 1)
    return at.weighs(at.passed.v - 1) >= at.room.v * at.nanos.v


PROPERTIES = [
    Property("the estimate is compared exactly", lambda: iter([
        ("the lemma", whole_numbers), ("any", compares_exactly)])),
    Property("the oldest weighs no more than it has counted", lambda: iter([("any", no_more_than_the_oldest)])),
    Property("a wait in shares is sufficient", lambda: iter([("any", waits_suffice)])),
    Property("a wait in shares is minimal", lambda: iter([("any", waits_are_minimal)])),
]

FAULTS = [
    Fault("`<=` for `<`", "the estimate is compared exactly",
          "return U128(oldest.v) * overlap.v < room", "return U128(oldest.v) * overlap.v <= room"),
    Fault("the estimate rounded up", "the estimate is compared exactly",
          "room = U128((self.limit - n - whole).v) + 1", "room = U128((self.limit - n - whole).v)"),
    Fault("the overlap is larger than the sub-window", "the oldest weighs no more than it has counted",
          'number("overlap", 0, self.nanos)', 'number("overlap", 0, U(self.nanos.v + 1))'),
    Fault("a share too few", "a wait in shares is sufficient",
          "return And(at.weighs(at.passed.v) <", "return And(at.weighs(at.passed.v - 1) <"),
    Fault("a share too many", "a wait in shares is minimal",
          "at.weighs(at.passed.v - 1) >=", "at.weighs(at.passed.v) >="),
]
