//! Scenarios in a table of 16 slots.

use std::time::Duration;

use tollgate::limiter::SlotLayout;
use tollgate::{
    AnyAlgorithm, FixedWindow, Gcra, Limiter, ManualClock, OnFull, Quota, Tick, WarmUp,
};

const SLOTS: u64 = 16;
const SECOND: u64 = 1_000_000_000;
/// Later than any skew, so that setting a clock back does not reach the origin.
const START: Tick = Tick::from_nanos(3_600 * SECOND);

fn later(nanos: u64) -> Tick {
    START.saturating_add(Duration::from_nanos(nanos))
}

type Gate<A = Gcra> = Limiter<u64, A, ManualClock>;

/// One limiter with slots of each kind.
fn small(quota: Quota, on_full: OnFull, skew: Duration) -> [Gate; 2] {
    [SlotLayout::Wide, SlotLayout::Compact].map(|slots| {
        Limiter::builder(quota)
            .clock(ManualClock::new())
            .capacity(1)
            .on_full(on_full)
            .max_clock_skew(skew)
            .slots(slots)
            .build()
            .expect("in range")
    })
}

fn fill(gate: &Gate, cells: u64) {
    for key in 0..SLOTS {
        assert!(gate.ask(&key).cells(cells).at(START).check().is_ok(), "{key} has a slot");
    }
    assert_eq!(gate.stats().claimed, SLOTS);
    assert_eq!(gate.len_at(START), 16);
}

#[test]
fn sixteen_keys_fit_sixteen_slots_and_the_seventeenth_does_not() {
    for gate in small(Quota::per_second(1).burst(3), OnFull::Deny, Duration::ZERO) {
        fill(&gate, 1);
        for _ in 0..5 {
            assert!(gate.ask(&99).at(START).check().is_err());
        }
        assert_eq!(gate.stats().denied_full, 5);
        // A request for no cells, or for more than the burst, needs no slot.
        assert_eq!(gate.ask(&99).cells(0).at(START).check().expect("nothing").remaining(), 3);
        assert_eq!(
            gate.ask(&99).cells(4).at(START).check().expect_err("too much").retry_after(),
            None
        );
        assert_eq!(gate.stats().denied_full, 5);
        for key in 0..SLOTS {
            assert_eq!(
                gate.ask(&key).cells(2).at(START).check().expect("two are left").remaining(),
                0
            );
        }
    }
}

/// In a table that is full of other keys, a key finds a slot where one of 16 keys has left its own, and
/// nowhere else.
#[test]
fn a_key_has_sixteen_candidates_in_a_table_of_thousands() {
    for slots in [SlotLayout::Wide, SlotLayout::Compact] {
        let gate: Gate = Limiter::builder(Quota::per_second(1).burst(1))
            .clock(ManualClock::new())
            .capacity(5_000)
            .on_full(OnFull::Deny)
            .slots(slots)
            .hash_seed(7)
            .build()
            .expect("in range");
        let claims = |key: &u64| gate.ask(key).at(START).check().is_ok();
        let held: Vec<u64> = (0..60_000).filter(claims).collect();
        assert!(held.len() > 5_000, "{slots:?}: {}", held.len());
        let without = 1_000_000;
        let finds_slot = || gate.ask(&without).at(START).finds_slot();
        assert!(!finds_slot(), "{slots:?}: all slots are taken");
        let has_candidate = |key: &&u64| {
            gate.reset(key);
            let found = finds_slot();
            // The only slot that is vacant is the one that the key has left.
            assert!(claims(key), "{slots:?}: {key}");
            found
        };
        assert_eq!(held.iter().filter(has_candidate).count(), 16, "{slots:?}");
    }
}

/// A key finds a slot if a request of it is treated by no `OnFull`, and the question changes nothing.
#[test]
fn keys_are_told_whether_they_find_a_slot() {
    for on_full in [OnFull::Deny, OnFull::EvictNearestIdle] {
        for gate in small(Quota::per_second(1).burst(3), on_full, Duration::ZERO) {
            let finds_slot = |key: u64, at| gate.ask(&key).at(at).finds_slot();
            assert!(finds_slot(0, START) && finds_slot(99, START));
            fill(&gate, 1);
            assert!((0..SLOTS).all(|key| finds_slot(key, START)), "each has one");
            assert!(!finds_slot(99, START) && gate.ask(&99).at(START).peek().is_ok());
            assert!(finds_slot(99, later(SECOND)), "all are idle");
            let stats = gate.stats();
            assert_eq!((stats.claimed, stats.denied_full, stats.evicted), (SLOTS, 0, 0));
        }
    }
}

/// The key with the least debt is evicted, and no other key is touched.
#[test]
fn the_key_with_the_least_debt_is_evicted() {
    for gate in small(Quota::per_second(1).burst(100), OnFull::EvictNearestIdle, Duration::ZERO) {
        for key in 0..SLOTS {
            assert!(gate.ask(&key).cells(20 + (key * 7 + 3) % SLOTS).at(START).check().is_ok());
        }
        assert!(gate.ask(&99).cells(90).at(START).check().is_ok());
        assert_eq!(gate.stats().evicted, 1);
        for key in 0..SLOTS {
            let debt = 20 + (key * 7 + 3) % SLOTS;
            let left = gate.ask(&key).cells(0).at(START).peek().expect("nothing").remaining();
            assert_eq!(left, if debt == 20 { 100 } else { 100 - debt }, "{key}");
        }
        assert_eq!(gate.len_at(START), 16);
    }
}

#[test]
fn an_idle_key_gives_up_its_slot_only_after_the_allowed_skew() {
    let skew = Duration::from_millis(100);
    for gate in small(Quota::per_second(10).burst(3), OnFull::Deny, skew) {
        fill(&gate, 1);
        // A cell is restored in 100 ms: the key is idle from then on, and idle for every clock 100
        // ms later.
        for (nanos, found) in [(100_000_000, false), (199_999_999, false), (200_000_000, true)] {
            assert_eq!(gate.ask(&99).at(later(nanos)).check().is_ok(), found, "after {nanos} ns");
        }
        // A clock that far behind still sees the cells of every key as spent.
        assert!(gate.ask(&99).cells(3).at(later(100_000_000)).check().is_err());
        assert_eq!(gate.stats().evicted, 0);
    }
}

/// The wait in a denial for lack of a slot is sufficient, and a nanosecond less is not. That also
/// holds between the time at which the other keys are idle and the time at which they are idle for
/// every clock.
#[test]
fn waiting_as_long_as_a_denial_for_want_of_a_slot_says_is_enough() {
    for (skew, elapsed) in [
        (0, 0),
        (0, 199_999_999),
        (1_000_000, 0),
        (1_000_000, 200_000_000),
        (1_000_000, 200_999_999),
        (50_000_000, 123),
        (50_000_000, 225_000_000),
    ] {
        let skew = Duration::from_nanos(skew);
        for gate in small(Quota::per_second(10).burst(3), OnFull::Deny, skew) {
            fill(&gate, 2);
            let denied = gate.ask(&99).at(later(elapsed)).check().expect_err("no slot yet");
            let wait = denied.retry_after().expect("a slot becomes free");
            assert!(!wait.is_zero(), "denied with a wait of zero: {elapsed}, {skew:?}");
            let then = later(elapsed).saturating_add(wait);
            let before = then.saturating_sub(Duration::from_nanos(1));
            assert!(
                gate.ask(&99).at(before).check().is_err(),
                "{wait:?} is too long, skew {skew:?}"
            );
            assert!(gate.ask(&99).at(then).check().is_ok(), "{wait:?} is too short, skew {skew:?}");
        }
    }
}

#[test]
fn a_denial_for_want_of_a_slot_resets_no_earlier_than_its_wait() {
    let named = AnyAlgorithm::NAMES.iter().map(|name| name.parse().expect("a name"));
    let algorithms = named.chain([WarmUp::new(Duration::from_secs(20)).into()]);
    for (algorithm, cells) in algorithms.flat_map(|one: AnyAlgorithm| [(one, 1), (one, 3)]) {
        let gate = Limiter::<u64>::builder(Quota::per_minute(3))
            .algorithm(algorithm)
            .clock(ManualClock::new())
            .capacity(1)
            .on_full(OnFull::Deny)
            .max_clock_skew(Duration::from_secs(60))
            .build()
            .expect("in range");
        let asked = |key: u64| gate.ask(&key).cells(cells).at(START).check();
        for key in 0..100 {
            let _ = asked(key);
        }
        let denied =
            (100..200).find_map(|key| asked(key).err().filter(|it| it.retry_after().is_some()));
        // A queue takes no request of three cells: it would never fit.
        let Some(denied) = denied else { continue };
        let wait = denied.retry_after().expect("a slot becomes free");
        assert!(wait >= Duration::from_secs(60), "{algorithm:?}: {wait:?}");
        assert!(denied.reset_after() >= wait, "{algorithm:?}: {:?}", denied.reset_after());
    }
}

/// In a bucket that starts empty even a denial claims a slot, but not a request that never fits.
#[test]
fn a_cost_beyond_the_burst_is_denied_without_a_wait_in_a_full_table() {
    let overflow = OnFull::SharedOverflow(Quota::per_second(100));
    for on_full in [OnFull::EvictNearestIdle, OnFull::Deny, OnFull::Admit, overflow] {
        let gate: Gate = Limiter::builder(Quota::per_second(10).burst(3))
            .algorithm(Gcra::start_empty())
            .clock(ManualClock::new())
            .capacity(1)
            .on_full(on_full)
            .build()
            .expect("in range");
        for key in 0..SLOTS {
            assert!(gate.ask(&key).at(START).check().is_err(), "empty");
        }
        assert_eq!(gate.stats().claimed, SLOTS);
        let before = gate.stats();
        let denied = gate.ask(&99).cells(4).at(START).check().expect_err("more than the burst");
        assert_eq!(denied.retry_after(), None, "{on_full:?}");
        let after = gate.stats();
        assert_eq!(after.admitted_full, before.admitted_full, "{on_full:?}");
        assert_eq!(after.overflowed, before.overflowed, "{on_full:?}");
    }
}

/// A grid that wraps around can distinguish past from future only within a range. A table with a
/// larger skew would take live keys for idle ones, and give their slots away.
#[test]
fn a_skew_beyond_the_range_of_the_grid_is_a_build_error() {
    let quota = Quota::per_second(1_000_000_000).burst(1);
    let built = |skew: Duration| {
        Limiter::<u64>::builder(quota)
            .clock(ManualClock::new())
            .capacity(1)
            .on_full(OnFull::Deny)
            .max_clock_skew(skew)
            .build()
    };
    let modest = built(Duration::from_millis(1)).expect("the default is always kept");
    let granted = (0..100).filter(|key| modest.ask(key).at(START).check().is_ok()).count();
    assert_eq!(granted, 16);
    if let Ok(gate) = built(Duration::from_secs(3_600)) {
        let granted = (0..100).filter(|key| gate.ask(key).at(START).check().is_ok()).count();
        assert_eq!(granted, 16, "live keys lost their slots");
    }
}

/// The same holds for a decision by the oldest clock allowed, which is that far behind itself.
#[test]
fn a_clock_as_far_behind_as_allowed_takes_no_live_slot() {
    let quota = Quota::per_second(1_000_000_000).burst(1);
    // The grid's tolerance is some fraction of a ring: some of these skews are within it, some
    // beyond.
    for millis in [1, 400, 540, 600, 1_000, 400_000, 540_000, 600_000, 1_000_000] {
        let skew = Duration::from_millis(millis);
        let built = Limiter::<u64>::builder(quota)
            .clock(ManualClock::new())
            .capacity(1)
            .on_full(OnFull::Deny)
            .max_clock_skew(skew)
            .build();
        let Ok(gate) = built else { continue };
        let granted = (0..16).filter(|key| gate.ask(key).at(START).check().is_ok()).count();
        assert_eq!(granted, 16);
        let stale = START.saturating_sub(skew);
        let granted = (100..200).filter(|key| gate.ask(key).at(stale).check().is_ok()).count();
        assert_eq!(granted, 0, "skew {skew:?}: live keys lost their slots");
    }
}

#[test]
fn a_reset_frees_the_slot_at_once() {
    for gate in small(Quota::per_second(1).burst(3), OnFull::Deny, Duration::from_secs(1)) {
        fill(&gate, 3);
        assert!(gate.ask(&99).cells(3).at(START).check().is_err());
        gate.reset(&5);
        gate.reset(&5);
        assert_eq!(gate.len_at(START), 15);
        assert!(gate.ask(&99).cells(3).at(START).check().is_ok(), "in the slot that was released");
        assert!(gate.ask(&5).at(START).check().is_err(), "no slot, and no debt");
        gate.reset(&99);
        assert!(gate.ask(&5).cells(3).at(START).check().is_ok());
        gate.reset(&12_345);
        assert_eq!(gate.len_at(START), 16);
    }
}

#[test]
fn a_peek_changes_nothing_and_claims_no_slot() {
    for gate in small(Quota::per_second(1).burst(3), OnFull::EvictNearestIdle, Duration::ZERO) {
        fill(&gate, 2);
        let before = gate.stats();
        for key in 0..100 {
            let peeked = gate.ask(&key).cells(2).at(START).peek();
            assert_eq!(peeked, gate.ask(&key).cells(2).at(START).peek());
            assert_eq!(peeked.is_ok(), key >= SLOTS, "{key}");
        }
        assert_eq!(gate.stats(), before);
        assert_eq!(gate.len_at(START), 16);
    }
}

/// The two denials that may write are of a bucket that starts empty, and of a log that counts denials. No
/// algorithm with a name is one of these.
#[test]
fn a_peek_and_a_denial_leave_the_state_of_their_key() {
    let layouts = [SlotLayout::Wide, SlotLayout::Auto];
    for (name, slots) in AnyAlgorithm::NAMES.iter().flat_map(|name| layouts.map(|it| (name, it))) {
        let algorithm: AnyAlgorithm = name.parse().expect("a name");
        // From this capacity on, the layout is compact where the algorithm allows it.
        let gate = Limiter::<u64>::builder(Quota::per_minute(3))
            .algorithm(algorithm)
            .clock(ManualClock::new())
            .capacity(30_000)
            .slots(slots)
            .build()
            .expect("in range");
        let ask = |cells, at| gate.ask(&7).cells(cells).at(at);
        let seen = || {
            let times = [0, 1, 10, 20, 30, 45, 60, 90].map(|seconds| later(seconds * SECOND));
            times.map(|at| [0, 1, 2, 3].map(|cells| ask(cells, at).peek()))
        };
        let mut now = START;
        for left in [3, 2, 1, 0] {
            assert!(left == 3 || ask(1, now).check().is_ok(), "{name}");
            // A later instant than that of the charge, which a write would record.
            now = now.saturating_add(Duration::from_millis(700));
            let before = seen();
            assert!(left == 0 || ask(1, now).peek().is_ok(), "{name}");
            assert_eq!(seen(), before, "{name}, {slots:?}: a peek wrote with {left} left");
            assert!(ask(left + 1, now).check().is_err(), "{name}");
            assert_eq!(seen(), before, "{name}, {slots:?}: a denial wrote with {left} left");
        }
    }
}

/// All keys without a slot share one bucket. Keys that have a slot are not affected.
#[test]
fn keys_without_a_slot_share_one_bucket_with_its_own_quota() {
    let overflow = OnFull::SharedOverflow(Quota::per_second(1).burst(4));
    for gate in small(Quota::per_second(10).burst(3), overflow, Duration::ZERO) {
        fill(&gate, 1);
        let granted = (100..110).filter(|key| gate.ask(key).at(START).check().is_ok()).count();
        assert_eq!(granted, 4);
        assert_eq!(gate.stats().overflowed, 10);
        assert_eq!(gate.ask(&100).cells(3).at(START).check().expect_err("spent").limit(), 4);
        assert_eq!(gate.ask(&0).cells(2).at(START).check().expect("its own").remaining(), 0);
    }
}

#[test]
fn a_key_admitted_without_a_slot_is_not_remembered() {
    for gate in small(Quota::per_second(10).burst(3), OnFull::Admit, Duration::ZERO) {
        fill(&gate, 1);
        for _ in 0..10 {
            assert_eq!(gate.ask(&99).at(START).check().expect("admitted").remaining(), 2);
        }
        assert_eq!(gate.stats().admitted_full, 10);
        assert!(
            gate.ask(&99).cells(4).at(START).check().is_err(),
            "what never fits is still denied"
        );
    }
}

/// A window counts until it ends, so its key keeps its slot until then.
#[test]
fn a_window_keeps_its_slot_until_it_ends() {
    let gate: Gate<FixedWindow> = Limiter::builder(Quota::per_second(5))
        .algorithm(FixedWindow::anchored())
        .clock(ManualClock::new())
        .capacity(1)
        .on_full(OnFull::Deny)
        .max_clock_skew(Duration::ZERO)
        .build()
        .expect("in range");
    for key in 0..SLOTS {
        assert!(gate.ask(&key).cells(1 + key % 5).at(START).check().is_ok());
    }
    assert!(gate.ask(&99).at(later(SECOND - 1)).check().is_err());
    assert_eq!(gate.len_at(later(SECOND - 1)), 16);
    assert_eq!(gate.len_at(later(SECOND)), 0);
    assert!(gate.ask(&99).at(later(SECOND)).check().is_ok());
    assert_eq!(gate.stats().evicted, 0);
}

#[test]
fn count_decisions_counts_every_decision_of_any_number_of_threads() {
    let gate: Limiter<u64, _, _> = Limiter::builder(Quota::per_hour(10))
        .clock(ManualClock::new())
        .count_decisions()
        .build()
        .expect("in range");
    // More threads than there are counter stripes.
    const THREADS: u64 = 100;
    for _ in 0..THREADS / 10 {
        std::thread::scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| {
                    for key in 0..30 {
                        let _ = gate.check(&key);
                    }
                });
            }
        });
    }
    let stats = gate.stats();
    assert_eq!(stats.admitted, Some(30 * 10));
    assert_eq!(stats.denied, Some(30 * (THREADS - 10)));
    gate.ask_each(&[100, 101], |key| key).check(|_, decision| assert!(decision.is_ok()));
    let _ = gate.ask(&100).at(Tick::ZERO).peek();
    assert_eq!(gate.stats().admitted, Some(302), "a batch counts, a peek does not");
}
