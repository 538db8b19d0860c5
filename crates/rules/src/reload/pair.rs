//! Pairs the limits of a new rule with the old ones that they continue.

use std::sync::Arc;

use tollgate::Clock;

use crate::active_rule::{ActiveRule, Bucket};
use crate::rule::{Rule, RuleLimit};
use crate::shared::Block;

/// An old limit and its limiter.
pub(super) type Old<'o, C> = (&'o RuleLimit, &'o Arc<Bucket<C>>);

/// Whether a new limit can continue with the limiter of an old one.
type Fits<C> = fn(&RuleLimit, &Bucket<C>, &RuleLimit) -> bool;

/// The old limit that each new one continues.
pub(super) struct Pairs<'o, C: Clock> {
    /// In the order of the new limits.
    pub(super) found: Vec<Option<Old<'o, C>>>,
    /// For each new limit that continues none, the old limit that it replaces.
    pub(super) replaced: Vec<Option<&'o RuleLimit>>,
}

impl<'o, C: Clock> Pairs<'o, C> {
    /// `left` are the old limits that no new one continues. Of these, a limit replaces the one with its name, or else
    /// one with its algorithm, or else the first. One that `is_moved` replaces none: it is an old limit itself.
    fn new(
        rule: &Rule,
        found: Vec<Option<Old<'o, C>>>,
        mut left: Vec<&'o RuleLimit>,
        is_moved: impl Fn(&RuleLimit) -> bool,
    ) -> Self {
        let mut replaced = vec![None; found.len()];
        let fits: [fn(&RuleLimit, &RuleLimit) -> bool; 3] = [
            |old, limit| old.name == limit.name,
            |old, limit| old.algorithm == limit.algorithm,
            |_, _| true,
        ];
        for fits in fits {
            for (index, limit) in rule.limits.iter().enumerate() {
                if found[index].is_none() && replaced[index].is_none() && !is_moved(limit) {
                    let at = left.iter().position(|old| fits(old, limit));
                    replaced[index] = at.map(|at| left.remove(at));
                }
            }
        }
        Self { found, replaced }
    }
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
    let left = free.into_iter().map(|(old, _)| old).collect();
    Pairs::new(rule, found, left, |_| false)
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
    let is_left = |file: &String, old: &RuleLimit| !new_files.contains(file) && !is_kept(old, rule);
    let left = old.into_iter().filter(|(file, (limit, _))| is_left(file, limit));
    let left = left.map(|(_, (limit, _))| limit).collect();
    let is_moved = |limit: &RuleLimit| before.is_some_and(|its| is_renumbered(&its.rule, limit));
    Pairs::new(rule, found, left, is_moved)
}

/// Whether only the quota differs and the limiter can replace it.
fn may_become<C: Clock>(old: &RuleLimit, bucket: &Bucket<C>, limit: &RuleLimit) -> bool {
    bucket.may_change() && old.algorithm == limit.algorithm
}

pub(super) fn is_same(old: &RuleLimit, limit: &RuleLimit) -> bool {
    old.algorithm == limit.algorithm && old.quota == limit.quota
}

/// Whether a limit without a name is an old limit that had a name or another place. Blocks and stores know such a limit
/// by its place among the limits of its period. So if the old limit of its place is another one, it gets the state of
/// that one, and if there was none, it starts afresh.
pub(super) fn is_renumbered(before: &Rule, limit: &RuleLimit) -> bool {
    before.limits.iter().any(|old| is_unnamed_as(old, limit))
}

/// Whether a limit of the new rule without a name is this old one, in another place or not.
pub(super) fn is_kept(old: &RuleLimit, rule: &Rule) -> bool {
    rule.limits.iter().any(|limit| is_unnamed_as(old, limit))
}

fn is_unnamed_as(old: &RuleLimit, limit: &RuleLimit) -> bool {
    limit.given_name().is_none() && is_same(old, limit)
}
