//! What the rules said, in the words of `tollgate-http`, which writes the response's fields.
//!
//! Policies are made anew for each answer. That allocates, and takes some 0.2 of the 15 to 30
//! microseconds that a proxied request costs; keeping them over reloads would take a book of them.

use tollgate_http::{KeyError, Policy, Reading, Reason, Report};
use tollgate_rules::{Denied, DenyReason, Limit, Outcome, Rule, Verdict};

/// What to report, and why the request may not go ahead if it may not.
pub(crate) fn report(verdict: &Verdict<'_>) -> (Report, Option<Reason>) {
    let mut report = Report::default();
    for denied in verdict.shadowed() {
        report.note_shadow(denial(denied));
    }
    let reason = match verdict.outcome() {
        // This filter does not wait for servers: what one keeps is not let pass unasked.
        Outcome::NoRule | Outcome::Admitted(_) if asks_a_store(verdict) => {
            Some(Reason::Unavailable)
        }
        Outcome::NoRule => None,
        Outcome::Admitted(standing) => {
            let limit = standing.limit();
            let policy = policy(standing.rule(), limit);
            let mut reading = Reading::new(policy, limit.quota().limit(), standing.remaining());
            reading.reset_after = standing.reset_after();
            reading.delay = standing.delay();
            report.note(reading);
            None
        }
        Outcome::Denied(denied) => Some(match denied.why() {
            DenyReason::NoKey => {
                report.note_without_key(KeyError::Missing);
                Reason::WithoutKey(KeyError::Missing)
            }
            DenyReason::UnclearPath => {
                report.note_without_key(KeyError::Malformed);
                Reason::WithoutKey(KeyError::Malformed)
            }
            _ => {
                report.note(denial(denied));
                Reason::OverLimit
            }
        }),
    };
    (report, reason)
}

/// Whether a rule that is in force has its limits on a server.
fn asks_a_store(verdict: &Verdict<'_>) -> bool {
    verdict.elsewhere().iter().any(|asked| !asked.rule().is_shadow())
}

/// Of a ban, the rule's first limit is named.
fn denial(denied: &Denied<'_>) -> Reading {
    let limit = denied.limit().unwrap_or(&denied.rule().limits()[0]);
    let policy = policy(denied.rule(), limit);
    let mut reading = Reading::new(policy, limit.quota().limit(), denied.remaining());
    reading.reset_after = denied.reset_after();
    reading.retry_after = denied.retry_after();
    reading.denied = true;
    reading
}

/// Named by the rule; where that has several limits, by the limit too. A name that the field cannot
/// carry is told as far as it can.
fn policy(rule: &Rule, limit: &Limit) -> Policy {
    let name = match rule.limits() {
        [_] => rule.name().to_owned(),
        _ => format!("{}/{}", rule.name(), limit.name()),
    };
    let quota = limit.quota();
    Policy::new(&name, &quota).unwrap_or_else(|_| {
        let carried = name.chars().map(|c| if matches!(c, ' '..='~') { c } else { '?' });
        let carried: String = carried.take(64).collect();
        Policy::new(&carried, &quota).expect("1 to 64 printable characters")
    })
}

#[cfg(test)]
mod tests {
    use tollgate_rules::{Gate, Request, Rules};

    use super::*;

    fn told(name: &str) -> String {
        let text = format!("rule = [{{ name = \"{name}\", key = \"none\", limits = \"5/min\" }}]");
        let gate = Gate::new(Rules::parse("rules.toml", &text).expect("rules")).expect("memory");
        let (report, reason) = report(&gate.decide(&Request::default()));
        assert_eq!(reason, None);
        report.readings().map(|reading| reading.policy.to_string()).collect()
    }

    #[test]
    fn a_name_that_no_field_carries_is_told_as_far_as_it_can_be() {
        assert_eq!(told("posts"), r#""posts";q=5;w=60"#);
        assert_eq!(told("Straße"), r#""Stra?e";q=5;w=60"#);
        assert_eq!(told(&"x".repeat(70)), format!("\"{}\";q=5;w=60", "x".repeat(64)));
    }

    #[test]
    fn what_a_server_keeps_is_not_let_pass_unasked() {
        let of = |more: &str| {
            let text = format!(
                "rule = [{{ name = \"a\", key = \"none\", limits = \"5/s\", store = \"redis://a\" {more} }}]"
            );
            let gate =
                Gate::new(Rules::parse("rules.toml", &text).expect("rules")).expect("memory");
            report(&gate.decide(&Request::default())).1
        };
        assert_eq!(of(""), Some(Reason::Unavailable));
        assert_eq!(of(", shadow = true"), None);
    }

    #[test]
    fn without_a_key_there_is_no_policy_to_tell() {
        let text = r#"rule = [{ name = "a", key = "header:x-user", on_no_key = "block", limits = "1/s" }]"#;
        let gate = Gate::new(Rules::parse("rules.toml", text).expect("rules")).expect("memory");
        let (report, reason) = report(&gate.decide(&Request::default()));
        assert_eq!(reason, Some(Reason::WithoutKey(KeyError::Missing)));
        assert_eq!(report.readings().count(), 0);
    }
}
