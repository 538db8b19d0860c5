//! A wrapper of any algorithm that also denies requests that would have to wait too long for their
//! turn.
//!
//! It works on the states of the wrapped algorithm. So a limiter can decide one request with a
//! bound on its delay, and the next without.

use core::time::Duration;

use super::sealed::Sealed;
use super::{Grid, Liveness, Ring, StateMachine, Step, Visitor};
use crate::decision::parts::DecisionParts;
use crate::decision::{Denied, Permit};
use crate::time::Tick;

/// The machine `M`, which admits a request only if it has to wait for `max_delay` at most.
#[derive(Clone, Debug)]
pub(crate) struct WithinDelay<'a, M> {
    machine: &'a M,
    max_delay: Duration,
}

impl<'a, M: StateMachine> WithinDelay<'a, M> {
    pub(crate) fn new(machine: &'a M, max_delay: Duration) -> Self {
        Self { machine, max_delay }
    }

    /// By how much the delay of `n` cells exceeds the bound, if they would be admitted at all.
    fn excess(&self, view: M::View, now: Tick, n: u64) -> Option<Duration> {
        if !matches!(self.machine.step(view, now, n), Step::Admit { .. }) {
            return None;
        }
        let delay = self.machine.permit(view, now, n).delay();
        delay.checked_sub(self.max_delay).filter(|excess| !excess.is_zero())
    }
}

/// Passes each machine that it is given to a visitor, in a [`WithinDelay`] if it may delay.
struct Bounded<V> {
    visit: V,
    max_delay: Duration,
}

impl<V: Visitor> Visitor for Bounded<V> {
    type Out = V::Out;

    #[inline]
    fn visit<M: StateMachine>(self, machine: &M) -> V::Out {
        // The condition is constant, so only machines that may delay are compiled twice.
        match M::MAY_DELAY {
            true => self.visit.visit(&WithinDelay::new(machine, self.max_delay)),
            false => self.visit.visit(machine),
        }
    }
}

impl<M> Sealed for WithinDelay<'_, M> {}

impl<M: StateMachine> StateMachine for WithinDelay<'_, M> {
    type Oracle = M::Oracle;
    type View = M::View;
    const RINGED: bool = M::RINGED;
    const MAY_BE_COMPACT: bool = M::MAY_BE_COMPACT;
    const MAY_DELAY: bool = M::MAY_DELAY;
    const OWED_BY_RING: bool = M::OWED_BY_RING;

    fn may_delay(&self) -> bool {
        self.machine.may_delay()
    }

    #[inline]
    fn dispatch<V: Visitor>(&self, visit: V) -> V::Out {
        self.machine.dispatch(Bounded { visit, max_delay: self.max_delay })
    }

    fn ring_cells(&self) -> usize {
        self.machine.ring_cells()
    }

    fn has_note(&self) -> bool {
        self.machine.has_note()
    }

    fn cells_to_clear(&self) -> usize {
        self.machine.cells_to_clear()
    }

    fn fresh(&self, now: Tick) -> u64 {
        self.machine.fresh(now)
    }

    fn starts_in_debt(&self) -> bool {
        self.machine.starts_in_debt()
    }

    fn remembers_denials(&self) -> bool {
        self.machine.remembers_denials()
    }

    fn read<R: Ring>(&self, word: u64, ring: R, now: Tick, n: u64) -> M::View {
        self.machine.read(word, ring, now, n)
    }

    fn step(&self, view: M::View, now: Tick, n: u64) -> Step {
        match self.excess(view, now, n) {
            Some(_) => Step::Deny,
            None => self.machine.step(view, now, n),
        }
    }

    fn publish<R: Ring>(
        &self,
        view: M::View,
        ring: R,
        write: impl FnMut(usize, u64) -> bool,
    ) -> bool {
        self.machine.publish(view, ring, write)
    }

    fn note(&self, view: M::View, n: u64) -> u64 {
        self.machine.note(view, n)
    }

    fn permit(&self, view: M::View, now: Tick, n: u64) -> Permit {
        self.machine.permit(view, now, n)
    }

    fn denied(&self, view: M::View, now: Tick, n: u64) -> Denied {
        let Some(excess) = self.excess(view, now, n) else {
            return self.machine.denied(view, now, n);
        };
        let uncharged = self.machine.permit(view, now, 0);
        DecisionParts {
            limit: uncharged.limit(),
            remaining: uncharged.remaining(),
            reset_after: uncharged.reset_after(),
        }
        .denied(Some(excess))
    }

    fn instant(&self, now: Tick) -> u64 {
        self.machine.instant(now)
    }

    fn liveness(&self, word: u64, instant: u64) -> Liveness {
        self.machine.liveness(word, instant)
    }

    fn owed<R: Ring>(&self, word: u64, ring: R, instant: u64) -> u64 {
        self.machine.owed(word, ring, instant)
    }

    const DEBT_IS_TIME: bool = M::DEBT_IS_TIME;

    fn idle_in(&self, word: u64, instant: u64) -> u64 {
        self.machine.idle_in(word, instant)
    }

    fn no_slot(&self, word: u64, now: Tick, skew: Duration) -> Denied {
        self.machine.no_slot(word, now, skew)
    }

    fn grid(&self) -> &Grid {
        self.machine.grid()
    }

    fn skew_tolerance(&self) -> Option<Duration> {
        self.machine.skew_tolerance()
    }

    fn horizon(&self) -> Option<Duration> {
        self.machine.horizon()
    }

    fn oracle(&self) -> M::Oracle {
        self.machine.oracle()
    }
}

#[cfg(test)]
mod tests;
