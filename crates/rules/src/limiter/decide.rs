//! From a request to the rules that apply to it, and to a decision.

use tollgate::Clock;

use super::RulesLimiter;
use super::charge::{Entered, Hit, PendingCharge};
use super::index::RuleSet;
use crate::active_rule::ActiveRule;
use crate::decision::{Deferred, DenyReason, Outcome, RuleDenial, RulesDecision};
use crate::inline_vec::InlineVec;
use crate::key::{Key, KeyBytes, OnNoKey};
use crate::matcher::SplitRequest;
use crate::request::RequestView;
use crate::request::path::{Fit, Segments};
use crate::rule::{Action, Apply, Rule};

impl<C: Clock> RulesLimiter<C> {
    /// Decides a request. It costs one cell, or by a rule with `cost` as many as that says.
    ///
    /// ```
    /// # use tollgate_rules::{RulesLimiter, Request, Rules};
    /// let text = r#"rule = [{ name = "a", key = "none", limits = "1/min" }]"#;
    /// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
    /// assert!(gate.decide(&Request::default()).is_admitted());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decide(&self, request: &impl RequestView) -> RulesDecision<'_, C> {
        self.decide_n(request, 1)
    }

    /// Decides a request that costs `cells` of every limit. A rule with `cost` multiplies its cost by `cells`,
    /// also one that the response settles.
    ///
    /// ```
    /// # use tollgate_rules::{RulesLimiter, Request, Rules};
    /// let text = r#"rule = [{ name = "a", key = "none", limits = "10/min" }]"#;
    /// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
    /// assert!(gate.decide_n(&Request::default(), 7).is_admitted());
    /// let decision = gate.decide_n(&Request::default(), 7);
    /// assert_eq!(decision.denied().expect("7 of 3").remaining(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decide_n(&self, request: &impl RequestView, cells: u64) -> RulesDecision<'_, C> {
        self.decide_with(request, (cells, None), Tried::Candidates, |_, _| true)
    }

    /// Decides a request that costs one cell and may wait in a queue. At most `max_waiting` requests
    /// of its key may wait at a time, this one included. With 0, it may not wait.
    ///
    /// If a rule has a `cost` that differs between requests, its queue is bounded as if each request cost one cell:
    /// otherwise a client that can choose the cost could let more requests wait.
    ///
    /// If its turn [comes too late](RuleDenial::comes_too_late), the request is denied and charged nothing.
    /// Such a denial is no strike towards a ban. Rules in shadow decide as if the request could wait.
    ///
    /// ```
    /// # use tollgate_rules::{RulesLimiter, Request, Rules};
    /// let text = r#"rule = [
    ///     { name = "a", key = "none", algorithm = "leaky-queue", limits = "10/min burst 5" },
    /// ]"#;
    /// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
    /// assert!(gate.decide_queued(&Request::default(), 0).is_admitted());
    /// let decision = gate.decide_queued(&Request::default(), 0);
    /// assert!(decision.denied().expect("its turn is in 6 s").comes_too_late());
    /// assert!(gate.decide_queued(&Request::default(), 1).is_admitted());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decide_queued(
        &self,
        request: &impl RequestView,
        max_waiting: u64,
    ) -> RulesDecision<'_, C> {
        self.decide_with(request, (1, Some(max_waiting)), Tried::Candidates, |_, _| true)
    }

    /// [`decide_n`](Self::decide_n) by only those rules for which `include` returns `true`.
    ///
    /// The limiter calls `include` for each rule, with its index in the file, before it tries the
    /// rule. So all rules are tried, without the index. With `apply = "first"`, it stops at the first
    /// rule that applies. A replay leaves out the rules that need data which its log lacks.
    ///
    /// ```
    /// # use tollgate_rules::{RulesLimiter, Request, Rules};
    /// let text = r#"rule = [{ name = "a", limits = "1/h" }, { name = "b", limits = "2/h" }]"#;
    /// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
    /// let decide = || gate.decide_among(&Request::default(), 1, |_, rule| rule.name() == "b");
    /// assert!(decide().is_admitted());
    /// assert!(decide().is_admitted());
    /// assert_eq!(decide().denied().expect("the third").rule().name(), "b");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decide_among(
        &self,
        request: &impl RequestView,
        cells: u64,
        include: impl FnMut(usize, &Rule) -> bool,
    ) -> RulesDecision<'_, C> {
        self.decide_with(request, (cells, None), Tried::All, include)
    }

    /// [`decide_among`](Self::decide_among) for a request that may wait in a queue, as in
    /// [`decide_queued`](Self::decide_queued).
    ///
    /// ```
    /// # use tollgate_rules::{RulesLimiter, Request, Rules};
    /// let text = r#"rule = [
    ///     { name = "a", key = "none", algorithm = "leaky-queue", limits = "10/min burst 5" },
    /// ]"#;
    /// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
    /// let decide = || gate.decide_queued_among(&Request::default(), 1, 2, |_, _| true);
    /// assert_eq!((0..5).filter(|_| decide().is_admitted()).count(), 3); // two of them wait
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decide_queued_among(
        &self,
        request: &impl RequestView,
        cells: u64,
        max_waiting: u64,
        include: impl FnMut(usize, &Rule) -> bool,
    ) -> RulesDecision<'_, C> {
        self.decide_with(request, (cells, Some(max_waiting)), Tried::All, include)
    }

    fn decide_with(
        &self,
        request: &impl RequestView,
        (cells, max_waiting): (u64, Option<u64>),
        tried: Tried,
        include: impl FnMut(usize, &Rule) -> bool,
    ) -> RulesDecision<'_, C> {
        let mut found = Applicable::new(cells);
        if let Err(denial) = self.find_applicable(request, tried, include, &mut found) {
            return RulesDecision::denial(denial);
        }
        let mut shadow_denials = std::mem::take(&mut found.shadow_denials);
        let deferred = std::mem::take(&mut found.deferred);
        let (enforced, shadow) = (found.enforced.as_slice(), found.shadow.as_slice());
        let exempted_by = found.exempted_by.map(|index| &self.active[index].rule);
        let count_exemption = || {
            found.exempted_by.iter().for_each(|index| self.active[*index].admitted.count(true));
        };
        if enforced.is_empty() && shadow.is_empty() {
            count_exemption();
            let decision = RulesDecision::of(Outcome::NoRule);
            return RulesDecision { shadow_denials, deferred, exempted_by, ..decision };
        }
        let now = self.home.clock.now();
        let charge = PendingCharge { keys: found.keys.as_slice(), max_waiting, now };
        let mut entered = Entered::new();
        let outcome = match self.charge_all(enforced, charge, &mut entered) {
            Ok(None) => Outcome::NoRule,
            Ok(Some(permit)) => Outcome::Admitted(permit),
            // Rules in shadow are not charged: if they were enforced, they would not be either.
            Err(denial) => return RulesDecision::denial(denial),
        };
        self.count_admissions(enforced);
        count_exemption();
        let charge = PendingCharge { max_waiting: None, ..charge };
        let enforced_count = entered.rules.len();
        for hit in shadow {
            match self.charge_all(&[*hit], charge, &mut entered) {
                Ok(_) => self.count_admissions(&[*hit]),
                Err(denial) => shadow_denials.push(denial),
            }
        }
        let paces = enforced.iter().filter_map(|hit| {
            let bandwidth = self.active[hit.rule].bandwidth.as_ref()?;
            Some(bandwidth.pace(charge.key(*hit)))
        });
        let paces = paces.collect();
        let Entered { rules: mut in_flight, held } = entered;
        in_flight.truncate(enforced_count);
        RulesDecision { outcome, shadow_denials, deferred, exempted_by, in_flight, held, paces }
    }

    /// Collects the rules that apply, with their keys. Returns the denial of a rule that denies
    /// before any limit is charged.
    fn find_applicable<'g>(
        &'g self,
        request: &impl RequestView,
        tried: Tried,
        mut include: impl FnMut(usize, &Rule) -> bool,
        found: &mut Applicable<'g>,
    ) -> Result<(), RuleDenial<'g>> {
        let (mut path, mut host) = (Segments::new(""), Segments::new(""));
        let split = SplitRequest::new(request, self.needs, &mut path, &mut host);
        let rules = match tried {
            Tried::All => RuleSet::all(self.active.len()),
            Tried::Candidates => self.index.candidates(&split),
        };
        for index in rules {
            let ActiveRule { rule, .. } = &self.active[index];
            if !include(index, rule) {
                continue;
            }
            let fit = rule.effective(rule.matcher.fit(&split));
            match fit {
                Fit::All | Fit::Some => {}
                Fit::None => continue,
                Fit::Unclear => {
                    found.deny_early(RuleDenial::new(rule, DenyReason::UnclearPath))?;
                    continue;
                }
            }
            match rule.action {
                Action::Limit => {}
                Action::Exempt => {
                    found.exempted_by = Some(index);
                    break;
                }
                Action::Deny => {
                    found.deny_early(RuleDenial::new(rule, DenyReason::Forbidden))?;
                    continue;
                }
            }
            let begin = found.keys.as_slice().len();
            if !rule.key.write(request, &mut found.keys) {
                match rule.on_no_key {
                    OnNoKey::Shared => Key::write_shared(&mut found.keys),
                    OnNoKey::Skip => continue,
                    OnNoKey::Deny => {
                        found.deny_early(RuleDenial::new(rule, DenyReason::NoKey))?;
                        continue;
                    }
                }
            }
            found.add(request, index, rule, begin);
            // If only some readings of the path match, another reading has a later first rule.
            if self.apply == Apply::First && !rule.is_shadow && fit == Fit::All {
                break;
            }
        }
        Ok(())
    }
}

/// The rules that are tried.
#[derive(Clone, Copy, Debug)]
enum Tried {
    All,
    /// Those that may match.
    Candidates,
}

/// The rules that apply to a request.
#[derive(Debug)]
struct Applicable<'g> {
    cells: u64,
    keys: KeyBytes,
    enforced: InlineVec<Hit, 8>,
    shadow: InlineVec<Hit, 8>,
    shadow_denials: Vec<RuleDenial<'g>>,
    deferred: Vec<Deferred<'g>>,
    /// The index of the rule that ended the evaluation.
    exempted_by: Option<usize>,
}

impl<'g> Applicable<'g> {
    fn new(cells: u64) -> Self {
        Self {
            cells,
            keys: KeyBytes::new(0),
            enforced: InlineVec::new(Hit::default()),
            shadow: InlineVec::new(Hit::default()),
            shadow_denials: Vec::new(),
            deferred: Vec::new(),
            exempted_by: None,
        }
    }

    /// Records a denial of a rule in shadow; returns that of a rule that is enforced.
    fn deny_early(&mut self, denial: RuleDenial<'g>) -> Result<(), RuleDenial<'g>> {
        if !denial.rule().is_shadow {
            return Err(denial);
        }
        self.shadow_denials.push(denial);
        Ok(())
    }

    /// Adds a rule whose key begins at byte `begin` of the keys.
    fn add(&mut self, request: &impl RequestView, index: usize, rule: &'g Rule, begin: usize) {
        let key = (begin, self.keys.as_slice().len());
        let plan = rule.plan.as_ref().map_or(0, |its| its.limit_of(request, &rule.limits));
        let (cells, settles) = match rule.cost {
            None => (self.cells, false),
            Some(_) => (self.cells.saturating_mul(rule.cost_of(request)), rule.settles(request)),
        };
        let hit = Hit { rule: index, key, plan, cells, times: self.cells, settles };
        match (&rule.store, rule.is_shadow) {
            (Some(_), _) => {
                let key = self.keys.as_slice()[begin..].into();
                self.deferred.push(Deferred { rule, key, cells });
            }
            (None, true) => self.shadow.push(hit),
            (None, false) => self.enforced.push(hit),
        }
    }
}

#[cfg(test)]
impl<C: Clock> RulesLimiter<C> {
    /// The rules that apply to a request and their keys, or the denial before any charge, as text.
    pub(super) fn applicable(&self, request: &impl RequestView, by_index: bool) -> String {
        let tried = if by_index { Tried::Candidates } else { Tried::All };
        let mut found = Applicable::new(1);
        let denial = self.find_applicable(request, tried, |_, _| true, &mut found).err();
        let shadow: Vec<_> =
            found.shadow_denials.iter().map(|its| (its.rule().name(), its.reason())).collect();
        let denial = denial.map(|denial| format!("{} {:?}", denial.rule().name(), denial.reason()));
        let (enforced, in_shadow) = (found.enforced.as_slice(), found.shadow.as_slice());
        let keys = found.keys.as_slice();
        format!("{enforced:?} {in_shadow:?} {keys:?} {shadow:?} {:?} {denial:?}", found.exempted_by)
    }
}
