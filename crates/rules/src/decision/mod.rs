//! What rules say of a request.

use std::time::Duration;

use tollgate::{Denied, Permit};

use crate::rule::{Limit, Rule};

/// What rules say of a request. It borrows from them, and carries what response headers need.
///
/// ```
/// use tollgate_rules::{Gate, Request, Rules};
///
/// let text = r#"rule = [{ name = "a", key = "none", limits = ["1/min", "5/day"] }]"#;
/// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
/// let verdict = gate.decide(&Request::default());
/// let standing = verdict.standing().expect("admitted by a rule");
/// assert_eq!((standing.limit().name(), standing.remaining()), ("1/min", 0));
///
/// let verdict = gate.decide(&Request::default());
/// let denied = verdict.denied().expect("the second within a minute");
/// let limit = denied.limit().expect("no ban");
/// assert_eq!((denied.rule().name(), limit.quota().period().as_secs()), ("a", 60));
/// assert!(denied.retry_after().unwrap().as_secs() < 60);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a verdict says whether the request may go ahead"]
pub struct Verdict<'g> {
    pub(crate) outcome: Outcome<'g>,
    pub(crate) shadowed: Vec<Denial<'g>>,
    pub(crate) elsewhere: Vec<Deferred<'g>>,
}

/// Whether a request may go ahead, and by which limit.
///
/// ```
/// use tollgate_rules::{Gate, Outcome, Request, Rules};
///
/// let text = r#"rule = [{ name = "a", match = { path = "/a" }, limits = "1/min" }]"#;
/// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
/// let elsewhere = Request { path: "/b", ..Request::default() };
/// assert!(matches!(gate.decide(&elsewhere).outcome(), Outcome::NoRule));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'g> {
    /// No rule applies: it may.
    NoRule,
    /// It may; of all limits that were charged, this one has the fewest cells left.
    Admitted(Standing<'g>),
    /// It may not, and nothing was charged; of all limits that deny, this one does the longest.
    Denied(Denial<'g>),
}

impl<'g> Verdict<'g> {
    /// Nothing else was charged, and nobody else is asked.
    pub(crate) fn denial(denied: Denial<'g>) -> Self {
        let outcome = Outcome::Denied(denied);
        Self { outcome, shadowed: Vec::new(), elsewhere: Vec::new() }
    }

    /// Whether the request may go ahead: not as long as [others](Self::elsewhere) are to be asked.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Outcome, Request, Rules};
    /// # let text = r#"rule = [{ name = "a", key = "none", limits = "5/h" }]"#;
    /// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// let verdict = gate.decide(&Request::default());
    /// assert!(verdict.is_admitted());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        !matches!(self.outcome, Outcome::Denied(_)) && self.elsewhere.is_empty()
    }

    /// Whether, and by which limit.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Outcome, Request, Rules};
    /// # let text = r#"rule = [{ name = "a", key = "none", limits = "5/h" }]"#;
    /// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// let verdict = gate.decide(&Request::default());
    /// assert!(matches!(verdict.outcome(), Outcome::Admitted(_)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn outcome(&self) -> &Outcome<'g> {
        &self.outcome
    }

    /// The limit with the fewest cells left, of a request that a rule admitted.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Outcome, Request, Rules};
    /// # let text = r#"rule = [{ name = "a", key = "none", limits = "5/h" }]"#;
    /// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// let verdict = gate.decide(&Request::default());
    /// assert_eq!(verdict.standing().unwrap().remaining(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn standing(&self) -> Option<&Standing<'g>> {
        match &self.outcome {
            Outcome::Admitted(standing) => Some(standing),
            _ => None,
        }
    }

    /// The limit that denies for longest, of a request that is denied.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Outcome, Request, Rules};
    /// # let text = r#"rule = [{ name = "a", key = "none", limits = "5/h" }]"#;
    /// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// let verdict = gate.decide_n(&Request::default(), 6); // of at most 5
    /// assert_eq!(verdict.denied().unwrap().remaining(), 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn denied(&self) -> Option<&Denial<'g>> {
        match &self.outcome {
            Outcome::Denied(denied) => Some(denied),
            _ => None,
        }
    }

    /// The rules in shadow that would have denied it, in the order of the file. They are asked
    /// only about requests that the others admit.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Outcome, Request, Rules};
    /// # let text = r#"rule = [{ name = "a", key = "none", limits = "5/h", shadow = true }]"#;
    /// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// let verdict = gate.decide_n(&Request::default(), 6); // of at most 5
    /// assert!(verdict.is_admitted());
    /// assert_eq!(verdict.shadowed()[0].rule().name(), "a");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn shadowed(&self) -> &[Denial<'g>] {
        &self.shadowed
    }

    /// The rules with a [store](crate::Store) that apply, in the order of the file: the request may go
    /// ahead only if their limits admit it as well (but for those in shadow). None, if this process
    /// denies it. What was charged here stays charged if they deny.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Request, Rules};
    /// let text = r#"rule = [{ name = "a", key = "none", limits = "1/s", store = "redis://cache" }]"#;
    /// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// let verdict = gate.decide(&Request::default());
    /// assert!(!verdict.is_admitted() && verdict.denied().is_none()); // not known yet
    /// assert_eq!(verdict.elsewhere()[0].rule().name(), "a");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn elsewhere(&self) -> &[Deferred<'g>] {
        &self.elsewhere
    }
}

/// What is to be asked of a store: `cells` of each limit of a rule, for one key.
///
/// ```
/// # use tollgate_rules::{Gate, Request, Rules};
/// let text = r#"rule = [{ name = "a", limits = "9/s", store = "redis://cache" }]"#;
/// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
/// let peer = Some([192, 0, 2, 7].into());
/// let verdict = gate.decide_n(&Request { peer, ..Request::default() }, 3);
/// let [question] = verdict.elsewhere() else { panic!() };
/// assert_eq!((question.rule().limits().len(), question.cells()), (1, 3));
/// let other = Some([192, 0, 2, 8].into());
/// let verdict = gate.decide(&Request { peer: other, ..Request::default() });
/// assert_ne!(verdict.elsewhere()[0].key(), question.key());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Deferred<'g> {
    pub(crate) rule: &'g Rule,
    pub(crate) key: Box<[u8]>,
    pub(crate) cells: u64,
}

impl<'g> Deferred<'g> {
    /// The rule, which has a store.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Request, Rules};
    /// # let text = r#"rule = [{ name = "a", limits = "9/s", store = "redis://cache" }]"#;
    /// # let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// # let verdict = gate.decide(&Request::default());
    /// assert!(verdict.elsewhere()[0].rule().store().is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn rule(&self) -> &'g Rule {
        self.rule
    }

    /// The key: different for what the rule counts apart. Any bytes, of any length.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Request, Rules};
    /// # let text = r#"rule = [{ name = "a", limits = "9/s", store = "redis://cache" }]"#;
    /// # let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// # let verdict = gate.decide(&Request::default());
    /// assert!(!verdict.elsewhere()[0].key().is_empty()); // requests without an address have one, too
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// What the request costs.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Request, Rules};
    /// # let text = r#"rule = [{ name = "a", limits = "9/s", store = "redis://cache" }]"#;
    /// # let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// # let verdict = gate.decide(&Request::default());
    /// assert_eq!(verdict.elsewhere()[0].cells(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn cells(&self) -> u64 {
        self.cells
    }
}

/// How a key stands with a limit that admitted it.
///
/// ```
/// use tollgate_rules::{Gate, Request, Rules};
///
/// let text = r#"rule = [{ name = "a", key = "none", algorithm = "leaky-queue", limits = "2/s" }]"#;
/// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
/// assert!(gate.decide(&Request::default()).is_admitted());
/// let verdict = gate.decide(&Request::default());
/// let standing = verdict.standing().expect("there is room in the queue");
/// assert!(standing.delay().as_millis() > 100); // its turn comes half a second after the first
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Standing<'g> {
    pub(crate) rule: &'g Rule,
    pub(crate) limit: &'g Limit,
    pub(crate) permit: Permit,
    pub(crate) delay: Duration,
}

impl<'g> Standing<'g> {
    /// The rule.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Outcome, Request, Rules};
    /// # let text = r#"rule = [{ name = "a", key = "none", limits = "5/h" }]"#;
    /// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// let verdict = gate.decide(&Request::default());
    /// assert_eq!(verdict.standing().unwrap().rule().name(), "a");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn rule(&self) -> &'g Rule {
        self.rule
    }

    /// Its limit.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Outcome, Request, Rules};
    /// # let text = r#"rule = [{ name = "a", key = "none", limits = ["5/h", "2/min"] }]"#;
    /// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// let verdict = gate.decide(&Request::default());
    /// assert_eq!(verdict.standing().unwrap().limit().name(), "2/min");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn limit(&self) -> &'g Limit {
        self.limit
    }

    /// Cells that can be spent now.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Outcome, Request, Rules};
    /// # let text = r#"rule = [{ name = "a", key = "none", limits = "5/h" }]"#;
    /// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// let verdict = gate.decide(&Request::default());
    /// assert_eq!(verdict.standing().unwrap().remaining(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.permit.remaining()
    }

    /// How long until the key is as if it had never been used.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Outcome, Request, Rules};
    /// # let text = r#"rule = [{ name = "a", key = "none", limits = "5/h" }]"#;
    /// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// let verdict = gate.decide(&Request::default());
    /// assert!(verdict.standing().unwrap().reset_after().as_secs() >= 719);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.permit.reset_after()
    }

    /// How long the request has to wait for its turn: the longest that any limit asks for. Zero,
    /// but for queues.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Outcome, Request, Rules};
    /// # let text = r#"rule = [{ name = "a", key = "none", limits = "5/h" }]"#;
    /// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// let verdict = gate.decide(&Request::default());
    /// assert!(verdict.standing().unwrap().delay().is_zero());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// Whichever has fewer cells left, with the longer delay.
    pub(crate) fn tighter(self, other: Self) -> Self {
        let delay = self.delay.max(other.delay);
        let tighter = if other.remaining() < self.remaining() { other } else { self };
        Self { delay, ..tighter }
    }
}

/// A denial: by which rule, why, and for how long.
///
/// ```
/// use tollgate_rules::{Gate, Request, Rules, DenyReason};
///
/// let text = r#"rule = [{ name = "a", key = "header:x-user", on_no_key = "block", limits = "1/s" }]"#;
/// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
/// let verdict = gate.decide(&Request::default());
/// let denied = verdict.denied().expect("it has no such header");
/// assert!(matches!(denied.why(), DenyReason::NoKey));
/// assert_eq!(denied.retry_after(), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Denial<'g> {
    pub(crate) rule: &'g Rule,
    pub(crate) why: DenyReason<'g>,
}

/// Why a rule denies.
///
/// ```
/// use tollgate_rules::{Gate, Request, Rules, DenyReason};
///
/// let text = r#"rule = [{ name = "a", key = "none", limits = "1/s", penalty = "1 h" }]"#;
/// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
/// assert!(gate.decide(&Request::default()).is_admitted());
/// assert!(matches!(gate.decide(&Request::default()).denied().unwrap().why(), DenyReason::Limit(_, _)));
/// assert!(matches!(gate.decide(&Request::default()).denied().unwrap().why(), DenyReason::Banned(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum DenyReason<'g> {
    /// A limit has not enough cells left.
    Limit(&'g Limit, Denied),
    /// The key was denied too often, and is banned for a while.
    Banned(Denied),
    /// The request has no key, and the rule says `on_no_key = "block"`.
    NoKey,
    /// The rule applies by one reading of the path and not by another, and the file does not say which
    /// one the upstream has: see `encoded_slash` in the README. A server answers 400.
    UnclearPath,
}

impl<'g> Denial<'g> {
    /// The rule.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Outcome, Request, Rules};
    /// # let text = r#"rule = [{ name = "a", key = "none", limits = "5/h" }]"#;
    /// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// let verdict = gate.decide_n(&Request::default(), 6); // of at most 5
    /// assert_eq!(verdict.denied().unwrap().rule().name(), "a");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn rule(&self) -> &'g Rule {
        self.rule
    }

    /// Why it denies.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Outcome, Request, Rules};
    /// # let text = r#"rule = [{ name = "a", key = "none", limits = "5/h" }]"#;
    /// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// let verdict = gate.decide_n(&Request::default(), 6); // of at most 5
    /// assert!(matches!(verdict.denied().unwrap().why(), tollgate_rules::DenyReason::Limit(_, _)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn why(&self) -> &DenyReason<'g> {
        &self.why
    }

    /// The limit that denies; `None` where it is no limit.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Outcome, Request, Rules};
    /// # let text = r#"rule = [{ name = "a", key = "none", limits = "5/h" }]"#;
    /// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// let verdict = gate.decide_n(&Request::default(), 6); // of at most 5
    /// assert_eq!(verdict.denied().unwrap().limit().unwrap().name(), "5/h");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn limit(&self) -> Option<&'g Limit> {
        match self.why {
            DenyReason::Limit(limit, _) => Some(limit),
            _ => None,
        }
    }

    fn denied(&self) -> Option<&Denied> {
        match &self.why {
            DenyReason::Limit(_, denied) | DenyReason::Banned(denied) => Some(denied),
            DenyReason::NoKey | DenyReason::UnclearPath => None,
        }
    }

    /// Cells that could be spent now: fewer than were asked for; 0 where no limit denies.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Outcome, Request, Rules};
    /// # let text = r#"rule = [{ name = "a", key = "none", limits = "5/h" }]"#;
    /// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// let verdict = gate.decide_n(&Request::default(), 6); // of at most 5
    /// assert_eq!(verdict.denied().unwrap().remaining(), 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.denied().map_or(0, Denied::remaining)
    }

    /// The least time after which the same request would be admitted; `None` where no time helps.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Outcome, Request, Rules};
    /// # let text = r#"rule = [{ name = "a", key = "none", limits = "5/h" }]"#;
    /// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// assert!(gate.decide_n(&Request::default(), 5).is_admitted());
    /// let verdict = gate.decide(&Request::default());
    /// assert!(verdict.denied().unwrap().retry_after().unwrap().as_secs() <= 720);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.denied().and_then(Denied::retry_after)
    }

    /// How long until the key is as if it had never been used.
    ///
    /// ```
    /// # use tollgate_rules::{Gate, Outcome, Request, Rules};
    /// # let text = r#"rule = [{ name = "a", key = "none", limits = "5/h" }]"#;
    /// let gate = Gate::new(Rules::parse("rules.toml", text)?)?;
    /// assert!(gate.decide_n(&Request::default(), 5).is_admitted());
    /// let verdict = gate.decide(&Request::default());
    /// assert!(verdict.denied().unwrap().reset_after().as_secs() <= 3_600);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.denied().map_or(Duration::ZERO, Denied::reset_after)
    }

    /// Whichever lasts longer.
    pub(crate) fn longer(self, other: Self) -> Self {
        let span = |denied: &Self| denied.retry_after().unwrap_or(Duration::MAX);
        if span(&other) > span(&self) { other } else { self }
    }
}
