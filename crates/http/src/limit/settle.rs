//! Cells that are charged by an estimate and settled by the response.

use core::fmt;
use core::hash::Hash;
use std::sync::Arc;

use http::{Method, request, response};
use tollgate::algorithm::Algorithm;
use tollgate::reservation::{Chargeable, OwnedReservation};
use tollgate::{Clock, Denied, Limiter};

use super::{Asked, Charged};
use crate::gate::Charge;

type OfHead = dyn Fn(&response::Parts) -> u64 + Send + Sync;
type OfBytes = dyn Fn(u64) -> u64 + Send + Sync;

/// The source of the final cost.
#[derive(Clone)]
pub(super) enum Settle {
    /// The request alone: the estimate is the cost.
    Never,
    Head(Arc<OfHead>),
    Bytes(Arc<OfBytes>),
}

impl Settle {
    /// The source of this request's cost. It is not the body if the response has none.
    pub(super) fn of(&self, request: &request::Parts) -> &Self {
        match self {
            Self::Bytes(_) if [Method::HEAD, Method::CONNECT].contains(&request.method) => {
                &Self::Never
            }
            settle => settle,
        }
    }
}

impl fmt::Debug for Settle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Never => "Never",
            Self::Head(_) => "Head",
            Self::Bytes(_) => "Bytes",
        })
    }
}

/// A reservation that stays charged when it is dropped.
struct KeptReservation<G: Chargeable> {
    held: Option<OwnedReservation<G>>,
    settle: Settle,
}

/// Charges cells that can be refunded and settled. The algorithms that can refund never delay.
pub(super) fn reserve<Q, A, C>(
    ask: Asked<'_, Q, A, C>,
    limiter: &Arc<Limiter<Q, A, C>>,
    settle: &Settle,
) -> Result<Charged, Denied>
where
    Q: Hash + ?Sized + 'static,
    A: Algorithm + 'static,
    C: Clock + Send + Sync + 'static,
    Limiter<Q, A, C>: Chargeable,
{
    let held = ask.reserve_owned(limiter)?;
    let charge: Box<dyn Charge> =
        Box::new(KeptReservation { held: Some(held), settle: settle.clone() });
    // A reservation does not know what is left.
    let (limit, remaining, reset_after) = match ask.cells(0).peek() {
        Ok(permit) => (permit.limit(), permit.remaining(), permit.reset_after()),
        Err(denied) => (denied.limit(), denied.remaining(), denied.reset_after()),
    };
    let delay = core::time::Duration::ZERO;
    Ok(Charged { limit, remaining, reset_after, delay, charge: Some(charge) })
}

impl<G: Chargeable> KeptReservation<G> {
    fn settle(&mut self, actual: u64) {
        if let Some(held) = self.held.take() {
            held.settle(actual);
        }
    }
}

impl<G: Chargeable + Send + Sync + 'static> Charge for KeptReservation<G> {
    fn refund(mut self: Box<Self>) {
        self.settle(0);
    }

    fn answered(mut self: Box<Self>, response: &response::Parts) -> Option<Box<dyn Charge>> {
        match &self.settle {
            Settle::Never => None,
            Settle::Head(actual) => {
                let actual = actual(response);
                self.settle(actual);
                None
            }
            // After an upgrade there is no body to count.
            Settle::Bytes(_) if response.status.is_informational() => None,
            Settle::Bytes(_) => Some(self),
        }
    }

    fn sent(mut self: Box<Self>, body_bytes: u64) {
        if let Settle::Bytes(actual) = &self.settle {
            let actual = actual(body_bytes);
            self.settle(actual);
        }
    }

    fn cut_short(mut self: Box<Self>, body_bytes: u64) {
        if let Settle::Bytes(actual) = &self.settle {
            let estimate = self.held.as_ref().map_or(0, OwnedReservation::cells);
            let actual = actual(body_bytes).max(estimate);
            self.settle(actual);
        }
    }
}

impl<G: Chargeable> Drop for KeptReservation<G> {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            let cells = held.cells();
            held.settle(cells);
        }
    }
}

impl<G: Chargeable> fmt::Debug for KeptReservation<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cells = self.held.as_ref().map(OwnedReservation::cells);
        f.debug_struct("KeptReservation")
            .field("cells", &cells)
            .field("settle", &self.settle)
            .finish()
    }
}
