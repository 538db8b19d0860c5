"""The leaky bucket as a queue (`src/algo/leaky_queue.rs`). Its word, grid and admission are those of the
token bucket and are proved there; here the turns are proved."""

import gcra
import kit
from gcra import Gcra, Step
from kit import MAX, And, Fault, If, Iff, Implies, Not, Or, Property, U, fact, number


class LeakyQueue:
    def __init__(self, bucket, immediate):
        self.bucket, self.immediate = bucket, immediate

    # As in the Rust.

    def delay(self, debt, n):
        return If(n == 0, U(0), debt.saturating_sub(self.bucket.cost(self.immediate.saturating_sub(n))))

    def permit(self, word, now, n):
        """The debt that a permit reports, and the delay in units."""
        floor = self.bucket.grid.floor(now)
        debt = self.bucket.debt(word, floor)
        return debt + self.bucket.cost(n), self.delay(debt, n)


class State(gcra.State):
    def __init__(self, bits, endless):
        super().__init__(bits, endless)
        self.queue = LeakyQueue(self.bucket, number("immediate"))
        fact(self.step().admits, self.n != 0)


def each(state):
    def claims():
        for bits, endless in gcra.KINDS:
            yield f"{bits} bits, {'endless' if endless else 'wrapping'}", lambda: state(State(bits, endless))
    return claims


def turns_are_exact(at):
    """`max(0, debt + n * cell - max(k, n) * cell)`, in integers without bounds."""
    cell, k = at.bucket.cell.v, at.queue.immediate.v
    at_once = If(k > at.n.v, k, at.n.v)
    exactly = at.level.debt(at.floor) + at.n.v * cell - at_once * cell
    delay = at.queue.permit(at.word, at.floor, at.n)[1]
    return delay == If(exactly > 0, exactly, 0)


def turns_are_as_far_apart_as_the_costs(at):
    """If at most one cell passes without delay, the next request, by any clock, has its turn no earlier
    than this turn plus the cost of this request."""
    fact(at.queue.immediate <= 1)
    turn = at.floor.v + at.queue.permit(at.word, at.floor, at.n)[1].v
    next = at.step().next
    later, more = at.grid.any_floor("later"), number("more", 1)
    after = at.level.charged(at.floor, at.n)
    fact(at.grid.sees(after, later))
    next_turn = later.v + at.queue.delay(at.bucket.debt(gcra.in_word(next), later), more).v
    return And(next_turn >= turn + at.n.v * at.bucket.cell.v, turn >= at.level.at)


def no_wait_is_longer_than_the_queue(at):
    debt, delay = at.queue.permit(at.word, at.floor, at.n)
    cell = at.bucket.cell.v
    fact(at.n.v * cell >= cell)  # `no more cells cost no more`: n is not 0.
    return And(delay.v <= at.bucket.capacity.v - cell, delay <= debt)


PROPERTIES = [
    Property("the turn is exact", each(turns_are_exact)),
    Property("turns are as far apart as the costs", each(turns_are_as_far_apart_as_the_costs)),
    Property("no wait is longer than the queue", each(no_wait_is_longer_than_the_queue)),
]

FAULTS = [
    Fault("the cost of the immediate cells wraps", "the turn is exact",
          "self.bucket.cost(self.immediate.saturating_sub(n))",
          "(self.immediate.saturating_sub(n)).wrapping_mul(self.bucket.cell)"),
    Fault("every request has its own immediate cells", "turns are as far apart as the costs",
          "self.immediate.saturating_sub(n)", "self.immediate"),
    Fault("a request waits for its own cost", "no wait is longer than the queue",
          "If(n == 0, U(0), debt.saturating_sub(", "If(n == 0, U(0), (debt + self.bucket.cost(n)).saturating_sub("),
]
