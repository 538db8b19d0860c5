//! All protocols with real threads, small enough for an interpreter: what `ci/check.sh miri` runs, under
//! many schedules. Each total is exact, as in `tests/threads`.

#![allow(clippy::disallowed_types, reason = "interpreters have no assembly, and so no other clock")]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use tollgate::algorithm::Algorithm;
use tollgate::composite::Composite;
use tollgate::dynamic::{DynamicGcra, Inherit};
use tollgate::limiter::SlotLayout;
use tollgate::top::TopKeys;
use tollgate::wait::WaitQueue;
use tollgate::{
    AnyAlgorithm, Clock, Direct, FixedWindow, Gcra, LeakyQueue, Limiter, ManualClock, OnFull,
    Quota, SlidingCounter, SlidingLog, SubWindows, Tick, WarmUp,
};

const NOW: Tick = Tick::from_nanos(3_600_000_000_000);
const THREADS: u64 = 3;

/// The sum of the results of a few threads.
fn together(body: impl Fn(u64) -> u64 + Sync) -> u64 {
    let body = &body;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|index| scope.spawn(move || body(index))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    })
}

fn quota() -> Quota {
    Quota::per_hour(10)
}

fn run_one_bucket<A>(algorithm: A)
where
    A: Algorithm + Sync,
    A::Params: Sync,
{
    let gate = Direct::builder(quota())
        .clock(ManualClock::new())
        .algorithm(algorithm)
        .build()
        .expect("in range");
    let ask = |n| u64::from(gate.ask().cells(n).at(NOW).check().is_ok()) * n;
    let granted = together(|index| (0..4).map(|turn| ask(1 + (turn + index) % 2)).sum());
    let rest: u64 = (0..10).map(|_| ask(1)).sum();
    assert_eq!(granted + rest, 10);
}

#[test]
fn one_bucket_of_each_algorithm_grants_exactly_its_burst() {
    run_one_bucket(Gcra::new());
    run_one_bucket(FixedWindow::anchored());
    run_one_bucket(LeakyQueue::new());
    run_one_bucket(SubWindows::new());
    run_one_bucket(SlidingCounter::new());
    run_one_bucket(SlidingLog::new());
    run_one_bucket(AnyAlgorithm::from(SlidingLog::new()));
    run_one_bucket(DynamicGcra::new());
    let warm = WarmUp::new(Duration::from_secs(60));
    let gate = Direct::builder(quota()).clock(ManualClock::new()).algorithm(warm).build();
    let gate = gate.expect("in range");
    let granted =
        together(|_| (0..9).filter(|_| gate.ask().at(NOW).check().is_ok()).count() as u64);
    assert!((1..=10).contains(&granted));
}

fn run_few_keys<A>(algorithm: A, slots: SlotLayout, on_full: OnFull)
where
    A: Algorithm + Sync,
    A::Params: Sync,
{
    const KEYS: usize = 20;
    let gate: Limiter<usize, A, _> = Limiter::builder(Quota::per_hour(2))
        .clock(ManualClock::new())
        .algorithm(algorithm)
        .capacity(1)
        .slots(slots)
        .on_full(on_full)
        .build()
        .expect("in range");
    let granted: [AtomicU64; KEYS] = Default::default();
    together(|index| {
        for turn in 0..KEYS {
            let key = (turn * 7 + usize::try_from(index).expect("few")) % KEYS;
            if gate.ask(&key).at(NOW).check().is_ok() {
                granted[key].fetch_add(1, Relaxed);
            }
            if key == 3 {
                gate.ask(&key).at(NOW).peek().ok();
            }
        }
        0
    });
    let granted = granted.map(AtomicU64::into_inner);
    let evicted = gate.stats().evicted;
    let max = if on_full == OnFull::Deny { 2 } else { 2 + 2 * evicted };
    assert!(granted.iter().all(|sum| *sum <= max), "{granted:?}, {evicted} evicted");
    assert!(granted.iter().sum::<u64>() >= 16, "{granted:?}: all slots are used");
}

#[test]
fn keys_in_a_table_that_is_too_small_are_granted_at_most_their_burst() {
    for on_full in [OnFull::Deny, OnFull::EvictNearestIdle] {
        for slots in [SlotLayout::Wide, SlotLayout::Compact] {
            run_few_keys(Gcra::new(), slots, on_full);
        }
        run_few_keys(SubWindows::new().count(2), SlotLayout::Wide, on_full);
        run_few_keys(SlidingLog::new(), SlotLayout::Wide, on_full);
    }
}

#[test]
fn leases_and_reservations_refund_what_was_not_spent() {
    let quota = Quota::per_hour(100);
    let begun = || Limiter::<u64>::builder(quota).clock(ManualClock::new()).capacity(1);
    let leases =
        begun().algorithm(Gcra::new().leases(4)).lease_hot_keys().build().expect("in range");
    leases.clock().set(NOW);
    let granted = together(|_| {
        let mut lease = leases.lease(&1);
        let by_lease = (0..20).filter(|_| lease.check().is_ok()).count();
        let by_check = (0..20).filter(|_| leases.check(&1).is_ok()).count();
        (by_lease + by_check) as u64
    });
    assert!((80..=100).contains(&granted), "{granted}");

    let gate = begun().build().expect("in range");
    gate.clock().set(NOW);
    let spent = together(|index| {
        (0..10).fold(0, |spent, _| match gate.ask(&1).cells(5).reserve() {
            Ok(held) if index == 0 => {
                held.settle(1);
                spent + 1
            }
            _ => spent, // a dropped reservation is refunded
        })
    });
    let rest = (0..100).filter(|_| gate.check(&1).is_ok()).count() as u64;
    assert_eq!(spent + rest, 100);
}

#[test]
fn changing_quotas_and_composites_grant_exact_totals() {
    let live = Direct::builder(Quota::per_hour(10))
        .clock(ManualClock::new())
        .algorithm(DynamicGcra::new())
        .build()
        .expect("in range");
    live.clock().set(NOW);
    let granted = together(|index| match index {
        0 => u64::from(live.set_quota(Quota::per_hour(15), Inherit::Additive).is_err()),
        _ => (0..6).filter(|_| live.check().is_ok()).count() as u64,
    });
    let rest = (0..20).filter(|_| live.check().is_ok()).count() as u64;
    assert_eq!(granted + rest, 15);

    let limit = |cells| {
        let quota = Quota::per_hour(cells);
        Limiter::<u64>::builder(quota).clock(ManualClock::new()).capacity(1).build().expect("fits")
    };
    let (small, large) = (limit(5), limit(8));
    let both = Composite::<u64>::builder()
        .keyed("large", &large, |key| key)
        .keyed("small", &small, |key| key)
        .build()
        .expect("two limits");
    let granted = together(|_| (0..3).filter(|_| both.check(&1).is_ok()).count() as u64);
    let rest = (0..9).filter(|_| both.check(&1).is_ok()).count() as u64;
    assert_eq!(granted + rest, 5);
}

/// The system's clock, without inline assembly, which interpreters do not support.
#[derive(Debug)]
struct System(Instant);

impl Clock for System {
    fn now(&self) -> Tick {
        Tick::from_duration(self.0.elapsed())
    }
}

#[test]
fn waiters_snapshots_and_top_keys_work_side_by_side() {
    let quota = Quota::per_second(1_000).burst(2);
    let gate = Direct::builder(quota).clock(System(Instant::now())).build().expect("in range");
    let queue = WaitQueue::new(gate);
    let hour = Duration::from_secs(3_600);
    let served = together(|_| u64::from(queue.ask(&()).max_delay(hour).wait().is_ok()));
    assert_eq!(served, THREADS);

    let gate: Limiter<u64, SlidingLog, _> = Limiter::builder(Quota::per_hour(4))
        .clock(ManualClock::new())
        .algorithm(SlidingLog::new())
        .capacity(8)
        .build()
        .expect("in range");
    gate.clock().set(NOW);
    let bytes = thread::scope(|scope| {
        scope.spawn(|| (0..6).for_each(|key| assert!(gate.check(&key).is_ok())));
        scope.spawn(|| gate.snapshot()).join().expect("no panic")
    });
    let again: Limiter<u64, SlidingLog, _> = Limiter::builder(Quota::per_hour(4))
        .clock(ManualClock::new())
        .algorithm(SlidingLog::new())
        .capacity(8)
        .restore(&bytes)
        .expect("what was saved");
    assert!(again.len() <= 6);

    let top = TopKeys::<u64>::new(4);
    together(|index| {
        (0..6).for_each(|turn| top.note(&(turn % 2 + index)));
        0
    });
    assert!(!top.top(2).is_empty());
}
