//! The limiters of a rule's limits or plans, and how quotas are replaced in them.

use std::sync::Arc;

use tollgate::{Clock, Quota};

use super::pair::{Pairs, is_renumbered, is_same, pair, pair_by_file};
use super::warning::ReloadWarning;
use crate::active_rule::{ActiveRule, Bucket, fastest};
use crate::error::RulesBuildError;
use crate::rule::{Rule, RuleLimit};
use crate::shared::{Block, Home};

/// A limit of which only the quota has changed, by its index in its rule.
#[derive(Debug)]
pub(super) struct Change {
    limit: usize,
    before: Quota,
    /// Whether the limiter holds other state than the old one, of which there is a warning.
    is_afresh: bool,
}

/// The limiters of a rule, and what they took over.
pub(super) struct Buckets<C: Clock> {
    pub(super) buckets: Vec<Arc<Bucket<C>>>,
    pub(super) kept: usize,
    pub(super) changes: Vec<Change>,
    /// Limiters whose plans changed and whose keys keep their state.
    pub(super) new_plans: usize,
}

/// The limiters of the rule's plans, or of its limits. From the one to the other, no limit keeps its state.
pub(super) fn quota_buckets<C: Clock>(
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
///
/// A block that another process is changing may hold up its change for a second. So every block is waited for before the
/// first quota changes, since a change that is undone a second later has been in force for all processes.
pub(super) fn change_quotas<C: Clock>(
    active: &mut [ActiveRule<C>],
    changes: &[(usize, Change)],
    home: &Home<C>,
    warnings: &mut Vec<ReloadWarning>,
) -> Result<usize, RulesBuildError> {
    for (rule, Change { limit, .. }) in changes {
        let ActiveRule { rule, buckets, .. } = &active[*rule];
        let failed = |error| RulesBuildError::new(&rule.name, &rule.limits[*limit].name, error);
        buckets[*limit].wait_for_change().map_err(failed)?;
    }
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
