//! Local leases and refunds never exceed the limit, whichever lease holds the cells.

use proptest::prelude::*;
use tollgate::algorithm::Algorithm;
use tollgate::internals::oracle::Oracle;
use tollgate::internals::{NoRing, Receipt, Refund, StateMachine, Step};
use tollgate::limiter::SlotLayout;
use tollgate::{
    Direct, FixedWindow, Gcra, Limiter, ManualClock, OnFull, Quota, SlidingCounter, SubWindows,
    Tick,
};

use crate::bodies::span::worst_excess_of_bucket;

const SECOND: u64 = 1_000_000_000;
const LIMIT: u64 = 20;
const LEASES: usize = 3;

/// Nanoseconds since the last act, the index of a lease (or one more: the limiter itself), and the cells that
/// it is asked for. If a lease is asked for none, it refunds the cells that it holds.
type Act = (u64, usize, u64);

fn acts() -> impl Strategy<Value = Vec<Act>> {
    // Mostly at once; sometimes after a pause that restores some cells, or after an idle time.
    let gaps = prop_oneof![4 => Just(0), 3 => 0..SECOND / 8, 1 => 0..3 * SECOND];
    prop::collection::vec((gaps, 0..=LEASES, 0_u64..8), 1..120)
}

/// The time and the cells of every grant.
fn spent(take: u64, acts: &[Act]) -> Vec<(u64, u64)> {
    spent_by(Gcra::new().leases(take), acts)
}

fn spent_by(algorithm: impl Algorithm, acts: &[Act]) -> Vec<(u64, u64)> {
    let clock = ManualClock::new();
    let gate: Limiter<str, _, _> = Limiter::builder(Quota::per_second(LIMIT))
        .algorithm(algorithm)
        .clock(&clock)
        .slots(SlotLayout::Wide)
        .build()
        .expect("in range");
    let mut leases = [(); LEASES].map(|()| gate.lease("key"));
    let mut now = SECOND;
    let mut spent = Vec::new();
    for &(gap, index, n) in acts {
        now += gap;
        clock.set(Tick::from_nanos(now));
        let admitted = match leases.get_mut(index) {
            Some(lease) if n == 0 => {
                lease.refund_at(Tick::from_nanos(now));
                continue;
            }
            Some(lease) => lease.ask().cells(n).at(Tick::from_nanos(now)).check().is_ok(),
            None => gate.check_n("key", n).is_ok(),
        };
        if admitted {
            spent.push((now, n));
        }
    }
    spent
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_number_of_leases_is_granted_no_more_than_the_quota(
        take in 0..=LIMIT / 2, acts in acts(),
    ) {
        prop_assert!(worst_excess_of_bucket(&spent(take, &acts), LIMIT, LIMIT) <= 0.0);
    }

    #[test]
    fn leases_of_windows_are_granted_no_cell_that_the_oracle_of_the_quota_denies(
        take in 0..=LIMIT / 2, acts in acts(),
    ) {
        admitted_by_the_oracle(FixedWindow::anchored().leases(take), &acts)?;
        admitted_by_the_oracle(FixedWindow::aligned().leases(take), &acts)?;
        admitted_by_the_oracle(SubWindows::new().leases(take), &acts)?;
        admitted_by_the_oracle(SlidingCounter::new().leases(take), &acts)?;
    }
}

/// Every request that is admitted, the oracle without leases admits as well, if it is asked for those
/// only.
fn admitted_by_the_oracle(
    algorithm: impl Algorithm + Copy,
    acts: &[Act],
) -> Result<(), TestCaseError> {
    let params = algorithm.params(&Quota::per_second(LIMIT), 0).expect("in range");
    let mut oracle = params.oracle();
    for (now, n) in spent_by(algorithm, acts) {
        prop_assert!(oracle.decide(Tick::from_nanos(now), n).admitted, "{n} at {now}");
    }
    Ok(())
}

#[test]
fn a_lease_of_a_fixed_window_returns_its_cells_and_one_of_sub_windows_loses_them() {
    fn left(algorithm: impl Algorithm) -> [u64; 3] {
        let gate = Direct::builder(Quota::per_hour(20)).algorithm(algorithm);
        let gate = gate.clock(ManualClock::new()).build().expect("in range");
        let left = || gate.ask().cells(0).at(Tick::ZERO).peek().expect("no cells").remaining();
        let mut lease = gate.lease();
        for _ in 0..2 {
            assert!(lease.ask().at(Tick::ZERO).check().is_ok());
        }
        let before = left();
        let held = lease.held();
        lease.refund_at(Tick::ZERO);
        [held, before, left()]
    }
    assert_eq!(left(FixedWindow::aligned().leases(8)), [6, 12, 18]);
    assert_eq!(left(SubWindows::new().leases(8)), [7, 11, 11], "the first request took one cell");
    assert_eq!(left(SlidingCounter::new().leases(8)), [7, 11, 11]);
}

/// A lease of sub-windows cannot refund its cells. So it spends them on larger requests too, and keeps them when it
/// denies.
#[test]
fn a_lease_that_can_refund_nothing_keeps_its_cells_beside_larger_and_denied_requests() {
    fn spent(algorithm: impl Algorithm, larger: u64) {
        let gate: Limiter<str, _> = Limiter::builder(Quota::per_hour(1_000))
            .algorithm(algorithm)
            .build()
            .expect("in range");
        let mut lease = gate.lease("a");
        let mut ask = |cells| {
            let before = lease.held();
            let admitted = lease.ask().cells(cells).at(Tick::ZERO).check().is_ok();
            assert!(admitted || lease.held() == before, "{before} held, {} left", lease.held());
            if admitted { cells } else { 0 }
        };
        let mut spent = 0;
        for cells in [1, larger].repeat(1_000) {
            spent += ask(cells);
        }
        assert_eq!(spent, 1_000, "1 and {larger} in turn");
    }
    for larger in [100, 101, 199, 250] {
        spent(SubWindows::new().leases(100), larger);
        spent(SlidingCounter::new().leases(100), larger);
    }
}

#[test]
fn the_check_detects_leases_that_do_not_lower_the_burst() {
    // The lease takes 10 of a burst of 20. Half a second later all but a nanosecond's worth is
    // restored: the next caller is granted nearly all that may be charged at a time, and the lease
    // spends what it holds.
    let acts = [(0, 0, 1), (SECOND / 2 - 1, LEASES, 9), (0, 0, 7)];
    let spent = spent(10, &acts);
    assert_eq!(spent.len(), 3);
    assert!(worst_excess_of_bucket(&spent, LIMIT, LIMIT) <= 0.0);
    assert!(
        worst_excess_of_bucket(&spent, LIMIT, LIMIT - 10) > 0.0,
        "it exceeds the lowered burst"
    );
}

/// Nanoseconds since the last event, cells, and the index of the charge to refund; without an index, the event
/// is a charge.
type Event = (u64, u64, Option<usize>);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// After all refunds, the bucket is no better than one in which the refunded cells were never
    /// charged.
    #[test]
    fn refunds_never_return_too_much(
        events in prop::collection::vec(
            (prop_oneof![2 => Just(0), 3 => 0..SECOND], 1_u64..12, prop::option::of(0_usize..6)),
            1..40,
        ),
        kept in prop::collection::vec(0_u64..12, 40),
    ) {
        never_too_much(&events, &kept);
    }
}

fn never_too_much(events: &[Event], kept: &[u64]) {
    let params = Gcra::new().params(&Quota::per_second(LIMIT), 0).expect("in range");
    let charge = |word, now, n| params.step(params.read(word, NoRing, now, n), now, n);
    let mut word = params.fresh(Tick::ZERO);
    let mut nanos = SECOND;
    // The charges that were admitted, and whether they were refunded; `kept` of each is spent.
    let mut charges: Vec<(Receipt, bool)> = Vec::new();
    for &(gap, n, back) in events {
        nanos += gap;
        let now = Tick::from_nanos(nanos);
        match back.filter(|&index| index < charges.len()) {
            Some(index) => {
                let (receipt, done) = &mut charges[index];
                if !core::mem::replace(done, true) {
                    let unspent = receipt.cells.saturating_sub(kept[index]);
                    word = params.refund(word, receipt, now, unspent);
                }
            }
            None => {
                if let Step::Admit { next } = charge(word, now, n) {
                    charges.push((Receipt { cells: n, at: now, next }, false));
                    word = next;
                }
            }
        }
    }
    // The same bucket, charged only with the cells that stayed charged.
    let mut without = params.fresh(Tick::ZERO);
    for (index, (receipt, back)) in charges.iter().enumerate() {
        let n = if *back { receipt.cells.min(kept[index]) } else { receipt.cells };
        let Step::Admit { next } = charge(without, receipt.at, n) else {
            panic!("what was admitted with more charged is admitted with less");
        };
        without = next;
    }
    let now = Tick::from_nanos(nanos);
    let room = |word| {
        params.answer(params.read(word, NoRing, now, 0), now, 0).expect("0 cells").reset_after()
    };
    assert!(room(word) >= room(without), "{:?} < {:?}", room(word), room(without));
}

#[test]
fn a_lease_returns_all_cells_at_once_and_none_after_an_idle_time() {
    let clock = ManualClock::new();
    let gate = Direct::builder(Quota::per_second(LIMIT))
        .algorithm(Gcra::new().leases(8))
        .clock(&clock)
        .build()
        .expect("in range");
    let left = || {
        gate.ask().cells(0).at(tollgate::Clock::now(&clock)).peek().expect("0 cells").remaining()
    };
    let mut lease = gate.lease();
    assert!(lease.check().is_ok());
    assert_eq!((lease.held(), left()), (7, 4), "12 may be charged at a time");
    drop(lease);
    assert_eq!(left(), 11);

    let mut lease = gate.lease();
    assert!(lease.check().is_ok());
    clock.set(Tick::from_nanos(10 * SECOND));
    assert!(gate.check_n(9).is_ok());
    drop(lease);
    assert_eq!(left(), 3, "what others spent meanwhile stays charged");
}

#[test]
fn a_lease_returns_nothing_to_a_later_life_of_the_key() {
    let clock = ManualClock::new();
    let gate: Limiter<u64, Gcra, _> = Limiter::builder(Quota::per_second(LIMIT))
        .algorithm(Gcra::new().leases(8))
        .clock(&clock)
        .capacity(1)
        .on_full(OnFull::EvictNearestIdle)
        .build()
        .expect("in range");
    let now = Tick::from_nanos(SECOND);
    // Sixteen slots, and twice as many keys that owe more.
    let crowd_out = || {
        for other in 1_000..1_032 {
            assert!(gate.ask(&other).cells(12).at(now).check().is_ok());
        }
    };
    let reset = || gate.reset(&7);
    for begin_anew in [&reset as &dyn Fn(), &crowd_out] {
        let mut lease = gate.lease(&7);
        assert!(lease.ask().at(now).check().is_ok());
        begin_anew();
        assert!(gate.ask(&7).cells(12).at(now).check().is_ok(), "a life of its own");
        lease.refund_at(now);
        assert!(gate.ask(&7).at(now).check().is_err());
        gate.reset(&7);
    }
}

#[test]
fn a_lease_of_a_key_without_a_slot_holds_nothing() {
    for (on_full, admitted) in [
        (OnFull::Deny, [false; 3]),
        (OnFull::Admit, [true; 3]),
        (OnFull::SharedOverflow(Quota::per_hour(4)), [true, true, false]),
    ] {
        let gate: Limiter<u64, Gcra, _> = Limiter::builder(Quota::per_second(LIMIT))
            .algorithm(Gcra::new().leases(2))
            .clock(ManualClock::new())
            .capacity(1)
            .on_full(on_full)
            .build()
            .expect("in range");
        for other in 0..64 {
            let _ = gate.ask(&other).cells(12).at(Tick::ZERO).check();
        }
        let mut lease = gate.lease(&1_000);
        let decisions = admitted.map(|_| lease.ask().at(Tick::ZERO).check().is_ok());
        assert_eq!((decisions, lease.held()), (admitted, 0), "{on_full:?}");
    }
}

#[test]
fn a_lease_takes_what_is_left_and_returns_the_wait_of_the_request() {
    let gate = Direct::builder(Quota::per_hour(20))
        .algorithm(Gcra::new().leases(8))
        .clock(ManualClock::new())
        .build()
        .expect("in range");
    assert!(gate.ask().cells(7).at(Tick::ZERO).check().is_ok());
    let mut lease = gate.lease();
    assert!(lease.ask().cells(2).at(Tick::ZERO).check().is_ok());
    assert_eq!(lease.held(), 3, "five were left");
    let denied = lease.ask().cells(4).at(Tick::ZERO).check().unwrap_err();
    assert_eq!(
        (denied.remaining(), denied.retry_after().map(|wait| wait.as_secs())),
        (3, Some(180))
    );
    assert!(lease.ask().cells(3).at(Tick::ZERO).check().is_ok(), "the lease returned what it held");
    assert_eq!(
        lease.ask().cells(13).at(Tick::ZERO).check().unwrap_err().retry_after(),
        None,
        "never fits"
    );
    assert!(lease.ask().cells(0).at(Tick::ZERO).check().is_ok());
}
