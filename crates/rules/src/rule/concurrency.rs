//! The limit of requests in flight: `concurrency` in a rules file.

use std::time::Duration;

/// How many requests of a key may be in flight at one time: `concurrency` in a rules file.
///
/// ```
/// use tollgate_rules::Rules;
///
/// let rules = Rules::parse("rules.toml", r#"rule = [
///     { name = "a", concurrency = 10 },
///     { name = "b", concurrency = { limit = 10, max_hold = "10 min" }, limits = "5/s" },
/// ]"#)?;
/// let of = |index: usize| rules.rules()[index].concurrency().expect("it has one");
/// assert_eq!((of(0).limit(), of(0).max_hold()), (10, None));
/// assert_eq!(of(1).max_hold().unwrap().as_secs(), 600);
/// # Ok::<(), tollgate_rules::RulesError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    pub(crate) limit: u64,
    pub(crate) max_hold: Option<Duration>,
}

impl Concurrency {
    /// How many requests of a key may be in flight.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The time after which a request counts as lost; `None`: it counts until it ends. See
    /// [`max_hold`](tollgate::concurrency::ConcurrencyBuilder::max_hold).
    #[must_use]
    pub fn max_hold(&self) -> Option<Duration> {
        self.max_hold
    }
}
