//! Every verb of a limiter works in the window in force, also where the wall clock was set back and the window
//! is held.
//!
//! In each test a key has spent cells of a minute, the wall clock was set back by an hour, and ten minutes have
//! passed. The minute is held. A path that forgot the wall clock would find a fresh window, and a charge by it
//! would lose what was counted.

use std::cell::{Cell, RefCell};
use std::future::{Future, Ready, ready};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate::algorithm::Algorithm;
use tollgate::composite::Composite;
use tollgate::limiter::SlotLayout;
use tollgate::wait::{WaitError, WaitQueue, Waitable};
use tollgate::{
    AnyAlgorithm, Builder, Clock, Decision, Direct, FixedWindow, Limiter, ManualClock, OnFull,
    Quota, Tick,
};

const HOUR: Duration = Duration::from_secs(3_600);
const MINUTE: Duration = Duration::from_secs(60);
const NANO: Duration = Duration::from_nanos(1);
/// 15 January 2024, 12:00:20 UTC.
const NOON: u64 = 1_705_320_020_000_000_000;
const LIMIT: u64 = 100;
const SPENT: u64 = 10;
const LEFT: u64 = LIMIT - SPENT;
/// Until the held minute ends, ten minutes after the wall clock was set back.
const WAIT: Duration = Duration::from_secs(40 + 3_600 - 600);

type Keyed<A = FixedWindow> = Limiter<u64, A, ManualClock>;
type Bucket = Direct<FixedWindow, ManualClock>;

fn quota() -> Quota {
    Quota::per_minute(LIMIT)
}

fn noon() -> ManualClock {
    ManualClock::starting_at_unix_nanos(NOON)
}

fn builder<A: Algorithm>(algorithm: A, clock: &ManualClock) -> Builder<u64, A, ManualClock> {
    Limiter::builder(quota()).algorithm(algorithm).clock(clock.clone()).max_clock_skew(MINUTE / 60)
}

fn keyed(clock: &ManualClock) -> Keyed {
    builder(FixedWindow::aligned(), clock).build().expect("in range")
}

fn bucket(clock: &ManualClock) -> Bucket {
    Direct::builder(quota())
        .algorithm(FixedWindow::aligned().leases(20))
        .clock(clock.clone())
        .build()
        .expect("in range")
}

/// Sets the wall clock by so many hours, forward or back.
fn step(clock: &ManualClock, hours: i64) {
    let by = hours * 3_600_000_000_000;
    clock.set_unix_nanos(clock.unix_now_nanos().saturating_add_signed(by));
}

/// Sets the wall clock back, so that the minute is held.
fn hold(clock: &ManualClock) {
    step(clock, -1);
    clock.advance(10 * MINUTE);
}

/// A limiter whose key 1 has spent some cells of the minute that is held.
fn held<A: Algorithm>(build: impl FnOnce(&ManualClock) -> Keyed<A>) -> (Keyed<A>, ManualClock) {
    let clock = noon();
    let gate = build(&clock);
    assert!(gate.check_n(&1, SPENT).is_ok());
    hold(&clock);
    (gate, clock)
}

fn held_bucket() -> (Bucket, ManualClock) {
    let clock = noon();
    let gate = bucket(&clock);
    assert!(gate.check_n(SPENT).is_ok());
    hold(&clock);
    (gate, clock)
}

fn left(decision: Decision) -> u64 {
    decision.map_or_else(|denied| denied.remaining(), |permit| permit.remaining())
}

fn left_of<A: Algorithm>(gate: &Keyed<A>, key: u64) -> u64 {
    left(gate.ask(&key).cells(0).peek())
}

fn left_in(gate: &Bucket) -> u64 {
    left(gate.ask().cells(0).peek())
}

/// A denial that says when the held minute ends.
#[track_caller]
fn assert_denied(decision: Decision) {
    assert_eq!(decision.expect_err("too many").retry_after(), Some(WAIT));
}

#[test]
fn a_check_an_answer_and_a_peek_are_of_the_held_window() {
    fn each<A: Algorithm>(build: impl Fn(&ManualClock) -> Keyed<A>) {
        let (gate, _) = held(&build);
        let ask = || gate.ask(&1);
        assert_denied(ask().cells(LEFT + 1).peek());
        assert_denied(ask().cells(LEFT + 1).max_delay(Duration::ZERO).peek());
        assert_denied(ask().cells(LEFT + 1).check());
        assert_denied(ask().cells(LEFT + 1).max_delay(Duration::ZERO).check());
        assert!(!ask().cells(LEFT + 1).allow());
        assert_eq!(ask().cells(0).peek().map(|permit| permit.reset_after()), Ok(WAIT));
        assert!(ask().cells(1).allow());
        assert_eq!(left(ask().cells(1).check()), LEFT - 2);
        assert_eq!(left(ask().cells(1).max_delay(Duration::ZERO).check()), LEFT - 3);
        assert_eq!(left_of(&gate, 1), LEFT - 3);
    }
    let aligned = FixedWindow::aligned;
    for slots in [SlotLayout::Wide, SlotLayout::Compact] {
        each(|clock| builder(aligned(), clock).slots(slots).build().expect("in range"));
    }
    each(|clock| builder(AnyAlgorithm::from(aligned()), clock).build().expect("in range"));
    each(|clock| builder(aligned(), clock).count_decisions().build().expect("in range"));
    let leases = aligned().leases(20);
    each(|clock| builder(leases, clock).lease_hot_keys().build().expect("in range"));
    let any = AnyAlgorithm::from(leases);
    each(|clock| builder(any, clock).lease_hot_keys().build().expect("in range"));
}

#[test]
fn a_bucket_is_checked_answered_and_peeked_at_in_the_held_window() {
    let (gate, _) = held_bucket();
    assert_denied(gate.ask().cells(LEFT + 1).peek());
    assert_denied(gate.ask().cells(LEFT + 1).max_delay(Duration::ZERO).peek());
    assert_denied(gate.ask().cells(LEFT + 1).check());
    assert_denied(gate.ask().cells(LEFT + 1).max_delay(Duration::ZERO).check());
    assert!(!gate.ask().cells(LEFT + 1).allow());
    assert!(gate.ask().cells(1).allow());
    assert_eq!(left(gate.check()), LEFT - 2);
    assert_eq!(left(gate.ask().max_delay(Duration::ZERO).check()), LEFT - 3);
    assert_eq!(left_in(&gate), LEFT - 3);
}

/// A clock with a coarse time, which is not enough to say what the wall clock shows.
#[derive(Clone, Debug)]
struct Tiered(ManualClock);

impl Clock for Tiered {
    fn now(&self) -> Tick {
        self.0.now()
    }
    fn coarse(&self) -> Option<Tick> {
        Some(self.0.now())
    }
    fn unix_origin_nanos(&self) -> u64 {
        self.0.unix_origin_nanos()
    }
    fn unix_now_nanos(&self) -> u64 {
        self.0.unix_now_nanos()
    }
}

#[test]
fn a_coarse_time_admits_in_no_window_that_is_over() {
    let clock = noon();
    let built = || {
        let built = Limiter::<u64>::builder(quota()).algorithm(FixedWindow::aligned());
        built.clock(Tiered(clock.clone()))
    };
    let plain = built().build().expect("in range");
    let counting = built().count_decisions().build().expect("in range");
    let direct = Direct::builder(quota()).algorithm(FixedWindow::aligned());
    let direct = direct.clock(Tiered(clock.clone())).build().expect("in range");
    assert!(plain.check_n(&1, SPENT).is_ok() && counting.check_n(&1, SPENT).is_ok());
    assert!(direct.check_n(SPENT).is_ok());
    hold(&clock);
    for gate in [&plain, &counting] {
        assert!(gate.allow(&1));
        assert_eq!(left(gate.check(&1)), LEFT - 2);
    }
    assert!(direct.allow());
    assert_eq!(left(direct.check()), LEFT - 2);
}

#[test]
fn charges_and_refunds_are_of_the_held_window() {
    let (gate, _) = held(keyed);
    let plan = gate.plan(Quota::per_minute(LIMIT + 20)).expect("the same windows");
    assert_eq!(gate.ask(&1).cells(4).charge(), Duration::ZERO);
    assert_eq!(left_of(&gate, 1), LEFT - 4);
    gate.ask(&1).cells(3).refund();
    assert_eq!(left_of(&gate, 1), LEFT - 1);
    assert_eq!(gate.ask(&1).cells(4).charge_available(), 4);
    assert_eq!(left_of(&gate, 1), LEFT - 5);
    let planned = || gate.ask(&1).plan(&plan);
    assert_eq!(planned().cells(LEFT).charge(), Duration::ZERO);
    assert_eq!(left(planned().cells(0).peek()), 15);
    planned().cells(LEFT).refund();
    assert_eq!(left_of(&gate, 1), LEFT - 5);
    assert_eq!(gate.ask(&1).cells(LIMIT).charge(), WAIT, "more than there was");
    gate.reset(&1);
    assert_eq!(left_of(&gate, 1), LIMIT);

    let (gate, _) = held_bucket();
    assert_eq!(gate.ask().cells(4).charge(), Duration::ZERO);
    assert_eq!(left_in(&gate), LEFT - 4);
    gate.ask().cells(3).refund();
    assert_eq!(left_in(&gate), LEFT - 1);
    assert_eq!(gate.ask().cells(LIMIT).charge(), WAIT, "more than there was");
}

#[test]
fn a_reservation_is_made_settled_and_dropped_in_the_held_window() {
    let (gate, clock) = held(keyed);
    let plan = gate.plan(quota()).expect("the same");
    let reserved = gate.ask(&1).cells(5).reserve().expect("there is room");
    assert_eq!(left_of(&gate, 1), LEFT - 5);
    clock.advance(10 * MINUTE);
    reserved.settle(7);
    assert_eq!(left_of(&gate, 1), LEFT - 7);
    let reserved = gate.ask(&1).plan(&plan).cells(5).reserve().expect("there is room");
    clock.advance(10 * MINUTE);
    assert_eq!(left_of(&gate, 1), LEFT - 12);
    drop(reserved);
    assert_eq!(left_of(&gate, 1), LEFT - 7);

    let (gate, clock) = held_bucket();
    let reserved = gate.ask().cells(5).reserve().expect("there is room");
    assert_eq!(left_in(&gate), LEFT - 5);
    clock.advance(10 * MINUTE);
    drop(reserved);
    assert_eq!(left_in(&gate), LEFT);
}

/// A clock that moves on after one of its readings, as time does while a thread decides or refunds.
struct MovesOn {
    clock: ManualClock,
    after_reading: Cell<Duration>,
}

impl Clock for &MovesOn {
    fn now(&self) -> Tick {
        let now = self.clock.now();
        self.clock.advance(self.after_reading.take());
        now
    }
    fn unix_origin_nanos(&self) -> u64 {
        self.clock.unix_origin_nanos()
    }
    fn unix_now_nanos(&self) -> u64 {
        self.clock.unix_now_nanos()
    }
}

#[test]
fn a_refund_during_which_time_passes_an_edge_reaches_the_held_window() {
    let clock = MovesOn { clock: noon(), after_reading: Cell::default() };
    let keyed = Limiter::<u64>::builder(quota()).algorithm(FixedWindow::aligned()).clock(&clock);
    let keyed = keyed.build().expect("in range");
    let direct = Direct::builder(quota()).algorithm(FixedWindow::aligned()).clock(&clock);
    let direct = direct.build().expect("in range");
    let of_key = keyed.ask(&1).cells(SPENT).reserve().expect("there is room");
    let of_bucket = direct.ask().cells(SPENT).reserve().expect("there is room");
    hold(&clock.clock);
    let lefts = || [left(keyed.ask(&1).cells(0).peek()), left(direct.ask().cells(0).peek())];
    assert_eq!(lefts(), [LEFT; 2]);
    // The minute of the wall clock ends in 40 seconds.
    clock.clock.advance(Duration::from_secs(40) - NANO);
    clock.after_reading.set(2 * NANO);
    drop(of_key);
    assert_eq!(lefts(), [LIMIT, LEFT]);
    clock.clock.advance(MINUTE - 2 * NANO);
    assert_eq!(lefts(), [LIMIT, LEFT]);
    clock.after_reading.set(2 * NANO);
    drop(of_bucket);
    assert_eq!(lefts(), [LIMIT; 2]);
}

#[test]
fn a_held_window_is_granted_once_though_time_passes_an_edge_during_a_decision() {
    fn granted_once(algorithm: impl Algorithm) {
        const LIMIT: u64 = 20;
        const SECOND: u64 = 1_000_000_000;
        let clock = ManualClock::starting_at_unix_nanos(1_000 * SECOND);
        let clock = MovesOn { clock, after_reading: Cell::default() };
        let gate = Limiter::<u64>::builder(Quota::per_second(LIMIT)).algorithm(algorithm);
        let gate = gate.clock(&clock).lease_hot_keys().build().expect("in range");
        let MovesOn { clock, after_reading } = &clock;
        clock.set(Tick::from_nanos(2 * SECOND + SECOND / 2));
        assert!(gate.check_n(&7, LIMIT).is_ok());
        clock.set_unix_nanos(clock.unix_now_nanos() - 10 * SECOND);
        clock.set(Tick::from_nanos(3 * SECOND + SECOND / 2));
        assert!(gate.check(&7).is_err(), "the window is held");
        clock.set(Tick::from_nanos(4 * SECOND - 1));
        after_reading.set(Duration::from_nanos(51));
        assert!(gate.check(&7).is_err(), "and is still held");
        clock.set(Tick::from_nanos(4 * SECOND + SECOND / 10));
        assert!(gate.check(&7).is_err(), "and later on");
    }
    let aligned = FixedWindow::aligned().leases(5);
    granted_once(aligned);
    granted_once(AnyAlgorithm::from(aligned));
}

#[test]
fn a_lease_takes_its_cells_from_the_held_window() {
    let leasing = |clock: &ManualClock| {
        builder(FixedWindow::aligned().leases(20), clock).build().expect("in range")
    };
    let (gate, clock) = held(leasing);
    let mut lease = gate.lease(&1);
    assert!(lease.check().is_ok());
    assert_eq!((lease.held(), left_of(&gate, 1)), (19, LEFT - 20));
    clock.advance(10 * MINUTE);
    drop(lease);
    assert_eq!(left_of(&gate, 1), LEFT - 1);

    let (gate, clock) = held_bucket();
    let mut lease = gate.lease();
    assert!(lease.check().is_ok());
    assert_eq!((lease.held(), left_in(&gate)), (19, LEFT - 20));
    clock.advance(10 * MINUTE);
    drop(lease);
    assert_eq!(left_in(&gate), LEFT - 1);
}

/// A table in which 16 keys have all slots, and the others found none.
fn full(on_full: OnFull) -> (Keyed, ManualClock) {
    let (clock, wide) = (noon(), SlotLayout::Wide);
    let built = builder(FixedWindow::aligned(), &clock).on_full(on_full);
    let gate = built.slots(wide).capacity(1).build().expect("in range");
    assert!((0..100).all(|key| gate.check(&key).is_ok() || on_full == OnFull::Deny));
    hold(&clock);
    (gate, clock)
}

#[test]
fn keys_of_the_held_window_keep_their_slots() {
    let (gate, _) = full(OnFull::Deny);
    let keys = gate.len();
    assert!(keys > 10, "{keys}");
    let denied = gate.check(&1_000).expect_err("no slot");
    assert!(denied.retry_after().is_some_and(|wait| wait >= WAIT), "{denied}");
    let (gate, _) = full(OnFull::EvictNearestIdle);
    let before = gate.stats().evicted;
    assert!(gate.check(&1_000).is_ok());
    assert_eq!(gate.stats().evicted, before + 1);
    let (gate, _) = full(OnFull::Admit);
    let permit = gate.check(&1_000).expect("admitted without a slot");
    assert_eq!(permit.reset_after(), WAIT);
}

/// The limiter, and then a bucket with as many cells an hour.
fn beside_a_bucket<'a>(gate: &'a Keyed, clock: &ManualClock) -> Composite<'a, u64> {
    let direct = Direct::builder(Quota::per_hour(LIMIT)).clock(clock.clone()).build();
    Composite::builder()
        .keyed("keyed", gate, |key| key)
        .shared("direct", direct.expect("in range"))
        .build()
        .expect("it can refund")
}

#[test]
fn the_shared_overflow_is_of_the_held_window_by_every_verb() {
    let (gate, clock) = full(OnFull::SharedOverflow(quota()));
    let (ask, count) = (|| gate.ask(&1_000), || gate.stats().overflowed);
    // A denial says how many cells the shared bucket has left.
    let spent = count();
    let left = || LIMIT - ask().cells(LIMIT).check().expect_err("too many").remaining();
    assert_eq!(left(), spent, "by a check");
    assert_denied(ask().cells(LIMIT).max_delay(Duration::ZERO).check());
    assert_eq!(ask().cells(1).charge(), Duration::ZERO);
    assert_eq!(left(), spent + 1, "by a charge");
    let reserved = ask().cells(2).reserve().expect("there is room");
    assert_eq!(left(), spent + 3, "by a reservation");
    clock.advance(10 * MINUTE);
    drop(reserved);
    assert_eq!(left(), spent + 1, "by its refund");
    let two = beside_a_bucket(&gate, &clock);
    let denied = two.ask(&1_000).cells(LEFT).check().expect_err("too many");
    assert_eq!(denied.limit_name(), "keyed");
    assert_eq!(denied.retry_after(), Some(WAIT - 10 * MINUTE));
    assert_eq!(ask().cells(LIMIT).charge(), WAIT - 10 * MINUTE);
}

#[test]
fn a_batch_and_its_plans_are_of_the_held_window() {
    for capacity in [100, 3_000_000] {
        let build = |clock: &ManualClock| {
            let slots = SlotLayout::Wide;
            let built = builder(FixedWindow::aligned(), clock).slots(slots).capacity(capacity);
            built.build().expect("in range")
        };
        let (gate, _) = held(build);
        let small = gate.plan(Quota::per_minute(SPENT + 3)).expect("the same windows");
        let mut lefts = Vec::new();
        gate.ask_each(&[1, 1], |key| key).check(|_, decision| lefts.push(left(decision)));
        gate.ask_each(&[1, 1], |key| key)
            .plan(&|_| &small)
            .check(|_, decision| lefts.push(left(decision)));
        assert_eq!(lefts, [LEFT - 1, LEFT - 2, 0, 0], "{capacity}");
        assert_eq!(left_of(&gate, 1), LEFT - 3);
    }
}

#[test]
fn a_composite_and_its_refunds_are_of_the_held_window() {
    let clock = noon();
    let (gate, direct) = (keyed(&clock), bucket(&clock));
    assert!(gate.check_n(&1, SPENT).is_ok() && direct.check_n(SPENT).is_ok());
    let plan = gate.plan(Quota::per_minute(LIMIT - 1)).expect("the same windows");
    hold(&clock);
    let plan_of = |_: &u64| plan.clone();
    let key = |key: &u64| *key;
    let (first, last) = ("first", "last");
    let begin = Composite::<u64>::builder;
    let planned = begin().keyed_planned_by(first, &gate, key, plan_of);
    let twice = [
        planned.keyed_planned_by(last, &gate, key, plan_of).build().expect("refundable"),
        begin().keyed_by(first, &gate, key).keyed_by(last, &gate, key).build().expect("refundable"),
        begin().shared(first, &direct).shared(last, &direct).build().expect("refundable"),
    ];
    for both in &twice {
        // Each has as many cells, and both together have not: the first is refunded.
        assert!(both.ask(&1).cells(LEFT - 1).check().is_err());
        assert_eq!((left_of(&gate, 1), left_in(&direct)), (LEFT, LEFT));
        let denied = both.ask(&1).cells(LEFT + 1).check().expect_err("too many");
        assert_eq!((denied.limit_name(), denied.retry_after()), (first, Some(WAIT)));
    }
    for both in &twice {
        assert!(both.check(&1).is_ok());
    }
    assert_eq!((left_of(&gate, 1), left_in(&direct)), (LEFT - 4, LEFT - 2));
}

/// After a step forward, the windows as they were built would say that those of before still count.
#[test]
fn a_composite_charges_and_admits_in_the_window_after_the_one_that_was_spent() {
    let clock = noon();
    let shared = OnFull::SharedOverflow(quota());
    let built = builder(FixedWindow::aligned(), &clock).slots(SlotLayout::Wide).capacity(1);
    let gate = built.on_full(shared).build().expect("in range");
    let two = beside_a_bucket(&gate, &clock);
    assert!(gate.check(&0).is_ok());
    step(&clock, 1);
    clock.advance(MINUTE);
    // These keys have all slots, and others spend the cells that they share.
    let has_slot = |key: &u64| {
        let before = gate.stats().overflowed;
        gate.check(key).is_ok() && gate.stats().overflowed == before
    };
    let keys = (0..50).filter(has_slot).collect::<Vec<_>>();
    assert!(gate.ask(&1_000).cells(LIMIT).charge_available() > 0);
    assert!(gate.ask(&keys[0]).cells(LIMIT).charge_available() > 0);
    for key in [1_000, keys[0]] {
        assert_eq!(two.check(&key).expect_err("spent").limit_name(), "keyed");
    }
    clock.advance(MINUTE);
    assert!(two.check(&keys[0]).is_ok(), "a new window");
    assert!(keys.iter().all(|key| gate.check(key).is_ok()));
    let before = gate.stats().overflowed;
    assert!(two.check(&1_000).is_ok(), "a new window of those that found no slot");
    assert_eq!(gate.stats().overflowed, before + 1);
}

/// Sleeps by moving the clock, and notes for how long.
fn wait_to_the_end<S: Waitable<Key = K>, K: ?Sized>(
    queue: &WaitQueue<S>,
    (key, cells): (&K, u64),
    clock: &ManualClock,
    mut first: impl FnMut(),
) -> Vec<Duration> {
    let sleeps = RefCell::new(Vec::new());
    let sleep = |span| -> Ready<()> {
        if sleeps.borrow().is_empty() {
            first();
        }
        clock.advance(span);
        let mut sleeps = sleeps.borrow_mut();
        sleeps.push(span);
        assert!(sleeps.len() < 100, "{sleeps:?}");
        ready(())
    };
    let mut waiting = std::pin::pin!(queue.ask(key).cells(cells).wait_async(sleep));
    let mut context = Context::from_waker(Waker::noop());
    let done = (0..100).any(|_| match waiting.as_mut().poll(&mut context) {
        Poll::Ready(answer) => answer.is_ok(),
        Poll::Pending => false,
    });
    assert!(done, "{sleeps:?}");
    sleeps.take()
}

#[test]
fn a_queue_waits_for_the_end_of_the_held_window() {
    fn each<S: Waitable<Key = K>, K: ?Sized>(limiter: S, key: &K, clock: &ManualClock) {
        let queue = WaitQueue::new(limiter);
        let ask = |cells| {
            let mut sleeps = 0;
            let sleep = |_| {
                sleeps += 1;
                assert!(sleeps < 100, "it never ends");
                ready(())
            };
            let request = queue.ask(key).cells(cells).max_delay(Duration::ZERO);
            let asked = std::pin::pin!(request.wait_async(sleep));
            match asked.poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(answer) => answer,
                Poll::Pending => panic!("a request that does not wait"),
            }
        };
        assert_eq!(ask(LEFT + 1).map(drop), Err(WaitError::TooLate { wait: WAIT }));
        assert!(ask(LEFT).is_ok());
        let slept = wait_to_the_end(&queue, (key, LIMIT), clock, || {});
        assert_eq!(slept.iter().sum::<Duration>(), WAIT, "{slept:?}");
        // The wall clock is set back while the caller sleeps.
        let slept = wait_to_the_end(&queue, (key, 1), clock, || step(clock, -1));
        assert_eq!(slept.iter().sum::<Duration>(), MINUTE + HOUR, "{slept:?}");
    }
    let (gate, clock) = held(keyed);
    each(gate, &1, &clock);
    let any = |clock: &ManualClock| {
        builder(AnyAlgorithm::from(FixedWindow::aligned()), clock).build().expect("in range")
    };
    let (gate, clock) = held(any);
    each(gate, &1, &clock);
    let (gate, clock) = held_bucket();
    each(gate, &(), &clock);
}

#[test]
fn a_snapshot_keeps_what_a_held_window_has_counted_for_the_window_of_its_restoration() {
    let clock = noon();
    let build = |clock: &ManualClock| {
        let built = builder(FixedWindow::aligned(), clock).on_full(OnFull::SharedOverflow(quota()));
        built.slots(SlotLayout::Wide).capacity(1)
    };
    let gate = build(&clock).build().expect("in range");
    assert!((0..20).all(|key| gate.check(&key).is_ok()));
    let overflowed = gate.stats().overflowed;
    assert!(overflowed > 0);
    hold(&clock);
    // Another process, ten minutes later. It is 11:20:20, and nothing says that 12:00 was held.
    let later = ManualClock::starting_at_unix_nanos(clock.unix_now_nanos());
    later.advance(10 * MINUTE);
    let restored = build(&later).restore(&gate.snapshot()).expect("unharmed");
    let keys = (0..20).filter(|key| {
        gate.ask(key).cells(LIMIT + 1).peek().is_err() && left_of(&restored, *key) == LIMIT - 1
    });
    assert_eq!(keys.count() as u64, 20 - overflowed);
    let plan = restored.plan(Quota::per_minute(SPENT)).expect("the same windows");
    let held = (0..20).find(|&key| left_of(&restored, key) == LIMIT - 1).expect("counted");
    let denied = restored.ask(&held).plan(&plan).cells(SPENT).check().expect_err("one is spent");
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(40)));
    let denied = restored.check_n(&1_000, LIMIT).expect_err("of the shared overflow");
    assert_eq!(denied.remaining(), LIMIT - overflowed);
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(40)));
}
