//! Charges all limits of the rules that apply to a request, or none.
//!
//! One limit is charged directly. Of several, a decision first peeks at all, so that a denial costs
//! nothing and names the limit that denies for the longest time. It then charges them one after the
//! other. If one denies after all, because another thread took its last cell, the limits charged
//! before it refund the request. The limits that cannot refund are charged last. Requests in flight are entered
//! first, because leaving undoes all of it.

use std::sync::Arc;
use std::time::Duration;

use tollgate::decision::DecisionParts;
use tollgate::{Clock, Denied, OnFull, Tick};

use super::RulesLimiter;
use crate::active_rule::{ActiveRule, Ban, Bucket, Charged, Cost, Held};
use crate::decision::{DenyReason, RuleDenial, RuleInFlight, RulePermit};
use crate::inline_vec::InlineVec;
use crate::rule::{Rule, RuleLimit};

/// A rule that applies, by its index, and the range of bytes of its key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hit {
    pub(super) rule: usize,
    pub(super) key: (usize, usize),
    /// The index of the limit of the request's plan; 0 if the rule has no plans.
    pub(super) plan: usize,
    /// The cost of the request by the rule.
    pub(super) cells: u64,
    /// How many times the rule's cost that is.
    pub(super) times: u64,
    /// Whether the response settles the cost.
    pub(super) settles: bool,
}

/// A decision that charges so many limits allocates nothing for them.
const CHARGES_ON_STACK: usize = 8;

/// A limit of a rule that applies: the index of the hit, and that of the limit in its rule.
type LimitIndex = (usize, usize);

/// The data that the charges of a request have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingCharge<'k> {
    pub(super) keys: &'k [u8],
    /// How many requests of the key may wait, this one included; `None`: any number.
    pub(super) max_waiting: Option<u64>,
    pub(super) now: Tick,
}

impl PendingCharge<'_> {
    pub(super) fn key(&self, hit: Hit) -> &[u8] {
        &self.keys[hit.key.0..hit.key.1]
    }

    /// The cost of a request by a limit of a rule. Each request that waits has charged at least the cells of the rule's
    /// cheapest request, so no more than `max_waiting` wait for as many of those.
    fn cost(&self, hit: Hit, rule: &Rule, limit: &RuleLimit) -> Cost {
        let max_waiting = self.max_waiting.map(|requests| requests.saturating_mul(rule.cost_min()));
        Cost::queued(hit.cells, max_waiting, &limit.quota()).by_plan(hit.plan)
    }

    /// Whether the denial of a key by a limit is a strike. It is none if the turn would come too late, or if the key
    /// finds no slot, since others have taken them all.
    fn is_strike<C: Clock>(
        &self,
        denial: &RuleDenial<'_>,
        hit: Hit,
        rule: &Rule,
        bucket: &Bucket<C>,
    ) -> bool {
        // `comes_too_late` is also true for nearly every denial for lack of a slot, because such a denial shows the
        // cells of a fresh key. It is not true for a shared quota, plans and `sub-windows`, which show fewer cells:
        // hence `finds_slot`.
        let may_lack_slot = matches!(rule.on_full, OnFull::Deny | OnFull::SharedOverflow(_));
        !denial.comes_too_late()
            && (!may_lack_slot || bucket.finds_slot(self.key(hit), hit.plan, self.now))
    }
}

impl<C: Clock> RulesLimiter<C> {
    /// Counts one admission for each of these rules.
    pub(super) fn count_admissions(&self, hits: &[Hit]) {
        hits.iter().for_each(|hit| self.active[hit.rule].admitted.count(true));
    }

    /// Charges all limits of these rules, or none. Returns the permit of the limit with the fewest
    /// cells left, if there is a limit. The entries of rules with `concurrency` go into `entered`.
    pub(super) fn charge_all<'g>(
        &'g self,
        hits: &[Hit],
        charge: PendingCharge<'_>,
        entered: &mut Entered<'g, C>,
    ) -> Result<Option<RulePermit<'g>>, RuleDenial<'g>> {
        self.find_ban(hits, charge)?;
        if let [hit] = *hits
            && !hit.settles
            && let ActiveRule { rule, buckets, in_flight: None, ban, .. } = &self.active[hit.rule]
            && let [bucket] = &**buckets
        {
            let limit = &rule.limits[hit.plan];
            let key = charge.key(hit);
            return match bucket.check(key, charge.cost(hit, rule, limit), charge.now) {
                Ok(permit) => Ok(Some(RulePermit { rule, limit, permit, delay: permit.delay() })),
                Err(denied) => {
                    let denial = RuleDenial::of_limit(rule, limit, denied, hit.cells);
                    let ban = ban.as_ref().filter(|_| charge.is_strike(&denial, hit, rule, bucket));
                    Err(struck(denial, ban, key, charge.now))
                }
            };
        }
        let tightest = self.peek_all(hits, charge)?;
        let before = entered.count();
        let charged = self.enter_all(hits, charge, entered).and_then(|()| {
            let limits = self.charge_order(hits);
            self.charge_in_order(hits, limits.as_slice(), CHARGES_ON_STACK, charge, entered)
        });
        let delay = charged.inspect_err(|_| entered.truncate(before))?;
        Ok(tightest.map(|tightest| RulePermit { delay, ..tightest }))
    }

    /// The denial by the longest ban, if any of the keys is banned. It lasts until the limits would admit the
    /// request if that is later.
    fn find_ban(&self, hits: &[Hit], charge: PendingCharge<'_>) -> Result<(), RuleDenial<'_>> {
        let mut longest: Option<RuleDenial<'_>> = None;
        for hit in hits {
            let ActiveRule { rule, ban: Some(ban), .. } = &self.active[hit.rule] else { continue };
            if let Some(banned) = ban.get(charge.key(*hit), charge.now) {
                let denied = self.until_whole_quota(banned, *hit, charge);
                let denial = RuleDenial::new(rule, DenyReason::Banned(denied));
                let denial = denial.by_plan(hit.plan);
                longest = longest_of(longest, denial);
            }
        }
        longest.map_or(Ok(()), |denial| Err(denial.no_sooner(self.limits_wait(hits, charge))))
    }

    /// A denial by a ban, with the reset of the limit that the ban reports if that is later.
    #[cold]
    fn until_whole_quota(&self, banned: Denied, hit: Hit, charge: PendingCharge<'_>) -> Denied {
        let active = &self.active[hit.rule];
        // A rule with `concurrency` may have none.
        let Some(limit) = active.rule.limits.get(hit.plan) else { return banned };
        let nothing = Cost::queued(0, None, &limit.quota()).by_plan(hit.plan);
        let of_limit = match active.bucket(hit.plan).peek(charge.key(hit), nothing, charge.now) {
            Ok(permit) => permit.reset_after(),
            Err(denied) => denied.reset_after(),
        };
        let (limit, remaining) = (banned.limit(), banned.remaining());
        let reset_after = banned.reset_after().max(of_limit);
        DecisionParts { limit, remaining, reset_after }.denied(banned.retry_after())
    }

    /// How long until all limits would admit the request; `None`: never.
    #[cold]
    fn limits_wait(&self, hits: &[Hit], charge: PendingCharge<'_>) -> Option<Duration> {
        let mut longest = Duration::ZERO;
        for hit in hits {
            let (active, key) = (&self.active[hit.rule], charge.key(*hit));
            for at in active.charged_limits(*hit) {
                let cost = charge.cost(*hit, &active.rule, &active.rule.limits[at]);
                if let Err(denied) = active.bucket(at).peek(key, cost, charge.now) {
                    longest = longest.max(denied.retry_after()?);
                }
            }
        }
        Some(longest)
    }

    /// Counts the request as in flight by each of the rules that have `concurrency`.
    fn enter_all<'g>(
        &'g self,
        hits: &[Hit],
        charge: PendingCharge<'_>,
        entered: &mut Entered<'g, C>,
    ) -> Result<(), RuleDenial<'g>> {
        for hit in hits {
            let ActiveRule { rule, in_flight: Some(in_flight), ban, .. } = &self.active[hit.rule]
            else {
                continue;
            };
            let key = charge.key(*hit);
            match in_flight.enter(key, charge.now) {
                Ok(guard) => {
                    if let Some(concurrency) = rule.concurrency {
                        let in_flight = guard.in_flight();
                        entered.rules.push(RuleInFlight { rule, concurrency, in_flight });
                    }
                    entered.held.push(guard);
                }
                Err(denied) => {
                    let denial = RuleDenial::new(rule, DenyReason::InFlight(denied));
                    let ban = ban.as_ref().filter(|_| !denied.found_no_slot());
                    return Err(struck(denial, ban, key, charge.now));
                }
            }
        }
        Ok(())
    }

    /// The decision that all limits would make together. A denial counts as a strike by its rule, unless the key only
    /// found no slot.
    fn peek_all<'g>(
        &'g self,
        hits: &[Hit],
        charge: PendingCharge<'_>,
    ) -> Result<Option<RulePermit<'g>>, RuleDenial<'g>> {
        let mut tightest: Option<RulePermit<'_>> = None;
        let mut longest: Option<RuleDenial<'_>> = None;
        for hit in hits {
            let active = &self.active[hit.rule];
            let ActiveRule { rule, in_flight, ban, .. } = active;
            let key = charge.key(*hit);
            let (mut of_rule, mut is_strike) = (None, false);
            if let Some(Err(denied)) = in_flight.as_ref().map(|its| its.precheck(key, charge.now)) {
                of_rule = Some(RuleDenial::new(rule, DenyReason::InFlight(denied)));
                is_strike = !denied.found_no_slot();
            }
            for at in active.charged_limits(*hit) {
                let (limit, bucket) = (&rule.limits[at], active.bucket(at));
                match bucket.peek(key, charge.cost(*hit, rule, limit), charge.now) {
                    Ok(permit) => {
                        let permit = RulePermit { rule, limit, permit, delay: permit.delay() };
                        tightest = Some(tightest.map_or(permit, |other| other.tighter(permit)));
                    }
                    Err(denied) => {
                        let denial = RuleDenial::of_limit(rule, limit, denied, hit.cells);
                        is_strike = is_strike
                            || ban.is_some() && charge.is_strike(&denial, *hit, rule, bucket);
                        of_rule = longest_of(of_rule, denial);
                    }
                }
            }
            if let Some(denial) = of_rule {
                let ban = ban.as_ref().filter(|_| is_strike);
                longest = longest_of(longest, struck(denial, ban, key, charge.now));
            }
        }
        longest.map_or(Ok(tightest), Err)
    }

    /// The limits in the order in which they are charged: those that cannot refund, last.
    fn charge_order(&self, hits: &[Hit]) -> InlineVec<LimitIndex, CHARGES_ON_STACK> {
        let mut limits = InlineVec::new((0, 0));
        for can_refund in [true, false] {
            for (index, hit) in hits.iter().enumerate() {
                let active = &self.active[hit.rule];
                for limit in active.charged_limits(*hit) {
                    if active.bucket(limit).can_refund() == can_refund {
                        limits.push((index, limit));
                    }
                }
            }
        }
        limits
    }

    /// Charges the limits one after the other, and returns the longest of their delays. If one denies, the charges
    /// before it are dropped, which refunds them.
    ///
    /// Up to `on_stack` charges are kept in stack frames, one for each. A client may choose how many rules apply, so
    /// the others are kept in a list.
    fn charge_in_order<'g>(
        &'g self,
        hits: &[Hit],
        limits: &[LimitIndex],
        on_stack: usize,
        charge: PendingCharge<'_>,
        entered: &mut Entered<'g, C>,
    ) -> Result<Duration, RuleDenial<'g>> {
        let Some((next, rest)) = limits.split_first() else { return Ok(Duration::ZERO) };
        if on_stack == 0 {
            let charged = limits.iter().map(|limit| self.charge_one(hits, *limit, charge));
            let charged: Vec<Charged<'_, C>> = charged.collect::<Result<_, _>>()?;
            let delays = charged.into_iter().map(|its| its.keep(charge.now, &mut entered.held));
            return Ok(delays.max().unwrap_or_default());
        }
        let charged = self.charge_one(hits, *next, charge)?;
        let delay = self.charge_in_order(hits, rest, on_stack - 1, charge, entered)?;
        Ok(charged.keep(charge.now, &mut entered.held).max(delay))
    }

    fn charge_one(
        &self,
        hits: &[Hit],
        (index, limit): LimitIndex,
        charge: PendingCharge<'_>,
    ) -> Result<Charged<'_, C>, RuleDenial<'_>> {
        let hit = hits[index];
        let active = &self.active[hit.rule];
        let ActiveRule { rule, ban, .. } = active;
        let (bucket, limit) = (active.bucket(limit), &rule.limits[limit]);
        let (key, cost) = (charge.key(hit), charge.cost(hit, rule, limit));
        let settle = rule.cost.as_ref().and_then(|cost| cost.settle.as_ref());
        let settle = settle.filter(|_| hit.settles);
        let reserved = settle.and_then(|by| Some((bucket.reserve(key, cost, charge.now)?, by)));
        let charged = match reserved {
            Some((reserved, by)) => reserved.map(|its| Charged::Unsettled(its, by, hit.times)),
            None => bucket.charge(key, cost, charge.now),
        };
        charged.map_err(|denied| {
            let denial = RuleDenial::of_limit(rule, limit, denied, hit.cells);
            let ban = ban.as_ref().filter(|_| charge.is_strike(&denial, hit, rule, bucket));
            struck(denial, ban, key, charge.now)
        })
    }
}

/// The denial that lasts longer.
fn longest_of<'g>(denial: Option<RuleDenial<'g>>, other: RuleDenial<'g>) -> Option<RuleDenial<'g>> {
    Some(denial.map_or(other, |denial| denial.longer(other)))
}

/// Counts a denial of a key as a strike, if the rule has bans. If the strike begins a ban, the denial lasts as long
/// as the ban.
fn struck<'g, C: Clock>(
    denial: RuleDenial<'g>,
    ban: Option<&Arc<Ban<C>>>,
    key: &[u8],
    now: Tick,
) -> RuleDenial<'g> {
    match ban {
        Some(ban) => denial.no_sooner(Some(ban.strike(key, now))),
        None => denial,
    }
}

impl<C: Clock> ActiveRule<C> {
    /// The indexes of the limits that a request is charged to: that of its plan, or all.
    fn charged_limits(&self, hit: Hit) -> std::ops::Range<usize> {
        match self.rule.plan {
            Some(_) => hit.plan..hit.plan + 1,
            None => 0..self.rule.limits.len(),
        }
    }

    /// The limiter of the limit with this index. All plans have one.
    fn bucket(&self, limit: usize) -> &Bucket<C> {
        &self.buckets[if self.rule.plan.is_some() { 0 } else { limit }]
    }
}

/// The entries of a request: the rules by which it is in flight, and its guards.
#[derive(Debug)]
pub(super) struct Entered<'g, C: Clock> {
    pub(super) rules: Vec<RuleInFlight<'g>>,
    pub(super) held: Held<C>,
}

impl<C: Clock> Entered<'_, C> {
    pub(super) fn new() -> Self {
        Self { rules: Vec::new(), held: Held::default() }
    }

    fn count(&self) -> (usize, usize) {
        (self.rules.len(), self.held.count())
    }

    /// Leaves what was entered since [`count`](Self::count) returned this.
    fn truncate(&mut self, (rules, guards): (usize, usize)) {
        self.rules.truncate(rules);
        self.held.truncate(guards);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Rules;

    #[test]
    fn a_limit_that_denies_after_the_peek_refunds_all_that_were_charged_before_it() {
        let text: String = (0..20)
            .map(|nth| format!("[[rule]]\nname = \"{nth}\"\nkey = \"none\"\nlimits = \"9/day\"\n"))
            .collect();
        let gate =
            RulesLimiter::new(Rules::parse("r.toml", &text).expect("rules")).expect("memory");
        let hits: Vec<Hit> = (0..20).map(|rule| Hit { rule, cells: 5, ..Hit::default() }).collect();
        let now = gate.home.clock.now();
        let charge = PendingCharge { keys: &[], max_waiting: None, now };
        let charge_all = |hits: &[Hit]| {
            let limits = gate.charge_order(hits);
            let mut entered = Entered::new();
            let charged = gate.charge_in_order(hits, limits.as_slice(), 8, charge, &mut entered);
            charged.is_ok()
        };
        assert!(charge_all(&hits[19..]), "5 of 9 by the last rule");
        assert!(!charge_all(&hits), "4 are left by the last rule");
        assert!(charge_all(&hits[..19]), "5 of 9 by the others");
        assert!(!charge_all(&hits[..1]), "the charge stays");
    }

    #[test]
    fn limits_that_cannot_refund_are_charged_last() {
        let text = r#"rule = [
            { name = "log", key = "none", algorithm = "sliding-log", limits = ["5/s", "50/min"] },
            { name = "bucket", key = "none", limits = "5/s" },
            { name = "window", key = "none", algorithm = "fixed-window", limits = "5/s" },
        ]"#;
        let gate = RulesLimiter::new(Rules::parse("r.toml", text).expect("rules")).expect("memory");
        let hits = [0, 1, 2].map(|rule| Hit { rule, ..Hit::default() });
        assert_eq!(gate.charge_order(&hits).as_slice(), [(1, 0), (2, 0), (0, 0), (0, 1)]);
    }
}
