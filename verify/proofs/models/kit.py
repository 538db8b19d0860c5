"""The arithmetic that the models are written in, and what a proof is.

A model is written once, with the names of the Rust code it follows, over `U`: a `u64` (or, where a model
says so, a wider unsigned integer) that is either a Python integer or a z3 integer with bounds. So the text
that is proved for all inputs is the text that is compared with the Rust, input by input.
"""

from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Callable

import z3

MAX = 2**64 - 1
NEVER = MAX


class Panic(Exception):
    """Where Rust would panic: an overflow, or a broken assertion."""


class Context:
    """Collects the conditions without which a step would panic, each with the branches that lead to it."""

    def __init__(self):
        self.path, self.must_hold, self.facts, self.quotients = [], [], [], {}

    def require(self, condition, what):
        if isinstance(condition, bool) and all(isinstance(c, bool) for c in self.path):
            if not condition and all(self.path):
                raise Panic(what)
            return
        self.must_hold.append((what, Implies(And(*self.path), condition)))


CONTEXT = Context()


@contextmanager
def context():
    """A new context for one claim."""
    global CONTEXT
    before, CONTEXT = CONTEXT, Context()
    try:
        yield CONTEXT
    finally:
        CONTEXT = before


@contextmanager
def where(condition):
    """A branch: code in it can panic only if the condition holds."""
    CONTEXT.path.append(condition)
    try:
        yield
    finally:
        CONTEXT.path.pop()


def And(*conditions):
    if any(c is False for c in conditions):
        return False
    rest = [c for c in conditions if c is not True]
    return z3.And(*rest) if rest else True


def Or(*conditions):
    if any(c is True for c in conditions):
        return True
    rest = [c for c in conditions if c is not False]
    return z3.Or(*rest) if rest else False


def Not(condition):
    return not condition if isinstance(condition, bool) else z3.Not(condition)


def Implies(condition, then):
    return Or(Not(condition), then)


def Iff(a, b):
    if isinstance(a, bool) and isinstance(b, bool):
        return a == b
    return z3.And(Implies(a, b), Implies(b, a))


def If(condition, then, otherwise):
    """The first or the second of two numbers, words or conditions."""
    if isinstance(condition, bool):
        return then if condition else otherwise
    if hasattr(then, "either"):
        return then.either(condition, otherwise)
    if isinstance(then, U) or isinstance(otherwise, U):
        return U(z3.If(condition, *(raw(x) for x in (then, otherwise))))
    return z3.If(condition, then, otherwise)


def raw(x):
    return x.v if isinstance(x, U) else x


def exact(x):
    """The number, for arithmetic without bounds."""
    return raw(x)


class U:
    """An unsigned integer of 64 bits. `+`, `-` and `*` panic where they do in Rust's debug builds."""

    bits = 64

    def __init__(self, v):
        self.v = raw(v)

    def _made(self, v):
        return type(self)(v)

    def _checked(self, v, what):
        CONTEXT.require(And(v >= 0, v < 2**self.bits), what)
        return self._made(v)

    def __add__(self, o):
        return self._checked(self.v + raw(o), "add")

    def __sub__(self, o):
        return self._checked(self.v - raw(o), "subtract")

    def __rsub__(self, o):
        return self._made(o) - self

    def __mul__(self, o):
        return self._checked(self.v * raw(o), "multiply")

    __radd__ = __add__
    __rmul__ = __mul__

    def wrapping_add(self, o):
        sum = self.v + raw(o)
        return If(sum >= 2**self.bits, self._made(sum - 2**self.bits), self._made(sum))

    def wrapping_sub(self, o):
        left = self.v - raw(o)
        return If(left < 0, self._made(left + 2**self.bits), self._made(left))

    def wrapping_mul(self, o):
        return self._made((self.v * raw(o)) % 2**self.bits)

    def saturating_add(self, o):
        sum = self.v + raw(o)
        return If(sum >= 2**self.bits, self._made(2**self.bits - 1), self._made(sum))

    def saturating_sub(self, o):
        left = self.v - raw(o)
        return If(left < 0, self._made(0), self._made(left))

    def saturating_mul(self, o):
        product = self.v * raw(o)
        return If(product >= 2**self.bits, self._made(2**self.bits - 1), self._made(product))

    def __floordiv__(self, o):
        CONTEXT.require(raw(o) != 0, "divide by zero")
        return self._made(quotient(self.v, raw(o)))

    def __mod__(self, o):
        CONTEXT.require(raw(o) != 0, "divide by zero")
        return self._made(remainder(self.v, raw(o)))

    def div_ceil(self, o):
        CONTEXT.require(raw(o) != 0, "divide by zero")
        return self._made(quotient(self.v + raw(o) - 1, raw(o)))

    def __and__(self, mask):
        mask = raw(mask)
        assert isinstance(mask, int) and mask & (mask + 1) == 0, "masks are constants without gaps"
        return self if mask == 2**self.bits - 1 else self._made(self.v % (mask + 1))

    def __rshift__(self, count):
        return self._made(self.v // 2**count if isinstance(self.v, int) else self.v / 2**count)

    def min(self, o):
        return If(self.v <= raw(o), self, self._made(raw(o)))

    def max(self, o):
        return If(self.v >= raw(o), self, self._made(raw(o)))

    def __lt__(self, o):
        return self.v < raw(o)

    def __le__(self, o):
        return self.v <= raw(o)

    def __gt__(self, o):
        return self.v > raw(o)

    def __ge__(self, o):
        return self.v >= raw(o)

    def __eq__(self, o):
        return self.v == raw(o)

    def __ne__(self, o):
        return self.v != raw(o)

    __hash__ = None

    def __repr__(self):
        return f"U({self.v})"


class U128(U):
    bits = 128


def quotient(a, b):
    """Division, rounded down. If an operand is not constant, the quotient gets a name and a definition."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b else 0
    if isinstance(b, int):
        return a / b if b else 0
    return divided(a, b)[0]


def remainder(a, b):
    if isinstance(a, int) and isinstance(b, int):
        return a % b if b else 0
    if isinstance(b, int):
        return a % b if b else 0
    return divided(a, b)[1]


def divided(a, b):
    """Names quotient and remainder: `a = q * b + r`, `0 <= r < b`. Equal operands share their names."""
    a, b = (z3.IntVal(x) if isinstance(x, int) else x for x in (a, b))
    named = CONTEXT.quotients.get((a.get_id(), b.get_id()))
    if named is None:
        q, r = (z3.Int(f"{name}!{len(CONTEXT.quotients)}") for name in "qr")
        CONTEXT.facts.append(z3.Implies(b > 0, z3.And(a == q * b + r, 0 <= r, r < b)))
        CONTEXT.facts.append(z3.Implies(z3.And(b > 0, a >= 0), q >= 0))
        # Both operands are kept alive, so that z3 reuses their ids for no other numbers.
        named = CONTEXT.quotients[a.get_id(), b.get_id()] = (a, b, q, r)
    return named[2:]


def number(name, low=0, high=MAX, kind=U):
    """Any number of a range. The claim assumes that it is in the range."""
    v = z3.Int(name)
    CONTEXT.facts.append(z3.And(v >= low, v <= raw(high)))
    return kind(v)


def integer(name):
    """Any integer at all."""
    return z3.Int(name)


def fact(*conditions):
    """States an assumption of the claim, or a lemma that another property proves."""
    for condition in conditions:
        if isinstance(condition, bool):
            assert condition, "a false assumption"
        else:
            CONTEXT.facts.append(condition)


@dataclass
class Verdict:
    status: str  # PROVED, FAILED or UNKNOWN
    why: str = ""


@dataclass
class Property:
    name: str
    claims: Callable  # yields (label, goal) after it has stated its facts; see `prove`


PROVED = Verdict("PROVED")


def prove(property_):
    """Proves each claim of a property, or returns the one that fails, with its counterexample."""
    for label, state in property_.claims():
        with context() as at:
            goal = state()
            # The parts of a conjunction are proved one by one.
            parts = goal.children() if z3.is_and(goal) else [goal]
            goals = [(label, part) for part in parts if part is not None]
            goals += [(f"{label}: no panic ({what})", must) for what, must in at.must_hold]
            facts = list(at.facts)
        if not goals:
            return Verdict("FAILED", f"{label}: nothing is claimed")
        verdict = settle(facts, goals)
        if verdict.status != "PROVED":
            return verdict
    return PROVED


# Attempts in turn: the seed, the arithmetic solver, whether the solver knows what a product is, and the
# millions of steps after which it gives up. Solver 6 makes about 0.3 million in a second, solver 2 makes 25. One
# solver may prove at once what takes another for ever. A goal that is proved without knowing what products are is
# proved. The limits are steps so that a busy machine proves the same.
ATTEMPTS = [
    (0, 6, False, 1), (0, 6, True, 1.5), (1, 2, True, 20), (2, 6, True, 1.5), (3, 2, True, 50), (4, 6, True, 1.5), (5, 6, True, 10),
]
# Some work of the solver counts no step. It ends after so many seconds.
ATTEMPT_SECONDS_MAX = 60


def settle(facts, goals):
    first, last, possible = goals[0][0], Verdict("UNKNOWN", "no attempt was made"), z3.unknown
    for seed, arithmetic, products, steps in ATTEMPTS:
        solver = z3.Solver()
        solver.set("rlimit", int(1_000_000 * steps))
        solver.set("timeout", 1_000 * ATTEMPT_SECONDS_MAX)
        solver.set("random_seed", seed)
        solver.set("arith.solver", arithmetic)
        solver.set("arith.nl", products)
        solver.add(facts)
        if possible == z3.unknown and products:
            possible = solver.check()
        if possible == z3.unsat:
            return Verdict("FAILED", f"{first}: the assumptions contradict each other")
        open_ = []
        for at, (label, goal) in enumerate(goals):
            last = settle_one(solver, label, goal)
            if last.status == "FAILED" and products:
                return last
            if last.status != "PROVED":
                open_.append((label, goal))
            if open_ and products:
                open_ += goals[at + 1:]
                break
        goals = open_
        if not goals and products:
            return PROVED
    return last


def settle_one(solver, label, goal):
    if goal is True:
        return PROVED
    solver.push()
    solver.add(z3.Not(goal) if not isinstance(goal, bool) else z3.BoolVal(not goal))
    answer = solver.check()
    verdict = PROVED
    if answer == z3.sat:
        model = solver.model()
        values = ", ".join(f"{d} = {model[d]}" for d in sorted(model.decls(), key=str))
        verdict = Verdict("FAILED", f"{label}: {values}")
    elif answer == z3.unknown:
        verdict = Verdict("UNKNOWN", f"{label}: {solver.reason_unknown()}")
    solver.pop()
    return verdict


@dataclass
class Fault:
    """A known mistake: `old` in the model's text becomes `new`, and the property must fail."""

    what: str
    property: str
    old: str
    new: str


def timed(run):
    begun = monotonic()
    return run(), monotonic() - begun
