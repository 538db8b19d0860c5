//! What must hold of any text: a property here, and a fuzz target in `fuzz/`.

use std::sync::Arc;

use tollgate::ManualClock;
use tollgate_rules::{Gate, Request, Rules};

/// What must hold of any text.
pub(crate) fn hold(text: &str) {
    match Rules::parse("r.toml", text) {
        Ok(rules) => {
            assert!(!rules.rules().is_empty());
            for rule in rules.rules() {
                assert!(!rule.limits().is_empty() && rule.explain().lines().count() >= 4);
            }
            // Not of any size, and seldom of the usual one: that takes longer than the rest.
            let most = if text.len().is_multiple_of(16) { 100_000 } else { 5_000 };
            if rules.rules().iter().all(|rule| rule.capacity() <= most) {
                let gate = Gate::with_clock(rules, Arc::new(ManualClock::new()));
                let _ = gate.expect("there is memory").decide(&Request::default());
            }
        }
        Err(error) => {
            let lines = text.split('\n').count();
            for its in error.errors() {
                let line = text.split('\n').nth(its.line() - 1).expect("a line of the text");
                assert!(its.line() <= lines && its.column() <= line.chars().count() + 1);
                assert!(!its.message().is_empty() && !its.message().contains(char::is_control));
            }
            assert!(error.with_source().lines().count() >= 5 * error.errors().len());
        }
    }
}
