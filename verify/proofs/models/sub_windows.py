"""Sub-windows (`src/algo/sub_windows/mod.rs`, and `build.rs` and `scan.rs` beside it), including weighed ones.

The exact state: the count of each sub-window, by its index, from the latest one that was charged back to
the oldest one that still counts. `n` cells are admitted iff `n` and the counts of the current sub-window
and of the `older` ones before it are together at most the limit.

Proved for rings of 2, 3 and 4 sub-windows with any counts. A decision about more sub-windows only adds
more summands of the same kind.
"""

import kit
import z3
from fixed_window import into_window
from gcra import PAYLOAD_BITS
from grid import YEAR_NANOS, Grid, Scale
from kit import MAX, NEVER, U128, And, Fault, If, Iff, Implies, Not, Or, Property, U, fact, integer, number, raw, where
from words import Field, Packed

COUNT_BITS_MAX = 30


class OutOfRange(Exception):
    pass


def reciprocal(divisor):
    return MAX // divisor + 1


def remainder(index, divisor, reciprocal):
    fraction = index.wrapping_mul(reciprocal)
    return U(((U128(fraction.v) * divisor) >> 64).v)


def part(whole, numerator, denominator):
    """`whole * numerator / denominator`, rounded down. The Rust has branches for 64 and 128 bits."""
    return U((U128(whole.v) * numerator.v // denominator.v).v)


class SubWindows:
    def __init__(self, grid, limit, total_max, older, weighed, ahead_nanos, count, index, cells):
        self.grid, self.limit, self.total_max, self.older = grid, limit, total_max, older
        self.weighed, self.ahead_nanos, self.count, self.index = weighed, ahead_nanos, count, index
        self.cells, self.reciprocal = cells, reciprocal(cells)

    @classmethod
    def built(cls, limit, period, origin, in_period, older, weighed):
        total_max = limit * (2 if weighed else 1)
        count_bits = total_max.bit_length()
        if in_period > period or count_bits > COUNT_BITS_MAX:
            raise OutOfRange
        if (period << (PAYLOAD_BITS - count_bits)) // in_period < YEAR_NANOS:
            raise OutOfRange
        count = Field(0, count_bits)
        index = count.above(PAYLOAD_BITS - count_bits)
        grid = Grid.new(in_period, period, index.max, older + 1)
        places = older + 1
        cells = places if grid.endless else 1 << (places - 1).bit_length()
        ahead_nanos = into_window(period, origin, 0) + period
        return cls(grid, U(limit), U(total_max), older, weighed, U(ahead_nanos), count, index, cells)

    # As in the Rust.

    def aligned(self, now):
        return now.saturating_add(self.ahead_nanos)

    def place(self, index):
        return remainder(index, self.cells, self.reciprocal)

    def fresh(self, now):
        return self.index.set(U(0), self.grid.floor(self.aligned(now)))

    def distance(self, last, floor):
        ahead = self.grid.ahead(last, floor)
        return ahead, If(ahead == 0, self.grid.behind(last, floor), U(0))

    def before(self, index, back):
        return index.wrapping_sub(back) & self.index.max

    def older_count(self, view, back):
        """The ring's count of the sub-window that is `back` before the word's."""
        index = self.before(view.last, back)
        place = (raw(view.place) - back) % self.cells
        return self.read(view.ring[place], index)

    def read(self, content, index):
        """The count, if the index above it is `index`. (The Rust compares both at once.)"""
        if isinstance(content, Packed):
            same = And(self.index.of(content) == index, content.above == 0)
            return If(same, self.count.of(content).min(self.limit), U(0))
        count = U(raw(content) ^ raw(self.index.set(U(0), index)))
        return If(count <= self.count.max, count.min(self.limit), U(0))

    def last_count(self, view):
        older = U(0)
        for back in range(1, self.older + 1):
            older = older.saturating_add(self.older_count(view, back))
        return view.total.saturating_sub(older).min(self.limit)

    def count_from_oldest(self, view, later):
        """Of constants."""
        after_last = raw(view.passed) + later - self.older
        if after_last < 0:
            return self.older_count(view, -after_last)
        return self.last_count(view) if after_last == 0 else U(0)

    def advanced(self, view):
        """The cells that still count, and the count to publish, or 0."""
        older, gone = U(0), U(0)
        for back in range(1, self.older + 1):
            count = self.older_count(view, back)
            older = older.saturating_add(count)
            gone = If(view.passed + back > self.older, gone.saturating_add(count), gone)
        last = view.total.saturating_sub(older).min(self.limit)
        left = view.passed > self.older
        counted = If(left, U(0), view.total.saturating_sub(gone))
        return counted, If(Or(left, last == 0), U(0), last)

    def weigh(self, oldest, overlap):
        return part(oldest, overlap, self.grid.nanos)

    def fits(self, whole, oldest, overlap, n):
        too_many = Or(n > self.limit, whole.v > self.limit.v - n.v)
        if not self.weighed:
            return Not(too_many)
        with where(Not(too_many)):
            room = U128((self.limit - n - whole).v) + 1
        weighed = U128(oldest.v) * overlap.v < room.saturating_mul(self.grid.nanos.v).v
        return And(Not(too_many), weighed)

    def view(self, word, ring, now):
        floor = self.grid.floor(now)
        return self.view_at(word, ring, floor, self.grid.phase(now, floor))

    def view_at(self, word, ring, floor, phase):
        last = self.index.of(word)
        ahead, passed = self.distance(last, floor)
        total = self.count.of(word).min(self.total_max)
        return View(ring, last, total, floor, ahead, passed, phase)

    def counted(self, view):
        """The cells that count by now, and the count to publish before the word advances, or 0."""
        counted, published = self.advanced(view)
        return If(view.passed == 0, view.total, counted), If(view.passed == 0, U(0), published)

    def evaluate(self, word, ring, now, n):
        """The data of a decision and of its answer, from constants."""
        now = self.aligned(now)
        view = self.view(word, ring, now)
        view.place = self.place(view.last)
        counted, published = self.counted(view)
        current = self.grid.later(view.last, view.passed) & self.index.max
        nanos, oldest = self.grid.nanos, U(0)
        if self.weighed and raw(counted) > 0:
            at_hand = view.passed == 0
            oldest = self.older_count(view, self.older) if at_hand else self.count_from_oldest(view, 0)
        overlap = nanos if view.ahead > 0 else nanos - view.phase
        oldest = oldest.min(counted)
        whole = counted - oldest
        admits = Or(n == 0, self.fits(whole, oldest, overlap, n))
        waits = (U(0), U(0), Scale(U(1), U(1), U(0)))
        if not (admits and n > 0):
            waits = self.waits(view, now, counted, n)
        charged = self.index.set(self.count.set(U(0), counted.saturating_add(n)), current)
        same = self.index.set(self.count.of(word), self.index.of(word))
        published = If(published == 0, U(0), self.index.set(self.count.set(U(0), published), view.last))
        until_idle = view.ahead + self.older + 1
        return Evaluated(admits, same if n == 0 else charged, published, whole, oldest, overlap, until_idle, waits)

    def remaining(self, evaluated, n):
        estimate = evaluated.whole.saturating_add(self.weigh(evaluated.oldest, evaluated.overlap))
        return self.limit.saturating_sub(estimate.saturating_add(n))

    def reset_of_permit(self, evaluated, now, n):
        if n == 0:
            return evaluated.waits[0], evaluated.waits[2]
        now = self.aligned(now)
        return evaluated.until_idle, self.grid.scale(now, self.grid.floor(now))

    def idle(self, word, instant):
        last, total = self.index.of(word), self.count.of(word)
        ahead, passed = self.distance(last, instant)
        if total == 0:
            return True, passed
        if passed > self.older:
            return True, passed - self.older
        return False, total.saturating_mul(ahead + self.older + 1 - passed)

    def sub_windows_until_room(self, view, counted, n):
        excess = counted.saturating_add(n) - self.limit
        oldest = self.older - min(raw(view.passed), self.older)
        for back in range(oldest, 0, -1):
            count = self.older_count(view, back)
            if count >= excess:
                return U(oldest - back + 1)
            excess = excess - count
        return U(self.older + 1) - view.passed

    def shares_until_room(self, view, counted, n):
        nanos, later = self.grid.nanos, 0
        while counted > 0 and raw(view.passed) + later <= self.older:
            oldest = self.count_from_oldest(view, later).min(counted)
            counted = counted - oldest
            room = raw(self.limit) - raw(n) + 1 - raw(counted)
            if room > 0:
                fits, passed = self.shares_of(oldest, U(room), nanos)
                if fits:
                    return later, raw(passed)
            later += 1
        return later, 0

    @staticmethod
    def shares_of(oldest, room, nanos):
        """Whether the oldest sub-window leaves `room` before it ends, and after how many shares."""
        with where(oldest >= room):
            passed = part(nanos, oldest - room, oldest) + 1
        return Or(oldest < room, passed < nanos), If(oldest < room, U(0), passed)

    def waits(self, view, now, counted, n):
        idle = U(0) if raw(counted) == 0 else view.ahead + self.older + 1 - view.passed
        unasked = Or(n == 0, n > self.limit)
        if self.weighed and not unasked:
            return self.weighed_waits(view, idle, counted, n)
        wait = U(NEVER) if unasked else view.ahead + self.sub_windows_until_room(view, counted, n)
        return idle, wait, self.grid.scale(now, view.floor)

    def weighed_waits(self, view, idle_units, counted, n):
        units, nanos = self.grid.units, raw(self.grid.nanos)
        later, passed = self.shares_until_room(view, counted, n)
        until = raw(view.ahead) + later
        both = [max(s * nanos + more - raw(view.phase), 0) for s, more in ((raw(idle_units), 0), (until, passed))]
        small = all(s * nanos + more <= MAX for s, more in ((raw(idle_units), 0), (until, passed)))
        if small:
            return U(both[0]), U(both[1]).min(NEVER - 1), Scale(units, U(1), U(0))
        idle, wait = (U(min(-(-shares // raw(units)), MAX)) for shares in both)
        return idle, wait.min(NEVER - 1), Scale(U(1), U(1), U(0))


class View:
    def __init__(self, ring, last, total, floor, ahead, passed, phase):
        self.ring, self.last, self.total, self.floor = ring, last, total, floor
        self.ahead, self.passed, self.phase, self.place = ahead, passed, phase, None


class Evaluated:
    def __init__(self, admits, next, published, whole, oldest, overlap, until_idle, waits):
        self.admits, self.next, self.published, self.whole = admits, next, published, whole
        self.oldest, self.overlap, self.until_idle, self.waits = oldest, overlap, until_idle, waits


class State:
    """Sub-windows on an endless grid, each with its count, and a ring that holds those counts. The place of
    a sub-window without a count may hold anything. The place of `last` may be any place of the ring."""

    def __init__(self, older, place, count_bits):
        cells = older + 1
        count = Field(0, count_bits)
        index = count.above(PAYLOAD_BITS - count_bits)
        self.grid = Grid.any_built(index.bits, True, older + 1)
        limit = number("limit", 1, count.max)
        self.windows = SubWindows(self.grid, limit, limit, older, False, U(0), count, index, cells)
        self.floor, self.n = self.grid.any_floor("f"), number("n")
        self.last = number("last", older, index.max)
        # Only a sub-window that a clock has shown is written, and instants begin one period after zero.
        fact(self.last <= self.grid.last_unit)
        self.counts = [number(f"c{back}", 0, limit) for back in range(older + 1)]
        self.total = U(sum(c.v for c in self.counts))
        fact(self.total <= limit)
        self.ring = [None] * cells
        for back in range(cells):
            self.ring[(place - back) % cells] = self.content(back)
        word = Packed({(0, count.bits): self.total, (count.bits, index.bits): self.last}, number("above", 0, 2**11 - 1).v)
        self.word = word
        self.view = self.windows.view_at(word, self.ring, self.floor, U(0))
        self.view.place = U(place)

    def content(self, back):
        """The content of its place in the ring. The place of the word's own sub-window is not read."""
        count, index = self.windows.count, self.windows.index
        held = number(f"held{back}", 0, count.max)
        at = number(f"index{back}", 0, index.max)
        if back:
            is_it = at.v == self.last.v - back
            fact(If(is_it, held == self.counts[back], self.counts[back] == 0))
        return Packed({(0, count.bits): held, (count.bits, index.bits): at}, number(f"above{back}", 0, 2**11 - 1).v if not back else 0)

    def exactly(self, floor):
        """The cells that count at `floor`. The current sub-window is the later one of the word's and the clock's."""
        passed = floor.v - self.last.v
        return sum(If(passed > self.windows.older - back, 0, c.v) for back, c in enumerate(self.counts))


def each(state):
    def claims():
        for older in (1, 2, 3):
            for place in range(older + 1):
                for count_bits in (3, 30):
                    yield f"{older} older, place {place}, {count_bits} bits", lambda: state(State(older, place, count_bits))
    return claims


def admits_exactly(at):
    counted, _ = at.windows.counted(at.view)
    exactly = at.exactly(at.floor)
    admits = at.windows.fits(counted, U(0), U(0), at.n)
    return And(counted.v == exactly, Iff(admits, exactly + at.n.v <= at.windows.limit.v))


def advances_exactly(at):
    """Before the word advances, the count that only the word records is published in the ring, so that no
    count is lost."""
    counted, published = at.windows.counted(at.view)
    fact(at.windows.fits(counted, U(0), U(0), at.n), at.n != 0, at.floor > at.last)
    gone = at.view.passed > at.windows.older
    return And(
        published.v == If(gone, 0, at.counts[0].v),
        at.view.last.v + at.view.passed.v == at.floor.v,
        counted.v + at.n.v <= at.windows.limit.v,
    )


def a_word_ahead_is_kept(at):
    fact(at.floor <= at.last)
    counted, published = at.windows.counted(at.view)
    return And(counted == at.total, published == 0, at.view.passed == 0, at.view.ahead.v == at.last.v - at.floor.v)


def stale_grants_no_more(at):
    stale = at.grid.any_floor("stale")
    fact(stale <= at.floor)
    view = at.windows.view_at(at.word, at.ring, stale, U(0))
    view.place = at.view.place
    return at.windows.counted(view)[0] >= at.windows.counted(at.view)[0]


def places_are_remainders():
    """For every number of cells that a ring can have."""
    def claims():
        for divisor in sorted({*range(2, 258), 512}):
            def state():
                whole, place = number("whole"), number("place", 0, divisor - 1)
                index = U(whole.v * divisor + place.v)
                fact(index < 2**53)
                return remainder(index, divisor, reciprocal(divisor)) == place
            yield f"{divisor} cells", state
    return claims


def one_comparison():
    """The comparison yields the count, or more than any count if the index differs: on vectors, for every width."""
    content, index, bits = z3.BitVecs("content index bits", 64)
    max_ = (z3.BitVecVal(1, 64) << bits) - 1
    fact(z3.UGE(bits, 1), z3.ULE(bits, 30), z3.ULT(index, z3.BitVecVal(1, 64) << (53 - bits)))
    found = content ^ (index << bits)
    same = z3.LShR(content, bits) == index
    return z3.And(z3.ULE(found, max_) == same, z3.Implies(same, found == content & max_))


PROPERTIES = [
    Property("a place is the remainder of its index", places_are_remainders()),
    Property("index and count are compared at once", lambda: iter([("any", one_comparison)])),
    Property("admits exactly what the counts admit", each(admits_exactly)),
    Property("an advance keeps every count", each(advances_exactly)),
    Property("a sub-window ahead of the clock is kept", each(a_word_ahead_is_kept)),
    Property("a stale clock grants no more", each(stale_grants_no_more)),
]

FAULTS = [
    Fault("a reciprocal rounded down", "a place is the remainder of its index",
          "return MAX // divisor + 1", "return MAX // divisor"),
    Fault("a count with index 0 belongs to any sub-window", "index and count are compared at once",
          "same = z3.LShR(content, bits) == index", "same = z3.LShR(content, bits) & index == index"),
    Fault("a sub-window counts for one sub-window too long", "admits exactly what the counts admit",
          "view.passed + back > self.older", "view.passed + back > self.older + 1"),
    Fault("stale cells count", "admits exactly what the counts admit",
          "same = And(self.index.of(content) == index, content.above == 0)", "same = content.above == 0"),
    Fault("the whole sum is published", "an advance keeps every count",
          "last = view.total.saturating_sub(older).min(self.limit)", "last = view.total.min(self.limit)"),
    Fault("a clock that is behind discards the counts", "a sub-window ahead of the clock is kept",
          "return ahead, If(ahead == 0, self.grid.behind(last, floor), U(0))",
          "return ahead, self.grid.behind(last, floor)"),
    Fault("a clock that is behind is taken for one a round ahead", "a stale clock grants no more",
          "return ahead, If(ahead == 0, self.grid.behind(last, floor), U(0))",
          "return ahead, self.grid.behind(last, floor)"),
]
