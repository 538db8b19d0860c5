use proptest::prelude::*;

use super::*;
use crate::algo::{Algorithm, Step};
use crate::decision::Decision;
use crate::{AnyAlgorithm, Quota, SlidingCounter, SlidingLog, SubWindows, WarmUp};

/// Snapshots of other versions name algorithms by these numbers.
#[test]
fn the_number_of_each_algorithm_is_fixed() {
    let quota = Quota::per_minute(60);
    let numbers = [
        ("gcra", 1),
        ("leaky-queue", 2),
        ("fixed-window", 3),
        ("fixed-window-aligned", 3),
        ("sub-windows", 5),
        ("sliding-counter", 6),
        ("sliding-log", 7),
    ];
    for name in AnyAlgorithm::NAMES {
        let algorithm: AnyAlgorithm = name.parse().expect("one of the names");
        let params = algorithm.params(&quota, 0).expect("in range");
        let number = numbers.iter().find(|(known, _)| known == name).map(|(_, number)| *number);
        assert_eq!(Some(params.algorithm()), number, "{name}");
    }
    let warm_up = WarmUp::new(Duration::from_secs(9)).params(&quota, 0).expect("in range");
    assert_eq!(warm_up.algorithm(), 4);
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
