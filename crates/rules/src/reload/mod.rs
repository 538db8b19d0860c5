//! The limits and states that new rules take from the old ones.

mod activate;
mod buckets;
mod pair;
mod stored;
#[cfg(test)]
mod tests;
mod warning;

use tollgate::Clock;

use crate::active_rule::ActiveRule;
use crate::error::RulesBuildError;
use crate::rule::Rule;
use crate::shared::Home;
use activate::activate;
use buckets::change_quotas;
pub use warning::ReloadWarning;

/// The effects of a reload on the limits and their state.
///
/// Rules are the same if they have the same name. The limits of a rule keep their state as long as
/// its key, capacity and `on_full` stay the same. `match`, `shadow`, `on_no_key` and the place in the
/// file may change. Limits that a [store](crate::Store) keeps are not counted, because their state is
/// on the server; a warning names each of them that starts afresh.
///
/// ```
/// use tollgate_rules::ReloadSummary;
/// assert_eq!(ReloadSummary::default().to_string(), "0 limits kept, 0 with a new quota, 0 new, 0 dropped");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReloadSummary {
    /// Unchanged limits, with all their state.
    pub kept: usize,
    /// Limits of `gcra` whose quota changed. Their keys keep the cells that they have spent: see
    /// [`Inherit::Spent`](tollgate::dynamic::Inherit::Spent).
    pub inherited: usize,
    /// Limits that are new, or that count differently. Their keys start with a full quota.
    pub new: usize,
    /// Limits that are gone, or that count differently.
    pub dropped: usize,
    /// Warnings about the change, in the order of the file.
    pub warnings: Vec<ReloadWarning>,
}

impl std::fmt::Display for ReloadSummary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kept, inherited, new, dropped, .. } = self;
        let limits = if *kept == 1 { "limit" } else { "limits" };
        write!(
            f,
            "{kept} {limits} kept, {inherited} with a new quota, {new} new, {dropped} dropped"
        )
    }
}

/// Gives rules their limiters, which continue those of `old` that count the same. With `has_moved`, the state of `old`
/// is kept somewhere else. On an error, `old` is unchanged.
pub(crate) fn activate_all<C: Clock>(
    rules: Vec<Rule>,
    old: &[ActiveRule<C>],
    home: &Home<C>,
    has_moved: bool,
) -> Result<(Vec<ActiveRule<C>>, ReloadSummary), RulesBuildError> {
    let mut changes = Vec::new();
    let mut active = Vec::with_capacity(rules.len());
    let mut summary = ReloadSummary::default();
    let mut new_plans = 0;
    for rule in rules {
        let before = old.iter().find(|before| before.rule.name == rule.name);
        let mut activated = activate(rule, before, home, has_moved)?;
        summary.kept += activated.kept;
        new_plans += activated.new_plans;
        summary.warnings.append(&mut activated.warnings);
        changes.extend(activated.changes.into_iter().map(|change| (active.len(), change)));
        active.push(activated.active);
    }
    // The old limiters change only here, after everything else has succeeded.
    summary.inherited = change_quotas(&mut active, &changes, home, &mut summary.warnings)?;
    summary.inherited += new_plans;
    for ActiveRule { rule, in_flight, .. } in &active {
        if let (Some(in_flight), Some(concurrency)) = (in_flight, rule.concurrency) {
            in_flight.set_limit(concurrency.limit);
        }
    }
    let count = |active: &[ActiveRule<C>]| {
        let limits = |its: &ActiveRule<C>| {
            its.buckets.len()
                + usize::from(its.in_flight.is_some())
                + usize::from(its.bandwidth.is_some())
        };
        active.iter().map(limits).sum::<usize>()
    };
    summary.new = count(&active) - summary.kept - summary.inherited;
    // A process that starts may change the quota of a block that others have made.
    summary.dropped = count(old).saturating_sub(summary.kept + summary.inherited);
    Ok((active, summary))
}
