//! The decision of the rules as a report of `tollgate-http`, which writes the fields of the response.
//!
//! Each response builds its policies again. That allocates, and takes about 0.2 of the 15 to 30
//! microseconds that a proxied request costs. To keep them, the filter would need a map of policies that
//! follows reloads.

use tollgate_http::{KeyError, Policy, Reading, Reason, Report};
use tollgate_rules::{DenyReason, Outcome, Rule, RuleDenial, RuleLimit, RulesDecision};

/// The report, and the reason if the request is denied. A request that may not wait may have been denied for that.
pub(crate) fn report(decision: &RulesDecision<'_>, may_wait: bool) -> (Report, Option<Reason>) {
    let mut report = Report::default();
    for denied in decision.shadow_denials() {
        denial(denied).into_iter().for_each(|reading| report.note_shadow(reading));
    }
    let reason = match decision.outcome() {
        // This filter does not ask stores, so it denies requests that a store would decide.
        Outcome::NoRule | Outcome::Admitted(_) if asks_a_store(decision) => {
            Some(Reason::Unavailable)
        }
        Outcome::NoRule => {
            note_in_flight(decision, &mut report);
            None
        }
        Outcome::Admitted(permit) => {
            let limit = permit.limit();
            let policy = policy(permit.rule(), limit);
            let mut reading = Reading::new(policy, limit.at_once(), permit.remaining());
            reading.reset_after = permit.reset_after();
            reading.delay = permit.delay();
            report.note(reading);
            note_in_flight(decision, &mut report);
            None
        }
        Outcome::Denied(denied) => Some(match denied.reason() {
            DenyReason::NoKey => {
                report.note_no_key(KeyError::Missing);
                Reason::NoKey(KeyError::Missing)
            }
            DenyReason::UnclearPath => {
                report.note_no_key(KeyError::Malformed);
                Reason::NoKey(KeyError::Malformed)
            }
            _ => match denial(denied) {
                Some(reading) => {
                    report.note(reading);
                    if denied.comes_too_late() && !may_wait {
                        Reason::QueueFull
                    } else {
                        Reason::OverLimit
                    }
                }
                None => Reason::Forbidden,
            },
        }),
    };
    (report, reason)
}

/// Whether an enforced rule has its limits in a store.
fn asks_a_store(decision: &RulesDecision<'_>) -> bool {
    decision.deferred().iter().any(|asked| !asked.rule().is_shadow())
}

/// Adds the readings of the rules with `concurrency`.
fn note_in_flight(decision: &RulesDecision<'_>, report: &mut Report) {
    for entry in decision.in_flight() {
        let policy = in_flight_policy(entry.rule(), entry.limit());
        report.note(Reading::new(policy, entry.limit(), entry.remaining()));
    }
}

/// A ban is reported under the limit of the request's plan or else the first of its rule, or its requests in flight if
/// it has none. A rule with `action = "deny"` has neither.
fn denial(denied: &RuleDenial<'_>) -> Option<Reading> {
    let rule = denied.rule();
    let banned = matches!(denied.reason(), DenyReason::Banned(_));
    if let Some(concurrency) = rule.concurrency()
        && (matches!(denied.reason(), DenyReason::InFlight(_)) || rule.limits().is_empty())
    {
        let policy = in_flight_policy(rule, concurrency.limit());
        let mut reading = Reading::new(policy, concurrency.limit(), 0);
        (reading.denied, reading.banned) = (true, banned);
        reading.retry_after = denied.retry_after();
        return Some(reading);
    }
    let limit = denied.reported_limit()?;
    let policy = policy(denied.rule(), limit);
    let mut reading = Reading::new(policy, limit.at_once(), denied.remaining());
    reading.reset_after = denied.reset_after();
    reading.retry_after = denied.retry_after();
    (reading.denied, reading.banned) = (true, banned);
    Some(reading)
}

fn policy(rule: &Rule, limit: &RuleLimit) -> Policy {
    let (name, quota) = (rule.policy_name(limit), limit.quota());
    let policy = match rule.counts_bytes() {
        true => Policy::of_bytes(&name, &quota),
        false => Policy::new(&name, &quota),
    };
    policy.expect("the name is printable")
}

fn in_flight_policy(rule: &Rule, limit: u64) -> Policy {
    let policy = Policy::of_requests_in_flight(&rule.in_flight_policy_name(), limit);
    policy.expect("the name is printable")
}

#[cfg(test)]
mod tests {
    use tollgate_rules::{Request, Rules, RulesLimiter};

    use super::*;

    /// The policies of an admission by a rule with this text after its key.
    fn policies(rule: &str) -> Vec<String> {
        let text = format!("rule = [{{ key = \"none\", {rule} }}]");
        let gate =
            RulesLimiter::new(Rules::parse("rules.toml", &text).expect("rules")).expect("memory");
        let (report, reason) = report(&gate.decide(&Request::default()), true);
        assert_eq!(reason, None);
        report.readings().map(|reading| reading.policy.to_string()).collect()
    }

    #[test]
    fn a_ban_by_a_rule_that_has_only_concurrency_is_reported_as_a_ban() {
        let text = r#"rule = [{ name = "a", key = "none", concurrency = 1, penalty = "1 h" }]"#;
        let gate =
            RulesLimiter::new(Rules::parse("rules.toml", text).expect("rules")).expect("memory");
        let _in_flight = gate.decide(&Request::default()).take_held();
        let is_banned = || {
            let (report, reason) = report(&gate.decide(&Request::default()), true);
            assert_eq!(reason, Some(Reason::OverLimit));
            report.readings().map(|reading| reading.banned).collect::<Vec<_>>()
        };
        assert_eq!(is_banned(), [false], "the denial that begins the ban");
        assert_eq!(is_banned(), [true]);
    }

    #[test]
    fn a_ban_names_the_plan_of_the_banned_key() {
        let text = r#"rule = [{ name = "a", key = "none", penalty = "1 h",
            plan = { by = "header:x-plan", gold = "5/h", default = "1/h" } }]"#;
        let gate =
            RulesLimiter::new(Rules::parse("rules.toml", text).expect("rules")).expect("memory");
        assert!(gate.decide(&Request::default()).is_admitted());
        for _ in 0..3 {
            let (report, reason) = report(&gate.decide(&Request::default()), true);
            assert_eq!(reason, Some(Reason::OverLimit));
            let policies: Vec<_> = report.readings().map(|its| its.policy.to_string()).collect();
            assert_eq!(policies, [r#""a/default";q=1;w=3600"#]);
        }
    }

    #[test]
    fn a_name_that_does_not_fit_the_field_is_replaced_and_each_limit_has_its_own() {
        assert_eq!(policies(r#"name = "posts", limits = "5/min""#), [r#""posts";q=5;w=60"#]);
        assert_eq!(
            policies(r#"name = "Straße", limits = ["9/min", "5/min"], concurrency = 3"#),
            [r#""rule-1/2";q=5;w=60"#, r#""rule-1/concurrency";q=3;qu="concurrent-requests""#]
        );
        let long = format!("name = \"{}\", limits = \"5/min\"", "x".repeat(70));
        assert_eq!(policies(&long), [r#""rule-1";q=5;w=60"#]);
    }

    #[test]
    fn a_limit_in_bytes_says_so() {
        let rule = r#"name = "up", limits = "9/min", cost = { bytes = "request", max = 5 }"#;
        assert_eq!(policies(rule), [r#""up";q=9;qu="content-bytes";w=60"#]);
    }

    #[test]
    fn requests_in_flight_are_reported_and_denied() {
        let text = "rule = [{ name = \"a\", key = \"none\", concurrency = 1 }]";
        let gate =
            RulesLimiter::new(Rules::parse("rules.toml", text).expect("rules")).expect("memory");
        let first = gate.decide(&Request::default());
        let (admitted, reason) = report(&first, true);
        let policies: Vec<String> =
            admitted.readings().map(|reading| reading.policy.to_string()).collect();
        assert_eq!(
            (policies, reason),
            (vec![r#""a";q=1;qu="concurrent-requests""#.to_owned()], None)
        );
        let (denied, reason) = report(&gate.decide(&Request::default()), true);
        assert_eq!(reason, Some(Reason::OverLimit));
        assert!(denied.readings().all(|reading| reading.denied && reading.remaining == 0));
        drop(first);
        assert_eq!(report(&gate.decide(&Request::default()), true).1, None);
    }

    #[test]
    fn a_request_that_a_store_would_decide_is_denied_unless_the_rule_is_in_shadow() {
        let of = |more: &str| {
            let text = format!(
                "rule = [{{ name = \"a\", key = \"none\", limits = \"5/s\", store = \"redis://a\" {more} }}]"
            );
            let gate = RulesLimiter::new(Rules::parse("rules.toml", &text).expect("rules"))
                .expect("memory");
            report(&gate.decide(&Request::default()), true).1
        };
        assert_eq!(of(""), Some(Reason::Unavailable));
        assert_eq!(of(", shadow = true"), None);
    }

    #[test]
    fn a_request_that_a_rule_denies_is_forbidden() {
        let of = |more: &str| {
            let text = format!("rule = [{{ name = \"a\", action = \"deny\"{more} }}]");
            let gate = RulesLimiter::new(Rules::parse("rules.toml", &text).expect("rules"))
                .expect("memory");
            let (report, reason) = report(&gate.decide(&Request::default()), true);
            (report.readings().count(), reason)
        };
        assert_eq!(of(""), (0, Some(Reason::Forbidden)));
        assert_eq!(of(", shadow = true"), (0, None));
    }

    #[test]
    fn a_request_without_a_key_has_no_policy() {
        let text =
            r#"rule = [{ name = "a", key = "header:x-user", on_no_key = "deny", limits = "1/s" }]"#;
        let gate =
            RulesLimiter::new(Rules::parse("rules.toml", text).expect("rules")).expect("memory");
        let (report, reason) = report(&gate.decide(&Request::default()), true);
        assert_eq!(reason, Some(Reason::NoKey(KeyError::Missing)));
        assert_eq!(report.readings().count(), 0);
    }
}
