//! Buckets against a meter in exact rational arithmetic, without a grid.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate::algorithm::Algorithm;
use tollgate::internals::StateMachine;
use tollgate::internals::oracle::Verdict;
use tollgate::{Direct, ManualClock, Quota, Tick};

use crate::bodies::choice::{Choice, Cost, Kind};
use crate::bodies::grid::{horizon, nanos, units_in_cell};
use crate::choice::{Last, Move, cases, choices, costs, forward, quotas, starts};

/// The level of a leaky bucket, in shares of a cell: a cell is `period * fineness` of them, and
/// `limit * fineness` drain in a nanosecond, so that no division is ever needed. The fineness is
/// the units in a cell, which makes one unit's worth of the grid exactly `period` shares.
struct Meter {
    cell: u128,
    drained_per_nano: u128,
    capacity: u128,
    one_unit: u128,
    level: u128,
    at: u64,
}

impl Meter {
    fn new(quota: &Quota, fineness: u64) -> Self {
        let cell = quota.period().as_nanos() * u128::from(fineness);
        Self {
            cell,
            drained_per_nano: u128::from(quota.limit()) * u128::from(fineness),
            capacity: cell * u128::from(quota.burst_cells()),
            one_unit: quota.period().as_nanos(),
            level: 0,
            at: 0,
        }
    }

    fn drain(&mut self, now: u64) {
        let drained = self.drained_per_nano.saturating_mul((now - self.at).into());
        self.level = self.level.saturating_sub(drained);
        self.at = now;
    }
}

/// Time never goes back. If a wrapping grid sees no request for longer than its ring, an old debt
/// may reappear and deny what would fit: from then on only the bound is checked.
fn keeps_to_the_meter<A: Algorithm>(
    algorithm: A,
    quota: Quota,
    start: u64,
    steps: &[(Move, Cost)],
) -> TestCaseResult {
    let clock = ManualClock::new();
    let gate = Direct::builder(quota).algorithm(algorithm).clock(clock).build().expect("accepted");
    let burst = quota.burst_cells();
    let fineness = units_in_cell(gate.params(), &quota);
    let mut meter = Meter::new(&quota, fineness);
    let (mut now, mut rest, mut last) = (start, burst, Last::default());
    let (mut written, mut strict) = (start, true);
    if gate.params().starts_in_debt() {
        meter.level = meter.capacity;
        meter.at = start;
        prop_assert!(
            gate.ask().cells(burst).at(Tick::from_nanos(start)).check().is_err(),
            "starts empty"
        );
    }
    for (towards, cost) in steps {
        now = towards.apply(now, &quota, &last);
        strict &= now <= horizon(gate.params(), written).1;
        meter.drain(now);
        let n = cost.cells(burst, rest);
        let answer = Verdict::from(&gate.ask().cells(n).at(Tick::from_nanos(now)).check());
        if answer.admitted {
            prop_assert!(n <= burst);
            meter.level += meter.cell * u128::from(n);
            prop_assert!(
                meter.level < meter.capacity + meter.one_unit,
                "{} at {}: over by {} shares, a unit has {}",
                n,
                now,
                meter.level - meter.capacity,
                meter.one_unit,
            );
            written = if n > 0 { now } else { written };
        } else if n > burst {
            prop_assert_eq!(answer.retry_after, None);
        } else if strict {
            let fits = meter.level + meter.cell * u128::from(n) <= meter.capacity;
            prop_assert!(!fits, "{} at {} denied, which exactly fits", n, now);
            comes_back_at_the_right_time(&gate, &answer, now, n)?;
        }
        rest = answer.remaining;
        last = Last {
            retry_after: answer.retry_after.unwrap_or_default(),
            reset_after: answer.reset_after,
        };
    }
    Ok(())
}

/// The retry time of a denial suffices, and a nanosecond less does not.
pub(crate) fn comes_back_at_the_right_time<A: Algorithm>(
    gate: &Direct<A, ManualClock>,
    denied: &Verdict,
    now: u64,
    n: u64,
) -> TestCaseResult {
    let wait = nanos(denied.retry_after.expect("it fits some day"));
    prop_assert!(wait > 0);
    // For a stale clock, the wait may be longer than a duration can hold.
    if wait == u64::MAX {
        return Ok(());
    }
    let Some(then) = now.checked_add(wait) else { return Ok(()) };
    prop_assert!(
        gate.ask().cells(n).at(Tick::from_nanos(then)).peek().is_ok(),
        "{} after {} ns",
        n,
        wait
    );
    prop_assert!(
        gate.ask().cells(n).at(Tick::from_nanos(then - 1)).peek().is_err(),
        "{} 1 ns early",
        n
    );
    Ok(())
}

proptest! {
    #![proptest_config(cases(20_000))]

    #[test]
    fn a_bucket_is_never_over_and_never_denies_what_exactly_fits(
        (choice, quota) in quotas(choices(Kind::Bucket)),
        start in starts(),
        steps in prop::collection::vec((forward(), costs()), 1..80),
    ) {
        let Choice::Bucket(gcra) = choice else { unreachable!("only buckets are drawn") };
        keeps_to_the_meter(gcra, quota, start, &steps)?;
    }
}
