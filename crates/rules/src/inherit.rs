//! What new rules take over from the old ones.

#[cfg(test)]
mod tests;
mod warning;

use std::sync::Arc;

use tollgate::{Clock, Quota};

use crate::bucket::{Ban, Bucket};
use crate::error::BuildFailed;
use crate::gate::{Active, Gate};
use crate::rule::{Limit, Rule, Rules};
pub use warning::ReloadWarning;

/// What became of the limits, and of what keys had used of them, when rules were exchanged.
///
/// A rule is the same if its name is. Its limits keep their state as long as its key, capacity and
/// `on_full` stay what they are; what it matches, `shadow`, `on_no_key` and its place in the file
/// may change. Limits that a [store](crate::Store) keeps are not counted: their state is there.
///
/// ```
/// use tollgate_rules::ReloadSummary;
/// assert_eq!(ReloadSummary::default().to_string(), "0 limits kept, 0 with a new quota, 0 new, 0 dropped");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReloadSummary {
    /// Limits as they were, with all their state.
    pub kept: usize,
    /// Limits of `gcra` whose quota changed, and whose keys keep what they have used: see
    /// [`Inherit::Spent`](tollgate::dynamic::Inherit::Spent).
    pub inherited: usize,
    /// Limits that were not there before, or count otherwise. Their keys start afresh.
    pub new: usize,
    /// Limits that are no longer there, or count otherwise.
    pub dropped: usize,
    /// What an operator should know of the change, in the order of the file.
    pub warnings: Vec<ReloadWarning>,
}

impl std::fmt::Display for ReloadSummary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kept, inherited, new, dropped, .. } = self;
        write!(f, "{kept} limits kept, {inherited} with a new quota, {new} new, {dropped} dropped")
    }
}

/// The gate that follows on `old`. Where it cannot be built, `old` is as it was.
pub(crate) fn follow<C: Clock>(
    old: &Gate<C>,
    rules: Rules,
) -> Result<(Gate<C>, ReloadSummary), BuildFailed> {
    let mut changes = Vec::new();
    let mut active = Vec::with_capacity(rules.rules.len());
    let mut carried = ReloadSummary::default();
    for rule in rules.rules {
        let before = old.active.iter().find(|before| before.rule.name == rule.name);
        let taken = activate(rule, before, &old.clock)?;
        carried.kept += taken.kept;
        carried.warnings.extend(taken.warnings);
        changes.extend(taken.changes.into_iter().map(|change| (active.len(), change)));
        active.push(taken.active);
    }
    // Last, and only now, the old limiters are touched.
    carried.inherited = change_quotas(&mut active, &changes, &old.clock, &mut carried.warnings)?;
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
    warnings: Vec<ReloadWarning>,
}

/// A rule with its limiters, taken over from `before` where they count the same.
pub(crate) fn activate<C: Clock>(
    rule: Rule,
    before: Option<&Active<C>>,
    clock: &Arc<C>,
) -> Result<Taken<C>, BuildFailed> {
    let admitted = before.map(|before| Arc::clone(&before.admitted)).unwrap_or_default();
    let mut warnings = Vec::new();
    let before = before.filter(|before| {
        let changed = changed_keys(&before.rule, &rule);
        warnings.extend(changed.map(|what| ReloadWarning::keys_changed(&rule, what)));
        changed.is_none()
    });
    if rule.store.is_some() {
        let active = Active { rule, buckets: Vec::new(), ban: None, admitted };
        return Ok(Taken { active, kept: 0, changes: Vec::new(), warnings });
    }
    let Pairs { found, mut left } = pair(&rule, before);
    let (mut kept, mut changes) = (0, Vec::new());
    let mut buckets = Vec::with_capacity(rule.limits.len());
    for (index, (limit, found)) in rule.limits.iter().zip(found).enumerate() {
        buckets.push(match found {
            Some((old, bucket)) => {
                match is_same(old, limit) {
                    true => kept += 1,
                    false => changes.push(Change { limit: index, before: old.quota }),
                }
                Arc::clone(bucket)
            }
            None => {
                // A limit took another's place. One more than before is no news.
                if let Some(old) = left.next() {
                    warnings.push(ReloadWarning::counted_otherwise(&rule, old, limit));
                }
                build(&rule, index, clock)?
            }
        });
    }
    let ban = ban(&rule, before, clock)?;
    if before.is_some_and(|before| before.ban.is_some() && before.rule.penalty != rule.penalty) {
        warnings.push(ReloadWarning::BansLifted { rule: rule.name.clone() });
    }
    Ok(Taken { active: Active { rule, buckets, ban, admitted }, kept, changes, warnings })
}

/// An old limit and what counts it.
type Old<'o, C> = (&'o Limit, &'o Arc<Bucket<C>>);

/// Whether a new limit may go on from an old one.
type Fits<C> = fn(&Limit, &Bucket<C>, &Limit) -> bool;

/// Which old limit each new one goes on from.
struct Pairs<'o, C: Clock> {
    /// In the order of the new limits.
    found: Vec<Option<Old<'o, C>>>,
    /// The old limits that none goes on from.
    left: std::vec::IntoIter<&'o Limit>,
}

/// Pairs each limit with one of the rule before: the same one, or else one of which only the quota
/// differs, by name before period before place.
fn pair<'o, C: Clock>(rule: &Rule, before: Option<&'o Active<C>>) -> Pairs<'o, C> {
    let mut free: Vec<Old<'o, C>> = before
        .map(|before| before.rule.limits.iter().zip(&before.buckets).collect())
        .unwrap_or_default();
    let mut found: Vec<Option<Old<'o, C>>> = vec![None; rule.limits.len()];
    let fits: [Fits<C>; 4] = [
        |old, _, limit| is_same(old, limit),
        |old, bucket, limit| may_become(old, bucket, limit) && old.name == limit.name,
        |old, bucket, limit| {
            may_become(old, bucket, limit) && old.quota.period() == limit.quota.period()
        },
        may_become,
    ];
    // One pass after the other, so that no limit takes the state of one that fits another better.
    for fits in fits {
        for (limit, found) in rule.limits.iter().zip(&mut found) {
            if found.is_none() {
                let at = free.iter().position(|(old, bucket)| fits(old, bucket, limit));
                *found = at.map(|at| free.remove(at));
            }
        }
    }
    let left: Vec<&Limit> = free.into_iter().map(|(old, _)| old).collect();
    Pairs { found, left: left.into_iter() }
}

/// Whether only the quota differs, and can be replaced.
fn may_become<C: Clock>(old: &Limit, bucket: &Bucket<C>, limit: &Limit) -> bool {
    bucket.may_change() && old.algorithm == limit.algorithm
}

fn is_same(old: &Limit, limit: &Limit) -> bool {
    old.algorithm == limit.algorithm && old.quota == limit.quota
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
    warnings: &mut Vec<ReloadWarning>,
) -> Result<usize, BuildFailed> {
    let mut done: Vec<(Arc<Bucket<C>>, Quota)> = Vec::new();
    for (rule, Change { limit, before }) in changes {
        let Active { rule, buckets, .. } = &mut active[*rule];
        if buckets[*limit].change(rule.limits[*limit].quota) {
            done.push((Arc::clone(&buckets[*limit]), *before));
            warnings.extend(ReloadWarning::long_wait(rule, *before, &rule.limits[*limit]));
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
        warnings.push(ReloadWarning::too_far(rule, *before, &rule.limits[*limit]));
    }
    Ok(done.len())
}

/// What of a rule has changed that its limiters are built for, where both are of this process or one
/// is; between stores there is no state here that could be lost.
fn changed_keys(before: &Rule, rule: &Rule) -> Option<&'static str> {
    let checks = [
        (before.store.is_some() != rule.store.is_some(), "store"),
        (before.key != rule.key, "key"),
        (before.capacity != rule.capacity, "capacity"),
        (before.on_full != rule.on_full, "on_full"),
    ];
    let changed = checks.iter().find(|(is_changed, _)| *is_changed).map(|(_, what)| *what);
    changed.filter(|_| before.store.is_none() || rule.store.is_none())
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
