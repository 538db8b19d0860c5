//! The limits and penalties of rules.

use std::time::Duration;

use tollgate::{AnyAlgorithm, Quota};

use super::{Rule, RuleAlgorithm};

/// One limit of a rule.
///
/// ```
/// use tollgate_rules::Rules;
///
/// let rules = Rules::parse("rules.toml", r#"
///     rule = [{ name = "a", limits = ["5 per second", { name = "daily", quota = "1000/day" }] }]
/// "#)?;
/// let limits = rules.rules()[0].limits();
/// assert_eq!((limits[0].name(), limits[1].name()), ("5/s", "daily"));
/// assert_eq!(limits[0].quota(), tollgate::Quota::per_second(5));
/// assert_eq!(limits[1].algorithm(), tollgate::Gcra::new().into());
/// assert_eq!(limits[1].algorithm_name(), "gcra");
/// # Ok::<(), tollgate_rules::RulesError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleLimit {
    pub(crate) name: String,
    pub(crate) quota: Quota,
    pub(crate) algorithm: &'static RuleAlgorithm,
}

impl RuleLimit {
    /// The name. It is unique within the rule, and the text of the quota unless the file gives one.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The quota.
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// The most cells that a key can spend at once: the quota's burst, or its limit where the algorithm counts in
    /// windows.
    ///
    /// ```
    /// # use tollgate_rules::Rules;
    /// # let text = r#"rule = [{ name = "a", limits = ["2/s burst 5", { quota = "9/h", algorithm = "sliding-log" }] }]"#;
    /// let rules = Rules::parse("rules.toml", text)?;
    /// assert_eq!(rules.rules()[0].limits()[0].at_once(), 5);
    /// assert_eq!(rules.rules()[0].limits()[1].at_once(), 9);
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn at_once(&self) -> u64 {
        (self.algorithm.at_once)(&self.quota)
    }

    /// The most cells that a request may cost and ever be admitted by all limits of a rule or, of plans, by one.
    pub(crate) fn most_at_once(limits: &[Self], are_plans: bool) -> Option<u64> {
        let at_once = limits.iter().map(Self::at_once);
        if are_plans { at_once.max() } else { at_once.min() }
    }

    /// The algorithm that keeps the quota.
    #[must_use]
    pub fn algorithm(&self) -> AnyAlgorithm {
        self.algorithm.algorithm()
    }

    /// The name of the algorithm in rules files.
    #[must_use]
    pub fn algorithm_name(&self) -> &'static str {
        self.algorithm.name
    }

    /// The name, if the file gives one.
    pub(crate) fn given_name(&self) -> Option<&str> {
        (self.name != self.quota.to_string()).then_some(&*self.name)
    }
}

/// The first word of an id that the file does not give.
const PER: &str = "per-";

impl Rule {
    /// An id for each limit, in the order of [`limits`](Self::limits), to keep its state by on a server. No two limits
    /// of a rule have the same. It is the name that the file gives the limit; or else its period, and its number among
    /// the limits of that period. So it stays as it is when the quota's limit or burst changes.
    ///
    /// ```
    /// # use tollgate_rules::Rules;
    /// let rules = Rules::parse("rules.toml", r#"
    ///     rule = [{ name = "a", limits = ["2/s", "9/s burst 50", { name = "daily", quota = "1000/d" }] }]
    /// "#)?;
    /// assert_eq!(rules.rules()[0].limit_ids(), ["per-s", "per-s-2", "daily"]);
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn limit_ids(&self) -> Vec<String> {
        let id = |(index, limit): (usize, &RuleLimit)| {
            // One that begins like an id by period has the word twice.
            if let Some(name) = limit.given_name() {
                let again = if name.starts_with(PER) { PER } else { "" };
                return format!("{again}{name}");
            }
            let period = limit.quota.period();
            let is_alike =
                |other: &&RuleLimit| other.given_name().is_none() && other.quota.period() == period;
            let number = 1 + self.limits[..index].iter().filter(is_alike).count();
            let one = Quota::new(1, period).to_string();
            let by_period = one.replacen("1/", PER, 1);
            if number == 1 { by_period } else { format!("{by_period}-{number}") }
        };
        self.limits.iter().enumerate().map(id).collect()
    }
}

/// A ban that follows on denials: `penalty` in a rules file.
///
/// A key that its rule denies `after` times within `within` is denied for `ban`, even if its limits
/// would admit it. Requests during a ban neither prolong it nor count as denials.
///
/// **Not guaranteed.** Denials are counted in periods of `within`, each of which begins with a denial. Around the end
/// of a period, up to twice `after`, less two, within `within` begin no ban.
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
    /// The number of denials that begin a ban, at least 1.
    pub after: u64,
    /// The time from the first of these denials within which the others must happen. It is the length of the
    /// ban unless the file gives another.
    pub within: Duration,
    /// How long the key is denied.
    pub ban: Duration,
}
