use core::mem;
use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::algo::any::NUMBERS;
use crate::algo::{Algorithm, Step};
use crate::decision::Decision;
use crate::{
    AnyAlgorithm, FixedWindow, Gcra, LeakyQueue, Quota, SlidingCounter, SlidingLog, SubWindows,
    WarmUp,
};

/// Snapshots of other versions name algorithms by the numbers of the table.
#[test]
fn the_number_of_each_algorithm_is_fixed() {
    let quota = Quota::per_minute(60);
    let mut kinds = HashMap::new();
    for (name, number) in NUMBERS {
        let algorithm = match *name {
            // It has no name without options.
            "warm-up" => WarmUp::new(Duration::from_secs(9)).into(),
            name => name.parse::<AnyAlgorithm>().expect("one of the names"),
        };
        let params = algorithm.params(&quota, 0).expect("in range");
        assert_eq!(params.algorithm(), *number, "{name}");
        let kind = mem::discriminant(&algorithm);
        assert_eq!(*kinds.entry(number).or_insert(kind), kind, "{name} has another's number");
    }
}

/// Machines that read states differently must not count as the same.
#[test]
fn machines_that_read_states_differently_have_different_figures() {
    let quota = Quota::per_minute(60);
    let log = |first, and: Quota| SlidingLog::new().and(and).params(&first, 0);
    let counting = SlidingLog::new().and(Quota::per_second(5)).count_denials();
    let alone = SlidingLog::new().params(&quota, 0);
    let config = [
        alone,
        log(quota, Quota::per_second(5)),
        log(quota, Quota::per_second(6)),
        log(Quota::per_minute(61), Quota::per_second(5)),
        log(quota, Quota::new(5, Duration::from_secs(2))),
        counting.params(&quota, 0),
    ]
    .map(|params| params.expect("in range").config_words(0));
    let warm_up = |secs, quota| WarmUp::new(Duration::from_secs(secs)).params(&quota, 0);
    let others = [
        warm_up(9, quota),
        warm_up(10, quota),
        warm_up(9, Quota::per_minute(61)),
        warm_up(9, quota.burst(7)),
    ]
    .map(|params| params.expect("in range").config_words(0));
    for config in [&config[..], &others[..]] {
        for (index, one) in config.iter().enumerate() {
            assert!(!config[..index].contains(one), "{index}");
        }
    }
}

/// Snapshots of other versions have these figures, and are restored only if they are the same.
#[test]
fn the_figures_of_each_algorithm_are_fixed() {
    const ORIGIN: u64 = 1_700_000_000_000_000_000; // 20 seconds into a minute
    const MINUTE: u64 = 60_000_000_000;
    fn figures<A: Algorithm<Params: Rebase>>(algorithm: A, quota: &Quota) -> [u64; CONFIG_WORDS] {
        algorithm.params(quota, ORIGIN).expect("in range").config_words(ORIGIN)
    }
    let (quota, small) = (Quota::per_minute(60), Quota::per_minute(60).burst(7));
    // Cells of 400,000 units of 2.5 microseconds.
    let (unit, cell) = (2_500, 400_000);
    assert_eq!(figures(Gcra::new(), &quota), [1, unit, cell, 60, 0, 0, 0, 0]);
    assert_eq!(figures(Gcra::start_empty(), &small), [1, unit, cell, 7, 7 * cell, 0, 0, 0]);
    assert_eq!(figures(Gcra::new().leases(3), &small), [1, unit, cell, 4, 0, 3, 0, 0]);
    assert_eq!(figures(LeakyQueue::new(), &quota), [1, unit, cell, 60, 0, 0, 0, 1]);
    let three = LeakyQueue::new().immediate(3);
    assert_eq!(figures(three, &small), [1, unit, cell, 7, 0, 0, 0, 3]);
    // Units of 200 microseconds, or a minute that begins 13 seconds into one of the wall clock.
    let anchored = FixedWindow::anchored();
    assert_eq!(figures(anchored, &quota), [1, 200_000, 60, 300_000, 0, 0, 0, 0]);
    let aligned = FixedWindow::aligned().utc_offset_secs(-13);
    assert_eq!(figures(aligned, &quota), [1, MINUTE, 60, 1, 13_000_000_000, 0, 0, 0]);
    let (windows, counter) = (SubWindows::new(), SlidingCounter::new());
    assert_eq!(figures(windows, &quota), [1, MINUTE / 6, 60, 5, 0, 0, 0, 0]);
    let later = windows.utc_offset_secs(-13);
    assert_eq!(figures(later, &quota), [1, MINUTE / 6, 60, 5, 13_000_000_000, 0, 0, 0]);
    assert_eq!(figures(counter, &quota), [1, MINUTE, 60, 1, 0, 0, 0, 0]);
    // Limits less one, the number of rates, and windows in units of 5 microseconds.
    let (log, minute) = (SlidingLog::new(), 12_000_000);
    assert_eq!(figures(log, &quota), [1, 5_000, 59, 2, minute, 0, 0, 0]);
    let four = log.and(Quota::per_second(5)).and(Quota::per_hour(9)).count_denials();
    let four = four.and(Quota::new(1, Duration::from_millis(500)));
    assert_eq!(
        figures(four, &quota),
        [1, 5_000, 59 << 48 | 4 << 32 | 8 << 16, 9, minute, 200_000, 60 * minute, 100_000]
    );
    let warm_up = WarmUp::new(Duration::from_secs(9)).max_wait(Duration::from_secs(2));
    // 4,096 units in a second, and as many of warmth for a cell.
    assert_eq!(figures(warm_up, &small), [8, 1_953_125, 7, 4_096, 4_096, 3, 9 * 4_096, 2 * 4_096]);
}

/// Half a unit of a microsecond lies between the origins of the two clocks.
#[test]
fn what_is_left_is_rounded_up_and_down_and_never_below_nothing() {
    let grid = Grid::new(1, 1_000, (1 << 53) - 1, 0);
    let moment = |nanos| Moment { tick: Tick::from_nanos(nanos), unix_origin_nanos: 0 };
    let left = |elapsed, now, instant| {
        let elapsed = Duration::from_nanos(elapsed);
        let restart = Restart { then: moment(0), elapsed, now: moment(now) };
        ClockChange::on(&grid, &restart).left(&grid, instant)
    };
    assert_eq!(left(0, 500, 5), (6, 5));
    assert_eq!(left(3_000, 500, 5), (3, 2));
    assert_eq!(left(3_000, 0, 5), (2, 2), "whole units");
    assert_eq!([left(10_500, 0, 10), left(99_500, 0, 10)], [(0, 0); 2]);
    // By windows of the wall clock nothing is rounded.
    assert_eq!(ClockChange::of_units(10, 20, 3).left(&grid, 15), (2, 2));
}

#[test]
fn instants_that_count_from_before_the_origin_come_round() {
    let change = ClockChange::of_units(u64::MAX - 1, u64::MAX, 0).counted_before(5);
    assert_eq!((change.then(), change.now()), (3, 4));
}

/// A key's state by a clock.
struct Kept<M> {
    machine: M,
    word: u64,
    ring: Vec<u64>,
}

impl<M: Rebase> Kept<M> {
    fn new(machine: M, now: Tick) -> Self {
        let (word, ring) = (machine.fresh(now), vec![0; machine.ring_cells()]);
        Self { machine, word, ring }
    }

    fn ask(&mut self, now: Tick, n: u64) -> Decision {
        let view = self.machine.read(self.word, &*self.ring, now, n);
        let step = self.machine.step(view, now, n);
        if let Step::Admit { next } | Step::DenyCounted { next } = step
            && next != self.word
        {
            let mut puts = Vec::new();
            let published = self.machine.publish(view, &*self.ring, |place, content| {
                puts.push((place, content));
                true
            });
            assert!(published, "the word stands");
            puts.into_iter().for_each(|(place, content)| self.ring[place] = content);
            self.word = next;
        }
        self.machine.answer(view, now, n)
    }

    /// The same state for `machine`, which counts from another origin.
    fn rebased(&self, machine: M, restart: &Restart) -> Self {
        let change = machine.clock_change(restart);
        let mut ring = self.ring.clone();
        let kept = machine.kept_cells();
        match machine.rebase(self.word, &mut ring[..kept], &change) {
            None => Self::new(machine, restart.now.tick),
            Some(word) => Self { machine, word, ring },
        }
    }
}

/// The parts of a decision that a client sees.
fn told(decision: Decision) -> (bool, u64, Option<Duration>, Duration) {
    match decision {
        Ok(permit) => (true, permit.remaining(), None, permit.reset_after()),
        Err(denied) => (false, denied.remaining(), denied.retry_after(), denied.reset_after()),
    }
}

/// Charges before and after a restart: a clock that continues and one that begins again at another
/// number give the same answers. `unit` divides the distance of the two.
fn answers_go_on<A: Algorithm<Params: Rebase>>(
    algorithm: &A,
    quota: &Quota,
    (unit, apart): (u64, u16),
    [before, after]: [&[(u32, u64)]; 2],
) -> Result<(), TestCaseError> {
    const UNIX_NANOS: u64 = 1_700_000_000_123_456_789;
    let machine = |origin: u64| algorithm.params(quota, origin).expect("in range");
    let mut now = Tick::from_nanos(u64::from(apart) * unit);
    let mut kept = Kept::new(machine(UNIX_NANOS), now);
    for &(later, n) in before {
        now = now.saturating_add(Duration::from_micros(later.into()));
        let _ = kept.ask(now, n);
    }
    let newly = Tick::from_nanos(now.as_nanos() % unit + 3 * unit);
    let origin = UNIX_NANOS + now.as_nanos() - newly.as_nanos();
    let then = Moment { tick: now, unix_origin_nanos: UNIX_NANOS };
    let restart = Restart {
        then,
        elapsed: Duration::ZERO,
        now: Moment { tick: newly, unix_origin_nanos: origin },
    };
    let mut rebased = kept.rebased(machine(origin), &restart);
    let mut passed = Duration::ZERO;
    for &(later, n) in after {
        passed += Duration::from_micros(later.into());
        let (here, there) = (now.saturating_add(passed), newly.saturating_add(passed));
        prop_assert_eq!(told(rebased.ask(there, n)), told(kept.ask(here, n)), "{:?}", passed);
    }
    Ok(())
}

#[test]
fn a_queue_goes_on_after_a_restart() {
    let (before, after) = ([(0, 3), (100_000, 2)], [(0, 1), (50_000, 2), (400_000, 1), (0, 1)]);
    let quota = Quota::per_second(10).burst(6);
    answers_go_on(&LeakyQueue::new(), &quota, (2_500, 3), [&before, &after]).expect("alike");
}

fn charges() -> impl Strategy<Value = Vec<(u32, u64)>> {
    prop::collection::vec((prop_oneof![Just(0), 0..400_000_u32, 0..3_000_000_u32], 0..4_u64), 0..14)
}

proptest! {
    #[test]
    fn a_log_continues_after_a_restart(
        (limit, second, strict) in (1..7_u64, prop::option::of(1..4_u64), any::<bool>()),
        apart: u16, before in charges(), after in charges(),
    ) {
        let mut log = SlidingLog::new();
        if let Some(limit) = second {
            log = log.and(Quota::new(limit, Duration::from_millis(300)));
        }
        if strict {
            log = log.count_denials();
        }
        let quota = Quota::per_second(limit);
        let grid = log.params(&quota, 0).expect("in range").grid().ratio();
        prop_assert_eq!(grid.0, 1);
        answers_go_on(&log, &quota, (grid.1, apart), [&before, &after])?;
    }

    #[test]
    fn sub_windows_continue_after_a_restart(
        limit in 1..9_u64, count in 2..7_u32, apart: u16, before in charges(), after in charges(),
    ) {
        let quota = Quota::new(limit, Duration::from_millis(1_200));
        let both = [&before[..], &after[..]];
        answers_go_on(&SubWindows::new().count(count), &quota, (1_000, apart), both)?;
        answers_go_on(&SlidingCounter::new(), &quota, (1_000, apart), both)?;
    }
}
