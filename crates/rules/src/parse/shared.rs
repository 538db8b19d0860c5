//! `shared`: the name by which processes share the limits of the file.

use std::ops::Range;

use super::fields::{Reader, Value};
use crate::rule::{Rule, SharedName};
use crate::shared::unavailable;

/// The name, unless it is malformed or this program cannot share limits.
pub(super) fn name<'s>(reader: &mut Reader<'s>, value: &Value<'s>) -> Option<SharedName> {
    let text = reader.string(value, "a name such as \"api\"")?;
    let name = SharedName::new(text);
    if name.is_none() {
        let most = SharedName::BYTES_MAX;
        let message = format!(
            "a name has 1 to {most} letters, digits, \"-\", \"_\" and \".\", and does not begin with \".\""
        );
        reader.error_in(value, message);
        return None;
    }
    if let Some(why) = unavailable() {
        reader.error_in(value, format!("{why}: leave \"shared\" out"));
        return None;
    }
    name
}

/// Reports rules whose requests in flight cannot be shared. `places` are those of the rules' names.
pub(super) fn check(reader: &mut Reader<'_>, rules: &[Rule], places: &[Range<usize>]) {
    for (rule, place) in rules.iter().zip(places) {
        if rule.store.is_some() {
            continue;
        }
        if rule.concurrency.is_some_and(|its| its.max_hold.is_none()) {
            let name = &rule.name;
            let message = format!(
                "rule \"{name}\": the requests of a process that is killed would be in flight for ever: write \
                 concurrency = {{ limit = …, max_hold = \"10 min\" }}, or leave \"shared\" out"
            );
            reader.error(place.clone(), message);
        }
    }
}
