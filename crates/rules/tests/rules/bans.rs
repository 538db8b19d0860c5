//! The waits of denials where a rule bans keys.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use proptest::prelude::*;
use tollgate::ManualClock;
use tollgate_rules::{DenyReason, Held, Request, Rules, RulesLimiter};

const SECOND: Duration = Duration::from_secs(1);
const NANO: Duration = Duration::from_nanos(1);

struct Gate {
    limiter: RulesLimiter<ManualClock>,
    clock: Arc<ManualClock>,
}

impl Gate {
    fn new(text: &str) -> Self {
        let clock = Arc::new(ManualClock::new());
        clock.advance(1_000_000 * SECOND);
        let rules = Rules::parse("r.toml", text).unwrap_or_else(|error| panic!("{error}"));
        let limiter = RulesLimiter::with_clock(rules, Arc::clone(&clock)).expect("memory");
        Self { limiter, clock }
    }

    /// When a denied key has its whole quota again.
    fn reset(&self) -> Duration {
        let decision = self.limiter.decide(&Request::default());
        decision.denied().expect("denied").reset_after()
    }

    /// The wait of a denial of some cells, and whether it is by a ban; `None` if they are admitted.
    fn denied(&self, cells: u64) -> Option<(Option<Duration>, bool)> {
        let decision = self.limiter.decide_n(&Request::default(), cells);
        let denied = decision.denied()?;
        assert!(denied.reset_after() >= denied.retry_after().unwrap_or_default());
        Some((denied.retry_after(), matches!(denied.reason(), DenyReason::Banned(_))))
    }
}

#[test]
fn a_denial_waits_for_its_ban_and_for_the_limits_whichever_is_longer() {
    for (limits, ban, wait) in [("1/h", "1 min", 3_600), ("1/s", "1 h", 3_600)] {
        for other in ["\"1/day\"", "[\"1/min\", \"1/day\"]"] {
            let rule = |name: &str, limits: &str, more: &str| {
                format!("{{ name = \"{name}\", key = \"none\", limits = {limits}{more} }}")
            };
            let banning = format!(", penalty = \"{ban}\"");
            let one = rule("one", &format!("\"{limits}\""), &banning);
            let gate = Gate::new(&format!("rule = [{one}]"));
            assert_eq!(gate.denied(1), None);
            assert_eq!(gate.denied(1), Some((Some(wait * SECOND), false)), "{limits}");
            gate.clock.advance(30 * SECOND);
            assert_eq!(gate.denied(1), Some((Some((wait - 30) * SECOND), true)), "{limits}");
            assert_eq!(gate.denied(2), Some((None, true)), "it never fits");
            gate.clock.advance((wait - 30) * SECOND);
            assert_eq!(gate.denied(1), None);

            // Another rule denies for longer than the ban.
            let two = rule("two", other, "");
            let gate = Gate::new(&format!("rule = [{one}, {two}]"));
            assert_eq!(gate.denied(1), None);
            assert_eq!(gate.denied(1), Some((Some(86_400 * SECOND), false)));
            assert_eq!(gate.denied(1), Some((Some(86_400 * SECOND), true)));
        }
    }
}

#[test]
fn a_ban_resets_when_the_key_has_its_whole_quota_again_or_when_it_ends() {
    const ALGORITHMS: [&str; 6] =
        ["gcra", "fixed-window", "leaky-queue", "sub-windows", "sliding-counter", "sliding-log"];
    for algorithm in ALGORITHMS {
        for (limits, is_plan) in [("limits = \"10/h\"", false), ("plan = PLAN", true)] {
            if is_plan && !["gcra", "fixed-window"].contains(&algorithm) {
                continue;
            }
            let plan = "{ by = \"header:x-plan\", gold = \"20/h\", default = \"10/h\" }";
            let limits = limits.replace("PLAN", plan);
            let gate = |ban: &str| {
                let gate = Gate::new(&format!(
                    "rule = [{{ name = \"a\", key = \"none\", algorithm = \"{algorithm}\", \
                     {limits}, penalty = \"{ban}\" }}]"
                ));
                assert!((0..10).all(|_| gate.denied(1).is_none()), "{algorithm}");
                gate
            };
            let short = gate("1 min");
            let reset = short.reset();
            assert!(reset > 3_000 * SECOND, "{algorithm}: {reset:?}");
            short.clock.advance(30 * SECOND);
            assert_eq!(short.reset(), reset - 30 * SECOND, "{algorithm}");
            let long = gate("1 day");
            assert_eq!(long.reset(), 86_400 * SECOND);
            long.clock.advance(30 * SECOND);
            assert_eq!(long.reset(), 86_370 * SECOND, "{algorithm}");
        }
    }
}

#[test]
fn a_denial_by_requests_in_flight_waits_for_the_ban_that_it_begins() {
    let gate = Gate::new(
        "rule = [{ name = \"a\", key = \"none\", concurrency = 1, penalty = \"1 min\" }]",
    );
    let held = gate.limiter.decide(&Request::default()).take_held();
    assert_eq!(gate.denied(1), Some((Some(60 * SECOND), false)));
    drop(held);
    assert_eq!(gate.denied(1), Some((Some(60 * SECOND), true)));
    gate.clock.advance(60 * SECOND);
    assert_eq!(gate.denied(1), None);
}

impl Gate {
    /// Whether a request of this user is admitted; the error is whether it is denied by a ban.
    fn ask(&self, user: &str, is_queued: bool) -> Result<Held<ManualClock>, bool> {
        let headers = [("x-user", user)];
        let request = Request { headers: &headers, ..Request::default() };
        let mut decision = match is_queued {
            true => self.limiter.decide_queued(&request, 128),
            false => self.limiter.decide(&request),
        };
        match decision.denied() {
            Some(denied) => Err(matches!(denied.reason(), DenyReason::Banned(_))),
            None => Ok(decision.take_held()),
        }
    }
}

#[test]
fn a_key_that_finds_no_slot_among_requests_in_flight_is_not_banned() {
    for more in ["", ", limits = \"100/s\""] {
        let gate = Gate::new(&format!(
            "rule = [{{ name = \"a\", key = \"header:x-user\", capacity = 1, concurrency = 1, \
             penalty = \"1 h\"{more} }}]"
        ));
        let users: Vec<String> = (0..500).map(|user| user.to_string()).collect();
        let held: Vec<_> = users.iter().map(|user| (user, gate.ask(user, false))).collect();
        let (held, without): (Vec<_>, Vec<_>) = held.into_iter().partition(|its| its.1.is_ok());
        assert!(held.len() < 100, "{}", held.len());
        let too_many = held[0].0;
        assert!(gate.ask(too_many, false).is_err(), "it has one in flight");
        drop(held);
        assert_eq!(gate.ask(too_many, false).err(), Some(true));
        for (user, _) in without {
            assert_eq!(gate.ask(user, false).err(), None, "{more}: it had none in flight");
        }
    }
}

#[test]
fn a_key_that_finds_no_slot_in_the_table_of_a_limit_is_not_banned() {
    let plan = "plan = { by = \"header:x-plan\", gold = \"1/min\", default = \"1/h\" }";
    let windows = "algorithm = \"sub-windows\", limits = \"1/h\"";
    for limits in ["limits = \"1/h\"", "limits = [\"1/h\", \"2/h\"]", windows, plan] {
        for on_full in ["\"deny\"", "{ shared = \"1/h\" }"] {
            for is_queued in [false, true] {
                let case = format!("{limits}, on_full = {on_full}, queued: {is_queued}");
                let gate = Gate::new(&format!(
                    "rule = [{{ name = \"a\", key = \"header:x-user\", capacity = 1, {limits}, \
                     on_full = {on_full}, penalty = \"1 day\" }}]"
                ));
                let users: Vec<String> = (0..500).map(|user| user.to_string()).collect();
                let is_denied = |user: &&String| gate.ask(user, is_queued).is_err();
                let (without, with): (Vec<_>, Vec<_>) = users.iter().partition(is_denied);
                assert!(with.len() < 100, "{case}: {}", with.len());
                assert_eq!(gate.ask(with[0], is_queued).err(), Some(false), "{case}");
                assert_eq!(gate.ask(with[0], is_queued).err(), Some(true), "{case}");
                gate.clock.advance(2 * 3_600 * SECOND);
                assert_eq!(gate.ask(without[0], is_queued).err(), None, "{case}");
                let banned =
                    without.iter().filter(|user| gate.ask(user, is_queued).err() == Some(true));
                assert_eq!(banned.count(), 0, "{case}");
            }
        }
    }
}

#[test]
fn each_ban_takes_as_many_denials() {
    let gate = Gate::new(
        "rule = [{ name = \"a\", key = \"none\", limits = \"1/day\", \
         penalty = { ban = \"1 min\", after = 3, within = \"1 h\" } }]",
    );
    assert_eq!(gate.denied(1), None);
    for ban in 0..5 {
        let by_a_ban: Vec<bool> = (0..5).map(|_| gate.denied(1).expect("spent").1).collect();
        assert_eq!(by_a_ban, [false, false, false, true, true], "ban {ban}");
        gate.clock.advance(60 * SECOND);
    }
}

/// Around the end of a period, twice as many denials pass without a ban, less two.
#[test]
fn denials_of_two_periods_begin_no_ban_if_neither_has_enough() {
    let gate = Gate::new(
        "rule = [{ name = \"a\", key = \"none\", limits = \"1/day\", \
         penalty = { ban = \"1 h\", after = 5, within = \"10 min\" } }]",
    );
    assert_eq!(gate.denied(1), None);
    let is_by_a_ban = || gate.denied(1).expect("spent").1;
    assert!(!is_by_a_ban());
    gate.clock.advance(598 * SECOND);
    assert_eq!([(); 3].map(|()| is_by_a_ban()), [false; 3]);
    gate.clock.advance(3 * SECOND);
    let last_of_them_begins_the_ban = [false, false, false, false, false, true];
    assert_eq!([(); 6].map(|()| is_by_a_ban()), last_of_them_begins_the_ban);
}

/// A thread may count a denial after another one has begun the ban.
#[test]
fn denials_of_several_threads_during_a_ban_do_not_count_towards_the_next_one() {
    const AFTER: usize = 5;
    const KEYS: usize = 10_000;
    let text = format!(
        "rule = [{{ name = \"a\", key = \"header:x-user\", limits = \"1/day\", \
         penalty = {{ ban = \"1 min\", after = {AFTER}, within = \"1 h\" }} }}]"
    );
    let gate = &Gate::new(&text);
    let is_banned = |user: usize| {
        let user = user.to_string();
        let headers = [("x-user", &*user)];
        let request = Request { headers: &headers, ..Request::default() };
        let decision = gate.limiter.decide(&request);
        matches!(decision.denied().map(|its| its.reason()), Some(DenyReason::Banned(_)))
    };
    let threads = Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for user in 0..KEYS {
                    threads.wait();
                    // A panic here would leave the other threads at the barrier.
                    let _ = (0..1_000).any(|_| is_banned(user));
                }
            });
        }
    });
    gate.clock.advance(60 * SECOND);
    for user in 0..KEYS {
        let denials = (0..=AFTER).take_while(|_| !is_banned(user)).count();
        assert_eq!(denials, AFTER, "user {user}");
    }
}

fn rules() -> impl Strategy<Value = String> {
    let limits = prop::sample::subsequence(vec!["2/s", "3/min", "1/h", "5/min"], 1..3);
    let penalty = prop::sample::select(vec![
        "",
        "penalty = \"20 s\"",
        "penalty = \"2 h\"",
        "penalty = { ban = \"1 min\", after = 3, within = \"10 min\" }",
    ]);
    let algorithm = prop::sample::select(vec!["gcra", "fixed-window", "sliding-log"]);
    prop::collection::vec((limits, penalty, algorithm), 1..3).prop_map(|rules| {
        let mut text = String::new();
        for (index, (limits, penalty, algorithm)) in rules.iter().enumerate() {
            text += &format!(
                "[[rule]]\nname = \"{index}\"\nkey = \"none\"\nalgorithm = \"{algorithm}\"\n\
                 limits = {limits:?}\n{penalty}\n"
            );
        }
        text
    })
}

proptest! {
    /// Another request of the key would be a strike. So each of two gates is asked once after the denial.
    #[test]
    fn the_same_request_is_admitted_after_the_wait_and_not_before(
        text in rules(),
        acts in prop::collection::vec((0_u64..40, 0_u64..3), 1..40),
    ) {
        let run = || {
            let gate = Gate::new(&text);
            let mut last = None;
            for &(seconds, cells) in &acts {
                gate.clock.advance(Duration::from_secs(seconds / 8 * seconds));
                last = gate.denied(cells).map(|(wait, _)| (wait, cells));
            }
            (gate, last)
        };
        let (gate, last) = run();
        let Some((Some(wait), cells)) = last else { return Ok(()) };
        gate.clock.advance(wait);
        prop_assert_eq!(gate.denied(cells), None, "after {:?}", wait);
        let (gate, _) = run();
        gate.clock.advance(wait - NANO);
        prop_assert!(gate.denied(cells).is_some(), "before {:?}", wait);
    }
}
