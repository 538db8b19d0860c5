//! A lock-free, bounded, keyed rate limiter that never grants more than the quota.
//!
//! Start with [`Limiter`] (a bucket for every key) or [`Direct`] (one bucket). A [`Quota`] says how
//! many *cells* (requests, bytes, tokens: any unit) may be spent in a span of time. An algorithm says
//! how they are counted; [`Gcra`], a token bucket, is the default. A [`Decision`] is a [`Permit`] or a
//! [`Denied`].
//!
//! ```
//! use tollgate::{Limiter, Quota};
//!
//! let gate: Limiter<str> = Limiter::builder(Quota::per_second(100).burst(20)).build()?;
//! if let Err(denied) = gate.check("192.0.2.7") {
//!     println!("429, retry after {:?}", denied.retry_after());
//! }
//! # Ok::<(), tollgate::BuildError>(())
//! ```
//!
//! # Features in modules
//!
//! | module | purpose |
//! |---|---|
//! | [`composite`] | several limits for one request, charged all or none |
//! | [`penalty`] | bans for keys that are denied, or fail, too often |
//! | [`shadow`] | limits that decide and are counted, and never deny |
//! | [`plan`] | another quota for some keys |
//! | [`dynamic`] | a quota that changes while it is in use |
//! | [`reservation`] | cells charged by an estimate and settled when the cost is known |
//! | [`lease`] | cells taken ahead by one worker, for a key that several threads contend for |
//! | [`concurrency`] | how many requests of a key may be in flight |
//! | [`wait`] | waiting for one's turn, first come first served |
//! | [`snapshot`] | the state of all keys as bytes, for a restart |
//! | [`top`] | the keys that are seen or denied most often |
//! | [`stats`] | counts of decisions and of occupancy |
//! | [`clock`] | the clocks; [`CoarseClock`](clock::CoarseClock) and [`TieredClock`](clock::TieredClock) are faster |
//! | [`limiter`] | the builder of [`Direct`], the layout of slots |
//! | [`decision`] | decisions for limiters outside this crate |
//! | [`algorithm`] | the trait that all algorithms implement |
//!
//! # Cargo features
//!
//! `shared-memory`: limiters in memory that the processes of a machine share, on Unix.
//!
//! `std` (default): the clocks, [`Direct`], [`Limiter`] and all that is built on them. Without it the
//! values and the algorithms remain. They need neither the standard library nor an allocator, and
//! no atomics.
//!
//! # What a minor version may add
//!
//! | | items | reason |
//! |---|---|---|
//! | sealed | [`Algorithm`](algorithm::Algorithm), [`Waitable`](wait::Waitable) | a method may be added |
//! | open | [`Clock`] | users implement it; added methods have a default |
//! | `#[non_exhaustive]` | all errors, choices and figures: [`BuildError`], [`QuotaError`], [`OnFull`], [`AnyAlgorithm`], [`SlotLayout`](limiter::SlotLayout), [`Stats`](stats::Stats), [`TopKey`](top::TopKey) | more of them may come |
//!
//! All other types have private fields. A type is `Send` and `Sync` if its parts are (clock, stored
//! key); a [`Limiter`]'s key need not be.

#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]
// Every type that is exhaustive gives its reason.
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

#[cfg(all(feature = "std", not(target_has_atomic = "64")))]
compile_error!(
    "the limiters need atomics of 64 bits, which this target lacks: use default-features = false \
     for the values and the algorithms alone"
);

mod algo;
#[cfg(feature = "std")]
mod cell;
#[cfg(feature = "std")]
mod charge;
#[cfg(feature = "std")]
pub mod concurrency;
pub mod decision;
#[cfg(feature = "std")]
pub mod limiter;
#[cfg(feature = "std")]
mod policy;
mod quota;
#[cfg(feature = "std")]
pub mod snapshot;
mod sync;
#[cfg(feature = "std")]
mod table;
mod time;
#[cfg(feature = "std")]
pub mod top;
#[cfg(feature = "std")]
pub mod wait;
mod word;

// The summary of a re-export is the first line of the item's own documentation.
#[doc(inline)]
pub use algo::{
    any::AnyAlgorithm, fixed_window::FixedWindow, gcra::Gcra, leaky_queue::LeakyQueue,
    sliding_counter::SlidingCounter, sliding_log::SlidingLog, sub_windows::SubWindows,
    warm_up::WarmUp,
};
#[doc(inline)]
pub use decision::{Decision, Denied, Permit};
#[cfg(feature = "shared-memory")]
pub use limiter::shared;
#[cfg(feature = "std")]
#[doc(inline)]
pub use limiter::{
    Limiter,
    ask::Ask,
    builder::{BuildError, Builder, OnFull},
    direct::Direct,
};
#[cfg(feature = "std")]
pub use policy::shadow;
#[doc(inline)]
pub use quota::{Quota, QuotaError};
#[cfg(target_has_atomic = "64")]
#[doc(inline)]
pub use time::ManualClock;
#[doc(inline)]
pub use time::{Clock, Tick};

/// The trait that all algorithms implement, and the error of an unknown name.
pub mod algorithm {
    pub use crate::algo::Algorithm;
    pub use crate::algo::any::UnknownAlgorithm;
}

/// Clocks that read the system's time. [`ManualClock`] is for tests.
#[cfg(feature = "std")]
pub mod clock {
    pub use crate::time::clocks::{CoarseClock, TieredClock};
    #[cfg(feature = "shared-memory")]
    pub use crate::time::monotonic_clock::MonotonicClock;
    pub use crate::time::quanta_clock::QuantaClock;
}

/// Counts of decisions, and of how full a limiter is.
#[cfg(feature = "std")]
pub mod stats {
    pub use crate::limiter::stats::{DecisionCount, Occupancy, Stats};
}

/// Cells charged by an estimate, and settled when the cost is known.
#[cfg(feature = "std")]
pub mod reservation {
    pub use crate::charge::chargeable::Chargeable;
    pub use crate::charge::reservation::{OwnedReservation, Reservation};
}

/// Cells of one key taken ahead by one worker, and spent without touching shared memory.
#[cfg(feature = "std")]
pub mod lease {
    pub use crate::charge::ask_lease::AskLease;
    pub use crate::charge::lease::{LocalLease, OwnedLocalLease};
    pub use crate::charge::lender::Lender;
}

/// Several limits for one request, charged all or none.
#[cfg(feature = "std")]
pub mod composite {
    pub use crate::policy::composite::{
        Composite, CompositeBuilder, CompositeDenied, CompositeError, CompositePermit,
    };
}

/// Bans for keys that are denied, or fail, too often.
#[cfg(feature = "std")]
pub mod penalty {
    pub use crate::policy::penalty::{
        Ban, Penalties, PenaltiesBuilder, PenaltyDenied, PenaltyStats,
    };
}

/// Another quota for some of a limiter's keys.
#[cfg(feature = "std")]
pub mod plan {
    pub use crate::limiter::plan::{Plan, Plannable};
}

/// A quota that changes while it is in use.
pub mod dynamic {
    pub use crate::algo::dynamic_gcra::Inherit;
    #[cfg(feature = "std")]
    pub use crate::policy::dynamic::DynamicGcra;
}

/// The state machines of the algorithms, their oracles, and what the model checkers need.
///
/// No promise is made about any of it: a patch version may change it.
#[doc(hidden)]
pub mod internals {
    pub use crate::algo::*;
    #[cfg(tollgate_loom)]
    pub use crate::cell::{AdaptiveCell, AdaptivePlan};
    #[cfg(feature = "std")]
    pub use crate::policy::dynamic::DynamicGcraParams;
    #[cfg(tollgate_loom)]
    pub use crate::sync::{
        Busy, DerivedCell, Loads, VersionedCell, let_loads_return, model_words, stops_at,
    };
    #[cfg(any(tollgate_loom, tollgate_shuttle))]
    pub use crate::sync::{Fault, ThreadSlots, plant};
    #[cfg(tollgate_loom)]
    pub use crate::time::disciplined::{Disciplined, Sample, TimeSource};
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
