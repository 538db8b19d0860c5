//! The pace of a response's body, from the rules that decide the request to the service that sends the body.

use std::sync::{Arc, OnceLock};

use tollgate_paced::Pace;
use tollgate_rules::BytePace;

/// The slot in which the rules leave the pace of a response: an extension of its request.
#[derive(Clone, Debug, Default)]
pub(crate) struct PaceSlot(Arc<OnceLock<Pace>>);

impl PaceSlot {
    /// Sets the pace, once.
    pub(super) fn set(&self, paces: Vec<BytePace>) {
        let paces = paces.iter().map(|its| {
            let key: Box<[u8]> = its.key().into();
            Pace::keyed(its.limiter(), key).expect("the parser has checked the burst")
        });
        if let Some(pace) = paces.reduce(|pace, other| pace.and(&other)) {
            // A request is decided once.
            let _ = self.0.set(pace);
        }
    }

    /// The pace, if a rule has set one.
    pub(crate) fn get(&self) -> Option<&Pace> {
        self.0.get()
    }
}
