//! Rules whose limits a store keeps.

use crate::rule::Rule;

/// A rule that a store decides: the caller asks it for `cells` of each limit, for one key.
///
/// ```
/// # use tollgate_rules::{RulesLimiter, Request, Rules};
/// let text = r#"rule = [{ name = "a", limits = "9/s", store = "redis://cache" }]"#;
/// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
/// let peer = Some([192, 0, 2, 7].into());
/// let decision = gate.decide_n(&Request { peer, ..Request::default() }, 3);
/// let [deferred] = decision.deferred() else { panic!() };
/// assert_eq!((deferred.rule().limits().len(), deferred.cells()), (1, 3));
/// let other = Some([192, 0, 2, 8].into());
/// let decision = gate.decide(&Request { peer: other, ..Request::default() });
/// assert_ne!(decision.deferred()[0].key(), deferred.key());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Deferred<'g> {
    pub(crate) rule: &'g Rule,
    pub(crate) key: Box<[u8]>,
    pub(crate) cells: u64,
}

impl<'g> Deferred<'g> {
    /// The rule. It has a store.
    #[must_use]
    pub fn rule(&self) -> &'g Rule {
        self.rule
    }

    /// The key: any bytes, of any length. Requests that the rule counts separately have different
    /// keys. Requests that lack a part of the rule's key share one, which is not empty.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The cost of the request.
    #[must_use]
    pub fn cells(&self) -> u64 {
        self.cells
    }
}
