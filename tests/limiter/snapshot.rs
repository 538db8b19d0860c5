//! Snapshots: a restored limiter decides like the one that ran on, up to a time unit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use tollgate::algorithm::Algorithm;
use tollgate::internals::oracle::Verdict;
use tollgate::internals::{Liveness, Moment, PAYLOAD_BITS, Rebase, Restart, StateMachine};
use tollgate::limiter::SlotLayout;
use tollgate::snapshot::RestoreError;
use tollgate::{
    AnyAlgorithm, Builder, Clock, FixedWindow, Gcra, LeakyQueue, Limiter, ManualClock, OnFull,
    Quota, SlidingCounter, SlidingLog, SubWindows, Tick, WarmUp,
};

use super::bodies::choice::ORIGIN_2025;
use super::bodies::snapshot::{fix_up, is_denied};

const SECOND: u64 = 1_000_000_000;

/// A limiter that runs on, and the one that is restored from its snapshot.
struct Pair<A: Algorithm> {
    first: Limiter<u16, A, ManualClock>,
    second: Limiter<u16, A, ManualClock>,
    /// By the first clock.
    saved: u64,
    /// Nanoseconds by which the second clock is behind the first.
    behind: i128,
}

#[derive(Clone, Debug)]
struct Plan {
    slots: SlotLayout,
    /// Key, cells, and nanoseconds before.
    history: Vec<(u16, u64, u64)>,
    /// Nanoseconds between saving and restoring.
    away: u64,
    /// Nanoseconds between the origins of the clocks, rounded to whole units of the grid if
    /// `whole`.
    apart: i64,
    whole: bool,
    /// Key, cells, and nanoseconds before, after the restart.
    after: Vec<(u16, u64, u64)>,
}

fn plan() -> impl Strategy<Value = Plan> {
    let slots = prop_oneof![Just(SlotLayout::Wide), Just(SlotLayout::Compact)];
    let span = prop_oneof![0..SECOND / 50, 0..2 * SECOND, 0..90 * SECOND];
    let request = (0_u16..12, 0_u64..8, span.clone());
    let requests = |max| prop::collection::vec(request.clone(), 1..max);
    let apart = prop_oneof![-1_000_000_000_i64..10_000_000_000, -1_i64 << 58..1 << 50];
    (slots, requests(60), span.clone(), apart, any::<bool>(), requests(60)).prop_map(
        |(slots, history, away, apart, whole, after)| Plan {
            slots,
            history,
            away,
            apart,
            whole,
            after,
        },
    )
}

fn begin<A: Algorithm>(
    algorithm: A,
    quota: Quota,
    slots: SlotLayout,
    unix_nanos: u64,
) -> Builder<u16, A, ManualClock> {
    Limiter::builder(quota)
        .algorithm(algorithm)
        .clock(ManualClock::starting_at_unix_nanos(unix_nanos))
        .capacity(40)
        .slots(slots)
}

impl<A: Algorithm<Params: Rebase> + Copy> Pair<A> {
    /// The first limiter decides the plan's history, and is saved and restored.
    fn of(algorithm: A, quota: Quota, plan: &Plan) -> Self {
        let builder = |unix_nanos| begin(algorithm, quota, plan.slots, unix_nanos);
        let first = builder(ORIGIN_2025).build().expect("in range");
        for (key, n, before) in &plan.history {
            first.clock().advance(Duration::from_nanos(*before));
            let _ = first.check_n(key, *n);
        }
        let bytes = first.snapshot();
        let saved = first.clock().now().as_nanos();
        let here = i64::try_from(saved + plan.away).expect("not for long");
        // The second clock has begun by then.
        let apart = plan.apart.min(here);
        let (_, nanos) = first.params().grid().ratio();
        let nanos = i64::try_from(nanos).expect("less than a year");
        let apart = if plan.whole { apart.div_euclid(nanos) * nanos } else { apart };
        let clock = ManualClock::starting_at_unix_nanos(ORIGIN_2025.saturating_add_signed(apart));
        clock.set(Tick::from_nanos(u64::try_from(here - apart).expect("begun")));
        let second = begin(algorithm, quota, plan.slots, 0).clock(clock).restore(&bytes);
        Self { first, second: second.expect("unharmed"), saved, behind: apart.into() }
    }

    /// The times of both clocks, `since` nanoseconds after the snapshot by the first clock.
    fn times(&self, since: u64) -> (Tick, Tick) {
        let first = self.saved + since;
        let second = u64::try_from(i128::from(first) - self.behind).expect("after its origin");
        (Tick::from_nanos(first), Tick::from_nanos(second))
    }

    fn decide_alike(&self, plan: &Plan) {
        let mut since = plan.away;
        for (key, n, before) in &plan.after {
            since += before;
            let (by_first, by_second) = self.times(since);
            let expected = Verdict::from(&self.first.ask(key).cells(*n).at(by_first).check());
            let restored_answer =
                Verdict::from(&self.second.ask(key).cells(*n).at(by_second).check());
            assert_eq!(restored_answer, expected, "{n} of {key}, {since} ns after saving");
        }
    }

    /// The restored limiter grants no more, and at most one unit less. A warm-up may be a unit
    /// colder.
    fn grants_no_more(&self, plan: &Plan, colder: bool) {
        let (units, nanos) = self.first.params().grid().ratio();
        let unit = Duration::from_nanos(nanos.div_ceil(units) + 1);
        let mut since = plan.away;
        for (_, n, before) in &plan.after {
            since += before;
            let (by_first, by_second) = self.times(since);
            for key in 0..12 {
                let peek = |n, by| Verdict::from(&self.first.ask(&key).cells(n).at(by).peek());
                let (expected, earlier) =
                    (peek(*n, by_first), peek(*n, by_first.saturating_sub(unit)));
                let restored_answer =
                    Verdict::from(&self.second.ask(&key).cells(*n).at(by_second).peek());
                // `remaining` is counted after a charge: before it, an admitted request had `n`
                // more.
                let left =
                    |verdict: &Verdict| verdict.remaining + if verdict.admitted { *n } else { 0 };
                assert!(
                    left(&restored_answer) <= left(&expected),
                    "{restored_answer:?} for {expected:?}"
                );
                // (After a charge, a warm-up that is colder by a unit may have to wait too long.)
                assert!(
                    colder || left(&restored_answer) >= left(&earlier),
                    "{restored_answer:?} for {earlier:?}"
                );
                assert!(expected.admitted || !restored_answer.admitted);
                assert!(restored_answer.admitted || !earlier.admitted);
                if restored_answer.admitted {
                    assert!(
                        restored_answer.delay >= expected.delay,
                        "{restored_answer:?} for {expected:?}"
                    );
                    assert!(restored_answer.delay <= expected.delay + unit);
                }
                // With nothing charged: a charge counts from the beginning of its unit.
                let expected = peek(0, by_first).reset_after;
                let restored_answer =
                    Verdict::from(&self.second.ask(&key).cells(0).at(by_second).peek()).reset_after;
                let (min, max) = match colder {
                    false => (expected, expected + unit),
                    // A request that need not wait was made no warmer.
                    true if peek(1, by_first).delay.is_zero() => {
                        (expected.saturating_sub(unit), expected)
                    }
                    true => (expected.saturating_sub(unit), expected + unit),
                };
                assert!(
                    restored_answer >= min && restored_answer <= max,
                    "{restored_answer:?} for {expected:?}"
                );
            }
        }
    }
}

fn agrees_with_the_one_that_ran_on<A: Algorithm<Params: Rebase> + Copy>(
    algorithm: A,
    quota: Quota,
    plan: &Plan,
    colder: bool,
) {
    let compact = algorithm.compact_params(&quota, 0).expect("in range").is_some();
    let slots = if compact { plan.slots } else { SlotLayout::Wide };
    let plan = Plan { slots, ..plan.clone() };
    let pair = Pair::of(algorithm, quota, &plan);
    pair.grants_no_more(&plan, colder);
    if plan.whole {
        pair.decide_alike(&plan);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_restored_bucket_decides_like_the_one_that_ran_on(
        plan in plan(), quota in 0_usize..4,
    ) {
        let quotas = ["5/s burst 3", "1/s burst 7", "7/m burst 4", "600000000/s burst 10"];
        let quota: Quota = quotas[quota].parse().expect("a quota");
        agrees_with_the_one_that_ran_on(Gcra::new(), quota, &plan, false);
        agrees_with_the_one_that_ran_on(LeakyQueue::new(), quota, &plan, false);
    }

    #[test]
    fn a_restored_anchored_window_decides_like_the_one_that_ran_on(
        plan in plan(), limit in 1_u64..9, secs in 1_u64..100,
    ) {
        let quota = Quota::new(limit, Duration::from_millis(secs * 777));
        agrees_with_the_one_that_ran_on(FixedWindow::anchored(), quota, &plan, false);
    }

    /// The windows of the wall clock are the same, however far apart the origins of the clocks are.
    #[test]
    fn a_restored_aligned_window_decides_like_the_one_that_ran_on(
        plan in plan(), limit in 1_u64..9, secs in 1_u64..100,
    ) {
        let quota = Quota::new(limit, Duration::from_millis(secs * 777));
        let pair = Pair::of(FixedWindow::aligned(), quota, &Plan { whole: false, ..plan.clone() });
        pair.decide_alike(&plan);
    }

    #[test]
    fn a_restored_warm_up_decides_like_the_one_that_ran_on(
        plan in plan(), quota in 0_usize..3,
    ) {
        let quota: Quota = ["5/s burst 8", "1/s burst 8", "30/m burst 8"][quota].parse().expect("a quota");
        let warm_up = WarmUp::new(Duration::from_secs(20)).max_wait(Duration::from_secs(4));
        agrees_with_the_one_that_ran_on(warm_up, quota, &plan, true);
    }
}

/// A request for the whole limit is admitted at the end of the window and denied a unit earlier.
/// The two values of `remaining` after it are not comparable; those before it are.
#[test]
fn requests_for_the_whole_limit_at_the_end_of_a_window_agree_after_a_restore() {
    let quota = Quota::new(7, Duration::from_millis(67 * 777));
    for slots in [SlotLayout::Compact, SlotLayout::Wide] {
        for apart in [-4_000_000_000, -1, 0, 1, 6_377_086_224] {
            let plan = Plan {
                slots,
                history: vec![(0, 1, 0)],
                away: 6_377_086_224,
                apart,
                whole: false,
                after: vec![(0, 0, 351_429_731), (0, 7, 45_330_484_045)],
            };
            agrees_with_the_one_that_ran_on(FixedWindow::anchored(), quota, &plan, false);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Sub-windows of the wall clock are the same, however far apart the origins of the clocks are.
    #[test]
    fn restored_sub_windows_decide_like_the_one_that_ran_on(
        plan in plan(), limit in 1_u64..20, secs in 1_u64..200, count in 2_u32..12, more: bool,
        offset in -50_000_i32..50_000,
    ) {
        let plan = Plan { slots: SlotLayout::Wide, whole: false, ..plan };
        // If the limit takes many bits, few remain for the index, and it wraps around.
        let limit = if more { limit + (1 << 24) } else { limit };
        let quota = Quota::new(limit, Duration::from_millis(secs * 777));
        let windows = SubWindows::new().count(count).utc_offset_secs(offset);
        let counter = SlidingCounter::new().older(count - 1).utc_offset_secs(offset);
        prop_assume!(counter.params(&quota, 0).is_ok() && windows.params(&quota, 0).is_ok());
        Pair::of(windows, quota, &plan).decide_alike(&plan);
        Pair::of(counter, quota, &plan).decide_alike(&plan);
        Pair::of(AnyAlgorithm::from(windows), quota, &plan).decide_alike(&plan);
    }

    #[test]
    fn a_restored_log_decides_like_the_one_that_ran_on(
        plan in plan(), limit in 1_u64..20, secs in 1_u64..100, gap in 1_u64..30_000,
        count_denials: bool,
    ) {
        let quota = Quota::new(limit, Duration::from_millis(secs * 777));
        let log = SlidingLog::new();
        let log = if count_denials { log.count_denials() } else { log };
        agrees_with_the_one_that_ran_on(log, quota, &plan, false);
        let gapped = log.and(Quota::new(limit.div_ceil(2), Duration::from_millis(gap)));
        if gapped.params(&quota, 0).is_ok() {
            agrees_with_the_one_that_ran_on(gapped, quota, &plan, false);
            agrees_with_the_one_that_ran_on(AnyAlgorithm::from(gapped), quota, &plan, false);
        }
    }

    #[test]
    fn any_restored_algorithm_decides_like_the_one_that_ran_on(
        plan in plan(), name in 0..AnyAlgorithm::NAMES.len(),
    ) {
        let algorithm: AnyAlgorithm = AnyAlgorithm::NAMES[name].parse().expect("a name");
        let quota = "7/s burst 4".parse().expect("a quota");
        let compact = algorithm.compact_params(&quota, 0).expect("in range").is_some();
        let slots = if compact { plan.slots } else { SlotLayout::Wide };
        let plan = Plan { slots, whole: true, ..plan };
        Pair::of(algorithm, quota, &plan).decide_alike(&plan);
    }
}

#[test]
fn any_algorithm_is_saved_as_the_algorithm_that_it_holds() {
    let quota = Quota::per_minute(5);
    let gate =
        begin(SlidingLog::new(), quota, SlotLayout::Wide, ORIGIN_2025).build().expect("in range");
    assert!(gate.check_n(&1, 3).is_ok());
    let any = |name: &str| {
        let algorithm: AnyAlgorithm = name.parse().expect("a name");
        begin(algorithm, quota, SlotLayout::Wide, ORIGIN_2025)
    };
    let bytes = gate.snapshot();
    let restored = any("sliding-log").restore(&bytes).expect("unharmed");
    assert_eq!(restored.snapshot(), bytes);
    assert_eq!(restored.check_n(&1, 1).unwrap().remaining(), 1);
    for other in ["sub-windows", "sliding-counter", "gcra"] {
        let RestoreError::Different { what } = is_denied(any(other), &bytes) else { panic!() };
        assert!(what.contains("algorithm"));
    }
    let other = |log: SlidingLog| {
        let error = is_denied(begin(log, quota, SlotLayout::Wide, 0), &bytes);
        assert!(matches!(error, RestoreError::Different { what } if what.contains("option")));
    };
    other(SlidingLog::new().count_denials());
    other(SlidingLog::new().and(Quota::per_second(2)));
    let windows = |count, offset| {
        let windows = SubWindows::new().count(count).utc_offset_secs(offset);
        begin(windows, quota, SlotLayout::Wide, ORIGIN_2025)
    };
    let bytes = windows(6, 0).build().expect("in range").snapshot();
    assert!(windows(6, 60).restore(&bytes).is_ok(), "the same minutes");
    for other in [windows(6, 10), windows(5, 0)] {
        let error = is_denied(other, &bytes);
        assert!(matches!(error, RestoreError::Different { what } if what.contains("option")));
    }
}

#[test]
fn a_restore_keeps_a_shared_overflow_with_a_ring() {
    fn comes_back(algorithm: impl Algorithm<Params: Rebase> + Copy) {
        let build = || {
            begin(algorithm, Quota::per_day(1), SlotLayout::Wide, ORIGIN_2025)
                .capacity(1)
                .on_full(OnFull::SharedOverflow(Quota::per_day(100)))
        };
        let gate = build().build().expect("in range");
        for key in 0..56 {
            gate.clock().advance(Duration::from_secs(60));
            assert!(gate.check(&key).is_ok());
        }
        assert_eq!(gate.stats().overflowed, 40);
        let gate = build().restore(&gate.snapshot()).expect("unharmed");
        assert_eq!(gate.len(), 16);
        let granted = (56..200).filter(|key| gate.check(key).is_ok()).count();
        assert_eq!(granted, 60);
    }
    comes_back(SlidingLog::new());
    comes_back(SubWindows::new().count(24));
    comes_back(SlidingCounter::new());
}

/// Rebasing any word and any ring, by any clocks, gives a state that rebases to itself and that a
/// decision can read.
fn rebase_of_a_ring_is_total<P: Rebase>(params: &P, word: u64, ring: &[u64], restart: &Restart) {
    let mut ring: Vec<u64> = ring.iter().copied().cycle().take(params.kept_cells()).collect();
    let Some(rebased) = params.rebase(word, &mut ring, &params.clock_change(restart)) else {
        return;
    };
    assert_eq!(rebased >> PAYLOAD_BITS, 0);
    assert!(ring.iter().all(|content| content >> 54 == 0));
    let Restart { now, .. } = *restart;
    let still = Restart { then: now, elapsed: Duration::ZERO, now };
    let mut again = ring.clone();
    assert_eq!(params.rebase(rebased, &mut again, &params.clock_change(&still)), Some(rebased));
    assert_eq!(again, ring);
    assert!(matches!(params.liveness(rebased, params.instant(now.tick)), Liveness::Live { .. }));
    for n in [0, 1, 5, u64::MAX] {
        let _ = params.answer(params.read(rebased, ring.as_slice(), now.tick, n), now.tick, n);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rebasing_any_ring_is_total(
        word: u64, ring in prop::collection::vec(any::<u64>(), 1..30), wild: bool, then: u64,
        now: u64, near: bool, bits in 0_u32..64, origins: (u64, u64), elapsed: u64,
        quota in 0_usize..5,
    ) {
        let now = if near { then.wrapping_add(now >> 40) } else { now };
        let then = Moment { tick: Tick::from_nanos(then), unix_origin_nanos: origins.0 };
        let now = Moment { tick: Tick::from_nanos(now), unix_origin_nanos: origins.1 };
        let restart = Restart { then, elapsed: Duration::from_nanos(elapsed >> bits), now };
        let quotas = ["7/s", "20/100ms", "3/y", "20000000/m", "15/10 us"];
        let quota: Quota = quotas[quota].parse().expect("a quota");
        let payload = (1_u64 << PAYLOAD_BITS) - 1;
        // Near the present, or any value.
        let near = |fresh: u64, word: u64, spread: u64| match wild {
            true => word & payload,
            false => fresh.wrapping_add(word % spread) & payload,
        };
        let windows = [
            AnyAlgorithm::from(SubWindows::new()),
            SubWindows::new().count(7).into(),
            SlidingCounter::new().into(),
            SlidingCounter::new().older(9).into(),
        ];
        let origin = now.unix_origin_nanos;
        for params in windows.iter().filter_map(|windows| windows.params(&quota, origin).ok()) {
            let fresh = params.fresh(then.tick);
            let cells: Vec<u64> = ring.iter().map(|cell| near(fresh, *cell, 40)).collect();
            rebase_of_a_ring_is_total(&params, near(fresh, word, 100), &cells, &restart);
        }
        let logs = [SlidingLog::new(), SlidingLog::new().and(Quota::per_minute(40)).count_denials()];
        for params in logs.iter().filter_map(|log| log.params(&quota, 0).ok()) {
            let fresh = params.fresh(then.tick);
            let cell = |cell: &u64| if wild { *cell >> 10 } else { params.instant(then.tick).wrapping_sub(*cell % 100_000) & payload | (cell >> 60) << 52 & ((1 << 54) - 1) };
            let cells: Vec<u64> = ring.iter().map(cell).collect();
            rebase_of_a_ring_is_total(&params, near(fresh, word, 1 << 30), &cells, &restart);
        }
    }
}

/// Rebasing any word, by any clocks, gives a state that fits the payload, and that owes at most one
/// unit more than before.
fn rebase_of_a_word_is_total<P: Rebase>(params: &P, word: u64, restart: &Restart) {
    let Some(rebased) = params.rebase(word, &mut [], &params.clock_change(restart)) else { return };
    assert_eq!(rebased >> PAYLOAD_BITS, 0);
    let weight = |word, tick| match params.liveness(word, params.instant(tick)) {
        Liveness::Idle { .. } => 0,
        Liveness::Live { debt } => debt,
    };
    let (was, is) = (weight(word, restart.then.tick), weight(rebased, restart.now.tick));
    assert!(is <= was.saturating_add(1), "{was} became {is}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rebasing_any_word_is_total(
        word: u64, bits in 0_u32..64, then: u64, now: u64, near: bool, origins: (u64, u64),
        elapsed: u64, quota in 0_usize..5,
    ) {
        let now = if near { then.wrapping_add(now >> 40) } else { now };
        let then = Moment { tick: Tick::from_nanos(then), unix_origin_nanos: origins.0 };
        let now = Moment { tick: Tick::from_nanos(now), unix_origin_nanos: origins.1 };
        let restart = Restart { then, elapsed: Duration::from_nanos(elapsed >> bits), now };
        let quotas = ["1/s burst 20", "1000000000/s", "3/y", "1000000/s burst 7", "50/100ms"];
        let quota: Quota = quotas[quota].parse().expect("a quota");
        let windows = [FixedWindow::anchored(), FixedWindow::aligned()];
        for window in windows {
            if let Ok(params) = window.params(&quota, now.unix_origin_nanos) {
                rebase_of_a_word_is_total(&params, word, &restart);
            }
        }
        let wide = Gcra::new().params(&quota, 0).ok();
        let compact = Gcra::new().compact_params(&quota, 0).ok().flatten();
        for params in wide.into_iter().chain(compact) {
            let word = params.fresh(then.tick).wrapping_add(word >> bits) & ((1 << 53) - 1);
            rebase_of_a_word_is_total(&params, word, &restart);
        }
        if let Ok(params) = WarmUp::new(Duration::from_secs(9)).params(&quota, 0) {
            rebase_of_a_word_is_total(&params, word, &restart);
        }
    }
}

/// The builder of a limiter with one key in debt, and its snapshot.
fn saved(slots: SlotLayout) -> (Builder<u16, Gcra, ManualClock>, Vec<u8>) {
    let builder = || begin(Gcra::new(), Quota::per_minute(60).burst(10), slots, ORIGIN_2025);
    let gate = builder().hash_seed(3).build().expect("in range");
    for key in 0..4 {
        assert!(gate.check_n(&key, 7 + u64::from(key % 3)).is_ok());
    }
    (builder(), gate.snapshot())
}

#[test]
fn every_flipped_byte_and_every_cut_is_rejected_with_a_reason() {
    for slots in [SlotLayout::Wide, SlotLayout::Compact] {
        let (builder, bytes) = saved(slots);
        assert_eq!(builder.restore(&bytes).expect("unharmed").len(), 4);
        for length in 0..bytes.len() {
            let error = is_denied(saved(slots).0, &bytes[..length]);
            assert_eq!(error, RestoreError::TooShort, "cut to {length}");
        }
        for offset in 0..bytes.len() {
            for mask in [1, 0x80, 0xff] {
                let mut flipped = bytes.clone();
                flipped[offset] ^= mask;
                let error = is_denied(saved(slots).0, &flipped);
                match offset {
                    0..8 => assert_eq!(error, RestoreError::NotASnapshot),
                    8..12 => assert!(matches!(error, RestoreError::Version(_))),
                    16..24 => {}
                    _ => {
                        assert!(matches!(error, RestoreError::Damaged { .. }), "{offset}: {error}")
                    }
                }
            }
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(matches!(is_denied(saved(slots).0, &longer), RestoreError::Damaged { .. }));
    }
}

#[test]
fn damaged_rings_are_rejected() {
    fn is_checked(algorithm: impl Algorithm<Params: Rebase> + Copy) {
        let overflow = OnFull::SharedOverflow(Quota::per_minute(5));
        let builder = || {
            let builder = begin(algorithm, Quota::per_minute(4), SlotLayout::Wide, ORIGIN_2025);
            builder.capacity(1).on_full(overflow)
        };
        let gate = builder().hash_seed(3).build().expect("in range");
        for key in 0..40 {
            gate.clock().advance(Duration::from_millis(500));
            let _ = (gate.check(&(key % 20)), gate.check_n(&(key % 3), 2));
        }
        let bytes = gate.snapshot();
        assert_eq!(builder().restore(&bytes).expect("unharmed").len(), gate.len());
        for length in (0..bytes.len()).step_by(3) {
            assert_eq!(is_denied(builder(), &bytes[..length]), RestoreError::TooShort);
        }
        for offset in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[offset] ^= 0x10;
            is_denied(builder(), &flipped);
        }
        // A ring shorter than the header says, and one as long as all memory.
        for (offset, cells) in [(136, 1_u64), (136, u64::MAX), (216, 1), (216, u64::MAX / 8)] {
            let mut changed = bytes.clone();
            changed[offset..offset + 8].copy_from_slice(&cells.to_le_bytes());
            fix_up(&mut changed);
            is_denied(builder(), &changed);
        }
        let mut cut = bytes.clone();
        cut.truncate(bytes.len() - 24);
        fix_up(&mut cut);
        assert!(matches!(is_denied(builder(), &cut), RestoreError::Damaged { .. }));
    }
    is_checked(SlidingLog::new());
    is_checked(SubWindows::new());
    is_checked(SlidingCounter::new());
}

#[test]
fn a_restore_into_a_different_limiter_names_the_difference() {
    let bytes = saved(SlotLayout::Wide).1;
    let same =
        |quota: &str| begin(Gcra::new(), quota.parse().expect("a quota"), SlotLayout::Wide, 0);
    let what = |error| match error {
        RestoreError::Different { what } => what,
        other => panic!("{other}"),
    };
    let quota = "60/m burst 10";
    assert!(same(quota).restore(&bytes).is_ok(), "neither the clock nor the seed need be the same");
    assert!(what(is_denied(same("60/m burst 11"), &bytes)).contains("quota"));
    assert!(what(is_denied(same("61/m burst 10"), &bytes)).contains("quota"));
    assert!(what(is_denied(same(quota).capacity(400), &bytes)).contains("capacity"));
    assert!(what(is_denied(same(quota).slots(SlotLayout::Compact), &bytes)).contains("slots"));
    assert!(what(is_denied(same(quota).algorithm(Gcra::start_empty()), &bytes)).contains("option"));
    assert!(
        what(is_denied(same(quota).algorithm(LeakyQueue::new()), &bytes)).contains("algorithm")
    );
    let overflow = |quota| OnFull::SharedOverflow(Quota::per_second(quota));
    assert!(what(is_denied(same(quota).on_full(overflow(1)), &bytes)).contains("overflow"));
    let none = begin(Gcra::new(), Quota::per_minute(0), SlotLayout::Wide, 0);
    let build = is_denied(none, &bytes);
    assert!(matches!(build, RestoreError::Build(_)));

    let shared = same(quota).on_full(overflow(1)).build().expect("in range").snapshot();
    assert!(what(is_denied(same(quota).on_full(overflow(2)), &shared)).contains("shared"));
    let queue = |cells| same(quota).algorithm(LeakyQueue::new().immediate(cells));
    let queued = queue(2).build().expect("in range").snapshot();
    assert!(what(is_denied(queue(3), &queued)).contains("option"));
    let aligned = |secs| same(quota).algorithm(FixedWindow::aligned().utc_offset_secs(secs));
    let windows = aligned(0).build().expect("in range").snapshot();
    assert!(aligned(60).restore(&windows).is_ok(), "the same minutes");
    assert!(what(is_denied(aligned(61), &windows)).contains("option"));
}

#[test]
fn a_snapshot_of_another_hash_function_is_rejected() {
    let (builder, mut bytes) = saved(SlotLayout::Wide);
    bytes[88] ^= 1;
    fix_up(&mut bytes);
    assert_eq!(is_denied(builder, &bytes), RestoreError::OtherHash);
}

#[test]
fn if_the_wall_clock_was_set_back_no_time_has_passed() {
    let quota = Quota::per_second(1).burst(10);
    for algorithm in [FixedWindow::anchored(), FixedWindow::aligned()] {
        let gate =
            begin(algorithm, quota, SlotLayout::Wide, 500 * SECOND).build().expect("in range");
        gate.clock().advance(Duration::from_secs(5));
        assert!(gate.check_n(&1, 1).is_ok());
        let clock = ManualClock::starting_at_unix_nanos(300 * SECOND);
        let restored = begin(algorithm, quota, SlotLayout::Wide, 0).clock(&clock);
        let restored = restored.restore(&gate.snapshot()).expect("unharmed");
        assert!(restored.check(&1).is_err(), "the window is open");
        clock.advance(Duration::from_secs(1));
        assert!(restored.check(&1).is_ok(), "and no longer than a window");
    }
    let gate = begin(Gcra::new(), quota, SlotLayout::Wide, 500 * SECOND).build().expect("in range");
    assert!(gate.check_n(&1, 10).is_ok());
    let restored = begin(Gcra::new(), quota, SlotLayout::Wide, 0).restore(&gate.snapshot());
    assert_eq!(
        restored.expect("unharmed").ask(&1).cells(0).at(Tick::ZERO).peek().unwrap().remaining(),
        0
    );
}

#[test]
fn a_restore_keeps_the_shared_overflow() {
    let build = || {
        begin(Gcra::new(), Quota::per_day(1), SlotLayout::Wide, ORIGIN_2025)
            .capacity(1)
            .on_full(OnFull::SharedOverflow(Quota::per_day(100)))
    };
    let gate = build().build().expect("in range");
    for key in 0..56 {
        assert!(gate.check(&key).is_ok());
    }
    assert_eq!(gate.stats().overflowed, 40);
    let gate = build().restore(&gate.snapshot()).expect("unharmed");
    assert_eq!(gate.len(), 16);
    let granted = (56..200).filter(|key| gate.check(key).is_ok()).count();
    assert_eq!(granted, 60);
}

/// The snapshot of a table of two buckets of eight: after the header, a row of one key.
const ROW: usize = 304;
const FINGERPRINT: std::ops::Range<usize> = ROW + 5..ROW + 13;
const STATE: std::ops::Range<usize> = ROW + 13..ROW + 21;

#[test]
fn a_key_that_occurs_twice_keeps_the_greater_debt() {
    let build =
        || begin(Gcra::new(), Quota::per_day(10), SlotLayout::Wide, ORIGIN_2025).capacity(1);
    let gate = build().hash_seed(1).build().expect("in range");
    assert!(gate.check_n(&7, 4).is_ok());
    let bytes = gate.snapshot();
    assert!(gate.check_n(&7, 3).is_ok());
    let more = gate.snapshot();
    let (row, state) = (&bytes[ROW..STATE.end], |bytes: &[u8]| bytes[STATE].to_vec());
    // One copy in each of the two buckets, or two in one, in either order.
    for (first, second) in [(&bytes, &more), (&more, &bytes)] {
        let apart = |bucket: u32, state: Vec<u8>| {
            [&bucket.to_le_bytes()[..], &[1], &row[5..13], &state].concat()
        };
        let in_two = [apart(0, state(first)), apart(1, state(second))].concat();
        let fingerprint = &bytes[FINGERPRINT];
        let in_one =
            [&row[..4], &[0b1010], fingerprint, &state(first), fingerprint, &state(second)]
                .concat();
        for rows in [in_two, in_one] {
            let mut twice = [&bytes[..ROW], &rows, &[0; 8]].concat();
            twice[24] = 2;
            fix_up(&mut twice);
            let restored = build().restore(&twice).expect("no harm");
            assert_eq!(restored.len(), 1);
            assert_eq!(restored.check_n(&7, 0).unwrap().remaining(), 3);
            restored.reset(&7);
            assert!(restored.is_empty());
        }
    }
}

#[test]
fn a_key_in_a_slot_where_it_cannot_be_is_rejected() {
    let build = || begin(Gcra::new(), Quota::per_day(10), SlotLayout::Wide, 0).capacity(1_000_000);
    let gate = build().hash_seed(1).build().expect("in range");
    assert!(gate.check_n(&7, 4).is_ok());
    let bytes = gate.snapshot();
    let bucket = u32::from_le_bytes(bytes[ROW..ROW + 4].try_into().unwrap());
    let moved = |bucket: u32| {
        let mut moved = bytes.clone();
        moved[ROW..ROW + 4].copy_from_slice(&bucket.to_le_bytes());
        fix_up(&mut moved);
        moved
    };
    assert!(build().restore(&moved(bucket)).is_ok());
    for other in [bucket + 1, bucket - 1, 0, u32::MAX] {
        let error = is_denied(build(), &moved(other));
        assert!(matches!(error, RestoreError::Damaged { .. }), "{error}");
    }
}

/// Ten keys are charged more and more while others are added: each snapshot has all ten, with no
/// less debt than the one before.
#[test]
fn a_snapshot_during_decisions_has_every_key_that_keeps_its_slot() {
    for slots in [SlotLayout::Wide, SlotLayout::Compact] {
        let build =
            || Limiter::<u64>::builder(Quota::per_day(1_000_000)).capacity(60_000).slots(slots);
        let gate = build().build().expect("in range");
        (0..10).for_each(|key| assert!(gate.check_n(&key, 10).is_ok()));
        let mut left = [1_000_000; 10];
        std::thread::scope(|scope| {
            let charging = scope.spawn(|| {
                (0..60_000_u64).for_each(|turn| {
                    let _ = (gate.check(&(turn % 10)), gate.check(&(100 + turn / 3)));
                });
            });
            while !charging.is_finished() {
                let restored = build().restore(&gate.snapshot()).expect("unharmed");
                for (key, left) in (0..).zip(&mut left) {
                    let now = restored.clock().now();
                    let remaining = restored.ask(&key).cells(0).at(now).peek().unwrap().remaining();
                    // The time of day passes meanwhile: 12 cells a second.
                    assert!(remaining <= *left + 100 && remaining <= 999_990 + 100);
                    *left = remaining;
                }
            }
        });
        let restored = build().restore(&gate.snapshot()).expect("unharmed");
        let now = restored.clock().now();
        assert!(
            (0..10).all(
                |key| restored.ask(&key).cells(0).at(now).peek().unwrap().remaining() < 995_000
            )
        );
    }
}

/// Keys are charged one cell each millisecond, so each has a window's worth of cells at any time.
/// Every snapshot shows that, whatever is charged while a ring is read.
#[test]
fn a_snapshot_during_decisions_has_consistent_rings() {
    const KEYS: u64 = 12;
    const WINDOW: u64 = 80;
    fn build<A: Algorithm, C: Clock>(algorithm: A, clock: C) -> Builder<u64, A, C> {
        let quota = Quota::new(2 * WINDOW, Duration::from_millis(WINDOW));
        Limiter::builder(quota).algorithm(algorithm).capacity(60).clock(clock)
    }
    fn is_whole(algorithm: impl Algorithm<Params: Rebase + Sync> + Copy + Sync, slack: u64) {
        let clock = ManualClock::starting_at_unix_nanos(ORIGIN_2025);
        let gate = build(algorithm, &clock).build().expect("in range");
        let charge = || {
            clock.advance(Duration::from_millis(1));
            (0..KEYS).for_each(|key| assert!(gate.check(&key).is_ok()));
        };
        (0..3 * WINDOW).for_each(|_| charge());
        let millis = || clock.now().as_nanos() / 1_000_000;
        let mut snapshots = 0;
        std::thread::scope(|scope| {
            let charging = scope.spawn(|| (0..20_000).for_each(|_| charge()));
            while !charging.is_finished() {
                let begun = millis();
                let bytes = gate.snapshot();
                let here = ManualClock::starting_at_unix_nanos(ORIGIN_2025);
                here.set(clock.now());
                let restored = build(algorithm, here).restore(&bytes).expect("unharmed");
                let now = restored.clock().now();
                let passed = now.as_nanos() / 1_000_000 - begun;
                for key in 0..KEYS {
                    let used = 2 * WINDOW
                        - restored.ask(&key).cells(0).at(now).peek().unwrap().remaining();
                    assert!(used <= WINDOW + slack, "{used} of {key}");
                    assert!(used + passed + slack + 2 >= WINDOW, "{used} of {key} after {passed}");
                }
                snapshots += 1;
            }
        });
        assert!(snapshots > 3);
    }
    is_whole(SlidingLog::new(), 1);
    is_whole(SubWindows::new().count(20), 5);
    is_whole(AnyAlgorithm::from(SubWindows::new().count(20)), 5);
}

/// A clock that a pause of a second follows when it is read so many more times.
struct PausedOnce {
    clock: ManualClock,
    reads: AtomicU64,
}

impl PausedOnce {
    fn new() -> Self {
        Self { clock: ManualClock::new(), reads: AtomicU64::new(0) }
    }

    /// A reading, and the pause after it.
    fn paused_after<T>(&self, reading: T) -> T {
        let reads = self.reads.load(Ordering::Relaxed);
        self.reads.store(reads.saturating_sub(1), Ordering::Relaxed);
        if reads == 1 {
            self.clock.advance(Duration::from_secs(1));
        }
        reading
    }
}

impl Clock for PausedOnce {
    fn now(&self) -> Tick {
        self.paused_after(self.clock.now())
    }

    fn unix_now_nanos(&self) -> u64 {
        self.paused_after(self.clock.unix_now_nanos())
    }
}

/// A pause after any of the readings of a snapshot, or of its restoration.
#[test]
fn a_pause_between_the_two_clocks_of_a_snapshot_does_not_move_its_states() {
    let quota = Quota::per_second(1).burst(10);
    for (of_snapshot, of_restoration) in (1..9).map(|n| (n, 0)).chain((1..9).map(|n| (0, n))) {
        let clock = PausedOnce::new();
        let gate: Limiter<u64, Gcra, _> =
            Limiter::builder(quota).clock(&clock).build().expect("in range");
        assert!(gate.ask(&1).cells(10).check().is_ok());
        clock.reads.store(of_snapshot, Ordering::Relaxed);
        let bytes = gate.snapshot();
        clock.reads.store(of_restoration, Ordering::Relaxed);
        let restored: Limiter<u64, Gcra, _> =
            Limiter::builder(quota).clock(&clock).restore(&bytes).expect("unharmed");
        clock.reads.store(0, Ordering::Relaxed);
        clock.clock.set(Tick::from_nanos(1_000_000_000));
        let paused = (of_snapshot, of_restoration);
        assert!(restored.check(&1).is_ok(), "a cell is back after the second: {paused:?}");
        assert!(restored.check(&1).is_err(), "{paused:?}");
    }
}
