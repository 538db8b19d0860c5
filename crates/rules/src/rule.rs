//! Rules as they were written, with nothing left to doubt.

use std::time::Duration;

use tollgate::{AnyAlgorithm, OnFull, Quota};

use crate::error::RulesError;
use crate::key::{Key, OnNoKey};
use crate::matcher::Matcher;
use crate::parse;
use crate::store::Store;

/// The rules of a file, checked.
///
/// That there is one means that every rule can be enforced: patterns are patterns, and every
/// limit's quota is one that its algorithm can keep.
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
    pub(crate) rules: Vec<Rule>,
}

impl Rules {
    /// Reads `text`, which came from `file` (for messages only).
    ///
    /// # Errors
    ///
    /// All that is wrong, each with its line, its column and what to write instead.
    ///
    /// ```
    /// use tollgate_rules::Rules;
    ///
    /// let errors = Rules::parse("rules.toml", "[[rule]]\nname = \"a\"\nlimits = \"5/fortnight\"")
    ///     .unwrap_err();
    /// assert_eq!(errors.to_string(), "\
    ///     rules.toml:3:13: expected a unit of time (ns, us, ms, s, min, h, d, w, y), \
    ///     as in \"10 per minute\"");
    /// ```
    pub fn parse(file: &str, text: &str) -> Result<Self, RulesError> {
        parse::rules(file, text)
    }

    /// Which of the rules that match a request apply to it.
    ///
    /// ```
    /// use tollgate_rules::{Apply, Rules};
    /// let rules = Rules::parse("rules.toml", r#"rule = [{ name = "a", limits = "5/s" }]"#)?;
    /// assert_eq!(rules.apply(), Apply::All);
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn apply(&self) -> Apply {
        self.apply
    }

    /// The rules, in the order of the file.
    ///
    /// ```
    /// # use tollgate_rules::Rules;
    /// let rules = Rules::parse("rules.toml", r#"rule = [{ name = "a", limits = "5/s" }]"#)?;
    /// assert_eq!(rules.rules().len(), 1);
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The same with all limits kept in this process, say to try them on a log.
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
    /// All of them: a request passes if every limit of every matching rule admits it, and is
    /// charged to all or to none.
    #[default]
    All,
    /// The first of them that is not in shadow.
    First,
}

/// One rule: which requests it is about, what they are counted by, and how many may pass.
///
/// ```
/// use tollgate_rules::Rules;
///
/// let rules = Rules::parse("rules.toml", r#"rule = [{ name = "a", limits = "5/s" }]"#)?;
/// let rule = &rules.rules()[0];
/// assert_eq!((rule.name(), rule.capacity(), rule.is_shadow()), ("a", 100_000, false));
/// # Ok::<(), tollgate_rules::RulesError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub(crate) name: String,
    pub(crate) matcher: Matcher,
    pub(crate) key: Key,
    pub(crate) on_no_key: OnNoKey,
    pub(crate) limits: Vec<Limit>,
    pub(crate) capacity: u64,
    pub(crate) on_full: OnFull,
    pub(crate) is_shadow: bool,
    pub(crate) penalty: Option<Penalty>,
    pub(crate) store: Option<Store>,
}

impl Rule {
    /// Its name, which no other rule of the file has.
    ///
    /// ```
    /// # let rules = tollgate_rules::Rules::parse("rules.toml", r#"
    /// #     rule = [{ name = "a", limits = "5/s" }]
    /// # "#)?;
    /// assert_eq!(rules.rules()[0].name(), "a");
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What gets a bucket of its own.
    ///
    /// ```
    /// # let rules = tollgate_rules::Rules::parse("rules.toml", r#"
    /// #     rule = [{ name = "a", limits = "5/s" }]
    /// # "#)?;
    /// assert_eq!(rules.rules()[0].key().to_string(), "ip (IPv6 by /64)");
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// What happens to a request without a key.
    ///
    /// ```
    /// # let rules = tollgate_rules::Rules::parse("rules.toml", r#"
    /// #     rule = [{ name = "a", limits = "5/s" }]
    /// # "#)?;
    /// assert_eq!(rules.rules()[0].on_no_key(), tollgate_rules::OnNoKey::Shared);
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn on_no_key(&self) -> OnNoKey {
        self.on_no_key
    }

    /// Its limits: one to eight, of which every one must admit.
    ///
    /// ```
    /// # let rules = tollgate_rules::Rules::parse("rules.toml", r#"
    /// #     rule = [{ name = "a", limits = ["5/s", "9/min"] }]
    /// # "#)?;
    /// assert_eq!(rules.rules()[0].limits().len(), 2);
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// How many keys may be live at one time, for each limit.
    ///
    /// ```
    /// # let rules = tollgate_rules::Rules::parse("rules.toml", r#"
    /// #     rule = [{ name = "a", key = "none", limits = "5/s" }]
    /// # "#)?;
    /// assert_eq!(rules.rules()[0].capacity(), 1);
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// What happens when a key finds no place.
    ///
    /// ```
    /// # let rules = tollgate_rules::Rules::parse("rules.toml", r#"
    /// #     rule = [{ name = "a", on_full = "deny", limits = "5/s" }]
    /// # "#)?;
    /// assert_eq!(rules.rules()[0].on_full(), tollgate::OnFull::Deny);
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn on_full(&self) -> OnFull {
        self.on_full
    }

    /// Whether it only tells what it would have denied.
    ///
    /// ```
    /// # let rules = tollgate_rules::Rules::parse("rules.toml", r#"
    /// #     rule = [{ name = "a", shadow = true, limits = "5/s" }]
    /// # "#)?;
    /// assert!(rules.rules()[0].is_shadow());
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.is_shadow
    }

    /// What follows on denials.
    ///
    /// ```
    /// # let rules = tollgate_rules::Rules::parse("rules.toml", r#"
    /// #     rule = [{ name = "a", limits = "5/s" }]
    /// # "#)?;
    /// assert_eq!(rules.rules()[0].penalty(), None);
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn penalty(&self) -> Option<Penalty> {
        self.penalty
    }

    /// The server that keeps the limits, if not this process.
    ///
    /// ```
    /// # use tollgate_rules::Rules;
    /// let text = r#"rule = [{ name = "a", limits = "1/s", store = "redis://cache" }]"#;
    /// assert!(Rules::parse("rules.toml", text)?.rules()[0].store().is_some());
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }
}

/// One limit of a rule.
///
/// ```
/// use tollgate_rules::Rules;
///
/// let rules = Rules::parse("rules.toml", r#"
///     rule = [{ name = "a", limits = ["5/s", { name = "daily", quota = "1000/day" }] }]
/// "#)?;
/// let limits = rules.rules()[0].limits();
/// assert_eq!((limits[0].name(), limits[1].name()), ("5/s", "daily"));
/// assert_eq!(limits[1].algorithm_name(), "gcra");
/// # Ok::<(), tollgate_rules::RulesError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    pub(crate) name: String,
    pub(crate) quota: Quota,
    pub(crate) algorithm: AnyAlgorithm,
    pub(crate) algorithm_name: &'static str,
}

impl Limit {
    /// Its name, which no other limit of the rule has; the quota's text unless one was given.
    ///
    /// ```
    /// # let rules = tollgate_rules::Rules::parse("rules.toml", r#"
    /// #     rule = [{ name = "a", limits = "5 per second" }]
    /// # "#)?;
    /// assert_eq!(rules.rules()[0].limits()[0].name(), "5/s");
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How much.
    ///
    /// ```
    /// # let rules = tollgate_rules::Rules::parse("rules.toml", r#"
    /// #     rule = [{ name = "a", limits = "5/s" }]
    /// # "#)?;
    /// assert_eq!(rules.rules()[0].limits()[0].quota(), tollgate::Quota::per_second(5));
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// How it is counted.
    ///
    /// ```
    /// # let rules = tollgate_rules::Rules::parse("rules.toml", r#"
    /// #     rule = [{ name = "a", limits = "5/s" }]
    /// # "#)?;
    /// assert_eq!(rules.rules()[0].limits()[0].algorithm(), tollgate::Gcra::new().into());
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn algorithm(&self) -> AnyAlgorithm {
        self.algorithm
    }

    /// The algorithm by its name in rules files.
    ///
    /// ```
    /// # let rules = tollgate_rules::Rules::parse("rules.toml", r#"
    /// #     rule = [{ name = "a", limits = "5/s" }]
    /// # "#)?;
    /// assert_eq!(rules.rules()[0].limits()[0].algorithm_name(), "gcra");
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn algorithm_name(&self) -> &'static str {
        self.algorithm_name
    }
}

/// A ban that follows on denials: `penalty` in a rules file.
///
/// A key that its rule denies `after` times within `within` is denied for `ban`, whatever its
/// limits say by then. Requests meanwhile do not make the ban longer, nor do they count.
///
/// ```
/// use tollgate_rules::Rules;
///
/// let rules = Rules::parse("rules.toml", r#"
///     rule = [{ name = "login", limits = "5/min", penalty = "10 min" }]
/// "#)?;
/// let penalty = rules.rules()[0].penalty().expect("it has one");
/// assert_eq!((penalty.after, penalty.ban.as_secs()), (1, 600));
/// # Ok::<(), tollgate_rules::RulesError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Penalty {
    /// The denial with which it begins, at least 1.
    pub after: u64,
    /// The span, from the first denial that counts, in which so many must happen. It is the ban's
    /// where nothing else was given.
    pub within: Duration,
    /// How long the key is denied.
    pub ban: Duration,
}
