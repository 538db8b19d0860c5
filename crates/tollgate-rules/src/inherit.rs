//! What new rules take over from the old ones.

use std::sync::Arc;

use tollgate::{Clock, Quota};

use crate::bucket::{Ban, Bucket};
use crate::error::BuildFailed;
use crate::gate::{Active, Gate};
use crate::rule::{Limit, Rule, Rules};

/// What became of the limits, and of what keys had used of them, when rules were exchanged.
///
/// A rule is the same if its name is. Its limits keep their state as long as its key, capacity and
/// `on_full` stay what they are; what it matches, `shadow`, `on_no_key` and its place in the file
/// may change. Limits that a [store](crate::Store) keeps are not counted: their state is there.
///
/// ```
/// use tollgate_rules::Carried;
/// assert_eq!(Carried::default().to_string(), "0 limits kept, 0 with a new quota, 0 new, 0 dropped");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Carried {
    /// Limits as they were, with all their state.
    pub kept: usize,
    /// Limits of `gcra` whose quota changed, and whose keys keep what they have used: see
    /// [`Inherit::Additive`](tollgate::Inherit::Additive).
    pub inherited: usize,
    /// Limits that were not there before, or count otherwise. Their keys start afresh.
    pub new: usize,
    /// Limits that are no longer there, or count otherwise.
    pub dropped: usize,
}

impl std::fmt::Display for Carried {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kept, inherited, new, dropped } = self;
        write!(f, "{kept} limits kept, {inherited} with a new quota, {new} new, {dropped} dropped")
    }
}

/// The gate that follows on `old`. Where it cannot be built, `old` is as it was.
pub(crate) fn follow<C: Clock>(
    old: &Gate<C>,
    rules: Rules,
) -> Result<(Gate<C>, Carried), BuildFailed> {
    let mut changes = Vec::new();
    let mut active = Vec::with_capacity(rules.rules.len());
    let mut carried = Carried::default();
    for rule in rules.rules {
        let before = old.active.iter().find(|before| before.rule.name == rule.name);
        let taken = activate(rule, before, &old.clock)?;
        carried.kept += taken.kept;
        changes.extend(taken.changes.into_iter().map(|change| (active.len(), change)));
        active.push(taken.active);
    }
    // Last, and only now, the old limiters are touched.
    carried.inherited = change_quotas(&mut active, &changes, &old.clock)?;
    let count = |active: &[Active<C>]| active.iter().map(|its| its.buckets.len()).sum::<usize>();
    carried.new = count(&active) - carried.kept - carried.inherited;
    carried.dropped = count(&old.active) - carried.kept - carried.inherited;
    Ok((Gate::from_parts(rules.apply, active, Arc::clone(&old.clock)), carried))
}

/// A limit whose quota alone has changed, by its place in its rule.
#[derive(Debug)]
struct Change {
    limit: usize,
    before: Quota,
}

/// A rule with its limiters.
#[derive(Debug)]
pub(crate) struct Taken<C: Clock> {
    pub(crate) active: Active<C>,
    kept: usize,
    changes: Vec<Change>,
}

/// A rule with its limiters, taken over from `before` where they count the same.
pub(crate) fn activate<C: Clock>(
    rule: Rule,
    before: Option<&Active<C>>,
    clock: &Arc<C>,
) -> Result<Taken<C>, BuildFailed> {
    let admitted = before.map(|before| Arc::clone(&before.admitted)).unwrap_or_default();
    if rule.store.is_some() {
        let active = Active { rule, buckets: Vec::new(), ban: None, admitted };
        return Ok(Taken { active, kept: 0, changes: Vec::new() });
    }
    let before = before.filter(|before| has_same_keys(&before.rule, &rule));
    let mut free: Vec<(&Limit, &Arc<Bucket<C>>)> = before
        .map(|before| before.rule.limits.iter().zip(&before.buckets).collect())
        .unwrap_or_default();
    let mut take = |fits: &dyn Fn(&Limit, &Bucket<C>) -> bool| {
        let found = free.iter().position(|(limit, bucket)| fits(limit, bucket));
        found.map(|at| free.remove(at))
    };
    // First what is the same, so that no limit before it in the list takes its state.
    let same: Vec<Option<&Arc<Bucket<C>>>> = rule
        .limits
        .iter()
        .map(|limit| {
            let is_same =
                |old: &Limit, _: &_| old.algorithm == limit.algorithm && old.quota == limit.quota;
            take(&is_same).map(|(_, bucket)| bucket)
        })
        .collect();
    let kept = same.iter().flatten().count();
    let mut changes = Vec::new();
    let mut buckets = Vec::with_capacity(rule.limits.len());
    for (index, (limit, same)) in rule.limits.iter().zip(same).enumerate() {
        let may_become = |old: &Limit, bucket: &Bucket<C>| {
            bucket.may_change() && old.algorithm == limit.algorithm
        };
        let bucket = if let Some(same) = same {
            Arc::clone(same)
        } else if let Some((old, bucket)) =
            take(&|old, bucket| may_become(old, bucket) && old.name == limit.name)
                .or_else(|| take(&may_become))
        {
            changes.push(Change { limit: index, before: old.quota });
            Arc::clone(bucket)
        } else {
            build(&rule, index, clock)?
        };
        buckets.push(bucket);
    }
    let ban = ban(&rule, before, clock)?;
    Ok(Taken { active: Active { rule, buckets, ban, admitted }, kept, changes })
}

fn build<C: Clock>(
    rule: &Rule,
    limit: usize,
    clock: &Arc<C>,
) -> Result<Arc<Bucket<C>>, BuildFailed> {
    let limit = &rule.limits[limit];
    let built = Bucket::build(limit, rule.capacity, rule.on_full, clock);
    built.map(Arc::new).map_err(|error| BuildFailed {
        rule: rule.name.clone(),
        limit: limit.name.clone(),
        error,
    })
}

/// Puts new quotas in force, and counts them. Where one is too far from the quota that a limiter was
/// built with, it gets another limiter; if there is no memory for that, all is undone.
fn change_quotas<C: Clock>(
    active: &mut [Active<C>],
    changes: &[(usize, Change)],
    clock: &Arc<C>,
) -> Result<usize, BuildFailed> {
    let mut done: Vec<(Arc<Bucket<C>>, Quota)> = Vec::new();
    for (rule, Change { limit, before }) in changes {
        let Active { rule, buckets, .. } = &mut active[*rule];
        if buckets[*limit].change(rule.limits[*limit].quota) {
            done.push((Arc::clone(&buckets[*limit]), *before));
            continue;
        }
        match build(rule, *limit, clock) {
            Ok(bucket) => buckets[*limit] = bucket,
            Err(failed) => {
                for (bucket, before) in done.iter().rev() {
                    bucket.change(*before);
                }
                return Err(failed);
            }
        }
    }
    Ok(done.len())
}

/// Whether keys, and their places, are the same, and in this process.
fn has_same_keys(before: &Rule, rule: &Rule) -> bool {
    before.store.is_none()
        && before.key == rule.key
        && before.capacity == rule.capacity
        && before.on_full == rule.on_full
}

fn ban<C: Clock>(
    rule: &Rule,
    before: Option<&Active<C>>,
    clock: &Arc<C>,
) -> Result<Option<Arc<Ban<C>>>, BuildFailed> {
    let Some(penalty) = rule.penalty else { return Ok(None) };
    if let Some(before) = before
        && before.rule.penalty == rule.penalty
    {
        return Ok(before.ban.clone());
    }
    let failed =
        |error| BuildFailed { rule: rule.name.clone(), limit: "penalty".to_owned(), error };
    Ban::build(penalty, rule.capacity, clock).map(|ban| Some(Arc::new(ban))).map_err(failed)
}
