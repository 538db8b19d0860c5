//! The rules of a file, checked.
//!
//! Each setting of a rule has its type in a file here; `match` and `key` have rooms of their own. The parser reads all
//! of them, and makes [`Rules`].

mod algorithm;
mod concurrency;
mod cost;
mod limit;
mod plan;
mod policy_name;
mod requirements;
mod shared_name;
mod store;

use tollgate::{OnFull, Quota};

use crate::error::RuleWarning;
use crate::key::{Key, OnNoKey};
use crate::matcher::Matcher;
pub(crate) use algorithm::{ALGORITHMS, Limiters, RuleAlgorithm};
pub use concurrency::Concurrency;
pub(crate) use cost::{Estimate, RuleCost, SettleBy};
pub use limit::{Penalty, RuleLimit};
pub(crate) use plan::PlanChoice;
pub(crate) use shared_name::SharedName;
pub use store::{Fallback, Store};

/// The most rules of a file.
pub(crate) const RULES_MAX: usize = 2_048;

/// The rules of a file, checked.
///
/// Every rule of a `Rules` can be enforced: its patterns are valid, and the algorithm of each limit
/// can keep its quota.
///
/// ```
/// use tollgate_rules::{Apply, Rules};
///
/// let rules = Rules::parse("rules.toml", r#"
///     apply = "first"
///
///     [[rule]]
///     name = "accounts"
///     match = { path = "/accounts", method = "POST" }
///     key = "ip"
///     algorithm = "sliding-log"
///     limits = "10 per day"
/// "#)?;
/// assert_eq!(rules.apply(), Apply::First);
/// assert_eq!(rules.rules()[0].limits()[0].quota().limit(), 10);
/// # Ok::<(), tollgate_rules::RulesError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    pub(crate) apply: Apply,
    pub(crate) shared: Option<SharedName>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) warnings: Vec<RuleWarning>,
}

impl Rules {
    /// Whether all matching rules apply to a request, or only the first.
    #[must_use]
    pub fn apply(&self) -> Apply {
        self.apply
    }

    /// The rules, in the order of the file.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Rules that no request can reach, in the order of the file; at most 100. A rule that two earlier ones
    /// make superfluous together is not found.
    #[must_use]
    pub fn warnings(&self) -> &[RuleWarning] {
        &self.warnings
    }

    /// The name by which the processes of this machine share the limits of the rules; `None`: each has its own.
    ///
    /// Only [`RulesLimiter::new`](crate::RulesLimiter::new) and [`RulesFile::open`](crate::RulesFile::open) share
    /// them.
    ///
    /// ```
    /// # use tollgate_rules::Rules;
    /// let rules = Rules::parse("rules.toml", r#"rule = [{ name = "a", limits = "1/s" }]"#)?;
    /// assert_eq!(rules.shared(), None);
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn shared(&self) -> Option<&str> {
        self.shared.as_ref().map(SharedName::as_str)
    }

    /// The same rules with limits that no other process shares, for example to explain them.
    ///
    /// ```
    /// # use tollgate_rules::Rules;
    /// let rules = Rules::parse("rules.toml", r#"rule = [{ name = "a", limits = "1/s" }]"#)?;
    /// assert_eq!(rules.without_sharing().shared(), None);
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn without_sharing(self) -> Self {
        Self { shared: None, ..self }
    }

    /// The same rules with all limits kept in this process, for example to replay a log.
    ///
    /// ```
    /// # use tollgate_rules::Rules;
    /// let text = r#"rule = [{ name = "a", limits = "1/s", store = "redis://cache" }]"#;
    /// let rules = Rules::parse("rules.toml", text)?.without_stores();
    /// assert!(rules.rules()[0].store().is_none());
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn without_stores(mut self) -> Self {
        self.rules.iter_mut().for_each(|rule| rule.store = None);
        self
    }
}

/// Which of the rules that match a request apply to it: `apply` in a rules file.
///
/// ```
/// use tollgate_rules::Apply;
/// assert_eq!(Apply::default(), Apply::All);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Apply {
    /// All of them. A request is admitted if every limit of every matching rule admits it. It is
    /// charged to all of these limits, or to none.
    #[default]
    All,
    /// The first one that is not in shadow.
    First,
}

/// The action of a rule on the requests that it applies to: `action` in a rules file.
///
/// ```
/// use tollgate_rules::{Action, Request, Rules, RulesLimiter};
///
/// let gate = RulesLimiter::new(Rules::parse("rules.toml", r#"rule = [
///     { name = "office", match = { ip = "192.0.2.0/24" }, action = "exempt" },
///     { name = "admin", match = { path = "/admin/**" }, action = "deny" },
///     { name = "all", key = "none", limits = "1/day" },
/// ]"#)?)?;
/// let from = |peer: [u8; 4], path| Request { path, peer: Some(peer.into()), ..Request::default() };
/// for _ in 0..9 {
///     let decision = gate.decide(&from([192, 0, 2, 7], "/admin/users"));
///     assert_eq!(decision.exempted_by().unwrap().action(), Action::Exempt);
/// }
/// assert!(!gate.decide(&from([198, 51, 100, 7], "/admin/users")).is_admitted());
/// assert!(gate.decide(&from([198, 51, 100, 7], "/")).is_admitted()); // nothing was charged
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Admits as many as its limits admit.
    #[default]
    Limit,
    /// Ends the evaluation: no later rule of the file applies to the request. Earlier ones do. It exempts
    /// a request only if it matches by every reading of the path.
    Exempt,
    /// Denies the request. A server answers 403. Nothing is charged.
    Deny,
}

impl Action {
    /// The word for it in rules files.
    ///
    /// ```
    /// assert_eq!(tollgate_rules::Action::Exempt.name(), "exempt");
    /// ```
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Exempt => "exempt",
            Self::Deny => "deny",
        }
    }
}

/// One rule: a matcher of requests, the key by which they are counted, and the limits.
///
/// ```
/// use tollgate_rules::{OnNoKey, Rules};
///
/// let rules = Rules::parse("rules.toml", r#"rule = [{ name = "a", limits = "5/s" }]"#)?;
/// let rule = &rules.rules()[0];
/// assert_eq!((rule.name(), rule.capacity(), rule.is_shadow()), ("a", 100_000, false));
/// assert_eq!((rule.on_no_key(), rule.on_full()), (OnNoKey::Shared, tollgate::OnFull::default()));
/// assert_eq!((rule.penalty(), rule.store()), (None, None));
/// assert_eq!(rule.action(), tollgate_rules::Action::Limit);
/// # Ok::<(), tollgate_rules::RulesError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub(crate) name: String,
    /// Its place in the file, counted from 1.
    pub(crate) number: usize,
    pub(crate) matcher: Matcher,
    pub(crate) action: Action,
    pub(crate) key: Key,
    pub(crate) on_no_key: OnNoKey,
    pub(crate) limits: Vec<RuleLimit>,
    /// `Some`: one of the limits applies to a request, and not all.
    pub(crate) plan: Option<PlanChoice>,
    pub(crate) cost: Option<RuleCost>,
    pub(crate) concurrency: Option<Concurrency>,
    /// The rate of the bodies of responses, in bytes.
    pub(crate) bytes: Option<Quota>,
    pub(crate) capacity: u64,
    pub(crate) on_full: OnFull,
    pub(crate) is_shadow: bool,
    pub(crate) penalty: Option<Penalty>,
    pub(crate) store: Option<Store>,
}

impl Rule {
    /// The name. It is unique within the file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The action on the requests that the rule applies to.
    #[must_use]
    pub fn action(&self) -> Action {
        self.action
    }

    /// The key by which the rule counts requests. A rule without limits counts by nothing.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The treatment of a request that lacks a part of the key.
    #[must_use]
    pub fn on_no_key(&self) -> OnNoKey {
        self.on_no_key
    }

    /// The limits: one to eight, all of which must admit. A rule has none if its [action](Self::action) is
    /// not to limit, or if it limits only the requests [in flight](Self::concurrency) or the bytes of
    /// responses. If it [has plans](Self::has_plans), each of them has one limit here, the default the last,
    /// and a request is charged to [one of these limits](Self::limits_of).
    #[must_use]
    pub fn limits(&self) -> &[RuleLimit] {
        &self.limits
    }

    /// How many requests of a key may be in flight.
    #[must_use]
    pub fn concurrency(&self) -> Option<Concurrency> {
        self.concurrency
    }

    /// How fast the bodies of a key's responses pass: a cell is a byte.
    #[must_use]
    pub fn bytes(&self) -> Option<Quota> {
        self.bytes
    }

    /// For how many live keys the table is sized, for each limit. It is 1 for `key = "none"` unless the
    /// file gives another number, and for a rule without limits.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The treatment of a key that finds no free slot. A key with requests in flight keeps its slot, so
    /// [`concurrency`](Self::concurrency) denies such a key unless this is [`OnFull::Admit`].
    #[must_use]
    pub fn on_full(&self) -> OnFull {
        self.on_full
    }

    /// Whether the rule denies nothing and only reports what it would have denied.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.is_shadow
    }

    /// The ban that follows on denials.
    #[must_use]
    pub fn penalty(&self) -> Option<Penalty> {
        self.penalty
    }

    /// The server that keeps the limits; `None` if this process does.
    #[must_use]
    pub fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }
}
