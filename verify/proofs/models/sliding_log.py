"""The exact log (`src/algo/sliding_log/mod.rs`, `events.rs` and `rates.rs` beside it), of one rate.

Proved: the comparison of a rate, in real time (an event at `e` nanoseconds has left a window of `w` at
`now` only if `now - e >= w`, and it leaves no later than a unit after that); and that lap and filled places
number the events, for every limit. Not proved: which cell of the ring holds which event, the birth of a
ring, and the note. For those, the step is compared with the Rust on rings of any content.
"""

from math import gcd

import kit
from gcra import PAYLOAD_BITS
from grid import HOUR_NANOS, YEAR_NANOS, Grid, units_in
from kit import MAX, NEVER, U128, And, Fault, If, Iff, Implies, Not, Or, Property, U, fact, integer, number, raw, where
from words import Field

LIMIT_MAX, UNIT_NANOS = 1 << 16, 5_000
UNITS_IN_WINDOW, UNITS_IN_WINDOW_MIN, WINDOWS_APART = 10_000, 1_000, 1_024
TIME = Field(0, 52)
ROUND = TIME.above(2)


class OutOfRange(Exception):
    pass


class SlidingLog:
    def __init__(self, grid, limit, window, filled, lap, time, ahead_max):
        self.grid, self.limit, self.places, self.window = grid, limit, limit, window
        self.filled, self.lap, self.time, self.ahead_max = filled, lap, time, ahead_max

    @classmethod
    def built(cls, limit, period):
        if limit > LIMIT_MAX:
            raise OutOfRange
        filled = Field(0, limit.bit_length())
        lap = filled.above(2)
        time = lap.above(PAYLOAD_BITS - 2 - filled.bits)
        spans = lambda nanos: -(-nanos // (time.max + 1))
        wanted = min(max(UNIT_NANOS, spans(YEAR_NANOS)), period // UNITS_IN_WINDOW)
        wanted = max(wanted, spans(period * WINDOWS_APART), 1)
        units = period // wanted
        if units == 0 or period // units > max(period // UNITS_IN_WINDOW_MIN, 1):
            raise OutOfRange
        grid = Grid.new(units, period, TIME.max, units)
        ahead_max = max(min(time.max // 8_192, raw(units_in(HOUR_NANOS, grid.units, grid.nanos))), 2)
        return cls(grid, U(limit), U(units), filled, lap, time, ahead_max)

    # As in the Rust.

    def floor(self, now):
        return self.grid.floor(now).wrapping_add(self.window)

    def phase(self, now, floor):
        return self.grid.phase(now, floor.wrapping_sub(self.window))

    def last(self, word, floor):
        """From constants: when the word's event happened, and how far ahead that is."""
        distance = self.time.of(word).wrapping_sub(floor) & self.time.max
        behind = U(self.time.max) - distance + 1
        come_round = floor < self.window
        tolerance = self.grid.ahead_max if self.grid.endless else self.grid.tolerance
        origin_tells = behind > floor and not come_round and distance <= tolerance
        if distance <= self.ahead_max or origin_tells:
            return floor.wrapping_add(distance), distance
        if floor >= behind:
            return floor - behind, U(0)
        return (floor.wrapping_sub(behind) if come_round else U(0)), U(0)

    def until_left(self, event, floor, window):
        ahead = self.grid.ahead(event, floor)
        return If(ahead == 0, window.saturating_sub(self.grid.behind(event, floor)), window.saturating_add(ahead))

    def enter(self, lap, filled, n):
        """The lap, and the number of filled places in it, after `n` more events."""
        after = filled + n
        with where(after > self.places):
            rest = after - self.places
        next_lap = If(lap == 1, U(2), If(lap == 3, U(0), U(3)))
        return If(after <= self.places, lap, next_lap), If(after <= self.places, after, rest)

    def time_of_event(self, floor, phase, ahead):
        """An event counts as the end of its unit, and time in a log never moves back."""
        return floor.wrapping_add(ahead.max(If(phase == 0, U(0), U(1))))

    def step(self, word, ring, now, n):
        """From constants: the next word of an admission, or the wait in units of a denial."""
        floor = self.floor(now)
        last, ahead = self.last(word, floor)
        lap, filled = raw(self.lap.of(word)), min(raw(self.filled.of(word)), raw(self.places))
        if n == 0:
            return raw(word) % 2**PAYLOAD_BITS, None
        if n > self.limit:
            return None, NEVER
        wait, back = 0, raw(self.limit) - raw(n)
        if back < (filled if lap == 1 else raw(self.places)):
            event = self.event(ring, lap, filled, last, back)
            wait = raw(self.until_left(event, floor, self.window))
        if wait > 0:
            return None, wait
        time = self.time_of_event(floor, self.phase(now, floor), ahead)
        lap, filled = self.enter(U(lap), U(filled), n)
        word = self.filled.set(self.lap.set(self.time.set(U(0), time), lap), filled)
        return raw(word), None

    def event(self, ring, lap, filled, last, back):
        if back == 0:
            return last
        at = filled - 1 - back
        at, expected = (at, lap) if at >= 0 else (at + raw(self.places), lap ^ 1)
        content = U(ring[at])
        birth = TIME.of(U(ring[raw(self.places)])) if lap in (1, 2) else U(0)
        older = raw(birth.wrapping_sub(TIME.of(content)) & TIME.max)
        before_birth = lap in (1, 2) and 0 < older <= TIME.max // 2
        is_of_its_round = raw(ROUND.of(content)) == (2 | expected & 1)
        return last if not is_of_its_round or before_birth else TIME.of(content)


def any_grid():
    grid = Grid(*(None,) * 2, 2**52 - 1, True, U(MAX >> 1), None, None)
    grid.units, grid.nanos = number("units", 1), number("nanos", 1, 2**63 - 1)
    fact(grid.units <= grid.nanos)
    return grid


class State:
    """An event and an instant in nanoseconds, on any grid that tells all instants apart, and a window of a
    whole number of units. Floors count from one window before the origin."""

    def __init__(self):
        grid = any_grid()
        units, nanos = grid.units.v, grid.nanos.v
        self.window, self.window_nanos = number("window", 1, 2**50), number("period", 1, 2**63 - 1)
        fact(self.window.v * nanos == self.window_nanos.v * units)
        self.log = SlidingLog(grid, U(1), self.window, None, None, None, None)
        self.event, self.now = number("event"), number("now")
        self.event_floor, self.event_phase = number("ef"), number("ep")
        self.floor, self.phase = number("f"), number("p")
        fact(self.event.v * units == self.event_floor.v * nanos + self.event_phase.v, self.event_phase.v < nanos)
        fact(self.now.v * units == self.floor.v * nanos + self.phase.v, self.phase.v < nanos)
        fact(self.event_floor.v + self.window.v < 2**52, self.floor.v + self.window.v < 2**52)
        self.units, self.nanos = units, nanos
        seen = lambda floor: U(floor.v + self.window.v)
        self.at = self.log.time_of_event(seen(self.event_floor), self.event_phase, U(0))
        self.left = self.log.until_left(self.at, seen(self.floor), self.window)


def none_leaves_early():
    at = State()
    fact(at.left == 0)
    # In shares of a unit: the time that has passed is at least the window.
    passed = at.now.v * at.units - at.event.v * at.units
    return passed >= at.window.v * at.nanos


def none_leaves_more_than_a_unit_late():
    at = State()
    fact(at.left != 0)
    passed = at.now.v * at.units - at.event.v * at.units
    return passed < (at.window.v + 1) * at.nanos


def waits_are_sufficient_and_minimal():
    """On any grid, from any instant: the event has left after `left` units, and not before."""
    yield from ((f"52 bits, {'endless' if e else 'wrapping'}", lambda: waits(e)) for e in (True, False))


def waits(endless):
    grid = Grid.any_built(52, endless)
    window, floor, passed = number("window", 1, grid.reach), grid.any_floor("f"), number("passed")
    log = SlidingLog(grid, None, window, None, None, None, None)
    at, event = grid.instant("event", floor)
    left = log.until_left(event, floor, window)
    fact(left > 0, passed <= left, floor.v + passed.v <= grid.last_unit.v)
    # An event that is leaving its window is still within the horizon.
    if not endless:
        fact(window.v + grid.ahead_max.v < grid.field_max)
    later = log.until_left(event, U(floor.v + passed.v), window)
    return Iff(later == 0, passed == left)


def lap_of(rounds, pairs):
    """The lap of a round. The rounds count from 0; `rounds` is `2 * pairs` or `2 * pairs + 1`."""
    return If(rounds == 0, 1, If(rounds == 1, 2, If(rounds == 2 * pairs + 1, 0, 3)))


def split(rounds):
    pairs = integer("pairs")
    fact(Or(rounds == 2 * pairs, rounds == 2 * pairs + 1))
    return pairs


def events_are_numbered():
    """The first round has lap 1, the next 2, then 3 and 0 in turn."""
    places, n, count = number("places", 1, LIMIT_MAX), number("n", 1), integer("count")
    fact(n <= places)
    log = SlidingLog(None, places, None, None, None, None, None)
    rounds, filled = integer("rounds"), integer("filled")
    fact(count >= 0, rounds >= 0, filled >= 0, filled <= places.v)
    fact(count == rounds * places.v + filled, Implies(filled == 0, rounds == 0))
    new_lap, new_filled = log.enter(U(lap_of(rounds, split(rounds))), U(filled), n)
    wraps = filled + n.v > places.v
    new_rounds = If(wraps, rounds + 1, rounds)
    exactly = If(wraps, filled + n.v - places.v, filled + n.v)
    return And(new_filled.v == exactly, new_lap.v == lap_of(new_rounds, split(new_rounds)),
               new_filled <= places, new_filled > 0)


PROPERTIES = [
    Property("no event leaves its window early, in real time", lambda: iter([("any", none_leaves_early)])),
    Property("no event leaves more than a unit late", lambda: iter([("any", none_leaves_more_than_a_unit_late)])),
    Property("retry_after is sufficient and minimal", waits_are_sufficient_and_minimal),
    Property("lap and filled places number the events", lambda: iter([("any", events_are_numbered)])),
]

FAULTS = [
    Fault("an event counts as the beginning of its unit", "no event leaves its window early, in real time",
          "ahead.max(If(phase == 0, U(0), U(1)))", "ahead.max(0)"),
    Fault("an event always counts as a unit later", "no event leaves more than a unit late",
          "ahead.max(If(phase == 0, U(0), U(1)))", "ahead.max(2)"),
    Fault("an event ahead of the clock leaves too early", "retry_after is sufficient and minimal",
          "window.saturating_add(ahead))", "window)"),
    Fault("the first lap never ends", "lap and filled places number the events",
          "If(lap == 1, U(2), ", "If(lap == 1, U(1), "),
    Fault("the lap of a later round is 2", "lap and filled places number the events",
          "If(lap == 3, U(0), ", "If(lap == 3, U(2), "),
]
