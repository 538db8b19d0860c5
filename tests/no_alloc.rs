//! A limiter allocates nothing after it is built: the allocator itself counts.
//!
//! This is a file of its own, because a process has one allocator. Each thread has its own count,
//! so that allocations of the test harness are not counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use tollgate::algorithm::Algorithm;
use tollgate::composite::Composite;
use tollgate::concurrency::adaptive::{AdaptiveLimit, Aimd, Controller, Gradient, MinLatency};
use tollgate::concurrency::{ConcurrencyLimiter, DirectConcurrency, WhenNoSlot};
use tollgate::limiter::SlotLayout;
use tollgate::penalty::Penalties;
use tollgate::shadow::Shadow;
use tollgate::{
    Direct, FixedWindow, Gcra, Limiter, ManualClock, OnFull, Quota, SlidingCounter, SlidingLog,
    SubWindows, Tick,
};

/// The system's allocator, with a count of its calls.
struct Counting;

thread_local! {
    // Constant and without a destructor, so that reading it allocates nothing.
    static ASKED: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    ASKED.set(ASKED.get() + 1);
}

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the promises of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the promises of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the promises of `GlobalAlloc::realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(body: impl FnOnce()) -> usize {
    let before = ASKED.get();
    body();
    ASKED.get() - before
}

/// Makes every kind of call, for more keys than there are slots.
fn use_it<A: Algorithm>(gate: &Limiter<str, A, ManualClock>) {
    const NAMES: [&str; 5] = ["192.0.2.7", "2001:db8::1", "", "a", "a much longer name than that"];
    for turn in 0..20_000_u64 {
        let name = NAMES[usize::try_from(turn % 5).expect("below 5")];
        let name = &name[..name.len().min(usize::try_from(turn % 23).expect("below 23"))];
        let now = Tick::from_nanos(turn * 10_000_000);
        let decision = match gate.ask(name).cells(turn % 4).at(now).check() {
            Ok(permit) => (permit.remaining(), permit.reset_after()),
            Err(denied) => (denied.remaining(), denied.retry_after().unwrap_or_default()),
        };
        std::hint::black_box(decision);
        let _ = std::hint::black_box(gate.check(name));
        let _ = std::hint::black_box(gate.ask(name).at(now).peek());
        if turn % 50 == 0 {
            gate.ask_each(&NAMES, |key| key).at(now).check(|_, decision| {
                std::hint::black_box(decision.is_ok());
            });
            gate.reset(name);
            std::hint::black_box((gate.len_at(now), gate.stats(), gate.memory_bytes()));
        }
    }
}

/// A limiter whose states have a ring beside their word.
fn ringed<A: Algorithm>(algorithm: A, on_full: OnFull) -> Limiter<str, A, ManualClock> {
    Limiter::<str>::builder(Quota::per_second(5))
        .algorithm(algorithm)
        .clock(ManualClock::new())
        .capacity(1)
        .on_full(on_full)
        .build()
        .expect("in range")
}

#[test]
fn a_check_allocates_nothing_after_the_build() {
    let counted = allocations(|| drop(std::hint::black_box(vec![1_u8])));
    assert_eq!(counted, 1, "the allocator counts");

    let overflow = OnFull::SharedOverflow(Quota::per_second(3));
    for on_full in [OnFull::EvictNearestIdle, OnFull::Deny, OnFull::Admit, overflow] {
        let keyed = Limiter::<str>::builder(Quota::per_second(5))
            .algorithm(Gcra::new())
            .clock(ManualClock::new())
            .capacity(1)
            .on_full(on_full)
            .build()
            .expect("in range");
        let compact = Limiter::<str>::builder(Quota::per_second(5))
            .slots(SlotLayout::Compact)
            .clock(ManualClock::new())
            .capacity(1)
            .on_full(on_full)
            .build()
            .expect("in range");
        let shared = Limiter::<str>::builder(Quota::per_second(5))
            .algorithm(Gcra::new().leases(1))
            .clock(ManualClock::new())
            .capacity(1)
            .on_full(on_full)
            .lease_hot_keys()
            .count_decisions()
            .build()
            .expect("in range");
        let windows = Limiter::<str>::builder(Quota::per_second(5))
            .algorithm(FixedWindow::aligned())
            .clock(ManualClock::new())
            .capacity(1)
            .on_full(on_full)
            .build()
            .expect("in range");
        let log = SlidingLog::new().and(Quota::new(2, Duration::from_millis(100))).count_denials();
        let logs = ringed(log, on_full);
        let sub_windows = ringed(SubWindows::new(), on_full);
        let counters = ringed(SlidingCounter::new(), on_full);
        let memory = keyed.memory_bytes();
        assert_eq!(allocations(|| use_it(&keyed)), 0, "{on_full:?}");
        assert_eq!(allocations(|| use_it(&compact)), 0, "{on_full:?}");
        assert_eq!(allocations(|| use_it(&shared)), 0, "{on_full:?}");
        assert_eq!(allocations(|| use_it(&windows)), 0, "{on_full:?}");
        assert_eq!(allocations(|| use_it(&logs)), 0, "{on_full:?}");
        assert_eq!(allocations(|| use_it(&sub_windows)), 0, "{on_full:?}");
        assert_eq!(allocations(|| use_it(&counters)), 0, "{on_full:?}");
        assert_eq!(keyed.memory_bytes(), memory);
    }

    // Also without keys: the ring of a log wraps around several times.
    let log = Direct::builder(Quota::per_second(50))
        .algorithm(SlidingLog::new())
        .clock(ManualClock::new())
        .build()
        .expect("in range");
    let counted = allocations(|| {
        for turn in 0..10_000_u64 {
            let now = Tick::from_nanos(turn * 7_000_000);
            let _ = std::hint::black_box(log.ask().cells(turn % 4).at(now).check());
            let _ = std::hint::black_box(log.ask().cells(50).at(now).peek());
        }
        log.reset();
    });
    assert_eq!(counted, 0);

    // Also with the default clock, which is created and calibrated when the limiter is built.
    let direct = Direct::new(Quota::per_second(100)).expect("in range");
    let counted = allocations(|| {
        for _ in 0..1_000 {
            let _ = std::hint::black_box(direct.check());
            let _ = std::hint::black_box(direct.check_n(3));
        }
        direct.reset();
    });
    assert_eq!(counted, 0);
}

#[test]
fn entering_and_leaving_allocates_nothing_after_the_build() {
    for policy in [WhenNoSlot::Deny, WhenNoSlot::Admit, WhenNoSlot::SharedOverflow(2)] {
        let gate: ConcurrencyLimiter<u64> = ConcurrencyLimiter::builder(3)
            .capacity(1)
            .when_no_slot(policy)
            .max_hold(Duration::from_secs(60))
            .count_decisions()
            .build()
            .expect("in range");
        let direct = DirectConcurrency::new(3).expect("in range");
        let counted = allocations(|| {
            for turn in 0..20_000_u64 {
                let guards = (gate.enter(&(turn % 7)), gate.enter_n(&(turn % 5), 2));
                let _ = std::hint::black_box((direct.enter(), gate.enter(&turn), guards));
                if turn % 50 == 0 {
                    gate.reset(&(turn % 7));
                    std::hint::black_box((gate.len(), gate.stats(), gate.in_flight(&turn)));
                }
            }
        });
        assert_eq!(counted, 0, "{policy:?}");
    }
}

#[test]
fn an_adaptive_limit_allocates_nothing_after_the_build() {
    for controller in
        [Controller::from(Aimd::new()), Gradient::new().into(), MinLatency::new().into()]
    {
        let clock = ManualClock::new();
        let limit = AdaptiveLimit::builder(controller).clock(clock.clone()).build();
        let limit = limit.expect("in range");
        let counted = allocations(|| {
            for turn in 0..20_000_u64 {
                clock.advance(Duration::from_millis(1));
                match limit.enter() {
                    Ok(guard) if turn % 9 == 0 => guard.failed(),
                    Ok(guard) => guard.succeeded(),
                    Err(denied) => {
                        let _ = std::hint::black_box(denied);
                    }
                }
            }
        });
        assert_eq!(counted, 0, "{controller:?}");
        assert!(limit.reading().expect("no thread steps").windows > 100);
    }
}

#[test]
fn composites_and_penalties_allocate_nothing_after_the_build() {
    let limiter = |limit, on_full| {
        let built = Limiter::<u64>::builder(Quota::per_second(limit)).clock(ManualClock::new());
        built.capacity(1).on_full(on_full).build().expect("in range")
    };
    let overflow = OnFull::SharedOverflow(Quota::per_second(3));
    let composite = Composite::<u64>::builder()
        .keyed("first", limiter(9, OnFull::EvictNearestIdle), |key| key)
        .keyed_by("second", limiter(7, overflow), |key| key / 2)
        .shared("third", Direct::new(Quota::per_second(50)).expect("in range"))
        .shared_in_flight("in flight", DirectConcurrency::new(5).expect("in range"))
        .keyed("trial", limiter(5, OnFull::Deny), |key| key)
        .shadow()
        .build()
        .expect("token buckets");
    let shadow = Shadow::new(limiter(9, OnFull::Admit), limiter(7, OnFull::Deny));
    let penalties = |prolonged| {
        let gate = limiter(5, OnFull::EvictNearestIdle);
        let gate = Penalties::builder(gate, Quota::per_second(3), Duration::from_secs(2));
        let gate = if prolonged { gate.prolonged() } else { gate };
        gate.capacity(1).build().expect("in range")
    };
    let (banning, prolonging) = (penalties(false), penalties(true));
    let counted = allocations(|| {
        for turn in 0..20_000_u64 {
            let (key, n, now) = (turn % 29, turn % 4, Tick::from_nanos(turn * 1_000_000));
            let decision = match composite.ask(&key).cells(n).at(now).check() {
                Ok(granted) => (granted.remaining(), granted.delay()),
                Err(denied) => (denied.remaining(), denied.retry_after().unwrap_or_default()),
            };
            std::hint::black_box((decision, composite.enter(&key).is_ok()));
            std::hint::black_box((
                shadow.ask(&key).cells(n).at(now).check().is_ok(),
                shadow.of_admitted(),
            ));
            std::hint::black_box(banning.ask(&key).cells(n).at(now).check().is_ok());
            std::hint::black_box(prolonging.ask(&key).cells(n).at(now).check().is_ok());
            if turn % 100 == 0 {
                banning.pardon(&key);
                std::hint::black_box((banning.stats_at(now), composite.shadows().count()));
            }
        }
    });
    assert_eq!(counted, 0);
}
