//! What a line stands before: a limiter, held by value, by reference or in an [`Arc`].

use core::hash::Hash;
use core::time::Duration;
use std::sync::Arc;

use crate::algo::GiveBack;
use crate::algo::gcra::Gcra;
use crate::cell::Paid;
use crate::decision::{Decision, Denied};
use crate::direct::Direct;
use crate::limiter::Limiter;
use crate::table::Probe;
use crate::time::{Clock, Tick};

/// What a [`Line`](crate::Line) may stand before. Sealed: it is a [`Limiter`] or a [`Direct`] with a
/// token bucket ([`Gcra`]), one of them by reference, or in an [`Arc`]. The key of a `Direct` is
/// `()`.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Bookable, Direct, Line, Quota};
/// fn is_empty<S: Bookable>(line: &Line<S>) -> bool {
///     line.waiting() == 0
/// }
/// let gate = Direct::new(Quota::per_second(9))?;
/// assert!(is_empty(&Line::new(&gate)));
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub trait Bookable: sealed::Held {}

impl<S: sealed::Held> Bookable for S {}

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
    use super::{Decision, Denied, Duration, Paid, Place, Tick};

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
        fn burst(&self) -> u64;
        /// Charges cells whose turn comes within `wait`, and tells when. `Err(None)`: the key finds
        /// no place.
        fn book(
            &self,
            place: Place,
            n: u64,
            now: Tick,
            wait: Duration,
        ) -> Result<(Paid, Duration), Option<Denied>>;
        /// Takes back what was booked, and moves up what was booked behind it: true if so.
        fn take_back(&self, place: Place, paid: &Paid, behind: &mut [Paid], now: Tick) -> bool;
        /// Moves what was booked to `now`, if its turn was earlier.
        fn defer(&self, place: Place, paid: &mut Paid, now: Tick);
        /// How long until what was booked has its turn.
        fn turn(&self, paid: &Paid, now: Tick) -> Duration;
        /// How long until so many more cells will have had their turn.
        fn turn_behind(&self, place: Place, cells: u64, now: Tick) -> Duration;
        /// Asks without waiting.
        fn ask(&self, place: Place, n: u64, now: Tick) -> Decision;
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

    fn burst(&self) -> u64 {
        self.params.burst()
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

    fn take_back(&self, place: Place, paid: &Paid, behind: &mut [Paid], now: Tick) -> bool {
        self.take_back(place.0, paid, behind, now)
    }

    fn defer(&self, place: Place, paid: &mut Paid, now: Tick) {
        self.defer(place.0, paid, now);
    }

    fn turn(&self, paid: &Paid, now: Tick) -> Duration {
        self.params.turn(paid.receipt.next, now)
    }

    fn turn_behind(&self, place: Place, cells: u64, now: Tick) -> Duration {
        self.turn_behind(place.0, cells, now)
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

    fn burst(&self) -> u64 {
        self.params.burst()
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

    fn take_back(&self, _: Place, paid: &Paid, behind: &mut [Paid], now: Tick) -> bool {
        self.take_back(paid, behind, now)
    }

    fn defer(&self, _: Place, paid: &mut Paid, now: Tick) {
        self.defer(paid, now);
    }

    fn turn(&self, paid: &Paid, now: Tick) -> Duration {
        self.params.turn(paid.receipt.next, now)
    }

    fn turn_behind(&self, _: Place, cells: u64, now: Tick) -> Duration {
        self.turn_behind(cells, now)
    }

    fn ask(&self, _: Place, n: u64, now: Tick) -> Decision {
        self.check_at(n, now)
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
