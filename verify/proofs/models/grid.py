"""Time grids (`src/algo/grid.rs`), and the conversion of their spans to nanoseconds (`src/decision/mod.rs`)."""

from math import gcd

from kit import (
    MAX, U128, And, Fault, If, Iff, Implies, Not, Or, Property, U, exact, fact, integer, number,
    raw, where, CONTEXT,
)
import kit

HOUR_NANOS = 3_600 * 1_000_000_000
YEAR_NANOS = 365 * 24 * HOUR_NANOS


def narrow(wide):
    return U(wide.min(MAX).v)


def fraction(numerator, denominator):
    """`floor(2^128 * numerator / denominator)` by long division, as high and low half."""
    same = numerator == denominator
    denominator = U128(denominator.v)
    with where(Not(same)):
        first = U128(numerator.v) * 2**64
        second = (first % denominator) * 2**64
        high, low = first // denominator, second // denominator
        kit.CONTEXT.require(And(high < 2**64, low < 2**64), "the halves overlap")
    return If(same, U(MAX), U(high.v)), If(same, U(MAX), U(low.v))


def units_in(span_nanos, units, nanos):
    return narrow(U128(span_nanos).saturating_mul(units.v).div_ceil(nanos.v))


def tolerance(units, nanos, field_max):
    """The skew tolerance of a wrapping grid, in units."""
    in_year = field_max // 64 >= units_in(YEAR_NANOS, units, nanos).v
    in_hour = units_in(HOUR_NANOS, units, nanos)
    return If(in_year, U(field_max // 64), U(field_max // 8192).min(in_hour).max(1))


class Grid:
    """A grid. `new` builds it from constants, as the Rust does; `any_built` is any grid that can be built."""

    def __init__(self, units, nanos, field_max, endless, ahead_max, tolerance, reach):
        self.units, self.nanos, self.field_max, self.endless = units, nanos, field_max, endless
        self.mask = MAX if endless else field_max
        self.ahead_max, self.tolerance, self.reach = ahead_max, tolerance, reach

    @classmethod
    def parts(cls, units, nanos, field_max, reach):
        """The fields that `new` computes from a fraction in lowest terms: endless, ahead_max, tolerance, reach."""
        kit.CONTEXT.require(nanos < 2**63, "the placing argument needs nanos below 2^63")
        kit.CONTEXT.require(units <= nanos, "a unit is at least a nanosecond")
        kit.CONTEXT.require(reach <= field_max // 4, "what is ahead must be told from what is behind")
        last_unit = U128(MAX) * units.v // nanos.v
        endless = last_unit + reach.v <= field_max
        with where(endless):
            most = U(field_max) - narrow(last_unit)
        reach = If(endless, most, reach)
        tolerant = tolerance(units, nanos, field_max)
        with where(Not(endless)):
            ahead_max = reach + tolerant
        return endless, If(endless, U(MAX >> 1), ahead_max), tolerant, reach

    @classmethod
    def new(cls, units, nanos, field_max, reach):
        divisor = gcd(units, nanos)
        units, nanos = U(units // divisor), U(nanos // divisor)
        endless, ahead_max, tolerant, reach = cls.parts(units, nanos, field_max, U(reach))
        return cls(units, nanos, field_max, endless, ahead_max, tolerant, reach)

    @classmethod
    def with_debt(cls, units, nanos, field_max, reach, debt):
        grid = cls.new(units, nanos, field_max, reach)
        enough = grid.endless and grid.reach.v >= debt
        return grid if enough else cls.new(units, nanos, field_max, max(debt, reach))

    @classmethod
    def wrapping(cls, units, nanos, field_max, reach):
        grid = cls.new(units, nanos, field_max, reach)
        ahead_max = U(reach) + grid.tolerance
        return cls(grid.units, grid.nanos, field_max, False, ahead_max, grid.tolerance, U(reach))

    @classmethod
    def any_built(cls, field_bits, endless, reach_min=1):
        """Any grid of a field, with what `what_can_be_built` proves. `last_unit` is the last unit that a
        clock can show."""
        field_max = 2**field_bits - 1
        reach, tolerant = number("reach", raw(reach_min)), number("tolerance", 1)
        if endless:
            ahead_max, last_unit = U(MAX >> 1), number("last_unit")
            fact(last_unit.v + reach.v == field_max)
        else:
            ahead_max, last_unit = U(reach.v + tolerant.v), U(MAX)
            fact(reach.v <= field_max // 4, tolerant.v <= max(field_max // 64, 1))
        grid = cls(None, None, field_max, endless, ahead_max, tolerant, reach)
        grid.last_unit = last_unit
        # The properties of steps take an instant for its floor.
        grid.floor = lambda now: now
        return grid

    def any_floor(self, name):
        """The floor of any instant. (It is proved below that floors are exact and never fall.)"""
        return number(name, 0, self.last_unit)

    def instant(self, name, floor):
        """Any instant, without bounds, that a field can tell from others at `floor`, and the content of
        the field."""
        at, held = integer(name), number(f"{name}.held", 0, self.field_max)
        if self.endless:
            fact(at == held.v)
        else:
            fact(at == held.v + (self.field_max + 1) * integer(f"{name}.rounds"), self.sees(at, floor))
        return at, held

    def sees(self, at, floor):
        """Whether `at` is within the skew tolerance on one side and the horizon on the other."""
        ring = self.field_max + 1
        if self.endless:
            return And(at >= 0, at <= self.field_max)
        return And(at - floor.v <= self.ahead_max.v, floor.v - at < ring - self.ahead_max.v)

    def is_at(self, value, at):
        """Whether a time field holds an instant."""
        return And(value.v >= 0, value.v <= self.field_max, value.v == at % (self.field_max + 1))

    # As in the Rust.

    def floor(self, now):
        high_fraction, low_fraction = fraction(self.units, self.nanos)
        return placed(now, high_fraction, low_fraction)

    def ahead(self, instant, now):
        distance = instant.wrapping_sub(now) & self.mask
        return If(distance <= self.ahead_max, distance, U(0))

    def behind(self, instant, now):
        return now.wrapping_sub(instant) & self.mask

    def within(self, instant, now, span):
        reach = span - 1
        return (instant.wrapping_sub(now).wrapping_add(reach) & self.mask) <= self.ahead_max + reach

    def later(self, instant, units):
        return instant.wrapping_add(units) & self.mask

    def phase(self, now, floor):
        placed = now.wrapping_mul(self.units)
        return placed.wrapping_sub(floor.wrapping_mul(self.nanos))

    def scale(self, now, floor):
        return Scale(self.units, self.nanos, self.phase(now, floor))

    def ring(self):
        return None if self.endless else self.mask + 1


def placed(now, high_fraction, low_fraction):
    nanos = U128(now.v)
    high, low = nanos * high_fraction, nanos * low_fraction
    return U(((high + (low >> 64) + 1) >> 64).v)


def begins_unit(now, high_fraction, low_fraction):
    """Whether a unit begins at `now`: the half of the sum that `placed` drops."""
    nanos = U128(now.v)
    high, low = nanos * high_fraction, nanos * low_fraction
    half = (high.v + ((low >> 64).v + 1)) % 2**64
    return half <= 1


class Scale:
    """Converts units to nanoseconds, counted from one instant."""

    def __init__(self, units, nanos, phase):
        self.units, self.nanos, self.phase = units, nanos, phase

    def shares(self, units):
        return U128(units.v) * self.nanos - self.phase

    def span(self, units):
        if raw(units) == 0:
            return 0
        nanos = self.shares(units).div_ceil(self.units)
        return narrow(nanos).v


def any_fraction():
    units, nanos = number("units", 1), number("nanos", 1, 2**63 - 1)
    fact(units <= nanos)
    return units, nanos


def halves():
    """Long division gives the two halves of `floor(2^128 * units / nanos)`."""
    units, nanos = any_fraction()
    fact(units < nanos)
    high, low = fraction(units, nanos)
    whole = high.v * 2**64 + low.v
    return And(whole * nanos.v <= 2**128 * units.v, 2**128 * units.v - whole * nanos.v < nanos.v)


def halves_of_one():
    """Where the fraction is 1, it is all ones: `2^128 - 1`."""
    units, nanos = any_fraction()
    fact(units == nanos)
    high, low = fraction(units, nanos)
    return And(high == MAX, low == MAX)


class Placing:
    """An instant `n = q * nanos / units + p / units`, and a fraction that is short of
    `2^128 * units / nanos` by `r / nanos`."""

    def __init__(self):
        self.units, self.nanos = any_fraction()
        self.n, self.q = number("now"), number("q")
        self.p, self.r = number("p"), number("r", 0, 2**63 - 1)
        self.high, self.low = number("high"), number("low")
        self.whole = self.high.v * 2**64 + self.low.v
        fact(self.p < self.nanos)
        fact(self.n.v * self.units.v == self.q.v * self.nanos.v + self.p.v)
        # The first is what `halves` proves (r < nanos), the second a fraction of 1 (r = nanos = 1).
        fact(self.whole * self.nanos.v == 2**128 * self.units.v - self.r.v)
        fact(Or(self.r < self.nanos, And(self.r == 1, self.nanos == 1)))


def the_product():
    """`n * whole * nanos = 2^128 * (q * nanos + p) - n * r`: the effect of the fraction's error."""
    at = Placing()
    left = at.n.v * (at.whole * at.nanos.v)
    return left == 2**128 * (at.q.v * at.nanos.v + at.p.v) - at.n.v * at.r.v


def the_error():
    """`n * r < 2^64 * nanos`: the bound of the error."""
    nanos, n, r = number("nanos", 1, 2**63 - 1), number("now"), number("r")
    fact(Or(r < nanos, And(r == 1, nanos == 1)))
    return And(n.v * r.v < 2**64 * nanos.v, n.v * r.v >= 0)


def exact_floor():
    """From `the_product` and `the_error`, with `x = n * whole` and `e = n * r`: `placed` computes `q`."""
    nanos, q, p = number("nanos", 1, 2**63 - 1), number("q"), number("p")
    n, high, low, e = number("now"), number("high"), number("low"), integer("e")
    fact(p < nanos)
    result = placed(n, high, low)
    x = n.v * high.v * 2**64 + n.v * low.v
    # `the_product` and `the_error`.
    fact(x * nanos.v == 2**128 * (q.v * nanos.v + p.v) - e, e >= 0, e < 2**64 * nanos.v)
    # x + 2^64 is between 2^128 * q and 2^128 * (q + 1), which `exact_bounds` proves.
    fact(bounds(x, q.v))
    return And(result == q, )


def bounds(x, q):
    return And(x + 2**64 > 2**128 * q, x + 2**65 <= 2**128 * (q + 1))


def exact_bounds():
    """`2^128 * q < x + 2^64` and `x + 2^65 <= 2^128 * (q + 1)`, since nanos is below 2^63."""
    nanos, q, p = number("nanos", 1, 2**63 - 1), number("q"), number("p")
    x, e = integer("x"), integer("e")
    fact(p < nanos, x >= 0)
    fact(x * nanos.v == 2**128 * (q.v * nanos.v + p.v) - e, e >= 0, e < 2**64 * nanos.v)
    # Multiplied by nanos, both bounds are linear in the products.
    return bounds(x, q.v)


def beginnings(x, q, p):
    return And(Implies(p == 0, x <= 2**128 * q), Implies(p != 0, x >= 2**128 * q + 2**64))


def exact_beginnings():
    """A unit that begins at the instant, and one that has begun, are on two sides of `2^128 * q + 2^64`."""
    x, e = integer("x"), integer("e")
    nanos, q, p = number("nanos", 1, 2**63 - 1), number("q"), number("p")
    fact(p < nanos, x >= 0)
    fact(x * nanos.v == 2**128 * (q.v * nanos.v + p.v) - e, e >= 0, e < 2**64 * nanos.v)
    return beginnings(x, q.v, p.v)


def units_begin():
    """From `exact_bounds` and `exact_beginnings`: a unit begins where the phase is 0."""
    q, p = number("q"), number("p")
    n, high, low = number("now"), number("high"), number("low")
    x = n.v * high.v * 2**64 + n.v * low.v
    fact(bounds(x, q.v), beginnings(x, q.v, p.v))
    return Iff(begins_unit(n, high, low), p.v == 0)


def phases():
    """The wrapping products differ by the time since the beginning of the instant's unit."""
    at = Placing()
    grid = Grid(at.units, at.nanos, 2**53 - 1, True, U(MAX >> 1), U(1), U(1))
    return grid.phase(at.n, at.q) == at.p


def floors_rise():
    """The later one of two instants has no lower floor."""
    units, nanos = any_fraction()
    a, b, fa, fb, pa, pb = (number(x) for x in ["a", "b", "fa", "fb", "pa", "pb"])
    fact(a <= b, pa < nanos, pb < nanos)
    fact(a.v * units.v == fa.v * nanos.v + pa.v, b.v * units.v == fb.v * nanos.v + pb.v)
    return fa <= fb


def no_floor_above_the_instant():
    units, nanos = any_fraction()
    a, fa, pa = (number(x) for x in ["a", "fa", "pa"])
    fact(pa < nanos, a.v * units.v == fa.v * nanos.v + pa.v)
    return fa <= a


class Waiting:
    """A number of units that begin after an instant, and the wait in nanoseconds that is reported."""

    def __init__(self):
        self.units, self.nanos = any_fraction()
        self.n, self.f, self.p = number("now"), number("floor"), number("phase")
        self.w = number("wait", 1)
        fact(self.p < self.nanos)
        fact(self.n.v * self.units.v == self.f.v * self.nanos.v + self.p.v)
        shares = Scale(self.units, self.nanos, self.p).shares(self.w)
        self.span = shares.div_ceil(self.units).v


def waits_suffice():
    """After the span, the units have begun."""
    at = Waiting()
    return (at.n.v + at.span) * at.units.v >= (at.f.v + at.w.v) * at.nanos.v


def waits_are_minimal():
    """A nanosecond earlier, they have not all begun."""
    at = Waiting()
    return (at.n.v + at.span - 1) * at.units.v < (at.f.v + at.w.v) * at.nanos.v


def what_can_be_built(field_bits):
    def state():
        units, nanos = any_fraction()
        field_max = 2**field_bits - 1
        reach = number("reach", 1, field_max // 4)
        endless, ahead_max, tolerant, built = Grid.parts(units, nanos, field_max, reach)
        last_unit = kit.divided(MAX * units.v, nanos.v)[0]
        return And(
            built >= reach,
            Implies(endless, And(last_unit + built.v == field_max, ahead_max == MAX >> 1)),
            Implies(Not(endless), And(
                built == reach, ahead_max == built.v + tolerant.v,
                tolerant >= 1, tolerant.v <= max(field_max // 64, 1),
            )),
        )
    return state


WIDTHS = [53, 52, 48, 43, 37, 33, 29, 22]


def each(state):
    """Endless and wrapping grids, for several widths of the time field."""
    def claims():
        for bits in WIDTHS:
            for endless in (True, False):
                yield f"{bits} bits, {'endless' if endless else 'wrapping'}", lambda: state(bits, endless)
    return claims


def seen_exactly(bits, endless):
    grid = Grid.any_built(bits, endless)
    floor = grid.any_floor("floor")
    at, value = grid.instant("at", floor)
    distance = at - floor.v
    return And(
        grid.ahead(value, floor) == If(distance > 0, distance, 0),
        Implies(distance <= 0, grid.behind(value, floor) == -distance),
    )


def within_exactly(bits, endless):
    grid = Grid.any_built(bits, endless)
    floor = grid.any_floor("floor")
    at, value = grid.instant("at", floor)
    span = number("span", 1)
    # The span of a window lies within the horizon, and can be told from instants ahead.
    ring = MAX // 4 if endless else grid.field_max + 1
    fact(span.v + grid.ahead_max.v < (2**64 if endless else ring))
    return Iff(grid.within(value, floor, span), at + span.v > floor.v)


def written_exactly(bits, endless):
    grid = Grid.any_built(bits, endless)
    floor, units = grid.any_floor("floor"), number("units")
    fact(units <= grid.reach)
    value = grid.later(floor, units)
    return And(grid.is_at(value, floor.v + units.v), grid.sees(floor.v + units.v, floor))


def one(state):
    return lambda: iter([("all", state)])


def chain(*states):
    return lambda: iter([(s.__doc__ or s.__name__, s) for s in states])


PROPERTIES = [
    Property("the fraction by long division is exact", chain(halves, halves_of_one)),
    Property("an instant is placed exactly by two multiplications: the error", chain(the_product, the_error)),
    Property("an instant is placed exactly by two multiplications: the bounds", one(exact_bounds)),
    Property("an instant is placed exactly by two multiplications: the floor", one(exact_floor)),
    Property("the beginning of a unit is told by the half that is dropped", chain(exact_beginnings, units_begin)),
    Property("the phase is exact although its products wrap", one(phases)),
    Property("floors rise with time, and are no later than their instants", chain(floors_rise, no_floor_above_the_instant)),
    Property("a wait in nanoseconds is sufficient", one(waits_suffice)),
    Property("a wait in nanoseconds is minimal", one(waits_are_minimal)),
    Property("a grid that can be built satisfies what the steps assume",
             lambda: ((f"{bits} bits", what_can_be_built(bits)) for bits in WIDTHS)),
    Property("the distance of an instant ahead or behind is exact", each(seen_exactly)),
    Property("the test for being within a span is exact", each(within_exactly)),
    Property("an instant written ahead is exact and is told apart", each(written_exactly)),
]

FAULTS = [
    Fault("long division forgets the remainder of its first half", "the fraction by long division is exact",
          "second = (first % denominator) * 2**64", "second = first % denominator"),
    Fault("a fraction that is short by a whole unit", "an instant is placed exactly by two multiplications: the error",
          "return And(n.v * r.v < 2**64 * nanos.v,", "return And(n.v * r.v < 2**63 * nanos.v,"),
    Fault("nanos up to 2^65", "an instant is placed exactly by two multiplications: the bounds",
          """    nanos, q, p = number("nanos", 1, 2**63 - 1), number("q"), number("p")
    x, e =""", """    nanos, q, p = number("nanos", 1, 2**65), number("q"), number("p")
    x, e ="""),
    Fault("the low product is dropped", "an instant is placed exactly by two multiplications: the floor",
          "((high + (low >> 64) + 1) >> 64)", "((high + 1) >> 64)"),
    Fault("the sum is not rounded before the low bits are dropped", "an instant is placed exactly by two multiplications: the floor",
          "((high + (low >> 64) + 1) >> 64)", "((high + (low >> 64)) >> 64)"),
    Fault("the beginning of a unit is told without what is carried", "the beginning of a unit is told by the half that is dropped",
          "half = (high.v + ((low >> 64).v + 1)) % 2**64", "half = (high.v + (low >> 64).v) % 2**64"),
    Fault("only one of the products wraps", "the phase is exact although its products wrap",
          "placed = now.wrapping_mul(self.units)", "fact(self.units == 3, self.nanos == 7, now == MAX)\n"
          "        placed = now.saturating_mul(self.units)"),
    Fault("a unit is shorter than a nanosecond", "floors rise with time, and are no later than their instants",
          "fact(units <= nanos)", "fact(units >= nanos)"),
    Fault("a wait that is rounded down", "a wait in nanoseconds is sufficient",
          "shares.div_ceil(self.units).v",
          "(fact(self.units == 3, self.nanos == 7_499, self.n == 5) or shares // self.units).v"),
    Fault("a wait that counts from the beginning of the unit", "a wait in nanoseconds is minimal",
          "U128(units.v) * self.nanos - self.phase", "U128(units.v) * self.nanos"),
    Fault("an endless grid without room for instants ahead", "a grid that can be built satisfies what the steps assume",
          "last_unit + reach.v <= field_max", "last_unit <= field_max"),
    Fault("an instant ahead by ahead_max is taken for one behind", "the distance of an instant ahead or behind is exact",
          "If(distance <= self.ahead_max, distance, U(0))", "If(distance < self.ahead_max, distance, U(0))"),
    Fault("an instant wraps on a grid whose clock does not", "the distance of an instant ahead or behind is exact",
          "distance = instant.wrapping_sub(now) & self.mask", "distance = instant.wrapping_sub(now) & self.field_max"),
    Fault("the span is one unit too long", "the test for being within a span is exact",
          "reach = span - 1", "reach = span - 0"),
    Fault("an instant written ahead saturates", "an instant written ahead is exact and is told apart",
          "return instant.wrapping_add(units) & self.mask", "return instant.saturating_add(units) & self.mask"),
]
