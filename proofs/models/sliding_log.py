"""The exact log (`src/algo/sliding_log.rs`, `events.rs` and `rates.rs` beside it), of one rate.

Proved: what a rate compares, in real time (an event at `e` nanoseconds has left a window of `w` at `now`
only if `now - e >= w`, and is told to leave no later than a unit after that); and that place and lap
number the events, whatever the limit. Which cell of the ring bears which event, the birth of a ring and
the note are not proved: the step is compared with the Rust on rings of any content.
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
LAP = TIME.above(2)


class OutOfRange(Exception):
    pass


class SlidingLog:
    def __init__(self, grid, limit, window, place, lap, time, ahead_max):
        self.grid, self.limit, self.places, self.window = grid, limit, limit, window
        self.place, self.lap, self.time, self.ahead_max = place, lap, time, ahead_max

    @classmethod
    def built(cls, limit, period):
        if limit > LIMIT_MAX:
            raise OutOfRange
        place = Field(0, max((limit - 1).bit_length(), 1))
        lap = place.above(2)
        time = lap.above(PAYLOAD_BITS - 2 - place.bits)
        spans = lambda nanos: -(-nanos // (time.max + 1))
        wanted = min(max(UNIT_NANOS, spans(YEAR_NANOS)), period // UNITS_IN_WINDOW)
        wanted = max(wanted, spans(period * WINDOWS_APART), 1)
        units = period // wanted
        if units == 0 or period // units > max(period // UNITS_IN_WINDOW_MIN, 1):
            raise OutOfRange
        grid = Grid.new(units, period, TIME.max, units)
        ahead_max = max(min(time.max // 8_192, raw(units_in(HOUR_NANOS, grid.units, grid.nanos))), 2)
        return cls(grid, U(limit), U(units), place, lap, time, ahead_max)

    # What follows stands in the Rust.

    def floor(self, now):
        return self.grid.floor(now).wrapping_add(self.window)

    def phase(self, now, floor):
        return self.grid.phase(now, floor.wrapping_sub(self.window))

    def last(self, word, floor):
        """Of constants: when the word's event happened, and how far ahead that is."""
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

    def enter(self, lap, place, n):
        """Place and lap of the latest event after `n` more."""
        moved = place + n
        with where(And(lap != 0, moved >= self.places)):
            wrapped = moved - self.places
        with where(lap == 0):
            first = n - 1
        flipped = If(lap == 2, U(3), U(2))
        return (
            If(lap == 0, first, If(moved < self.places, moved, wrapped)),
            If(lap == 0, U(1), If(moved < self.places, lap, If(lap == 1, U(2), flipped))),
        )

    def time_of_event(self, floor, phase, ahead):
        """An event counts as the end of its unit, and time in a log never moves back."""
        return floor.wrapping_add(ahead.max(If(phase == 0, U(0), U(1))))

    def step(self, word, ring, now, n):
        """Of constants: what is admitted and what is left; or the wait in units."""
        floor = self.floor(now)
        last, ahead = self.last(word, floor)
        lap, place = raw(self.lap.of(word)), min(raw(self.place.of(word)), raw(self.places) - 1)
        if n == 0:
            return raw(word) % 2**PAYLOAD_BITS, None
        if n > self.limit:
            return None, NEVER
        wait, back = 0, raw(self.limit) - raw(n)
        if back < {0: 0, 1: place + 1}.get(lap, raw(self.places)):
            event = self.event(ring, lap, place, last, back)
            wait = raw(self.until_left(event, floor, self.window))
        if wait > 0:
            return None, wait
        time = self.time_of_event(floor, self.phase(now, floor), ahead)
        place, lap = self.enter(U(lap), U(place), n)
        word = self.place.set(self.lap.set(self.time.set(U(0), time), lap), place)
        return raw(word), None

    def event(self, ring, lap, place, last, back):
        if back == 0:
            return last
        at, expected = (place - back, lap) if place >= back else (place + raw(self.places) - back, lap ^ 1)
        content = U(ring[at])
        found = raw(LAP.of(content))
        birth = U(0) if lap in (0, 3) else TIME.of(U(ring[raw(self.places)]))
        older = raw(birth.wrapping_sub(TIME.of(content)) & TIME.max)
        before_birth = lap != 3 and 0 < older <= TIME.max // 2
        first_round = found == 1 and expected == 3 and lap == 2
        return last if (found != expected and not first_round) or before_birth else TIME.of(content)


def any_grid():
    grid = Grid(*(None,) * 2, 2**52 - 1, True, U(MAX >> 1), None, None)
    grid.units, grid.nanos = number("units", 1), number("nanos", 1, 2**63 - 1)
    fact(grid.units <= grid.nanos)
    return grid


class Scene:
    """An event and an instant in nanoseconds, on any grid that tells all instants apart; a window of a
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
    at = Scene()
    fact(at.left == 0)
    # In shares of a unit: what has passed is at least the window.
    passed = at.now.v * at.units - at.event.v * at.units
    return passed >= at.window.v * at.nanos


def none_leaves_a_unit_late():
    at = Scene()
    fact(at.left != 0)
    passed = at.now.v * at.units - at.event.v * at.units
    return passed < (at.window.v + 1) * at.nanos


def waits_are_sufficient_and_least():
    """On any grid, seen from any instant: after so many units the event has left, and not before."""
    yield from ((f"52 bits, {'endless' if e else 'wrapping'}", lambda: waits(e)) for e in (True, False))


def waits(endless):
    grid = Grid.any_built(52, endless)
    window, floor, passed = number("window", 1, grid.reach), grid.any_floor("f"), number("passed")
    log = SlidingLog(grid, None, window, None, None, None, None)
    at, event = grid.instant("event", floor)
    left = log.until_left(event, floor, window)
    fact(left > 0, passed <= left, floor.v + passed.v <= grid.last_unit.v)
    # What leaves a window is within the horizon for as long.
    if not endless:
        fact(window.v + grid.ahead_max.v < grid.field_max)
    later = log.until_left(event, U(floor.v + passed.v), window)
    return Iff(later == 0, passed == left)


def numbered(count, places):
    """Lap and place of the latest of `count` events."""
    rounds, place = integer("rounds"), integer("place")
    fact(count >= 0, Implies(count > 0, And(count - 1 == rounds * places + place, place >= 0, place < places, rounds >= 0)))
    odd = integer("pairs")
    fact(Or(rounds == 2 * odd, rounds == 2 * odd + 1))
    lap = If(count == 0, 0, If(rounds == 0, 1, If(rounds == 2 * odd + 1, 2, 3)))
    return rounds, place, odd, lap


def events_are_numbered():
    """The first round has lap 1, the next 2, then 3 and 2 in turn."""
    places, n, count = number("places", 1, LIMIT_MAX), number("n", 1), integer("count")
    fact(n <= places)
    log = SlidingLog(None, places, None, None, None, None, None)
    rounds, place, pairs, lap = numbered(count, places.v)
    before = If(count == 0, 0, place)
    new_place, new_lap = log.enter(U(lap), U(before), n)
    wraps = And(count > 0, before + n.v >= places.v)
    new_rounds = If(count == 0, 0, If(wraps, rounds + 1, rounds))
    even = integer("even")
    fact(Or(new_rounds == 2 * even, new_rounds == 2 * even + 1))
    expected = If(new_rounds == 0, 1, If(new_rounds == 2 * even + 1, 2, 3))
    exactly = If(count == 0, n.v - 1, If(wraps, before + n.v - places.v, before + n.v))
    return And(new_place.v == exactly, new_lap.v == expected, new_place < places)


PROPERTIES = [
    Property("no event leaves its window early, in real time", lambda: iter([("any", none_leaves_early)])),
    Property("none leaves later than a unit", lambda: iter([("any", none_leaves_a_unit_late)])),
    Property("retry_after is sufficient and least", waits_are_sufficient_and_least),
    Property("place and lap number the events", lambda: iter([("any", events_are_numbered)])),
]

FAULTS = [
    Fault("an event counts as the beginning of its unit", "no event leaves its window early, in real time",
          "ahead.max(If(phase == 0, U(0), U(1)))", "ahead.max(0)"),
    Fault("an event counts as a unit later always", "none leaves later than a unit",
          "ahead.max(If(phase == 0, U(0), U(1)))", "ahead.max(2)"),
    Fault("an event that is ahead leaves with those that are not", "retry_after is sufficient and least",
          "window.saturating_add(ahead))", "window)"),
    Fault("the lap stays", "place and lap number the events",
          "If(lap == 1, U(2), flipped)", "If(lap == 1, U(1), flipped)"),
]
