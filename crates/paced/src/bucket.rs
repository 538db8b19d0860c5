//! One bucket, whatever holds it: a [`Direct`], or a key of a [`Limiter`].

use core::borrow::Borrow;
use core::hash::Hash;
use core::marker::PhantomData;
use core::time::Duration;
use std::sync::Arc;

use tollgate::algorithm::Algorithm;
use tollgate::dynamic::DynamicGcra;
use tollgate::reservation::Chargeable;
use tollgate::{Clock, Decision, Direct, Gcra, Limiter, Tick};

/// An algorithm that can pace bytes: [`Gcra`] or [`DynamicGcra`].
///
/// A window would let all of its bytes pass when it opens, and forgets debts when it ends.
///
/// It is sealed.
pub trait TokenBucket: Algorithm + sealed::Sealed {}

impl TokenBucket for Gcra {}
impl TokenBucket for DynamicGcra {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for tollgate::Gcra {}
    impl Sealed for tollgate::dynamic::DynamicGcra {}
}

/// A bucket that bytes are charged to, a cell for each.
pub(crate) trait Bucket: Send + Sync {
    /// The time by the clock of its limiter.
    fn now(&self) -> Tick;

    /// Charges `bytes` if they are there.
    fn check(&self, bytes: u64, now: Tick) -> Decision;

    fn peek(&self, bytes: u64, now: Tick) -> Decision;

    /// Charges bytes whatever the limit. Returns how long until the bucket has paid for them, or `None` if its key
    /// finds no slot and is denied: nothing is charged then.
    fn charge(&self, bytes: u64, now: Tick) -> Option<Duration>;

    fn refund(&self, bytes: u64, now: Tick);
}

/// The bucket of a [`Direct`].
pub(crate) struct Whole<A: Algorithm, C>(pub(crate) Arc<Direct<A, C>>);

impl<A, C> Bucket for Whole<A, C>
where
    A: TokenBucket,
    C: Clock,
    Direct<A, C>: Chargeable + Send + Sync,
{
    fn now(&self) -> Tick {
        self.0.clock().now()
    }

    fn check(&self, bytes: u64, now: Tick) -> Decision {
        self.0.ask().cells(bytes).at(now).check()
    }

    fn peek(&self, bytes: u64, now: Tick) -> Decision {
        self.0.ask().cells(bytes).at(now).peek()
    }

    fn charge(&self, bytes: u64, now: Tick) -> Option<Duration> {
        Some(self.0.ask().cells(bytes).at(now).charge())
    }

    fn refund(&self, bytes: u64, now: Tick) {
        self.0.ask().cells(bytes).at(now).refund();
    }
}

/// The bucket of a key.
pub(crate) struct Keyed<K: ?Sized, Q, A: Algorithm, C> {
    gate: Arc<Limiter<K, A, C>>,
    key: Q,
    /// The limiter hashes keys and holds none.
    hashed: PhantomData<fn(&K)>,
}

impl<K: ?Sized, Q, A: Algorithm, C> Keyed<K, Q, A, C> {
    pub(crate) fn new(gate: Arc<Limiter<K, A, C>>, key: Q) -> Self {
        Self { gate, key, hashed: PhantomData }
    }
}

impl<K, Q, A, C> Bucket for Keyed<K, Q, A, C>
where
    K: Hash + ?Sized,
    Q: Borrow<K> + Send + Sync,
    A: TokenBucket,
    C: Clock,
    Limiter<K, A, C>: Chargeable + Send + Sync,
{
    fn now(&self) -> Tick {
        self.gate.clock().now()
    }

    fn check(&self, bytes: u64, now: Tick) -> Decision {
        self.gate.ask(self.key.borrow()).cells(bytes).at(now).check()
    }

    fn peek(&self, bytes: u64, now: Tick) -> Decision {
        self.gate.ask(self.key.borrow()).cells(bytes).at(now).peek()
    }

    fn charge(&self, bytes: u64, now: Tick) -> Option<Duration> {
        let ask = self.gate.ask(self.key.borrow()).cells(bytes).at(now);
        // A key without a slot is charged nothing. The limiter then admits it without a state, or denies it.
        ask.try_charge().or_else(|| ask.check().is_ok().then_some(Duration::ZERO))
    }

    fn refund(&self, bytes: u64, now: Tick) {
        self.gate.ask(self.key.borrow()).cells(bytes).at(now).refund();
    }
}
