//! Servers that keep a rule's limits for several processes.

use std::fmt;
use std::time::Duration;

/// Where a rule's limits are kept, if not in this process: on a server that several processes
/// share. This crate only says which; who decides asks it: see
/// [`Verdict::elsewhere`](crate::Verdict::elsewhere).
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
/// assert_eq!((store.fallback(), store.nodes(), store.is_asked_always()), (Fallback::Local, 4, false));
/// # Ok::<(), tollgate_rules::RulesError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Store {
    pub(crate) url: String,
    pub(crate) fallback: Fallback,
    pub(crate) nodes: u64,
    pub(crate) is_asked_always: bool,
    pub(crate) deadline: Option<Duration>,
    pub(crate) prefix: Option<String>,
}

/// What becomes of a request if the server does not answer in time.
///
/// ```
/// assert_eq!(tollgate_rules::Fallback::default(), tollgate_rules::Fallback::Local);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// This process decides, by its share of the quota: that of one of [`Store::nodes`].
    #[default]
    Local,
    /// It is denied.
    Block,
    /// It is admitted.
    Admit,
}

impl Store {
    /// Where the server is. It may hold a password: [`Display`](fmt::Display) leaves that out.
    ///
    /// ```
    /// # use tollgate_rules::Rules;
    /// let text = r#"rule = [{ name = "a", limits = "1/s", store = "redis://:secret@cache/2" }]"#;
    /// let rules = Rules::parse("rules.toml", text)?;
    /// let store = rules.rules()[0].store().expect("it has one");
    /// assert_eq!(store.url(), "redis://:secret@cache/2");
    /// assert_eq!(store.to_string(), "redis://cache/2");
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What becomes of requests if the server does not answer in time.
    ///
    /// ```
    /// # use tollgate_rules::{Rules, Fallback};
    /// let text = r#"rule = [{ name = "a", limits = "1/s", store = "redis://cache" }]"#;
    /// let rules = Rules::parse("rules.toml", text)?;
    /// assert_eq!(rules.rules()[0].store().unwrap().fallback(), Fallback::Local);
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn fallback(&self) -> Fallback {
        self.fallback
    }

    /// Among how many processes the quota is divided while the server is down, 1 unless said.
    ///
    /// ```
    /// # use tollgate_rules::Rules;
    /// let text = r#"rule = [{ name = "a", limits = "1/s", store = "redis://cache" }]"#;
    /// assert_eq!(Rules::parse("rules.toml", text)?.rules()[0].store().unwrap().nodes(), 1);
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Whether the server is asked about each request, and not for some cells ahead.
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
    /// assert!(rules.rules()[0].store().unwrap().is_asked_always());
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn is_asked_always(&self) -> bool {
        self.is_asked_always
    }

    /// How long a call may take, connecting included, if the file says so: 1 ms to 60 s.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_rules::Rules;
    /// let text = r#"
    ///     [[rule]]
    ///     name = "a"
    ///     limits = "1/s"
    ///     store = { url = "redis://cache", deadline = "25 ms" }
    /// "#;
    /// let rules = Rules::parse("rules.toml", text)?;
    /// assert_eq!(rules.rules()[0].store().unwrap().deadline(), Some(Duration::from_millis(25)));
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// What all keys on the server begin with, if the file says so: 1 to 64 bytes, no braces.
    ///
    /// ```
    /// # use tollgate_rules::Rules;
    /// let text = r#"
    ///     [[rule]]
    ///     name = "a"
    ///     limits = "1/s"
    ///     store = { url = "redis://cache", prefix = "staging" }
    /// "#;
    /// let rules = Rules::parse("rules.toml", text)?;
    /// assert_eq!(rules.rules()[0].store().unwrap().prefix(), Some("staging"));
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn prefix(&self) -> Option<&str> {
        self.prefix.as_deref()
    }

    /// Whether both are asked in the same way: at the same place, by the same deadline, with the
    /// same prefix. Rules for which that holds can share connections.
    ///
    /// ```
    /// # use tollgate_rules::Rules;
    /// let text = r#"rule = [
    ///     { name = "a", limits = "1/s", store = "redis://cache" },
    ///     { name = "b", limits = "9/s", store = { url = "redis://cache", fallback = "block" } },
    ///     { name = "c", limits = "9/s", store = { url = "redis://cache", deadline = "1 s" } },
    /// ]"#;
    /// let rules = Rules::parse("rules.toml", text)?;
    /// let [a, b, c] = [0, 1, 2].map(|index| rules.rules()[index].store().unwrap());
    /// assert!(a.is_reached_like(b) && !a.is_reached_like(c));
    /// # Ok::<(), tollgate_rules::RulesError>(())
    /// ```
    #[must_use]
    pub fn is_reached_like(&self, other: &Self) -> bool {
        self.url == other.url && self.deadline == other.deadline && self.prefix == other.prefix
    }
}

/// The URL, without user and password.
impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = self.url.split_once("://").unwrap_or(("redis", &self.url));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        write!(f, "{scheme}://{host}{path}")
    }
}

/// As it is displayed, and what else was chosen: a password is no part of a log.
impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("url", &format_args!("{self}"))
            .field("when_down", &self.fallback)
            .field("nodes", &self.nodes)
            .field("is_asked_always", &self.is_asked_always)
            .field("deadline", &self.deadline)
            .field("prefix", &self.prefix)
            .finish()
    }
}
