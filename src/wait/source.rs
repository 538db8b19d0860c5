//! What a line stands before: a limiter, held by value, by reference or in an [`Arc`].

use core::cell::Cell;
use core::hash::Hash;
use core::time::Duration;
use std::sync::Arc;

use crate::algo::StateMachine;
use crate::algo::gcra::{Gcra, GcraParams};
use crate::cell::Paid;
use crate::charge::refund::Taken;
use crate::decision::{Decision, Denied};
use crate::limiter::Limiter;
use crate::limiter::direct::Direct;
use crate::table::Probe;
use crate::time::{Clock, Tick};

/// What a [`WaitQueue`](crate::wait::WaitQueue) may stand before. Sealed: it is a [`Limiter`] or a [`Direct`] with a
/// token bucket ([`Gcra`]), one of them by reference, or in an [`Arc`]. The key of a `Direct` is
/// `()`.
///
/// ```
/// use std::time::Duration;
/// use tollgate::wait::{WaitQueue, Waitable};
/// use tollgate::{Direct, Quota};
/// fn is_empty<S: Waitable>(line: &WaitQueue<S>) -> bool {
///     line.waiting() == 0
/// }
/// let gate = Direct::new(Quota::per_second(9))?;
/// assert!(is_empty(&WaitQueue::new(&gate)));
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub trait Waitable: sealed::Held {}

impl<S: sealed::Held> Waitable for S {}

/// Turns are whole nanoseconds, rounded up: of a delay, and of the turn before and after it.
const TURNS_ROUNDED: Duration = Duration::from_nanos(2);

/// Which state the cells of a key are charged to.
#[derive(Clone, Copy, Debug)]
pub struct Place(Probe);

impl Place {
    /// Tells lines apart. Two keys of one hash share a bucket, and so a line.
    pub(super) fn hash(self) -> u64 {
        self.0.hash()
    }
}

pub(crate) mod sealed {
    use super::{Cell, Decision, Denied, Duration, GcraParams, Paid, Place, TURNS_ROUNDED, Tick};

    /// Whoever has a [`Gate`].
    pub trait Held {
        /// What is asked for.
        type Key: ?Sized;
        type Gate: Gate<Key = Self::Key>;

        fn gate(&self) -> &Self::Gate;
    }

    /// What a line needs of a limiter.
    pub trait Gate {
        type Key: ?Sized;

        fn place(&self, key: &Self::Key) -> Place;
        fn now(&self) -> Tick;
        fn algo(&self) -> &GcraParams;
        /// The state; a fresh one if there is none.
        fn state(&self, place: Place, now: Tick) -> u64;
        /// Charges cells whose turn comes within `wait`, and tells when. `Err(None)`: the key finds
        /// no place.
        fn book(
            &self,
            place: Place,
            n: u64,
            now: Tick,
            wait: Duration,
        ) -> Result<(Paid, Duration), Option<Denied>>;
        /// Gives back what was booked, as far as time has not restored it since its turn.
        fn take_back(&self, place: Place, paid: &Paid, now: Tick);
        /// Replaces the state that was charged, if it is of the same life.
        fn revise(&self, place: Place, paid: &Paid, next: &dyn Fn(u64) -> u64);
        /// Asks without waiting.
        fn ask(&self, place: Place, n: u64, now: Tick) -> Decision;

        fn burst(&self) -> u64 {
            self.algo().burst()
        }

        /// How long until so many more cells will have had their turn.
        fn turn_behind(&self, place: Place, cells: u64, now: Tick) -> Duration {
            self.algo().turn_behind(self.state(place, now), now, cells)
        }

        /// The turn of what was charged last: no later than that, if it has passed.
        fn turn_of_last(&self, place: Place, now: Tick) -> Tick {
            self.algo().turn_of_last(self.state(place, now), now)
        }

        /// Has what was booked count as charged at `now`, which is after its turn, as far as that
        /// makes the state worse. Returns by how much later those behind may have their turns for it:
        /// zero if the state is no worse.
        ///
        /// What is given back of it counts from its turn on, or from later by as much as this makes
        /// the state worse: see `refund` of the token bucket.
        fn defer(&self, place: Place, paid: &mut Paid, now: Tick) -> Duration {
            let (algo, cells, worse) = (self.algo(), paid.cells(), Cell::new(Duration::ZERO));
            self.revise(place, paid, &|word| {
                let (next, by) = algo.deferred(word, cells, now);
                worse.set(by);
                next
            });
            let late = now.since(paid.receipt.at);
            paid.receipt.at = paid.receipt.at.saturating_add(worse.get()).min(now);
            if worse.get().is_zero() { Duration::ZERO } else { late.saturating_add(TURNS_ROUNDED) }
        }
    }
}

impl<K: Hash + ?Sized, C: Clock> sealed::Gate for Limiter<K, Gcra, C> {
    type Key = K;

    fn place(&self, key: &K) -> Place {
        Place(self.probe(key))
    }

    fn now(&self) -> Tick {
        self.clock().now()
    }

    fn algo(&self) -> &GcraParams {
        self.params()
    }

    fn state(&self, place: Place, now: Tick) -> u64 {
        let seen = self.table().peek(place.0, self.params(), now, 0);
        seen.unwrap_or_else(|| self.params().fresh(now))
    }

    fn book(
        &self,
        place: Place,
        n: u64,
        now: Tick,
        wait: Duration,
    ) -> Result<(Paid, Duration), Option<Denied>> {
        self.charge_within(place.0, n, now, wait)
    }

    fn take_back(&self, place: Place, paid: &Paid, now: Tick) {
        self.refund(&Taken::Slot(place.0, *paid), paid.cells(), || now);
    }

    fn revise(&self, place: Place, paid: &Paid, next: &dyn Fn(u64) -> u64) {
        self.table().revise_charged(place.0, paid, next);
    }

    fn ask(&self, place: Place, n: u64, now: Tick) -> Decision {
        self.decide_begun(place.0, n, now)
    }
}

impl<C: Clock> sealed::Gate for Direct<Gcra, C> {
    type Key = ();

    fn place(&self, (): &()) -> Place {
        Place(Probe::default())
    }

    fn now(&self) -> Tick {
        self.clock().now()
    }

    fn algo(&self) -> &GcraParams {
        self.params()
    }

    fn state(&self, _: Place, now: Tick) -> u64 {
        self.cell().read(self.params(), now, 0)
    }

    fn book(
        &self,
        _: Place,
        n: u64,
        now: Tick,
        wait: Duration,
    ) -> Result<(Paid, Duration), Option<Denied>> {
        self.charge_within(n, now, wait).map_err(Some)
    }

    fn take_back(&self, _: Place, paid: &Paid, now: Tick) {
        self.refund(&Taken::Bucket(*paid), paid.cells(), || now);
    }

    fn revise(&self, _: Place, paid: &Paid, next: &dyn Fn(u64) -> u64) {
        self.cell().revise_charged(paid, next);
    }

    fn ask(&self, _: Place, n: u64, now: Tick) -> Decision {
        self.decide_at(n, now)
    }
}

impl<K: Hash + ?Sized, C: Clock> sealed::Held for Limiter<K, Gcra, C> {
    type Key = K;
    type Gate = Self;

    fn gate(&self) -> &Self {
        self
    }
}

impl<C: Clock> sealed::Held for Direct<Gcra, C> {
    type Key = ();
    type Gate = Self;

    fn gate(&self) -> &Self {
        self
    }
}

impl<S: sealed::Held> sealed::Held for &S {
    type Key = S::Key;
    type Gate = S::Gate;

    fn gate(&self) -> &S::Gate {
        (**self).gate()
    }
}

impl<S: sealed::Held> sealed::Held for Arc<S> {
    type Key = S::Key;
    type Gate = S::Gate;

    fn gate(&self) -> &S::Gate {
        (**self).gate()
    }
}
