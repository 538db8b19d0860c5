//! Reservations: cells charged by an estimate, and settled when the cost is known.
//!
//! # Guarded by
//!
//! `loom-tests/tests/settle.rs`, run by `ci/check.sh loom`, and the histories of `ci/check.sh shuttle`: a refund
//! must not reach the next owner of a slot, nor overwrite a charge that was made meanwhile.

use core::fmt;
use core::ops::Deref;
use std::sync::Arc;

use crate::charge::chargeable::{Chargeable, sealed::Charge};
use crate::charge::locate::Locate;
use crate::charge::refund::RefundableCharge;
use crate::decision::Denied;
use crate::limiter::ask::{Ask, sealed::Askable};
use crate::time::Tick;

/// Cells that were charged by an estimate, until the cost is known.
///
/// Choose it where a request's cost is known only when the request is over: the tokens of a language
/// model, the bytes of a response. [`Ask::reserve`] charges the estimate. [`settle`](Self::settle) then
/// charges what the request cost beyond it, or refunds what it did not cost. A reservation that is dropped
/// refunds all. [`OwnedReservation`] holds its limiter in an `Arc`.
///
/// ```
/// use tollgate::{Limiter, Quota};
///
/// // 100,000 tokens a minute for each tenant of a language model.
/// let gate: Limiter<str> = Limiter::builder(Quota::per_minute(100_000)).build()?;
/// let reserved = gate.ask("tenant").cells(4_000).reserve()?; // what the answer may cost at most
/// let tokens = 1_234; // what it did cost
/// reserved.settle(tokens);
/// assert_eq!(gate.peek("tenant")?.remaining() / 1_000, 98);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// **Guarantee.**
///
/// - With [`Gcra`](crate::Gcra), time restores the charged cells one after the other from the charge on, at
///   the rate, whatever else the key owes. The refund is exactly the cells that time has not restored yet,
///   or those that were not spent, whichever are fewer. The bucket is then never better than if the
///   refunded cells had not been charged at all, whatever was charged or refunded in the meantime.
/// - With a [`FixedWindow`](crate::FixedWindow), all that is not spent is refunded while the window is open
///   in which it was charged, and nothing afterwards.
/// - A key that was reset, or has lost its slot, is refunded nothing, even if it is back.
///
/// **Not guaranteed.**
///
/// - Other algorithms have no reservations: their states record too little of the past (the places of
///   a queue, and of a log, have been promised to others).
/// - Cells beyond the estimate are charged whatever the limit: see [`Ask::charge`] for the bound of a
///   debt. A [plan](crate::plan::Plan) with a large burst may have no room for one.
/// - If a key owes cells when it reserves, its refund may be too small, by up to that debt: time pays the old
///   debt first, and the same time also counts as restoring the reserved cells. (The state does not record what
///   others were refunded meanwhile.) So a key that is never out of debt is refunded nothing by a reservation held for
///   longer than `estimate / rate`. A [`FixedWindow`](crate::FixedWindow) refunds while the window is open.
/// - Two events while cells are reserved do not lessen the refund: cells that [`Ask::refund`] adds to the
///   key, and a debt that [`Ask::charge`] forgives because it is too large for the state.
/// - An anchored window that a reservation has opened stays where it is as long as anything else is counted
///   in it, even if everything is refunded. A window whose count is at its maximum, because of charges
///   beyond the limit, is refunded nothing: see [`Ask::charge`].
/// - If the time of a settlement is behind that of other requests by `s`, because another thread's clock is
///   ahead or the time was read before a pause, up to `rate * s` cells too many are refunded, but no more
///   than were charged.
/// - A key that [finds no slot](crate::OnFull) is treated by the limiter's policy. If that admits
///   all, nothing is charged and nothing refunded. If such keys share a limiter, that one is charged and
///   refunded.
/// - In [compact slots](crate::limiter::SlotLayout) one life of a key is not told from the next. A key that
///   was [reset](crate::Limiter::reset), or forgotten to make room for another, and is back is refunded
///   what its earlier life was charged.
/// - In [`SlotLayout::Wide`](crate::limiter::SlotLayout::Wide) that happens only to a key that has the same
///   slot again exactly a multiple of 1,024 lives later. No other key is refunded.
#[must_use = "a reservation that is dropped refunds its cells"]
pub struct Reservation<'g, G: Chargeable>(ReservationBy<&'g G>);

/// A [`Reservation`] that holds its limiter in an `Arc`, so that it may move with a request from task
/// to task.
///
/// Made by [`Ask::reserve_owned`].
///
/// ```
/// use std::sync::Arc;
/// use tollgate::reservation::OwnedReservation;
/// use tollgate::{Limiter, Quota};
///
/// struct InFlight { reserved: OwnedReservation<Limiter<str>> }
///
/// let gate: Arc<Limiter<str>> = Arc::new(Limiter::builder(Quota::per_hour(10)).build()?);
/// let reserved = gate.ask("a").cells(10).reserve_owned(&gate)?;
/// let request = InFlight { reserved };
/// std::thread::spawn(move || request.reserved.settle(4)).join().expect("no panic");
/// assert_eq!(gate.ask("a").cells(10).charge_available(), 6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a reservation that is dropped refunds its cells"]
pub struct OwnedReservation<G: Chargeable>(ReservationBy<Arc<G>>);

impl<'g, G: Chargeable> Ask<'g, '_, G> {
    /// Charges the cells by an estimate, to be settled later: see [`Reservation`].
    ///
    /// # Errors
    ///
    /// The denial, with the time to come back. Nothing is charged.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_hour(10)).build()?;
    /// let reserved = gate.ask("a").cells(10).reserve()?;
    /// assert!(gate.check("a").is_err());
    /// drop(reserved);
    /// assert!(gate.check("a").is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve(self) -> Result<Reservation<'g, G>, Denied> {
        ReservationBy::new(self.gate, &self).map(Reservation)
    }

    /// Charges the cells by an estimate, to be settled later by a reservation that holds the limiter in
    /// an `Arc`: see [`OwnedReservation`].
    ///
    /// # Errors
    ///
    /// The denial, with the time to come back. Nothing is charged.
    ///
    /// # Panics
    ///
    /// If `gate` is another limiter than the one that is asked.
    pub fn reserve_owned(self, gate: &Arc<G>) -> Result<OwnedReservation<G>, Denied> {
        assert!(core::ptr::eq(self.gate, &**gate), "the limiter that is asked");
        ReservationBy::new(Arc::clone(gate), &self).map(OwnedReservation)
    }
}

impl<G: Chargeable> Reservation<'_, G> {
    /// Cells that were asked for.
    #[must_use]
    pub fn cells(&self) -> u64 {
        self.0.cells
    }

    /// Makes it `actual` cells that were charged: charges what is missing, whatever the limit, or
    /// refunds what is too much, as far as time has not restored it.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota};
    /// let gate = Direct::new(Quota::per_hour(10))?;
    /// gate.ask().cells(7).reserve()?.settle(6);
    /// assert_eq!(gate.ask().cells(10).charge_available(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn settle(mut self, actual: u64) {
        self.0.settle(actual, None);
    }

    /// As [`settle`](Self::settle), at the instant `now`.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, Tick};
    /// let gate = Direct::new(Quota::per_second(10))?;
    /// let now = Tick::from_nanos(300_000_000);
    /// gate.ask().cells(7).at(Tick::ZERO).reserve()?.settle_at(2, now);
    /// // Time has restored 3 of the 7 by then; 4 of the 5 that were not spent are refunded.
    /// assert_eq!(gate.ask().cells(0).at(now).peek()?.remaining(), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn settle_at(mut self, actual: u64, now: Tick) {
        self.0.settle(actual, Some(now));
    }

    /// Refunds all, as far as time has not restored it by `now`. Dropping does so too, by the
    /// limiter's clock.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, Tick};
    /// let gate = Direct::new(Quota::per_second(10))?;
    /// gate.ask().cells(7).at(Tick::ZERO).reserve()?.refund_at(Tick::ZERO);
    /// assert_eq!(gate.ask().cells(0).at(Tick::ZERO).peek()?.remaining(), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refund_at(mut self, now: Tick) {
        self.0.settle(0, Some(now));
    }
}

impl<G: Chargeable> OwnedReservation<G> {
    /// Cells that were asked for.
    #[must_use]
    pub fn cells(&self) -> u64 {
        self.0.cells
    }

    /// Makes it `actual` cells that were charged: see [`Reservation::settle`].
    pub fn settle(mut self, actual: u64) {
        self.0.settle(actual, None);
    }

    /// As [`settle`](Self::settle), at the instant `now`.
    pub fn settle_at(mut self, actual: u64, now: Tick) {
        self.0.settle(actual, Some(now));
    }

    /// Refunds all, as far as time has not restored it by `now`: see [`Reservation::refund_at`].
    pub fn refund_at(mut self, now: Tick) {
        self.0.settle(0, Some(now));
    }
}

/// A reservation that holds its limiter by reference or in an `Arc`.
struct ReservationBy<H>
where
    H: Deref<Target: Chargeable>,
{
    gate: H,
    spot: SpotOf<H>,
    /// The algorithm that charged, if not the limiter's own.
    plan: Option<ParamsOf<H>>,
    /// `None`: settled.
    taken: Option<RefundableCharge>,
    cells: u64,
}

type SpotOf<H> = <<H as Deref>::Target as Locate>::Spot;
type ParamsOf<H> = <<H as Deref>::Target as Askable>::Params;

impl<H: Deref<Target: Chargeable>> ReservationBy<H> {
    fn new(gate: H, ask: &Ask<'_, '_, H::Target>) -> Result<Self, Denied> {
        let spot = gate.spot(ask.key);
        let taken = gate.take(gate.or_own(ask.plan), spot, ask.cells, gate.or_now(ask.at))?;
        Ok(Self { gate, spot, plan: ask.plan.cloned(), taken: Some(taken), cells: ask.cells })
    }

    /// Settles for `actual` cells, by the limiter's clock if no time is given.
    fn settle(&mut self, actual: u64, at: Option<Tick>) {
        let Some(taken) = self.taken.take() else { return };
        let algo = self.gate.or_own(self.plan.as_ref());
        if actual > self.cells {
            let now = self.gate.or_now(at);
            self.gate.charge_spent(algo, self.spot, actual - self.cells, now);
        } else {
            self.gate.refund(algo, &taken, self.cells - actual, at);
        }
    }
}

impl<H: Deref<Target: Chargeable>> Drop for ReservationBy<H> {
    fn drop(&mut self) {
        self.settle(0, None);
    }
}

impl<G: Chargeable> fmt::Debug for Reservation<'_, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").field("cells", &self.0.cells).finish_non_exhaustive()
    }
}

impl<G: Chargeable> fmt::Debug for OwnedReservation<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedReservation").field("cells", &self.0.cells).finish_non_exhaustive()
    }
}
