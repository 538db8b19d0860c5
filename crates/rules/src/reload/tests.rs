use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{ManualClock, Quota};

use super::*;
use crate::RulesLimiter;
use crate::request::Request;
use crate::rule::Rules;

/// A cell in units of which every quota below restores a whole number per nanosecond.
const CELL: u128 = 3_600_000_000_000;
/// The largest unit of a limiter: a thousandth of a cell.
const UNIT: u128 = CELL / 1_000;

fn quotas() -> impl Strategy<Value = Quota> {
    let period = prop_oneof![Just(1), Just(60), Just(3_600)];
    let burst = prop_oneof![Just(None), (1_u64..150).prop_map(Some)];
    // Rates of one period differ by less than 32 times, so that few changes reset the limit.
    (1_u64..=31, period, burst).prop_map(|(limit, secs, burst)| {
        let quota = Quota::new(limit, Duration::from_secs(secs));
        burst.map_or(quota, |burst| quota.burst(burst))
    })
}

#[derive(Clone, Debug)]
enum Action {
    Decide(u64),
    Change(Quota),
}

fn actions() -> impl Strategy<Value = Vec<(u64, Action)>> {
    let action = prop_oneof![
        (1_u64..60).prop_map(Action::Decide),
        Just(Action::Decide(1)),
        quotas().prop_map(Action::Change),
    ];
    let pause = prop_oneof![Just(0), 0_u64..5_000_000, 0_u64..120_000_000_000];
    prop::collection::vec((pause, action), 1..120)
}

fn rules(quota: Quota) -> Rules {
    let text = format!("rule = [{{ name = \"a\", key = \"none\", limits = \"{quota}\" }}]");
    Rules::parse("r.toml", &text).expect("a rule")
}

/// A model in exact arithmetic: the cells that a key has spent and time has not restored, and the
/// bound on all that it was granted.
#[derive(Debug)]
struct Exact {
    quota: Quota,
    spent: u128,
    /// Since the limit last started afresh: all cells granted, the largest burst, and the cells that
    /// the rates in force have restored.
    granted: u128,
    burst_max: u128,
    restored: u128,
    /// How far the limiter may lag behind: one unit for each change, and one more.
    late: u128,
}

impl Exact {
    fn new(quota: Quota) -> Self {
        let burst_max = u128::from(quota.burst_cells());
        Self { quota, spent: 0, granted: 0, burst_max, restored: 0, late: 2 * UNIT }
    }

    fn pass(&mut self, nanos: u64) {
        let per_nano = u128::from(self.quota.limit()) * (CELL / self.quota.period().as_nanos());
        let restored = per_nano * u128::from(nanos);
        self.restored += restored;
        self.spent = self.spent.saturating_sub(restored);
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
        // The guarantee: at most the largest burst and what the rates have restored.
        let max = self.burst_max * CELL + self.restored + UNIT;
        prop_assert!(self.granted <= max, "{cells}: {self:?}");
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// However often the quota changes, a key behaves as one bucket that keeps its spent cells.
    #[test]
    fn what_a_key_has_spent_stays_spent_whatever_quotas_follow(
        first in quotas(), actions in actions(),
    ) {
        let clock = Arc::new(ManualClock::new());
        let mut gate = RulesLimiter::with_clock(rules(first), Arc::clone(&clock)).expect("memory");
        let mut exact = Exact::new(first);
        for (pause, action) in actions {
            clock.advance(Duration::from_nanos(pause));
            exact.pass(pause);
            match action {
                Action::Decide(cells) => {
                    let is_admitted = gate.decide_n(&Request::default(), cells).is_admitted();
                    exact.answered(cells, is_admitted)?;
                }
                Action::Change(quota) => {
                    let (next, summary) = gate.successor(rules(quota)).expect("memory");
                    gate = next;
                    let is_afresh = |its: &ReloadWarning| matches!(its, ReloadWarning::StartsAfresh { .. });
                    let is_afresh = summary.warnings.iter().any(is_afresh);
                    // Each change that loses what keys have spent comes with a warning.
                    prop_assert_eq!(summary.new == 1, is_afresh);
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
    let gate = RulesLimiter::new(parse(before)).expect("memory");
    let (_, summary) = gate.successor(parse(after)).expect("memory");
    summary.warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn each_change_that_starts_a_limit_afresh_comes_with_a_warning() {
    let restarts = |why: &str| format!("rule \"a\", limit \"9/min\" starts afresh, since {why}");
    let all_restart = |what: &str| {
        format!("rule \"a\": all limits and bans start afresh, since \"{what}\" changed")
    };
    for (before, after, expected) in [
        ("limits = \"5/min\"", "limits = \"9/min\"", vec![]),
        ("limits = \"5/min\"", "limits = [\"5/min\", \"9/h\"]", vec![]),
        ("limits = [\"5/min\", \"9/h\"]", "limits = \"5/min\"", vec![]),
        (
            "limits = \"5/min\"\nalgorithm = \"sliding-log\"",
            "limits = \"9/min\"\nalgorithm = \"sliding-log\"",
            vec![restarts("sliding-log keeps nothing under a new quota")],
        ),
        (
            "limits = \"9/min\"",
            "limits = \"9/min\"\nalgorithm = \"fixed-window\"",
            vec![restarts("its algorithm changed from gcra to fixed-window")],
        ),
        (
            "limits = \"1/365d\"",
            "limits = \"9/min\"",
            vec![restarts("9/min is too far from 1/y to go on from it")],
        ),
        ("limits = \"9/min\"", "limits = \"9/min\"\nkey = \"path\"", vec![all_restart("key")]),
        ("limits = \"9/min\"", "limits = \"9/min\"\ncapacity = 9", vec![all_restart("capacity")]),
        (
            "limits = \"9/min\"",
            "limits = \"9/min\"\non_full = \"deny\"",
            vec![all_restart("on_full")],
        ),
        (
            "limits = \"9/min\"",
            "limits = \"9/min\"\nstore = \"redis://127.0.0.1\"",
            vec![all_restart("store")],
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
        assert_eq!(warnings(before, after), expected, "{before} -> {after}");
    }
}

#[test]
fn each_change_that_starts_a_limit_in_a_store_afresh_comes_with_a_warning() {
    let restarts = |limit: &str| {
        let why =
            "the store keeps it under another key, since its name, period or algorithm changed";
        format!("rule \"a\", limit \"{limit}\" starts afresh, since {why}")
    };
    let all_restart = |what: &str| {
        vec![format!("rule \"a\": all limits and bans start afresh, since \"{what}\" changed")]
    };
    let keys_changed = |what: &str| {
        vec![format!(
            "rule \"a\": all limits and bans start afresh, since \"{what}\" changed; in the store, a key with the \
             bytes of an old one keeps what that one has used: rename the rule to start all afresh"
        )]
    };
    let window = "limits = \"9/min\"\nalgorithm = \"fixed-window\"";
    let named = |quota: &str, algorithm: &str| {
        format!("limits = {{ name = \"x\", quota = \"{quota}\", algorithm = \"{algorithm}\" }}")
    };
    let renumbered = |limit: &str| {
        let why = "another key of the store counts it, since its name or its place among the limits of its \
                   period changed: name it";
        format!("rule \"a\", limit \"{limit}\" starts afresh, since {why}")
    };
    let two = "limits = [\"10/s\", \"2/s burst 9\"]";
    for (before, after, expected) in [
        (two, "limits = \"2/s burst 9\"", vec![renumbered("2/s burst 9")]),
        (
            two,
            "limits = [\"2/s burst 9\", \"10/s\"]",
            vec![renumbered("2/s burst 9"), renumbered("10/s")],
        ),
        ("limits = \"2/s burst 9\"", two, vec![renumbered("2/s burst 9")]),
        (
            "limits = [\"2/s burst 9\", \"9/d\"]",
            "limits = [\"10/s\", \"2/s burst 9\", \"9/h\"]",
            vec![renumbered("2/s burst 9"), restarts("9/h")],
        ),
        (&named("9/min", "gcra"), "limits = \"9/min\"", vec![renumbered("9/min")]),
        (&named("9/min", "gcra"), "limits = [\"9/min\", \"9/h\"]", vec![renumbered("9/min")]),
        (&named("9/min", "gcra"), "limits = [\"9/h\", \"9/min\"]", vec![renumbered("9/min")]),
        ("limits = \"10/s\"", two, vec![]),
        (two, "limits = \"10/s\"", vec![]),
        (two, "limits = [\"11/s\", \"2/s burst 9\"]", vec![]),
        (
            "limits = [{ name = \"x\", quota = \"1/s\" }, { name = \"y\", quota = \"2/s\" }]",
            "limits = [{ name = \"y\", quota = \"2/s\" }, { name = \"x\", quota = \"1/s\" }]",
            vec![],
        ),
        ("limits = [\"2/s\", \"9/d\"]", "limits = [\"10/d\", \"3/s burst 5\"]", vec![]),
        ("limits = \"9/d\"", "limits = [\"2/s\", \"9/d\"]", vec![]),
        ("limits = [\"2/s\", \"9/d\"]", "limits = \"9/d\"", vec![]),
        (window, "limits = \"8/min\"\nalgorithm = \"fixed-window\"", vec![]),
        ("limits = \"9/min\"", window, vec![restarts("9/min")]),
        ("limits = \"9/min\"", "limits = \"9/h\"", vec![restarts("9/h")]),
        (&named("9/min", "gcra"), &named("9/h", "gcra"), vec![]),
        (&named("9/min", "fixed-window"), &named("9/h", "fixed-window"), vec![restarts("x")]),
        ("limits = \"9/min\"", &named("9/min", "gcra"), vec![restarts("x")]),
        ("limits = \"9/min\"", "limits = \"9/min\"\ncapacity = 9", vec![]),
        ("limits = \"9/min\"", "limits = \"9/min\"\nkey = \"path\"", keys_changed("key")),
        ("limits = \"9/min\"", "limits = \"9/min\"\nipv6_prefix = 48", keys_changed("ipv6_prefix")),
    ] {
        let at = "store = \"redis://cache\"\n";
        let (before, after) = (format!("{at}{before}"), format!("{at}{after}"));
        assert_eq!(warnings(&before, &after), expected, "{before} -> {after}");
    }
    let at = |store: &str| format!("limits = \"9/min\"\nstore = {{ url = \"{store} }}");
    let first = at("redis://cache\"");
    assert_eq!(warnings(&first, &at("redis://:secret@cache\", nodes = 3")), Vec::<String>::new());
    assert_eq!(warnings(&first, &at("redis://cache/1\"")), all_restart("store"));
    assert_eq!(warnings(&first, &at("redis://cache\", prefix = \"b\"")), all_restart("store"));
}

#[test]
fn a_warning_names_the_algorithm_of_the_limit_that_was_replaced() {
    let limit = |name: &str, quota: &str, algorithm: &str| {
        format!("{{ name = \"{name}\", quota = \"{quota}\", algorithm = \"{algorithm}\" }}")
    };
    let [window, log] = [limit("w", "10/min", "fixed-window"), limit("l", "5/h", "sliding-log")];
    let keeps_nothing = "sliding-log keeps nothing under a new quota";
    for (after, why) in [
        (limit("l", "6/h", "sliding-log"), keeps_nothing),
        (limit("other", "6/h", "sliding-log"), keeps_nothing),
        (limit("l", "5/h", "gcra"), "its algorithm changed from sliding-log to gcra"),
        (limit("other", "5/h", "gcra"), "its algorithm changed from fixed-window to gcra"),
    ] {
        let said = warnings(&format!("limits = [{window}, {log}]"), &format!("limits = {after}"));
        let name = if after.contains("other") { "other" } else { "l" };
        let expected = format!("rule \"a\", limit \"{name}\" starts afresh, since {why}");
        assert_eq!(said, [expected], "{after}");
    }
}

#[test]
fn a_changed_limit_continues_the_old_one_with_its_period() {
    let rules = |limits: &str| {
        let text = format!("rule = [{{ name = \"a\", key = \"none\", limits = {limits} }}]");
        Rules::parse("r.toml", &text).expect("a rule")
    };
    let clock = Arc::new(ManualClock::new());
    let gate = RulesLimiter::with_clock(rules("[\"100/d\", \"5/min\"]"), Arc::clone(&clock));
    let gate = gate.expect("memory");
    for _ in 0..10 {
        assert!(gate.decide_n(&Request::default(), 5).is_admitted());
        clock.advance(Duration::from_secs(60));
    }
    let (gate, summary) = gate.successor(rules("[\"6/min\", \"90/d\"]")).expect("memory");
    assert_eq!((summary.inherited, summary.warnings), (2, vec![]));
    // The limit per minute is restored. With the day's debt of 49 it would admit none.
    assert!(gate.decide_n(&Request::default(), 6).is_admitted());
}
