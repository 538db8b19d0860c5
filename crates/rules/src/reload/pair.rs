//! Pairs the limits of a new rule with the old ones that they continue.

use std::sync::Arc;

use tollgate::Clock;

use crate::limit::RuleLimit;
use crate::limiter::ActiveRule;
use crate::limiter::bucket::Bucket;
use crate::rule::Rule;
use crate::shared::Block;

/// An old limit and its limiter.
pub(super) type Old<'o, C> = (&'o RuleLimit, &'o Arc<Bucket<C>>);

/// Whether a new limit can continue with the limiter of an old one.
type Fits<C> = fn(&RuleLimit, &Bucket<C>, &RuleLimit) -> bool;

/// The old limit that each new one continues.
pub(super) struct Pairs<'o, C: Clock> {
    /// In the order of the new limits.
    pub(super) found: Vec<Option<Old<'o, C>>>,
    /// The old limits that no new one continues.
    pub(super) left: std::vec::IntoIter<&'o RuleLimit>,
}

/// Pairs each limit with a limit of the old rule: with the same one, or else with one of which only
/// the quota differs. Of several, it takes the one with the same name, then the one with the same
/// period, then the first.
pub(super) fn pair<'o, C: Clock>(rule: &Rule, before: Option<&'o ActiveRule<C>>) -> Pairs<'o, C> {
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
    // One pass for each criterion, so that no limit takes the state that fits another one better.
    for fits in fits {
        for (limit, found) in rule.limits.iter().zip(&mut found) {
            if found.is_none() {
                let at = free.iter().position(|(old, bucket)| fits(old, bucket, limit));
                *found = at.map(|at| free.remove(at));
            }
        }
    }
    let left: Vec<&RuleLimit> = free.into_iter().map(|(old, _)| old).collect();
    Pairs { found, left: left.into_iter() }
}

/// Pairs each limit with the old one that has the same block. The old limits that are left have blocks that no limit
/// of the new rule has.
pub(super) fn pair_by_file<'o, C: Clock>(
    rule: &Rule,
    before: Option<&'o ActiveRule<C>>,
) -> Pairs<'o, C> {
    let files = |rule: &Rule| -> Vec<String> {
        (0..rule.limits.len()).map(|index| Block::Limit(index).file_name(rule)).collect()
    };
    let new_files = files(rule);
    let old: Vec<(String, Old<'o, C>)> = match before {
        Some(before) => {
            let limits = before.rule.limits.iter().zip(&before.buckets);
            files(&before.rule).into_iter().zip(limits).collect()
        }
        None => Vec::new(),
    };
    let found = new_files.iter().map(|file| {
        let (_, old) = old.iter().find(|(its, _)| its == file)?;
        Some(*old)
    });
    let found = found.collect();
    let left = old.into_iter().filter(|(file, _)| !new_files.contains(file));
    let left: Vec<&RuleLimit> = left.map(|(_, (limit, _))| limit).collect();
    Pairs { found, left: left.into_iter() }
}

/// Whether only the quota differs and the limiter can replace it.
fn may_become<C: Clock>(old: &RuleLimit, bucket: &Bucket<C>, limit: &RuleLimit) -> bool {
    bucket.may_change() && old.algorithm == limit.algorithm
}

pub(super) fn is_same(old: &RuleLimit, limit: &RuleLimit) -> bool {
    old.algorithm == limit.algorithm && old.quota == limit.quota
}
