//! Leases of hot keys, with threads that take turns: the test decides which thread acts, and when its
//! compare-and-swap loses a race.

mod held;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../../tests/bodies/span.rs"]
mod span;

use core::time::Duration;

use proptest::prelude::*;
use span::worst_excess_of_bucket;

use super::*;
use crate::algo::oracle::Oracle;
use crate::limiter::SlotLayout;
use crate::sync::act_as_thread;
use crate::{FixedWindow, Gcra, ManualClock, Quota, SlidingCounter, SubWindows};

const SECOND: u64 = 1_000_000_000;
const LIMIT: u64 = 20;

type Gate<A = Gcra> = Limiter<u64, A, ManualClock>;

fn gate(quota: Quota, take: u64) -> Gate {
    gate_of(Gcra::new().leases(take), quota)
}

fn gate_of<A: Algorithm>(algorithm: A, quota: Quota) -> Gate<A> {
    let builder = Limiter::builder(quota).algorithm(algorithm);
    builder.clock(ManualClock::new()).hash_seed(1).lease_hot_keys().build().expect("in range")
}

fn at(nanos: u64) -> Tick {
    Tick::from_nanos(nanos)
}

/// The permit of a thread that has lost a race.
fn after_race(
    gate: &Limiter<u64, impl Algorithm, impl Clock>,
    key: u64,
    n: u64,
    now: Tick,
) -> Option<Permit> {
    let leases = gate.leases.as_ref()?;
    let request = Request { now, cells: n };
    let OutOfLine(permit) = gate.take_lease(gate.params(), leases, gate.probe(&key), request);
    permit
}

/// The decision for a thread whose first try, if it makes one, loses a race.
fn ask_and_lose(gate: &Gate<impl Algorithm>, key: u64, n: u64, now: Tick) -> Decision {
    let probe = gate.probe(&key);
    if gate.leases.as_ref().is_some_and(|leases| leases.of(probe).is_none())
        && let Some(permit) = after_race(gate, key, n, now)
    {
        return Ok(permit);
    }
    gate.ask(&key).cells(n).at(now).check()
}

/// Two keys whose leases have the same place.
fn rivals(gate: &Gate) -> (u64, u64) {
    act_as_thread(0);
    let leases = gate.leases.as_ref().expect("chosen");
    let now = at(0);
    let ahead = ChargedAhead { left: 1, at: now, life: Duration::from_nanos(1), state: 0 };
    leases.free(gate.probe(&0), now).expect("a place").hold(gate.probe(&0), ahead);
    let taken = |key: &u64| leases.free(gate.probe(key), now).is_none();
    let rival = (1..1_000).find(taken).expect("one in eight");
    leases.of(gate.probe(&0)).expect("held").clear();
    (0, rival)
}

/// Nanoseconds since the last act, a thread, the cells that it asks for, and whether its first try loses a
/// race.
type Act = (u64, usize, u64, bool);

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let gaps = prop_oneof![4 => Just(0), 3 => 0..SECOND / 8, 1 => 0..3 * SECOND];
    prop::collection::vec((gaps, 0..3_usize, 0_u64..5, any::<bool>()), 1..120)
}

/// The times at which cells of one key were spent, and how many.
fn spent(take: u64, acts: &[Act]) -> Vec<(u64, u64)> {
    spent_of(&gate(Quota::per_second(LIMIT), take), acts)
}

fn spent_of(gate: &Gate<impl Algorithm>, acts: &[Act]) -> Vec<(u64, u64)> {
    let mut time = SECOND;
    let mut spent = Vec::new();
    for &(gap, thread, n, loses) in acts {
        time += gap;
        act_as_thread(thread);
        let now = at(time);
        let decision = match loses {
            true => ask_and_lose(gate, 7, n, now),
            false => gate.ask(&7).cells(n).at(now).check(),
        };
        if decision.is_ok() {
            spent.push((time, n));
        }
    }
    spent
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn threads_with_leases_are_granted_the_quota_and_no_more(
        take in 1..=LIMIT / 2, acts in acts(),
    ) {
        prop_assert!(worst_excess_of_bucket(&spent(take, &acts), LIMIT, LIMIT) <= 0.0);
    }

    #[test]
    fn windows_with_leases_grant_no_cell_that_the_oracle_of_the_quota_denies(
        take in 1..=LIMIT / 2, acts in acts(),
    ) {
        admitted_by_the_oracle(FixedWindow::anchored().leases(take), &acts)?;
        admitted_by_the_oracle(FixedWindow::aligned().leases(take), &acts)?;
        admitted_by_the_oracle(SubWindows::new().leases(take), &acts)?;
        admitted_by_the_oracle(SlidingCounter::new().leases(take), &acts)?;
        admitted_by_the_oracle(SlidingCounter::new().older(3).leases(take), &acts)?;
    }
}

/// Every request that a limiter with leases admits, the oracle without leases admits as well, if it is
/// asked for those only.
fn admitted_by_the_oracle(algorithm: impl Algorithm, acts: &[Act]) -> Result<(), TestCaseError> {
    let gate = gate_of(algorithm, Quota::per_second(LIMIT));
    let mut oracle = gate.params().oracle();
    for (time, n) in spent_of(&gate, acts) {
        prop_assert!(oracle.decide(at(time), n).admitted, "{n} at {time}");
    }
    Ok(())
}

/// The acts of a thread that takes cells ahead in one window, and spends them in the next.
#[test]
fn the_oracle_would_notice_cells_that_outlive_their_window() {
    let gate = gate_of(FixedWindow::aligned().leases(5), Quota::per_second(LIMIT));
    let mut oracle = gate.params().oracle();
    let late = at(2 * SECOND - 1);
    act_as_thread(0);
    assert!(gate.ask(&7).at(late).check().is_ok() && ask_and_lose(&gate, 7, 1, late).is_ok());
    assert!(oracle.decide(late, 2).admitted);
    assert_eq!(gate.ask(&7).at(late).held(), 3);
    assert!(gate.ask(&7).cells(LIMIT).at(at(2 * SECOND)).check().is_ok(), "another window");
    assert!(oracle.decide(at(2 * SECOND), LIMIT).admitted);
    assert!(
        !oracle.decide(at(2 * SECOND), 1).admitted,
        "a cell of the lease would be one too many"
    );
    assert_eq!(gate.ask(&7).at(at(2 * SECOND)).held(), 0);
}

#[test]
fn cells_of_a_window_may_be_spent_until_its_last_nanosecond() {
    fn held_at(algorithm: impl Algorithm, taken: u64, times: [u64; 3]) -> [u64; 3] {
        let gate = gate_of(algorithm, Quota::per_second(LIMIT));
        act_as_thread(0);
        assert!(gate.ask(&7).at(at(taken)).check().is_ok());
        assert!(ask_and_lose(&gate, 7, 1, at(taken)).is_ok());
        times.map(|time| gate.ask(&7).at(at(time)).held())
    }
    let taken = SECOND + SECOND / 4;
    let until = |end: u64| [taken, end - 1, end];
    // A unit of an anchored window is 20 microseconds, and the second is a multiple of it.
    let anchored = FixedWindow::anchored().leases(4);
    assert_eq!(held_at(anchored, taken, until(taken + SECOND)), [3, 3, 0]);
    let aligned = FixedWindow::aligned().leases(4);
    assert_eq!(held_at(aligned, taken, until(2 * SECOND)), [3, 3, 0]);
    let sub_windows = SubWindows::new().count(5).leases(4);
    assert_eq!(held_at(sub_windows, taken, until(SECOND + 2 * SECOND / 5)), [3, 3, 0]);
    let counter = SlidingCounter::new().leases(4);
    assert_eq!(held_at(counter, taken, until(2 * SECOND)), [3, 3, 0]);
}

#[test]
fn permits_of_windows_by_a_lease_are_those_of_a_key_that_no_other_thread_charges() {
    fn same(leasing: impl Algorithm, plain: impl Algorithm) {
        let quota = Quota::per_second(1_000);
        let shared = gate_of(leasing, quota);
        let plain = Limiter::<u64>::builder(quota).algorithm(plain).clock(ManualClock::new());
        let plain = plain.slots(SlotLayout::Wide).build().expect("in range");
        act_as_thread(0);
        assert_eq!(shared.ask(&7).at(at(0)).check(), plain.ask(&7).at(at(0)).check());
        // Within one sub-window: at its end, the cells that a thread holds are lost.
        for turn in 1..400 {
            let (n, now) = (1 + turn % 3, at(turn * 400_000));
            let decision = ask_and_lose(&shared, 7, n, now);
            let (told, expected) = (decision.ok(), plain.ask(&7).cells(n).at(now).check().ok());
            if let (Some(told), Some(expected)) = (told, expected) {
                let all =
                    |permit: Permit| (permit.remaining(), permit.limit(), permit.reset_after());
                assert_eq!(all(told), all(expected), "{turn}");
            }
        }
        assert!(shared.stats().leased > 10);
    }
    same(FixedWindow::aligned().leases(64), FixedWindow::aligned());
    same(FixedWindow::anchored().leases(64), FixedWindow::anchored());
    same(SubWindows::new().leases(64), SubWindows::new());
}

#[test]
fn the_test_would_notice_leases_that_do_not_lower_the_burst() {
    // A thread takes 2 of 10 and spends one. Just before its other one is too old, everything is
    // restored, and another thread spends that.
    let acts =
        [(0, 0, 1, false), (0, 0, 1, true), (SECOND / 2 - 1, 1, 10, false), (0, 0, 1, false)];
    let spent = spent(10, &acts);
    assert_eq!(spent.len(), 4);
    assert!(worst_excess_of_bucket(&spent, LIMIT, LIMIT) <= 0.0);
    assert!(
        worst_excess_of_bucket(&spent, LIMIT, LIMIT - 10) > 0.0,
        "it exceeds the lowered burst"
    );
}

#[test]
fn a_lease_is_a_quarter_of_what_is_left_and_the_last_cells_are_not_leased() {
    let gate = gate(Quota::per_hour(100), 20);
    let now = at(0);
    act_as_thread(0);
    assert!(gate.ask(&7).cells(28).at(now).check().is_ok());
    // Of 52, 48, ... cells, a quarter each time.
    for (left, held) in [(52, 12), (39, 8), (30, 6), (23, 4), (18, 3), (14, 2), (11, 1)] {
        assert_eq!(gate.ask(&7).cells(0).at(now).peek().expect("no cells").remaining(), left);
        assert!(ask_and_lose(&gate, 7, 1, now).is_ok());
        assert_eq!(gate.ask(&7).at(now).held(), held);
        act_as_thread(64); // a thread without leases
        assert!(ask_and_lose(&gate, 7, 0, now).is_ok());
        assert_eq!(gate.ask(&7).at(now).held(), 0);
        act_as_thread(0);
        assert!(gate.ask(&7).cells(held).at(now).check().is_ok());
        assert_eq!(gate.ask(&7).at(now).held(), 0);
    }
    let alone = (0..100).take_while(|_| ask_and_lose(&gate, 7, 1, now).is_ok()).count();
    assert_eq!(alone, 9);
    assert_eq!(gate.stats().leased, 8, "also two of nine");
}

#[test]
fn permits_of_a_lease_are_those_of_a_key_that_no_other_thread_charges() {
    let shared = gate(Quota::per_second(1_000), 64);
    let plain: Limiter<u64, Gcra, _> = Limiter::builder(Quota::per_second(1_000).burst(936))
        .clock(ManualClock::new())
        .slots(SlotLayout::Wide)
        .build()
        .expect("in range");
    act_as_thread(0);
    assert!(shared.ask(&7).at(at(0)).check().is_ok() && plain.ask(&7).at(at(0)).check().is_ok());
    for turn in 1..500 {
        let (n, now) = (turn % 4, at(turn * 100_000));
        assert_eq!(ask_and_lose(&shared, 7, n, now), plain.ask(&7).cells(n).at(now).check());
    }
    assert!(shared.stats().leased > 10);
}

#[test]
fn a_lease_is_spent_until_time_has_restored_it() {
    let gate = gate(Quota::per_second(LIMIT).burst(100), 5);
    let life = SECOND / 4;
    act_as_thread(0);
    assert!(gate.ask(&7).at(at(SECOND)).check().is_ok());
    assert!(ask_and_lose(&gate, 7, 1, at(SECOND)).is_ok());
    for (now, held) in [(SECOND, 4), (SECOND + life - 1, 4), (SECOND + life, 0), (SECOND - 1, 0)] {
        assert_eq!(gate.ask(&7).at(at(now)).held(), held, "{now}");
    }
    act_as_thread(1);
    assert_eq!(gate.ask(&7).at(at(SECOND)).held(), 0, "it is the other thread's");
    act_as_thread(0);
    assert!(gate.ask(&7).at(at(SECOND + life - 1)).check().is_ok());
    assert_eq!(gate.ask(&7).at(at(SECOND + life - 1)).held(), 3);
    assert!(gate.ask(&7).at(at(SECOND + life)).check().is_ok());
    assert_eq!(gate.ask(&7).at(at(SECOND)).held(), 0, "nor does an older time bring it back");
}

/// The clock moves on while the batch is decided.
#[test]
fn a_batch_spends_no_lease_that_has_ended_since_it_began() {
    let gate = gate(Quota::per_second(LIMIT), 4);
    act_as_thread(0);
    assert!(gate.check(&7).is_ok() && ask_and_lose(&gate, 7, 1, Tick::ZERO).is_ok());
    assert!(gate.ask(&7).at(Tick::ZERO).held() > 0);
    let batch = gate.ask_each(&[8, 7], |key| {
        gate.clock.set(at(u64::from(*key == 7) * SECOND));
        key
    });
    batch.check(|_, decision| assert!(decision.is_ok()));
    let left = gate.ask(&7).cells(0).at(at(SECOND)).peek().expect("no cells").remaining();
    assert_eq!(left, LIMIT - 4 - 1, "a cell of the present is charged");
}

#[test]
fn a_lease_that_is_too_small_is_used_up_and_replaced() {
    let gate = gate(Quota::per_hour(1_000), 10);
    let (now, left) =
        (at(0), |gate: &Gate| gate.ask(&7).cells(0).at(at(0)).peek().expect("0").remaining());
    act_as_thread(0);
    assert!(gate.ask(&7).at(now).check().is_ok());
    assert!(ask_and_lose(&gate, 7, 1, now).is_ok());
    assert_eq!((gate.ask(&7).at(now).held(), left(&gate)), (9, 979));
    assert!(gate.ask(&7).cells(7).at(now).check().is_ok());
    assert!(gate.ask(&7).cells(5).at(now).check().is_ok(), "two were held, so ten are charged");
    assert_eq!((gate.ask(&7).at(now).held(), left(&gate)), (7, 969));
    assert!(
        gate.ask(&7).cells(11).at(now).check().is_ok(),
        "a request for more than a lease can hold leaves it alone"
    );
    assert_eq!((gate.ask(&7).at(now).held(), left(&gate)), (7, 958));
}

/// The lease counts as spent: it is none of the cells that are left.
#[test]
fn charging_what_is_left_spends_no_lease() {
    for cells in [5, u64::MAX] {
        let gate = gate(Quota::per_hour(100), 8);
        assert!(gate.ask(&7).at(at(0)).check().is_ok());
        assert!(after_race(&gate, 7, 1, at(0)).is_some());
        let held = gate.ask(&7).at(at(0)).held();
        assert!(held >= 5);
        let left = || gate.ask(&7).cells(0).at(at(0)).peek().expect("no cells").remaining();
        let before = left();
        let charged = gate.ask(&7).cells(cells).at(at(0)).charge_available();
        assert_eq!(charged, cells.min(before));
        assert_eq!(left(), before - charged, "{cells}");
        assert_eq!(gate.ask(&7).at(at(0)).held(), held, "{cells}");
    }
}

#[test]
fn no_lease_is_spent_by_another_key() {
    let gate = gate(Quota::per_hour(100), 10);
    let (a, b) = rivals(&gate);
    assert!(
        gate.ask(&a).at(at(0)).check().is_ok() && gate.ask(&b).cells(90).at(at(0)).check().is_ok()
    );
    assert!(ask_and_lose(&gate, a, 1, at(0)).is_ok());
    assert_eq!((gate.ask(&a).at(at(0)).held(), gate.ask(&b).at(at(0)).held()), (9, 0));
    assert!(gate.ask(&b).at(at(0)).check().is_err());
    assert_eq!(gate.ask(&a).at(at(0)).held(), 9);
}

#[test]
fn an_answer_of_yes_or_no_is_by_the_lease_as_well() {
    let gate = gate_of(FixedWindow::aligned().leases(10), Quota::per_hour(100));
    let now = at(0);
    act_as_thread(0);
    assert!(gate.ask(&7).at(now).allow());
    assert!(ask_and_lose(&gate, 7, 1, now).is_ok());
    assert_eq!(gate.ask(&7).at(now).held(), 9);
    act_as_thread(1);
    assert!(gate.ask(&7).cells(89).at(now).allow() && !gate.ask(&7).at(now).allow());
    act_as_thread(0);
    assert!(gate.ask(&7).cells(9).at(now).allow());
    assert!(!gate.ask(&7).at(now).allow());
}

#[test]
fn a_lease_yields_its_place_when_it_is_not_spent() {
    let gate = gate(Quota::per_hour(1_000), 10);
    let now = at(0);
    let (a, b) = rivals(&gate);
    assert!(gate.ask(&a).at(now).check().is_ok() && gate.ask(&b).at(now).check().is_ok());
    assert!(ask_and_lose(&gate, a, 1, now).is_ok());
    for _ in 0..3 {
        assert!(ask_and_lose(&gate, b, 1, now).is_ok());
        assert_eq!(gate.ask(&b).at(now).held(), 0, "it is in use");
        assert!(gate.ask(&a).at(now).check().is_ok());
    }
    for held in [0, 9] {
        assert!(ask_and_lose(&gate, b, 1, now).is_ok());
        assert_eq!(gate.ask(&b).at(now).held(), held);
    }
    assert_eq!(gate.ask(&a).at(now).held(), 0);
}

#[test]
fn a_tiered_clock_judges_leases_by_the_precise_time() {
    struct Tiers(ManualClock);
    impl Clock for Tiers {
        fn now(&self) -> Tick {
            self.0.now()
        }
        fn coarse(&self) -> Option<Tick> {
            Some(at(SECOND))
        }
    }
    let clock = Tiers(ManualClock::new());
    clock.0.set(at(SECOND));
    let gate: Limiter<u64, Gcra, _> = Limiter::builder(Quota::per_second(100))
        .algorithm(Gcra::new().leases(10))
        .clock(clock)
        .count_decisions()
        .lease_hot_keys()
        .build()
        .expect("in range");
    act_as_thread(0);
    assert!(gate.check(&7).is_ok());
    assert!(after_race(&gate, 7, 1, at(SECOND)).is_some());
    assert!(gate.check(&7).is_ok());
    assert_eq!(gate.ask(&7).at(at(SECOND)).held(), 8);
    gate.clock().0.set(at(2 * SECOND));
    assert!(gate.check(&7).is_ok());
    assert_eq!(gate.ask(&7).at(at(SECOND)).held(), 0, "the lease had ended");
    assert_eq!(gate.stats().admitted, Some(3), "spent or charged, each is counted once");
}

#[test]
fn a_limiter_without_cells_to_lease_cannot_be_built() {
    let builder = || Limiter::<u64>::builder(Quota::per_second(9)).lease_hot_keys();
    assert_eq!(builder().build().unwrap_err(), BuildError::NothingToLease);
    let windows = builder().algorithm(crate::FixedWindow::anchored()).build();
    assert_eq!(windows.unwrap_err(), BuildError::NothingToLease);
    let any = crate::AnyAlgorithm::from(FixedWindow::aligned().leases(2));
    let gate = builder().algorithm(any).build().expect("in range");
    act_as_thread(0);
    assert!(gate.ask(&7).at(at(0)).check().is_ok());
    assert!(after_race(&gate, 7, 1, at(0)).is_some());
    assert_eq!(gate.ask(&7).at(at(0)).held(), 1);
    assert!(gate.ask(&7).at(at(0)).check().is_ok());
    assert_eq!(gate.ask(&7).at(at(0)).held(), 0);
}

/// Choosing the algorithm while the program runs leaves it its leases.
#[test]
fn a_bound_on_the_delay_leaves_an_algorithm_that_never_delays_its_leases() {
    let gate = gate_of(crate::AnyAlgorithm::from(Gcra::new().leases(5)), Quota::per_hour(LIMIT));
    let ask = || gate.ask(&7).at(at(0));
    act_as_thread(0);
    assert!(ask().check().is_ok() && after_race(&gate, 7, 1, at(0)).is_some());
    act_as_thread(1);
    while ask().check().is_ok() {}
    act_as_thread(0);
    let held = ask().held();
    assert!(held >= 2, "{held}");
    assert!(ask().max_delay(Duration::ZERO).check().is_ok());
    assert!(ask().max_delay(Duration::MAX).allow());
    assert_eq!(ask().held(), held - 2);
}
