//! Servers that keep the limits of a rule for several processes.

use std::fmt;
use std::time::Duration;

/// A server that keeps the limits of a rule, which several processes share. This crate only names
/// the server. The caller asks it: see [`RulesDecision::deferred`](crate::RulesDecision::deferred).
///
/// ```
/// use tollgate_rules::{Rules, Fallback};
///
/// let text = r#"
///     [[rule]]
///     name = "api"
///     limits = "100/s burst 20"
///     store = { url = "redis://10.0.0.5:6379", fallback = "local", nodes = 4 }
/// "#;
/// let rules = Rules::parse("rules.toml", text)?;
/// let store = rules.rules()[0].store().expect("it has one");
/// assert_eq!((store.fallback(), store.nodes(), store.asks_always()), (Fallback::Local, 4, false));
/// # Ok::<(), tollgate_rules::RulesError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Store {
    pub(crate) url: String,
    pub(crate) fallback: Fallback,
    pub(crate) nodes: u64,
    pub(crate) asks_always: bool,
    pub(crate) deadline: Option<Duration>,
    pub(crate) prefix: Option<String>,
}

/// Decides a request while the server does not answer: `fallback` in a rules file.
///
/// ```
/// assert_eq!(tollgate_rules::Fallback::default(), tollgate_rules::Fallback::Local);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// This process decides by its part of the quota, one of [`Store::nodes`] equal parts.
    #[default]
    Local,
    /// The request is denied.
    Deny,
    /// The request is admitted.
    Admit,
}

impl Store {
    /// The URL of the server. It may hold a password, which [`Display`](fmt::Display) leaves out.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The fallback that decides while the server does not answer.
    #[must_use]
    pub fn fallback(&self) -> Fallback {
        self.fallback
    }

    /// Among how many processes the quota is divided while the server is down; 1 by default.
    #[must_use]
    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Whether the server is asked about each request. If not, each process leases cells ahead.
    ///
    /// ```
    /// # use tollgate_rules::Rules;
    /// let text = r#"
    ///     [[rule]]
    ///     name = "a"
    ///     limits = "1/s"
    ///     store = { url = "redis://cache", ask = "always" }
    /// "#;
    /// let rules = Rules::parse("rules.toml", text)?;
    /// assert!(rules.rules()[0].store().unwrap().asks_always());
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn asks_always(&self) -> bool {
        self.asks_always
    }

    /// How long a call may take, connecting included, if the file gives it: 1 ms to 60 s.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// The prefix of all keys on the server, if the file gives one: 1 to 64 bytes without braces.
    #[must_use]
    pub fn prefix(&self) -> Option<&str> {
        self.prefix.as_deref()
    }

    /// Whether two rules can share connections: they have the same server, deadline and prefix.
    ///
    /// ```
    /// # use tollgate_rules::Rules;
    /// let text = r#"rule = [
    ///     { name = "a", limits = "1/s", store = "redis://cache" },
    ///     { name = "b", limits = "9/s", store = { url = "redis://cache", fallback = "deny" } },
    ///     { name = "c", limits = "9/s", store = { url = "redis://cache", deadline = "1 s" } },
    /// ]"#;
    /// let rules = Rules::parse("rules.toml", text)?;
    /// let [a, b, c] = [0, 1, 2].map(|index| rules.rules()[index].store().unwrap());
    /// assert!(a.shares_connections_with(b) && !a.shares_connections_with(c));
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn shares_connections_with(&self, other: &Self) -> bool {
        self.url == other.url && self.deadline == other.deadline && self.prefix == other.prefix
    }
}

/// The URL without user and password, those of each node of a cluster.
impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, nodes) = self.url.split_once("://").unwrap_or(("redis", &self.url));
        write!(f, "{scheme}://")?;
        // Only a cluster has several nodes. Elsewhere, a comma belongs to the password.
        let nodes_max = if scheme == "redis+cluster" { usize::MAX } else { 1 };
        for (index, node) in nodes.splitn(nodes_max, ',').enumerate() {
            let separator = if index == 0 { "" } else { "," };
            let host = node.rsplit_once('@').map_or(node, |(_, host)| host);
            write!(f, "{separator}{host}")?;
        }
        Ok(())
    }
}

/// Without user and password, so that no log shows them.
impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("url", &format_args!("{self}"))
            .field("fallback", &self.fallback)
            .field("nodes", &self.nodes)
            .field("asks_always", &self.asks_always)
            .field("deadline", &self.deadline)
            .field("prefix", &self.prefix)
            .finish()
    }
}
