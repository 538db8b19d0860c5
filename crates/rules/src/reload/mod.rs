//! The limits and states that new rules take from the old ones.

mod pair;
mod stored;
#[cfg(test)]
mod tests;
mod warning;

use std::sync::Arc;

use tollgate::{Clock, Quota};

use crate::active_rule::{ActiveRule, Ban, Bandwidth, Bucket, InFlight, fastest};
use crate::error::RulesBuildError;
use crate::rule::{Action, Rule, RuleLimit};
use crate::shared::{Block, Home};
use pair::{Pairs, is_renumbered, is_same, pair, pair_by_file};
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

/// A limit of which only the quota has changed, by its index in its rule.
#[derive(Debug)]
struct Change {
    limit: usize,
    before: Quota,
    /// Whether the limiter holds other state than the old one, of which there is a warning.
    is_afresh: bool,
}

/// A rule with its limiters, and the states that they took over.
#[derive(Debug)]
struct Activated<C: Clock> {
    active: ActiveRule<C>,
    kept: usize,
    changes: Vec<Change>,
    new_plans: usize,
    warnings: Vec<ReloadWarning>,
}

/// Gives a rule its limiters: those of `before` that count the same, and new ones for the others. With
/// `has_moved`, the state of `before` is kept somewhere else.
fn activate<C: Clock>(
    rule: Rule,
    before: Option<&ActiveRule<C>>,
    home: &Home<C>,
    has_moved: bool,
) -> Result<Activated<C>, RulesBuildError> {
    let admitted = before.map(|before| Arc::clone(&before.admitted)).unwrap_or_default();
    let mut warnings = Vec::new();
    // A rule that stops or begins to limit loses no state: it has none on one side of the change.
    let before = before.filter(|before| before.rule.action == rule.action);
    let before = before.filter(|before| {
        let has_moved = has_moved && has_state(&before.rule) && has_state(&rule);
        let changed = if has_moved { Some("shared") } else { changed_keys(&before.rule, &rule) };
        warnings.extend(changed.map(|what| ReloadWarning::keys_changed(&rule, what)));
        changed.is_none()
    });
    warnings.extend(before.iter().flat_map(|before| stored::warnings(&before.rule, &rule)));
    if !has_state(&rule) {
        let buckets = Vec::new();
        let active =
            ActiveRule { rule, buckets, in_flight: None, bandwidth: None, ban: None, admitted };
        return Ok(Activated { active, kept: 0, changes: Vec::new(), new_plans: 0, warnings });
    }
    let Buckets { buckets, mut kept, changes, new_plans } =
        quota_buckets(&rule, before, home, &mut warnings)?;
    let in_flight = in_flight(&rule, before, home)?;
    kept += usize::from(in_flight.is_kept);
    warnings.extend(in_flight.warning);
    let in_flight = in_flight.counted;
    let ban = ban(&rule, before, home)?;
    if before.is_some_and(|before| before.ban.is_some() && before.rule.penalty != rule.penalty) {
        warnings.push(ReloadWarning::BansLifted { rule: rule.name.clone() });
    }
    let (bandwidth, is_kept) = bandwidth(&rule, before, home, &mut warnings)?;
    kept += usize::from(is_kept);
    let active = ActiveRule { rule, buckets, in_flight, bandwidth, ban, admitted };
    Ok(Activated { active, kept, changes, new_plans, warnings })
}

/// The limiters of a rule, and what they took over.
struct Buckets<C: Clock> {
    buckets: Vec<Arc<Bucket<C>>>,
    kept: usize,
    changes: Vec<Change>,
    /// Limiters whose plans changed and whose keys keep their state.
    new_plans: usize,
}

/// The limiters of the rule's plans, or of its limits. From the one to the other, no limit keeps its state.
fn quota_buckets<C: Clock>(
    rule: &Rule,
    before: Option<&ActiveRule<C>>,
    home: &Home<C>,
    warnings: &mut Vec<ReloadWarning>,
) -> Result<Buckets<C>, RulesBuildError> {
    let same_kind = before.filter(|its| its.rule.plan.is_some() == rule.plan.is_some());
    if same_kind.is_none() && before.is_some_and(|its| !its.buckets.is_empty()) {
        warnings.extend(ReloadWarning::plan_in_place_of_limits(rule));
    }
    match rule.plan {
        Some(_) => plan_buckets(rule, same_kind, home, warnings),
        None => buckets(rule, same_kind, home, warnings),
    }
}

/// The limiter of all plans. Keys keep their state if it can keep the new plans.
fn plan_buckets<C: Clock>(
    rule: &Rule,
    before: Option<&ActiveRule<C>>,
    home: &Home<C>,
    warnings: &mut Vec<ReloadWarning>,
) -> Result<Buckets<C>, RulesBuildError> {
    let of = |bucket, kept, new_plans| {
        Ok(Buckets { buckets: vec![bucket], kept, changes: Vec::new(), new_plans })
    };
    if let Some(before) = before
        && let [bucket] = &*before.buckets
    {
        if before.rule.limits == rule.limits {
            return of(Arc::clone(bucket), 1, 0);
        }
        let algorithm = |rule: &Rule| rule.limits.first().map(|limit| limit.algorithm);
        let is_in_place = home.name().is_none() || plan_file(&before.rule) == plan_file(rule);
        let changed = match algorithm(&before.rule) == algorithm(rule) && is_in_place {
            true => bucket.with_plans(&rule.limits),
            false => None,
        };
        if let Some(changed) = changed {
            return of(Arc::new(changed), 0, 1);
        }
        warnings.push(ReloadWarning::plans_too_far(rule));
    }
    let place = home.place(rule, plans_of(rule));
    let built = Bucket::build_plans(&rule.limits, rule.capacity, rule.on_full, &place);
    let bucket = built
        .map_err(|(at, error)| RulesBuildError::new(&rule.name, &rule.limits[at].name, error))?;
    of(Arc::new(bucket), 0, 0)
}

/// The block of a rule's plans.
fn plans_of(rule: &Rule) -> Block<'_> {
    Block::Plans(&rule.limits[fastest(&rule.limits)])
}

fn plan_file(rule: &Rule) -> String {
    plans_of(rule).file_name(rule)
}

/// A limiter for each limit: those of `before` that count the same, and new ones for the others.
fn buckets<C: Clock>(
    rule: &Rule,
    before: Option<&ActiveRule<C>>,
    home: &Home<C>,
    warnings: &mut Vec<ReloadWarning>,
) -> Result<Buckets<C>, RulesBuildError> {
    let is_shared = home.name().is_some();
    let Pairs { found, replaced } =
        if is_shared { pair_by_file(rule, before) } else { pair(rule, before) };
    let (mut kept, mut changes) = (0, Vec::new());
    let mut buckets = Vec::with_capacity(rule.limits.len());
    for (index, (limit, found)) in rule.limits.iter().zip(found).enumerate() {
        let block = Block::Limit(index);
        let is_renumbered =
            || is_shared && before.is_some_and(|its| is_renumbered(&its.rule, limit));
        let warned_before = warnings.len();
        let bucket = match found {
            Some((old, bucket)) if !is_shared || is_same(old, limit) => Arc::clone(bucket),
            Some((_, bucket)) => {
                // The old limiter has another block, if its quota was once too far from that of this one.
                if bucket.is_elsewhere(&home.place(rule, block)) {
                    warnings.push(ReloadWarning::other_block(rule, limit));
                } else if is_renumbered() {
                    warnings.push(ReloadWarning::renumbered(rule, limit, "block"));
                }
                build(rule, block, limit, home)?
            }
            None => {
                // Warn only if the limit is or replaces an old one. An additional limit loses nothing.
                warnings.extend(match replaced[index] {
                    _ if is_renumbered() => Some(ReloadWarning::renumbered(rule, limit, "block")),
                    Some(_) if is_shared => Some(ReloadWarning::other_block(rule, limit)),
                    Some(old) => Some(ReloadWarning::counted_otherwise(rule, old, limit)),
                    None => None,
                });
                build(rule, block, limit, home)?
            }
        };
        let is_afresh = warnings.len() > warned_before;
        let before = found.filter(|_| !is_afresh).map(|(old, _)| old.quota);
        // Another process may have changed the quota of a block since.
        let in_force = if is_shared { bucket.quota() } else { before };
        match in_force {
            Some(in_force) if !is_same_quota(in_force, limit.quota) => {
                changes.push(Change { limit: index, before: in_force, is_afresh });
            }
            _ => kept += usize::from(before.is_some()),
        }
        buckets.push(bucket);
    }
    Ok(Buckets { buckets, kept, changes, new_plans: 0 })
}

fn is_same_quota(one: Quota, other: Quota) -> bool {
    let numbers = |quota: Quota| (quota.limit(), quota.period(), quota.burst_cells());
    numbers(one) == numbers(other)
}

fn build<C: Clock>(
    rule: &Rule,
    block: Block<'_>,
    limit: &RuleLimit,
    home: &Home<C>,
) -> Result<Arc<Bucket<C>>, RulesBuildError> {
    let built = Bucket::build(limit, rule.capacity, rule.on_full, &home.place(rule, block));
    let failed = |error| RulesBuildError::new(&rule.name, &limit.name, error);
    built.map(Arc::new).map_err(failed)
}

/// Replaces quotas, and returns how many of these limits keep what their keys have spent. If a new quota is too far from
/// the one that its limiter was built with, the limit gets a new limiter. If the system has no memory for it, all changes
/// are undone.
fn change_quotas<C: Clock>(
    active: &mut [ActiveRule<C>],
    changes: &[(usize, Change)],
    home: &Home<C>,
    warnings: &mut Vec<ReloadWarning>,
) -> Result<usize, RulesBuildError> {
    let mut done: Vec<(Arc<Bucket<C>>, Quota)> = Vec::new();
    let mut inherited = 0;
    let undo = |done: &[(Arc<Bucket<C>>, Quota)], failed| {
        for (bucket, before) in done.iter().rev() {
            // If this fails, another process has changed the quota, and its change stays.
            let _ = bucket.set_quota(*before);
        }
        Err(failed)
    };
    for (rule, Change { limit, before, is_afresh }) in changes {
        let ActiveRule { rule, buckets, .. } = &mut active[*rule];
        let changed = &rule.limits[*limit];
        match buckets[*limit].set_quota(changed.quota) {
            Ok(true) => {
                done.push((Arc::clone(&buckets[*limit]), *before));
                if !is_afresh {
                    inherited += 1;
                    warnings.extend(ReloadWarning::long_wait(rule, *before, changed));
                }
                continue;
            }
            Ok(false) => {}
            Err(error) => {
                return undo(&done, RulesBuildError::new(&rule.name, &changed.name, error));
            }
        }
        match build(rule, Block::LimitOfQuota(*limit), changed, home) {
            Ok(bucket) => buckets[*limit] = bucket,
            Err(failed) => return undo(&done, failed),
        }
        if !is_afresh {
            warnings.push(ReloadWarning::too_far(rule, *before, changed));
        }
    }
    Ok(inherited)
}

/// Whether this process, or a block, keeps the state of a rule.
fn has_state(rule: &Rule) -> bool {
    rule.action == Action::Limit && rule.store.is_none()
}

/// The key of the file whose change loses the state of all limits of a rule. It is `None` if a store
/// keeps the limits before and after, because this process then has no state to lose.
fn changed_keys(before: &Rule, rule: &Rule) -> Option<&'static str> {
    let changed = (before.store.is_some() != rule.store.is_some()).then_some("store");
    let changed = changed.or_else(|| rule.key.changed(&before.key));
    let changed = changed.or((before.capacity != rule.capacity).then_some("capacity"));
    let changed = changed.or((before.on_full != rule.on_full).then_some("on_full"));
    changed.filter(|_| before.store.is_none() || rule.store.is_none())
}

/// The requests in flight of a rule.
struct CountedInFlight<C: Clock> {
    counted: Option<InFlight<C>>,
    /// Whether requests that were in flight before stay counted.
    is_kept: bool,
    warning: Option<ReloadWarning>,
}

/// Requests in flight stay counted if `max_hold` stays. Their limit may change.
fn in_flight<C: Clock>(
    rule: &Rule,
    before: Option<&ActiveRule<C>>,
    home: &Home<C>,
) -> Result<CountedInFlight<C>, RulesBuildError> {
    let Some(concurrency) = rule.concurrency else {
        return Ok(CountedInFlight { counted: None, is_kept: false, warning: None });
    };
    let old = before.and_then(|before| before.in_flight.clone().zip(before.rule.concurrency));
    if let Some((counted, its)) = &old
        && its.max_hold == concurrency.max_hold
    {
        let counted = Some(counted.clone());
        return Ok(CountedInFlight { counted, is_kept: true, warning: None });
    }
    let place = home.place(rule, Block::Concurrency);
    let built = InFlight::build(concurrency, rule.capacity, rule.on_full, &place);
    let failed = |error| RulesBuildError::new(&rule.name, "concurrency", error);
    let counted = built.map_err(failed)?;
    let warning = old.map(|_| ReloadWarning::max_hold_changed(rule));
    Ok(CountedInFlight { counted: Some(counted), is_kept: false, warning })
}

/// The bandwidth of a rule, and whether it is the old one. A new rate applies to responses that begin later.
fn bandwidth<C: Clock>(
    rule: &Rule,
    before: Option<&ActiveRule<C>>,
    home: &Home<C>,
    warnings: &mut Vec<ReloadWarning>,
) -> Result<(Option<Bandwidth<C>>, bool), RulesBuildError> {
    let Some(rate) = rule.bytes else { return Ok((None, false)) };
    if let Some(before) = before
        && before.rule.bytes == Some(rate)
    {
        return Ok((before.bandwidth.clone(), true));
    }
    if before.is_some_and(|before| before.rule.bytes.is_some()) {
        warnings.push(ReloadWarning::bytes_changed(rule));
    }
    let place = home.place(rule, Block::Bytes(rate));
    let built = Bandwidth::build(rate, rule.capacity, rule.on_full, &place);
    let built = built.map_err(|error| RulesBuildError::new(&rule.name, "bytes", error))?;
    Ok((Some(built), false))
}

fn ban<C: Clock>(
    rule: &Rule,
    before: Option<&ActiveRule<C>>,
    home: &Home<C>,
) -> Result<Option<Arc<Ban<C>>>, RulesBuildError> {
    let Some(penalty) = rule.penalty else { return Ok(None) };
    if let Some(before) = before
        && before.rule.penalty == rule.penalty
    {
        return Ok(before.ban.clone());
    }
    let places =
        [Block::Ban(penalty), Block::Strikes(penalty)].map(|block| home.place(rule, block));
    let built = Ban::build(penalty, rule.capacity, places.each_ref());
    let failed = |error| RulesBuildError::new(&rule.name, "penalty", error);
    built.map(|ban| Some(Arc::new(ban))).map_err(failed)
}
