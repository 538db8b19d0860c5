//! Rules at work: match, key, limits, verdict.

use std::sync::Arc;

use tollgate::clock::QuantaClock;
use tollgate::stats::DecisionCount;
use tollgate::{Clock, Denied, Tick};

use crate::bucket::{Ban, Bucket, Cost};
use crate::error::BuildFailed;
use crate::facts::RequestView;
use crate::inherit;
use crate::inline::Inline;
use crate::key::{Key, KeyBytes, OnNoKey};
use crate::matching::{Asks, Seen};
use crate::path::{Fit, Segments};
use crate::rule::{Apply, Limit, Rule, Rules};
use crate::verdict::{Deferred, Denial, DenyReason, Outcome, Standing, Verdict};

/// Rules at work: every limit has its limiter.
///
/// It shares by reference, or in an `Arc`. [`LiveRules`](crate::LiveRules) has one that can be
/// exchanged while requests are decided.
///
/// **Guarantee.** A request is charged to every limit of every rule that applies to it, or to none
/// of them. Each limit keeps what its [`Limiter`](tollgate::Limiter) guarantees, over all threads.
/// A decision takes no lock, and allocates nothing unless a path has more than 16 segments, the
/// keys more than 256 bytes, more than 8 rules or limits apply, or a rule in shadow would deny.
///
/// **Cost.** Rules are looked through one after the other, in the order of the file; a rule that
/// does not match costs some nanoseconds, a limit that is asked some tens (see the README).
///
/// **Not guaranteed.**
///
/// - Where several limits apply, all are looked at before the first is charged. If another thread
///   takes the last cell of one in between, what the request was charged by the others is given
///   back; meanwhile they may deny a request too many, and those of an algorithm other than
///   `gcra`, `fixed-window` and `fixed-window-aligned` cannot give back (they are charged last).
///   Never is more admitted.
/// - Rules with a [store](crate::Store) are matched and not decided: see
///   [`Verdict::elsewhere`](crate::Verdict::elsewhere).
/// - So that a denial can name the limit that denies for longest, limits are looked at, not
///   charged, first: a key that finds no place in a full table is seen only when it is charged.
///
/// ```
/// use tollgate_rules::{Gate, Request, Rules};
///
/// let text = r#"rule = [{ name = "a", key = "none", limits = "1/min" }]"#;
/// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
/// assert!(gate.decide(&Request::default()).is_admitted());
/// assert!(!gate.decide(&Request::default()).is_admitted());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Gate<C: Clock = QuantaClock> {
    pub(crate) apply: Apply,
    asks: Asks,
    pub(crate) active: Vec<Active<C>>,
    pub(crate) clock: Arc<C>,
}

/// A rule and what counts for it.
#[derive(Debug)]
pub(crate) struct Active<C: Clock> {
    pub(crate) rule: Rule,
    /// One for each limit.
    pub(crate) buckets: Vec<Arc<Bucket<C>>>,
    pub(crate) ban: Option<Arc<Ban<C>>>,
    /// Requests that it admitted, of all rules of its name since the first.
    pub(crate) admitted: Arc<DecisionCount>,
}

/// A rule that applies, and where its key stands among the keys.
#[derive(Clone, Copy, Debug, Default)]
struct Hit {
    rule: usize,
    key: (usize, usize),
}

/// A limit of a rule that applies: which hit, which limit.
type Item = (usize, usize);

/// A request as it is decided.
#[derive(Clone, Copy, Debug)]
struct Ask<'k> {
    keys: &'k [u8],
    cells: u64,
    /// How many requests of the key may wait, this one included; `None`: any number.
    max_waiting: Option<u64>,
    now: Tick,
}

impl Ask<'_> {
    fn key(&self, hit: Hit) -> &[u8] {
        &self.keys[hit.key.0..hit.key.1]
    }

    fn cost(&self, limit: &Limit) -> Cost {
        Cost::queued(self.cells, self.max_waiting, &limit.quota())
    }

    /// Whether a denial is a strike. That a turn comes too late is none.
    fn is_strike(&self, denied: &Denied) -> bool {
        self.max_waiting.is_none() || denied.remaining() < self.cells
    }
}

impl Gate {
    /// Builds a limiter for every limit.
    ///
    /// # Errors
    ///
    /// The system has no memory for one of them.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Rules};
    /// let text = r#"rule = [{ name = "a", capacity = 1000, limits = "1/min" }]"#;
    /// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// assert!(gate.memory_bytes() < 32_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(rules: Rules) -> Result<Self, BuildFailed> {
        Self::with_clock(rules, Arc::new(QuantaClock::new()))
    }
}

impl<C: Clock> Gate<C> {
    /// As [`new`](Gate::new), with a clock of the caller's.
    ///
    /// # Errors
    ///
    /// The system has no memory for one of the limiters.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use tollgate::ManualClock;
    /// use tollgate_rules::{Gate, Request, Rules};
    ///
    /// let clock = Arc::new(ManualClock::new());
    /// let text = r#"rule = [{ name = "a", key = "none", limits = "1/min" }]"#;
    /// let gate = Gate::with_clock(Rules::parse("rules.toml", text)?, Arc::clone(&clock))?;
    /// assert!(gate.decide(&Request::default()).is_admitted());
    /// clock.advance(Duration::from_secs(60));
    /// assert!(gate.decide(&Request::default()).is_admitted());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_clock(rules: Rules, clock: Arc<C>) -> Result<Self, BuildFailed> {
        let build = |rule| inherit::activate(rule, None, &clock).map(|taken| taken.active);
        let active = rules.rules.into_iter().map(build).collect::<Result<_, _>>()?;
        Ok(Self::from_parts(rules.apply, active, clock))
    }

    pub(crate) fn from_parts(apply: Apply, active: Vec<Active<C>>, clock: Arc<C>) -> Self {
        let asks = active.iter().fold(Asks::default(), |asks, its| asks.and(&its.rule.matcher));
        Self { apply, asks, active, clock }
    }

    /// The rules, in the order of the file.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Rules};
    /// let text = r#"rule = [{ name = "a", limits = "1/min" }]"#;
    /// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// assert!(gate.rules().map(|rule| rule.name()).eq(["a"]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.active.iter().map(|active| &active.rule)
    }

    /// The memory of all tables in bytes: reserved, and made resident as keys arrive.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Rules};
    /// let text = r#"rule = [{ name = "a", key = "none", limits = "1/min" }]"#;
    /// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// assert!(gate.memory_bytes() <= 512); // one bucket for all
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn memory_bytes(&self) -> usize {
        self.active.iter().map(Active::memory_bytes).sum()
    }

    /// The same for each rule, in the order of the file.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Rules};
    /// let text = r#"rule = [{ name = "a", limits = "1/min" }]"#;
    /// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// assert!(gate.memory_by_rule().eq([gate.memory_bytes()]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn memory_by_rule(&self) -> impl Iterator<Item = usize> {
        self.active.iter().map(Active::memory_bytes)
    }

    /// Decides a request that costs one cell.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Request, Rules};
    /// let text = r#"rule = [{ name = "a", key = "none", limits = "1/min" }]"#;
    /// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// assert!(gate.decide(&Request::default()).is_admitted());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decide(&self, facts: &impl RequestView) -> Verdict<'_> {
        self.decide_n(facts, 1)
    }

    /// Decides a request that costs `cells` of every limit.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Request, Rules};
    /// let text = r#"rule = [{ name = "a", key = "none", limits = "10/min" }]"#;
    /// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// assert!(gate.decide_n(&Request::default(), 7).is_admitted());
    /// let verdict = gate.decide_n(&Request::default(), 7);
    /// assert_eq!(verdict.denied().expect("7 of 3").remaining(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decide_n(&self, facts: &impl RequestView, cells: u64) -> Verdict<'_> {
        self.decide_among(facts, cells, |_, _| true)
    }

    /// Decides a request that costs one cell, and behind which at most `max_waiting` requests of its
    /// key may wait, itself included. With 0, it may not wait at all.
    ///
    /// A request that would have to wait behind more is denied, and charged nothing; its
    /// [`remaining`](crate::Denied::remaining) is then not 0. That is no strike towards a ban. Rules in
    /// shadow decide as if it could wait.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Request, Rules};
    /// let text = r#"rule = [
    ///     { name = "a", key = "none", algorithm = "leaky-queue", limits = "10/min burst 5" },
    /// ]"#;
    /// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// assert!(gate.decide_queued(&Request::default(), 0).is_admitted());
    /// let verdict = gate.decide_queued(&Request::default(), 0);
    /// assert_eq!(verdict.denied().expect("its turn is in 6 s").remaining(), 4);
    /// assert!(gate.decide_queued(&Request::default(), 1).is_admitted());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decide_queued(&self, facts: &impl RequestView, max_waiting: u64) -> Verdict<'_> {
        self.decide_by(facts, 1, Some(max_waiting), |_, _| true)
    }

    /// Decides as [`decide_n`](Self::decide_n) does, by those rules alone for which `counts` holds.
    ///
    /// It is asked about one rule after the other, with its place in the file, before the rule is
    /// looked at; with `apply = "first"`, no further than to the first that applies. A replay leaves
    /// a rule out this way where its log does not tell what the rule asks for.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Request, Rules};
    /// let text = r#"rule = [{ name = "a", limits = "1/h" }, { name = "b", limits = "2/h" }]"#;
    /// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// let decide = || gate.decide_among(&Request::default(), 1, |_, rule| rule.name() == "b");
    /// assert!(decide().is_admitted());
    /// assert!(decide().is_admitted());
    /// assert_eq!(decide().denied().expect("the third").rule().name(), "b");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decide_among(
        &self,
        facts: &impl RequestView,
        cells: u64,
        counts: impl FnMut(usize, &Rule) -> bool,
    ) -> Verdict<'_> {
        self.decide_by(facts, cells, None, counts)
    }

    fn decide_by(
        &self,
        facts: &impl RequestView,
        cells: u64,
        max_waiting: Option<u64>,
        mut counts: impl FnMut(usize, &Rule) -> bool,
    ) -> Verdict<'_> {
        let mut keys = KeyBytes::new(0);
        let mut enforced = Inline::<Hit, 8>::new(Hit::default());
        let mut shadow = Inline::<Hit, 8>::new(Hit::default());
        let (mut shadowed, mut elsewhere) = (Vec::new(), Vec::new());
        let (mut path, mut host) = (Segments::new(""), Segments::new(""));
        let seen = Seen::new(facts, self.asks, &mut path, &mut host);
        for (index, Active { rule, .. }) in self.active.iter().enumerate() {
            if !counts(index, rule) {
                continue;
            }
            let fit = rule.matcher.fits(&seen);
            match (fit, rule.is_shadow) {
                (Fit::All | Fit::Some, _) => {}
                (Fit::None, _) => continue,
                (Fit::Unclear, false) => {
                    return Verdict::denial(Denial { rule, why: DenyReason::UnclearPath });
                }
                (Fit::Unclear, true) => {
                    shadowed.push(Denial { rule, why: DenyReason::UnclearPath });
                    continue;
                }
            }
            let begin = keys.as_slice().len();
            if !rule.key.write(facts, &mut keys) {
                let denied = Denial { rule, why: DenyReason::NoKey };
                match (rule.on_no_key, rule.is_shadow) {
                    (OnNoKey::Shared, _) => Key::write_shared(&mut keys),
                    (OnNoKey::Skip, _) => continue,
                    (OnNoKey::Block, false) => {
                        return Verdict::denial(denied);
                    }
                    (OnNoKey::Block, true) => {
                        shadowed.push(denied);
                        continue;
                    }
                }
            }
            // By another reading of the path, a later rule would be the first.
            let is_last = self.apply == Apply::First && !rule.is_shadow && fit == Fit::All;
            let hit = Hit { rule: index, key: (begin, keys.as_slice().len()) };
            match (&rule.store, rule.is_shadow) {
                (Some(_), _) => {
                    let key = keys.as_slice()[begin..].into();
                    elsewhere.push(Deferred { rule, key, cells });
                }
                (None, true) => shadow.push(hit),
                (None, false) => enforced.push(hit),
            }
            if is_last {
                break;
            }
        }
        if enforced.as_slice().is_empty() && shadow.as_slice().is_empty() {
            return Verdict { outcome: Outcome::NoRule, shadowed, elsewhere };
        }
        let ask = Ask { keys: keys.as_slice(), cells, max_waiting, now: self.clock.now() };
        let outcome = match self.ask(enforced.as_slice(), ask) {
            Ok(None) => Outcome::NoRule,
            Ok(Some(standing)) => Outcome::Admitted(standing),
            // Had the rules in shadow been in force, they would not have been charged either.
            Err(denied) => return Verdict::denial(denied),
        };
        self.count(enforced.as_slice());
        let ask = Ask { max_waiting: None, ..ask };
        for hit in shadow.as_slice() {
            match self.ask(&[*hit], ask) {
                Ok(_) => self.count(&[*hit]),
                Err(denied) => shadowed.push(denied),
            }
        }
        Verdict { outcome, shadowed, elsewhere }
    }

    /// Counts an admission by each of these rules.
    fn count(&self, hits: &[Hit]) {
        hits.iter().for_each(|hit| self.active[hit.rule].admitted.count(true));
    }

    /// Asks all limits of these rules: all are charged, or none.
    fn ask(&self, hits: &[Hit], ask: Ask<'_>) -> Result<Option<Standing<'_>>, Denial<'_>> {
        self.find_ban(hits, ask)?;
        if let [hit] = *hits
            && let [bucket] = &*self.active[hit.rule].buckets
        {
            let Active { rule, ban, .. } = &self.active[hit.rule];
            let limit = &rule.limits[0];
            let key = ask.key(hit);
            return match bucket.check(key, ask.cost(limit), ask.now) {
                Ok(permit) => Ok(Some(Standing { rule, limit, permit, delay: permit.delay() })),
                Err(denied) => {
                    if let (true, Some(ban)) = (ask.is_strike(&denied), ban) {
                        ban.note(key, ask.now);
                    }
                    Err(Denial { rule, why: DenyReason::Limit(limit, denied) })
                }
            };
        }
        let tightest = self.look(hits, ask)?;
        let items = self.items(hits);
        self.charge(hits, items.as_slice(), ask).map_err(|Late(denied)| denied)?;
        Ok(tightest)
    }

    /// The longest ban of a key, if any is banned.
    fn find_ban(&self, hits: &[Hit], ask: Ask<'_>) -> Result<(), Denial<'_>> {
        let mut longest: Option<Denial<'_>> = None;
        for hit in hits {
            let Active { rule, ban: Some(ban), .. } = &self.active[hit.rule] else { continue };
            if let Some(denied) = ban.of(ask.key(*hit), ask.now) {
                let denied = Denial { rule, why: DenyReason::Banned(denied) };
                longest = Some(longest.map_or(denied, |longest| longest.longer(denied)));
            }
        }
        longest.map_or(Ok(()), Err)
    }

    /// What all limits would answer; denials are noted for bans.
    fn look(&self, hits: &[Hit], ask: Ask<'_>) -> Result<Option<Standing<'_>>, Denial<'_>> {
        let mut tightest: Option<Standing<'_>> = None;
        let mut longest: Option<Denial<'_>> = None;
        for hit in hits {
            let Active { rule, buckets, ban, .. } = &self.active[hit.rule];
            let key = ask.key(*hit);
            let mut is_denied = false;
            for (limit, bucket) in rule.limits.iter().zip(buckets) {
                match bucket.peek(key, ask.cost(limit), ask.now) {
                    Ok(permit) => {
                        let standing = Standing { rule, limit, permit, delay: permit.delay() };
                        tightest = Some(tightest.map_or(standing, |other| other.tighter(standing)));
                    }
                    Err(denied) => {
                        let denial = Denial { rule, why: DenyReason::Limit(limit, denied) };
                        longest = Some(longest.map_or(denial, |other| other.longer(denial)));
                        is_denied |= ask.is_strike(&denied);
                    }
                }
            }
            if let (true, Some(ban)) = (is_denied, ban) {
                ban.note(key, ask.now);
            }
        }
        longest.map_or(Ok(tightest), Err)
    }

    /// The limits in the order in which they are charged: those that cannot give back, last.
    fn items(&self, hits: &[Hit]) -> Inline<Item, 8> {
        let mut items = Inline::new((0, 0));
        for gives_back in [true, false] {
            for (index, hit) in hits.iter().enumerate() {
                for (limit, bucket) in self.active[hit.rule].buckets.iter().enumerate() {
                    if bucket.gives_back() == gives_back {
                        items.push((index, limit));
                    }
                }
            }
        }
        items
    }

    /// Charges the limits one after the other. Where one denies after all, those before it give
    /// back as this returns.
    fn charge(&self, hits: &[Hit], items: &[Item], ask: Ask<'_>) -> Result<(), Late<'_>> {
        let Some((&(index, limit), rest)) = items.split_first() else { return Ok(()) };
        let Active { rule, buckets, ban, .. } = &self.active[hits[index].rule];
        let key = ask.key(hits[index]);
        let cost = ask.cost(&rule.limits[limit]);
        let charged = buckets[limit].charge_then(key, cost, ask.now, || {
            self.charge(hits, rest, ask).map_err(Failed::Later)
        });
        charged.map_err(|failed| match failed {
            Failed::Later(late) => late,
            Failed::Here(denied) => {
                if let (true, Some(ban)) = (ask.is_strike(&denied), ban) {
                    ban.note(key, ask.now);
                }
                Late(Denial { rule, why: DenyReason::Limit(&rule.limits[limit], denied) })
            }
        })
    }
}

/// A limit that had room when it was looked at, and denied when it was charged.
struct Late<'g>(Denial<'g>);

/// Where a charge failed.
enum Failed<'g> {
    Here(Denied),
    Later(Late<'g>),
}

impl From<Denied> for Failed<'_> {
    fn from(denied: Denied) -> Self {
        Self::Here(denied)
    }
}

impl<C: Clock> Active<C> {
    fn memory_bytes(&self) -> usize {
        let buckets: usize = self.buckets.iter().map(|bucket| bucket.memory_bytes()).sum();
        buckets + self.ban.as_ref().map_or(0, |ban| ban.memory_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_give_back_is_charged_last() {
        let text = r#"rule = [
            { name = "log", key = "none", algorithm = "sliding-log", limits = ["5/s", "50/min"] },
            { name = "bucket", key = "none", limits = "5/s" },
            { name = "window", key = "none", algorithm = "fixed-window", limits = "5/s" },
        ]"#;
        let gate = Gate::new(Rules::parse("r.toml", text).expect("rules")).expect("memory");
        let hits = [0, 1, 2].map(|rule| Hit { rule, key: (0, 0) });
        assert_eq!(gate.items(&hits).as_slice(), [(1, 0), (2, 0), (0, 0), (0, 1)]);
    }
}
