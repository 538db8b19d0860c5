//! The limiters of one rule: those of the old rule that count the same, and new ones for the others.

use std::sync::Arc;

use tollgate::Clock;

use super::buckets::{Buckets, Change, quota_buckets};
use super::stored;
use super::warning::ReloadWarning;
use crate::active_rule::{ActiveRule, Ban, Bandwidth, InFlight};
use crate::error::RulesBuildError;
use crate::rule::{Action, Rule};
use crate::shared::{Block, Home};

/// A rule with its limiters, and the states that they took over.
#[derive(Debug)]
pub(super) struct Activated<C: Clock> {
    pub(super) active: ActiveRule<C>,
    pub(super) kept: usize,
    pub(super) changes: Vec<Change>,
    pub(super) new_plans: usize,
    pub(super) warnings: Vec<ReloadWarning>,
}

/// Gives a rule its limiters: those of `before` that count the same, and new ones for the others. With
/// `has_moved`, the state of `before` is kept somewhere else.
pub(super) fn activate<C: Clock>(
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
