//! [`AnyParams`] forwards every call to the machine of its algorithm.
//!
//! This file names no algorithm: the matches are in the [table](super).

use core::time::Duration;

#[cfg(feature = "std")]
use super::AnyOracle;
use super::{AnyParams, AnyView};
use crate::algo::grid::Grid;
use crate::algo::{
    CONFIG_WORDS, ClockChange, Liveness, Rebase, RefundVisitor, Restart, Ring, StateMachine, Step,
    Visitor, sealed::Sealed,
};
use crate::decision::{Denied, Permit};
#[cfg(feature = "shared-memory")]
use crate::time::wall::WallClock;
use crate::time::{Clock, Tick};

/// As the algorithm itself: a snapshot of a limiter of either type restores to the other.
impl Rebase for AnyParams {
    fn algorithm(&self) -> u64 {
        each_machine!(self, each => each.algorithm())
    }

    fn config_words(&self, unix_origin_nanos: u64) -> [u64; CONFIG_WORDS] {
        each_machine!(self, each => each.config_words(unix_origin_nanos))
    }

    fn wall_ahead_nanos(&self) -> i64 {
        each_machine!(self, each => each.wall_ahead_nanos())
    }

    #[cfg(feature = "shared-memory")]
    fn wall_clock_mut(&mut self) -> Option<&mut WallClock> {
        each_machine!(self, each => each.wall_clock_mut())
    }

    fn wall_shift_nanos(&self) -> u64 {
        each_machine!(self, each => each.wall_shift_nanos())
    }

    fn clock_change(&self, restart: &Restart) -> ClockChange {
        each_machine!(self, each => each.clock_change(restart))
    }

    fn rebase(&self, word: u64, ring: &mut [u64], change: &ClockChange) -> Option<u64> {
        each_machine!(self, each => each.rebase(word, ring, change))
    }
}

impl Sealed for AnyParams {}

impl StateMachine for AnyParams {
    #[cfg(feature = "std")]
    type Oracle = AnyOracle;
    type View = AnyView;
    const RINGED: bool = true;
    const MAY_DELAY: bool = true;
    const OWED_BY_RING: bool = true;

    #[inline]
    fn may_delay(&self) -> bool {
        each_machine!(self, each => each.may_delay())
    }

    #[inline(always)]
    fn dispatch<V: Visitor>(&self, visitor: V) -> V::Out {
        each_machine!(self, each => each.dispatch(visitor))
    }

    #[inline(always)]
    fn is_still(&self) -> bool {
        each_machine!(self, each => each.is_still())
    }

    #[inline(always)]
    fn as_built_at(&self, now: Tick, clock: &impl Clock) -> Option<Tick> {
        each_machine!(self, each => each.as_built_at(now, clock))
    }

    #[inline(always)]
    fn still_at(&self, now: impl FnOnce() -> Tick, clock: &impl Clock) -> Option<Self> {
        each_machine!(self, each => each.still_at(now, clock).map(Into::into))
    }

    fn set_utc_offset_secs(&self, offset_secs: i32) -> bool {
        each_machine!(self, each => each.set_utc_offset_secs(offset_secs))
    }

    fn lease_cells(&self) -> u64 {
        each_machine!(self, each => each.lease_cells())
    }

    fn lease_life(&self, word: u64, now: Tick) -> Duration {
        each_machine!(self, each => each.lease_life(word, now))
    }

    fn permit_ahead(&self, word: u64, now: Tick, left: u64) -> Permit {
        each_machine!(self, each => each.permit_ahead(word, now, left))
    }

    #[inline(always)]
    fn dispatch_refund<V: RefundVisitor>(&self, visitor: V) -> Option<V::Out> {
        each_machine!(self, each => each.dispatch_refund(visitor))
    }

    fn ring_cells(&self) -> usize {
        each_machine!(self, each => each.ring_cells())
    }

    #[inline]
    fn has_note(&self) -> bool {
        each_machine!(self, each => each.has_note())
    }

    fn cells_to_clear(&self) -> usize {
        each_machine!(self, each => each.cells_to_clear())
    }

    fn fresh(&self, now: Tick) -> u64 {
        each_machine!(self, each => each.fresh(now))
    }

    fn starts_in_debt(&self) -> bool {
        each_machine!(self, each => each.starts_in_debt())
    }

    fn remembers_denials(&self) -> bool {
        each_machine!(self, each => each.remembers_denials())
    }

    #[inline]
    fn read<R: Ring>(&self, word: u64, ring: R, now: Tick, n: u64) -> AnyView {
        each_machine!(self, each => each.read(word, ring, now, n).into())
    }

    #[inline]
    fn step(&self, view: AnyView, now: Tick, n: u64) -> Step {
        // A view is never that of another algorithm. If it were, nothing would be granted.
        each_view!(self, view, each, its => each.step(its, now, n), else Step::Deny)
    }

    #[inline]
    fn publish<R: Ring>(
        &self,
        view: AnyView,
        ring: R,
        write: impl FnMut(usize, u64) -> bool,
    ) -> bool {
        each_view!(self, view, each, its => each.publish(its, ring, write), else true)
    }

    #[inline]
    fn note(&self, view: AnyView, n: u64) -> u64 {
        each_view!(self, view, each, its => each.note(its, n), else 0)
    }

    #[inline]
    fn permit(&self, view: AnyView, now: Tick, n: u64) -> Permit {
        each_view!(self, view, each, its => each.permit(its, now, n), else {
            unreachable!("{self:?} saw {view:?}")
        })
    }

    #[inline]
    fn denied(&self, view: AnyView, now: Tick, n: u64) -> Denied {
        each_view!(self, view, each, its => each.denied(its, now, n), else {
            unreachable!("{self:?} saw {view:?}")
        })
    }

    fn instant(&self, now: Tick) -> u64 {
        each_machine!(self, each => each.instant(now))
    }

    fn liveness(&self, word: u64, instant: u64) -> Liveness {
        each_machine!(self, each => each.liveness(word, instant))
    }

    fn owed<R: Ring>(&self, word: u64, ring: R, instant: u64) -> u64 {
        each_machine!(self, each => each.owed(word, ring, instant))
    }

    const DEBT_IS_TIME: bool = false;

    fn idle_in(&self, word: u64, instant: u64) -> u64 {
        each_machine!(self, each => each.idle_in(word, instant))
    }

    fn no_slot(&self, word: u64, now: Tick, skew: Duration) -> Denied {
        each_machine!(self, each => each.no_slot(word, now, skew))
    }

    fn grid(&self) -> &Grid {
        each_machine!(self, each => each.grid())
    }

    fn skew_tolerance(&self) -> Option<Duration> {
        each_machine!(self, each => each.skew_tolerance())
    }

    fn horizon(&self) -> Option<Duration> {
        each_machine!(self, each => each.horizon())
    }

    #[cfg(feature = "std")]
    fn oracle(&self) -> AnyOracle {
        super::oracle_of(self)
    }
}
