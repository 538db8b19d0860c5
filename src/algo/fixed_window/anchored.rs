//! Anchored windows as the hot path sees them: instants are those of the clock, and no window is held.

use core::time::Duration;

use super::FixedWindowParams;
use crate::algo::oracle::Window;
use crate::algo::{Grid, Liveness, RefundVisitor, Ring, StateMachine, Step, sealed::Sealed};
use crate::decision::{Denied, Permit};
use crate::time::Tick;

/// Parameters of anchored windows. Their instants are aligned as they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Anchored<'a>(pub(super) &'a FixedWindowParams);

impl Sealed for Anchored<'_> {}

impl StateMachine for Anchored<'_> {
    type Oracle = Window;
    type View = u64;
    const MAY_BE_COMPACT: bool = FixedWindowParams::MAY_BE_COMPACT;

    fn lease_cells(&self) -> u64 {
        self.0.lease_cells()
    }

    fn lease_life(&self, word: u64, now: Tick) -> Duration {
        self.0.lease_life(word, now)
    }

    #[inline(always)]
    fn permit_ahead(&self, word: u64, now: Tick, left: u64) -> Permit {
        self.0.permit_ahead(word, now, left)
    }

    #[inline(always)]
    fn dispatch_refund<V: RefundVisitor>(&self, visitor: V) -> Option<V::Out> {
        self.0.dispatch_refund(visitor)
    }

    #[inline]
    fn fresh(&self, now: Tick) -> u64 {
        self.0.end.set(0, self.instant(now))
    }

    #[inline(always)]
    fn read<R: Ring>(&self, word: u64, _: R, _: Tick, _: u64) -> u64 {
        word
    }

    #[inline(always)]
    fn step(&self, word: u64, now: Tick, n: u64) -> Step {
        self.0.step_at(word, now, n)
    }

    #[inline(always)]
    fn permit(&self, word: u64, now: Tick, n: u64) -> Permit {
        self.0.permit_at(word, now, n, 0)
    }

    #[inline(always)]
    fn denied(&self, word: u64, now: Tick, n: u64) -> Denied {
        self.0.denied_at(word, now, n, 0)
    }

    #[inline]
    fn instant(&self, now: Tick) -> u64 {
        self.0.grid.floor(now)
    }

    #[inline]
    fn liveness(&self, word: u64, instant: u64) -> Liveness {
        self.0.liveness(word, instant)
    }

    fn no_slot(&self, word: u64, now: Tick, skew: Duration) -> Denied {
        self.0.no_slot(word, now, skew)
    }

    fn grid(&self) -> &Grid {
        &self.0.grid
    }

    fn oracle(&self) -> Window {
        self.0.oracle()
    }
}
