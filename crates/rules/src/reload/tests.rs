use std::time::Duration;

use proptest::prelude::*;
use tollgate::ManualClock;

use super::*;
use crate::request_view::Request;

/// In one of these units time brings a whole number each nanosecond, whichever of the quotas below
/// holds; so many are a cell.
const CELL: u128 = 3_600_000_000_000;
/// A unit of the limiter is a thousandth of a cell at most.
const UNIT: u128 = CELL / 1_000;

fn quotas() -> impl Strategy<Value = Quota> {
    let period = prop_oneof![Just(1), Just(60), Just(3_600)];
    let burst = prop_oneof![Just(None), (1_u64..150).prop_map(Some)];
    // No rate is 32 times as fast as another of its period, so that few changes start afresh.
    (1_u64..=31, period, burst).prop_map(|(limit, secs, burst)| {
        let quota = Quota::new(limit, Duration::from_secs(secs));
        burst.map_or(quota, |burst| quota.burst(burst))
    })
}

#[derive(Clone, Debug)]
enum Do {
    Ask(u64),
    Change(Quota),
}

fn doings() -> impl Strategy<Value = Vec<(u64, Do)>> {
    let doing = prop_oneof![
        (1_u64..60).prop_map(Do::Ask),
        Just(Do::Ask(1)),
        quotas().prop_map(Do::Change),
    ];
    let pause = prop_oneof![Just(0), 0_u64..5_000_000, 0_u64..120_000_000_000];
    prop::collection::vec((pause, doing), 1..120)
}

fn rules(quota: Quota) -> Rules {
    let text = format!("rule = [{{ name = \"a\", key = \"none\", limits = \"{quota}\" }}]");
    Rules::parse("r.toml", &text).expect("a rule")
}

/// What a key has spent and time has not brought back, in exact arithmetic, and all that was granted
/// since the key was last idle.
#[derive(Debug)]
struct Exact {
    quota: Quota,
    spent: u128,
    /// Since the limit last started afresh: all cells granted, the most that a burst was, and what
    /// the rates that were in force have brought.
    granted: u128,
    burst_max: u128,
    brought: u128,
    /// By so much the limiter may be behind: a unit for each change, and one more.
    late: u128,
}

impl Exact {
    fn new(quota: Quota) -> Self {
        let burst_max = u128::from(quota.burst_cells());
        Self { quota, spent: 0, granted: 0, burst_max, brought: 0, late: 2 * UNIT }
    }

    fn pass(&mut self, nanos: u64) {
        let per_nano = u128::from(self.quota.limit()) * (CELL / self.quota.period().as_nanos());
        let brought = per_nano * u128::from(nanos);
        self.brought += brought;
        self.spent = self.spent.saturating_sub(brought);
    }

    fn change(&mut self, quota: Quota) {
        self.quota = quota;
        self.burst_max = self.burst_max.max(quota.burst_cells().into());
        self.late += UNIT;
    }

    fn burst(&self) -> u128 {
        u128::from(self.quota.burst_cells()) * CELL
    }

    fn answered(&mut self, cells: u64, is_admitted: bool) -> Result<(), TestCaseError> {
        let wanted = u128::from(cells) * CELL;
        if !is_admitted {
            prop_assert!(self.spent + wanted + self.late > self.burst(), "{cells}: {self:?}");
            return Ok(());
        }
        prop_assert!(self.spent + wanted <= self.burst() + UNIT, "{cells}: {self:?}");
        self.spent += wanted;
        self.granted += wanted;
        // The promise: never more than the largest burst, and what the rates have brought.
        let most = self.burst_max * CELL + self.brought + UNIT;
        prop_assert!(self.granted <= most, "{cells}: {self:?}");
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// However often the quota changes, a key is decided about as if it had one bucket in which what
    /// it spent stays spent.
    #[test]
    fn what_a_key_has_spent_stays_spent_whatever_quotas_follow(
        first in quotas(), doings in doings(),
    ) {
        let clock = Arc::new(ManualClock::new());
        let mut gate = Gate::with_clock(rules(first), Arc::clone(&clock)).expect("memory");
        let mut exact = Exact::new(first);
        for (pause, doing) in doings {
            clock.advance(Duration::from_nanos(pause));
            exact.pass(pause);
            match doing {
                Do::Ask(cells) => {
                    let is_admitted = gate.decide_n(&Request::default(), cells).is_admitted();
                    exact.answered(cells, is_admitted)?;
                }
                Do::Change(quota) => {
                    let (next, carried) = follow(&gate, rules(quota)).expect("memory");
                    gate = next;
                    let is_afresh = |its: &ReloadWarning| matches!(its, ReloadWarning::StartsAfresh { .. });
                    let is_afresh = carried.warnings.iter().any(is_afresh);
                    // It is told whenever a key does not go on from what it has spent.
                    prop_assert_eq!(carried.new == 1, is_afresh);
                    match is_afresh {
                        true => exact = Exact::new(quota),
                        false => exact.change(quota),
                    }
                }
            }
        }
    }
}

fn warnings(before: &str, after: &str) -> Vec<String> {
    let parse = |rest: &str| {
        Rules::parse("r.toml", &format!("[[rule]]\nname = \"a\"\n{rest}")).expect("a rule")
    };
    let gate = Gate::new(parse(before)).expect("memory");
    let (_, carried) = follow(&gate, parse(after)).expect("memory");
    carried.warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn each_change_that_starts_a_limit_afresh_is_told() {
    let afresh = |why: &str| format!("rule \"a\", limit \"9/min\" starts afresh, since {why}");
    let all = |what: &str| {
        format!("rule \"a\": all limits and bans start afresh, since \"{what}\" changed")
    };
    for (before, after, told) in [
        ("limits = \"5/min\"", "limits = \"9/min\"", vec![]),
        ("limits = \"5/min\"", "limits = [\"5/min\", \"9/h\"]", vec![]),
        ("limits = [\"5/min\", \"9/h\"]", "limits = \"5/min\"", vec![]),
        (
            "limits = \"5/min\"\nalgorithm = \"sliding-log\"",
            "limits = \"9/min\"\nalgorithm = \"sliding-log\"",
            vec![afresh("sliding-log keeps nothing under a new quota")],
        ),
        (
            "limits = \"9/min\"",
            "limits = \"9/min\"\nalgorithm = \"fixed-window\"",
            vec![afresh("its algorithm changed from gcra to fixed-window")],
        ),
        (
            "limits = \"1/365d\"",
            "limits = \"9/min\"",
            vec![afresh("9/min is too far from 1/y to go on from it")],
        ),
        ("limits = \"9/min\"", "limits = \"9/min\"\nkey = \"path\"", vec![all("key")]),
        ("limits = \"9/min\"", "limits = \"9/min\"\ncapacity = 9", vec![all("capacity")]),
        ("limits = \"9/min\"", "limits = \"9/min\"\non_full = \"deny\"", vec![all("on_full")]),
        (
            "limits = \"9/min\"",
            "limits = \"9/min\"\nstore = \"redis://127.0.0.1\"",
            vec![all("store")],
        ),
        (
            "limits = \"9/min\"\npenalty = \"1 h\"",
            "limits = \"9/min\"\npenalty = \"2 h\"",
            vec!["rule \"a\": all bans are lifted, since \"penalty\" changed".to_owned()],
        ),
        (
            "limits = \"1000/h\"",
            "limits = \"10/h\"",
            vec![
                "rule \"a\", limit \"10/h\": a key that has used all of the old quota waits up to \
                 5 days; rename the rule to forgive"
                    .to_owned(),
            ],
        ),
    ] {
        assert_eq!(warnings(before, after), told, "{before} -> {after}");
    }
}

#[test]
fn a_limit_goes_on_from_the_one_of_its_period() {
    let rules = |limits: &str| {
        let text = format!("rule = [{{ name = \"a\", key = \"none\", limits = {limits} }}]");
        Rules::parse("r.toml", &text).expect("a rule")
    };
    let clock = Arc::new(ManualClock::new());
    let gate = Gate::with_clock(rules("[\"100/d\", \"5/min\"]"), Arc::clone(&clock));
    let gate = gate.expect("memory");
    for _ in 0..10 {
        assert!(gate.decide_n(&Request::default(), 5).is_admitted());
        clock.advance(Duration::from_secs(60));
    }
    let (gate, carried) = follow(&gate, rules("[\"6/min\", \"90/d\"]")).expect("memory");
    assert_eq!((carried.inherited, carried.warnings), (2, vec![]));
    // All of the minute's came back; by the day's debt of 49 none would.
    assert!(gate.decide_n(&Request::default(), 6).is_admitted());
}
