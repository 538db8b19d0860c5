//! Charges whatever the limit, charges of what is there, charges ahead of their time, and refunds
//! that belong to no reservation.

use core::hash::Hash;
use core::time::Duration;

use crate::algo::{Ahead, Algorithm, Refund, StateMachine};
use crate::cell::{ChargeReceipt, Request};
use crate::charge::chargeable::Chargeable;
use crate::charge::refund::RefundableCharge;
use crate::decision::{Decision, Denied};
use crate::limiter::ask::Ask;
use crate::limiter::direct::Direct;
use crate::limiter::{Limiter, WhenFull, unseen};
use crate::table::{Charged, Event, KeyRequest, Probe};
use crate::time::{Clock, Tick};

impl<G: Chargeable> Ask<'_, '_, G> {
    /// Charges cells that are spent already, whatever the limit: for a cost that is known only
    /// afterwards. Later requests are denied until the debt is paid. Returns how long that takes: until no
    /// more is owed than the burst (or the window ends). That is zero if the cells were there, or none
    /// are asked for.
    ///
    /// A debt is bounded by what a state can hold. With [`Gcra`](crate::Gcra) that is at least 16
    /// bursts of the limiter's own quota, the burst itself included (for ordinary quotas in
    /// [wide slots](crate::limiter::SlotLayout) it is a century). Only a burst larger than 2^46 units of the
    /// algorithm's time grid (2^27 in compact slots with a unit below a microsecond) has less, down to the burst
    /// itself. A [plan](crate::plan::Plan) has the same bound, its own burst included: a plan whose burst is as large
    /// as the bound leaves no room for debt, and the returned time is zero. A limiter that is built
    /// [for plans](crate::Gcra::for_plans) has more room. With a fixed window, what is charged beyond the limit
    /// ends with the window, and the largest count is one less than the next power of two above `limit + 1`. Debt
    /// beyond the bound is forgiven; the returned time is then that of the largest debt.
    ///
    /// **Not guaranteed.** A key that [finds no slot](crate::OnFull) is not charged, and the time is zero;
    /// [`try_charge`](Self::try_charge) tells the two apart. (With
    /// [`OnFull::SharedOverflow`](crate::OnFull::SharedOverflow) the shared limiter is charged.)
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Limiter, Quota, Tick};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_second(10)).build()?;
    /// let ask = || gate.ask("a").at(Tick::ZERO);
    /// assert_eq!(ask().cells(15).charge(), Duration::from_millis(500)); // 5 more than there were
    /// assert_eq!(ask().check().unwrap_err().retry_after(), Some(Duration::from_millis(600)));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn charge(self) -> Duration {
        self.try_charge().unwrap_or_default()
    }

    /// As [`charge`](Self::charge), and `None` if the key finds no slot, so that nothing is charged. For no cells it
    /// is zero, whether or not the key has a slot.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Limiter, OnFull, Quota};
    /// let gate: Limiter<u32> =
    ///     Limiter::builder(Quota::per_hour(1)).capacity(1).on_full(OnFull::Deny).build()?;
    /// let charged = (0..1_000).filter(|key| gate.ask(key).try_charge() == Some(Duration::ZERO));
    /// assert_eq!(charged.count(), gate.len());
    /// assert_eq!(gate.ask(&999).try_charge(), None);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn try_charge(self) -> Option<Duration> {
        let Self { gate, key, cells, at, plan, .. } = self;
        gate.charge_spent(gate.or_own(plan), gate.spot(key), cells, gate.or_now(at))
    }

    /// Charges as many of the cells as there are, and returns how many. With
    /// [`cells(u64::MAX)`](Self::cells) it takes all that are left.
    ///
    /// If a bucket that [starts empty](crate::Gcra::start_empty) has none left, it is asked for one, since it begins to
    /// fill when it first denies a cell. That counts as a denial.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_hour(10)).build()?;
    /// assert!(gate.check_n("a", 3).is_ok());
    /// assert_eq!(gate.ask("a").cells(5).charge_available(), 5);
    /// assert_eq!(gate.ask("a").cells(u64::MAX).charge_available(), 2);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn charge_available(self) -> u64 {
        let ask = self.at(self.gate.or_now(self.at));
        // Such a bucket begins to fill when it first denies a cell.
        let min = u64::from(self.gate.or_own(self.plan).starts_in_debt());
        charge_available(self.cells, min, |n| G::peek(ask.cells(n)), |n| G::check(ask.cells(n)))
    }

    /// Adds up to the asked cells to those that the key has, but no more than the burst. They are beyond the
    /// quota. Cells [charged](Self::charge) beyond the burst are paid first. A key that has no
    /// state has all its cells already.
    ///
    /// **Not guaranteed.**
    ///
    /// - A key that [starts empty](crate::Gcra::start_empty) and was never asked about has no state,
    ///   nor has a key that finds no slot: cells added to it are lost.
    /// - While a fixed window's count is at its maximum, the limiter does not know how much debt it
    ///   forgave: it can add no cells until the window ends.
    /// - A [reservation](crate::reservation::Reservation) from before this call that is refunded after
    ///   it counts as if its cells had still been owed: both together may add as many cells as the two
    ///   say, though never beyond the burst.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota, Tick};
    /// let gate: Limiter<str> = Limiter::builder(Quota::per_second(10)).build()?;
    /// let ask = || gate.ask("a").at(Tick::ZERO);
    /// ask().cells(15).charge();
    /// ask().cells(6).refund();
    /// assert_eq!(ask().cells(0).peek().unwrap().remaining(), 1);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn refund(self) {
        let Self { gate, key, cells, at, plan, .. } = self;
        gate.add(gate.or_own(plan), gate.spot(key), cells, gate.or_now(at));
    }
}

/// Charges what is left, at most `max`. It asks for `min` cells, if the caller wants any, even if fewer are left.
fn charge_available(
    max: u64,
    min: u64,
    peek: impl Fn(u64) -> Decision,
    check: impl Fn(u64) -> Decision,
) -> u64 {
    let left = peek(0).map_or_else(|denied| denied.remaining(), |permit| permit.remaining());
    let mut n = max.min(left.max(min));
    while n > 0 {
        match check(n) {
            Ok(_) => break,
            // Other threads were faster.
            Err(denied) => n = denied.remaining().min(n - 1),
        }
    }
    n
}

impl<K: Hash + ?Sized, A: Algorithm<Params: Refund>, C: Clock> Limiter<K, A, C> {
    /// Charges `n` cells by an algorithm that works on the same states as the limiter's own.
    /// `Err(None)`: the key finds no slot.
    pub(super) fn charge(
        &self,
        algo: &A::Params,
        probe: Probe,
        n: u64,
        now: Tick,
    ) -> Result<ChargeReceipt, Option<Denied>> {
        let request = Request { now, cells: n };
        let asked = KeyRequest { probe, machine: algo, request };
        match self.table().charge(&asked) {
            Charged::Admitted(paid) => Ok(paid),
            Charged::Denied(denied) => Err(Some(denied)),
            Charged::Full(_) => Err(None),
        }
    }

    /// Charges `n` cells that are spent already, as far as a state can hold them. Returns what was
    /// charged.
    pub(super) fn charge_anyway(
        &self,
        algo: &A::Params,
        probe: Probe,
        n: u64,
        now: Tick,
    ) -> RefundableCharge {
        let overdrawn = algo.overdrawn();
        anyway(n, |fewer| match self.charge(&overdrawn, probe, fewer, now) {
            // The shared limiter may hold more than the key's own state.
            Err(None) => Ok(self.charge_shared(n, now)),
            charged => charged.map(|paid| RefundableCharge::Slot(probe, paid)),
        })
    }

    /// Charges `n` cells that are spent already to the limiter that keys without a slot share, if there is one.
    #[cold]
    fn charge_shared(&self, n: u64, now: Tick) -> RefundableCharge {
        let WhenFull::Share(shared) = self.when_full() else { return RefundableCharge::Nothing };
        self.table().counters().count(Event::Overflowed);
        let (cell, overdrawn) = (shared.1.cell(), self.still(&shared.0, now).overdrawn());
        anyway(n, |n| Ok(RefundableCharge::Bucket(cell.charge(&overdrawn, now, n)?)))
    }

    /// How long until a charge could have been made in the usual way.
    pub(super) fn turn_of(
        &self,
        algo: &A::Params,
        taken: &RefundableCharge,
        now: Tick,
    ) -> Duration {
        match (taken, self.when_full()) {
            (RefundableCharge::Slot(_, paid), _) => turn_of(algo, paid, now),
            (RefundableCharge::Bucket(paid), WhenFull::Share(shared)) => {
                turn_of(&*self.still(&shared.0, now), paid, now)
            }
            _ => Duration::ZERO,
        }
    }
}

impl<K: Hash + ?Sized, A: Algorithm<Params: Ahead>, C: Clock> Limiter<K, A, C> {
    /// Charges the cells if they would be admitted within `wait`, and returns how long that is. Until
    /// then the charge can be refunded in full. `Err(None)`: the key finds no slot.
    pub(crate) fn charge_within(
        &self,
        algo: &A::Params,
        probe: Probe,
        request: Request,
        wait: Duration,
    ) -> Result<(ChargeReceipt, Duration), Option<Denied>> {
        let Request { now, cells: n } = request;
        match self.charge(&algo.within(now, wait), probe, n, now) {
            Ok(paid) => Ok(with_turn(algo, paid, now)),
            Err(None) => Err(None),
            // The denial is about the limit itself, not about the wait.
            Err(Some(_)) => {
                let seen = self.table().peek(probe, algo, now, n);
                let seen = seen.unwrap_or_else(|| unseen(algo, n, now));
                Err(Some(algo.denied(seen, now, n)))
            }
        }
    }
}

impl<A: Algorithm<Params: Refund>, C: Clock> Direct<A, C> {
    /// Charges `n` cells that are spent already, as far as a state can hold them. Returns how long
    /// until the charge could have been made in the usual way.
    pub(super) fn charge_anyway(&self, algo: &A::Params, n: u64, now: Tick) -> Duration {
        let overdrawn = algo.overdrawn();
        match anyway(n, |n| Ok(RefundableCharge::Bucket(self.cell().charge(&overdrawn, now, n)?))) {
            RefundableCharge::Bucket(paid) => turn_of(algo, &paid, now),
            RefundableCharge::Slot(..) | RefundableCharge::Nothing => Duration::ZERO,
        }
    }
}

impl<A: Algorithm<Params: Ahead>, C: Clock> Direct<A, C> {
    /// Charges `n` cells if they would be admitted within `wait`, and returns how long that is. Until
    /// then the charge can be refunded in full.
    pub(crate) fn charge_within(
        &self,
        algo: &A::Params,
        n: u64,
        now: Tick,
        wait: Duration,
    ) -> Result<(ChargeReceipt, Duration), Denied> {
        match self.cell().charge(&algo.within(now, wait), now, n) {
            Ok(paid) => Ok(with_turn(algo, paid, now)),
            Err(denied) => Err(self.cell().peek(algo, now, n).err().unwrap_or(denied)),
        }
    }
}

/// A charge that counts as made when its turn comes, and how long that is.
fn with_turn(algo: &impl Refund, mut paid: ChargeReceipt, now: Tick) -> (ChargeReceipt, Duration) {
    let wait = algo.turn(paid.charge.next, now);
    paid.charge.at = now.saturating_add(wait);
    (paid, wait)
}

/// Charges all of `n` cells, or as many as there is room for. The last attempt is for no cells: it
/// returns the state.
fn anyway(
    mut n: u64,
    charge: impl Fn(u64) -> Result<RefundableCharge, Option<Denied>>,
) -> RefundableCharge {
    if n == 0 {
        return RefundableCharge::Nothing;
    }
    loop {
        match charge(n) {
            Ok(taken) => return taken,
            Err(Some(denied)) if n > 0 => n = denied.remaining().min(n - 1),
            Err(_) => return RefundableCharge::Nothing,
        }
    }
}

/// How long until a charge could have been made in the usual way.
fn turn_of(algo: &impl Refund, paid: &ChargeReceipt, now: Tick) -> Duration {
    let nowhere = paid.generation == ChargeReceipt::NO_LIFE;
    if nowhere { Duration::ZERO } else { algo.turn(paid.charge.next, now) }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use core::cell::RefCell;

    use super::*;
    use crate::algo::Receipt;
    use crate::decision::Permit;
    use crate::quota::Quota;
    use crate::time::ManualClock;

    /// The answers of a bucket that has this many cells left: to none, and to one more.
    fn answers(left: u64) -> (Permit, Denied) {
        let gate = Direct::builder(Quota::per_hour(left + 1)).clock(ManualClock::new());
        let gate = gate.build().expect("in range");
        assert!(gate.check().is_ok());
        let denied = gate.check_n(left + 1).expect_err("one too many");
        (gate.check_n(0).expect("no cells"), denied)
    }

    /// The cells that are charged, and those that were asked for, where a look has found `seen`. Then `left` are
    /// granted at once, while a denial says that `said` are left.
    fn charged(max: u64, seen: u64, left: u64, said: u64) -> (u64, Vec<u64>) {
        charged_at_least((max, 0), seen, left, said)
    }

    fn charged_at_least(
        (max, min): (u64, u64),
        seen: u64,
        left: u64,
        said: u64,
    ) -> (u64, Vec<u64>) {
        let asked = RefCell::new(Vec::new());
        let check = |n| {
            asked.borrow_mut().push(n);
            assert!(asked.borrow().len() < 9, "it ends");
            if n > left { Err(answers(said).1) } else { Ok(answers(0).0) }
        };
        let charged = charge_available(max, min, |_| Ok(answers(seen).0), check);
        (charged, asked.into_inner())
    }

    #[test]
    fn a_charge_of_what_is_there_takes_what_others_have_left_meanwhile() {
        assert_eq!(charged(20, 10, 10, 0), (10, vec![10]));
        assert_eq!(charged(6, 10, 10, 0), (6, vec![6]));
        assert_eq!(charged(20, 10, 4, 4), (4, vec![10, 4]));
        assert_eq!(charged(20, 10, 0, 0), (0, vec![10]), "it asks for nothing if nothing is left");
        assert_eq!(charged(20, 0, 0, 0), (0, vec![]));
        assert_eq!(
            charged_at_least((20, 1), 0, 0, 0),
            (0, vec![1]),
            "it asks for one all the same"
        );
        assert_eq!(charged_at_least((0, 1), 0, 0, 0), (0, vec![]), "the caller wants nothing");
        assert_eq!(charged_at_least((20, 1), 10, 10, 0), (10, vec![10]));
        // Others refund theirs between the try and the denial.
        assert_eq!(charged(20, 10, 7, 20), (7, vec![10, 9, 8, 7]));
    }

    #[test]
    fn a_charge_of_what_is_spent_takes_what_there_is_room_for() {
        let asked = RefCell::new(Vec::new());
        let with_room = |room: u64, said: u64| {
            asked.borrow_mut().clear();
            let taken = anyway(10, |n| {
                asked.borrow_mut().push(n);
                assert!(asked.borrow().len() < 9, "it ends");
                let charge = Receipt { cells: n, ..ChargeReceipt::NOTHING.charge };
                let receipt = ChargeReceipt { charge, ..ChargeReceipt::NOTHING };
                let denied = n > room || room == 0;
                if denied {
                    Err(Some(answers(said).1))
                } else {
                    Ok(RefundableCharge::Bucket(receipt))
                }
            });
            (taken.cells(), asked.borrow().clone())
        };
        assert_eq!(with_room(10, 0), (10, vec![10]));
        assert_eq!(with_room(4, 4), (4, vec![10, 4]));
        assert_eq!(with_room(7, 20), (7, vec![10, 9, 8, 7]));
        assert_eq!(with_room(0, 0), (0, vec![10, 0]));
    }
}
