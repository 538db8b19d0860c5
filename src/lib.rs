//! A lock-free, bounded, keyed rate limiter that never grants more than the quota.
//!
//! Start with [`Limiter`] (a bucket for every key) or [`Direct`] (one bucket). A [`Quota`] says
//! how much, an algorithm ([`Gcra`], [`LeakyQueue`], [`WarmUp`], [`FixedWindow`]) says how it is
//! counted, and a decision is a [`Permit`] or a [`Denied`].
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
//! Where it has to be faster still: [`Limiter::check_batch`], [`TieredClock`], [`LocalLease`],
//! [`Limiter::allow`].
//!
//! # Features
//!
//! `std` (default): the clocks, [`Direct`] and [`Limiter`]. Without it the values and the
//! algorithms remain, which need neither the standard library nor an allocator, and no atomics.
//!
//! # What a minor version may add
//!
//! | | what | why |
//! |---|---|---|
//! | sealed | [`Algorithm`](algo::Algorithm), [`StateMachine`](algo::Machine), [`Refund`](algo::GiveBack), [`Oracle`](algo::oracle::Oracle), [`Source`] | a method may be added; a state's word is known to the table |
//! | open | [`Clock`], [`Visitor`](algo::Visit), [`Ring`](algo::Ring) | others write them; what is added has a default |
//! | `#[non_exhaustive]` | all errors, choices and figures: [`BuildError`], [`QuotaError`], [`UnknownAlgorithm`], [`OnFull`], [`SlotLayout`], [`AnyAlgorithm`] and what belongs to it, [`Stats`], [`Occupancy`], [`TopKey`] | there will be more of them |
//! | complete | [`Step`](algo::Step), [`Standing`](algo::Standing), [`Receipt`](algo::Receipt), [`Verdict`](algo::oracle::Verdict), [`NoRing`](algo::NoRing) | who drives a machine by hand makes them, or must handle each |
//!
//! All other types have private fields. All types are `Send` and `Sync` if what they are made of
//! (clock, kept key) is; a [`Limiter`]'s key need not be.

#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]
// What is exhaustive is so on purpose, and says why.
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

#[cfg(all(feature = "std", not(target_has_atomic = "64")))]
compile_error!(
    "the limiters need atomics of 64 bits, which this target lacks: use default-features = false \
     for the values and the algorithms alone"
);

pub mod algo;
#[cfg(feature = "std")]
mod cell;
#[cfg(feature = "std")]
mod charge;
mod decision;
#[cfg(feature = "std")]
mod limiter;
#[cfg(feature = "std")]
mod policy;
mod quota;
#[cfg(feature = "std")]
mod snapshot;
mod sync;
#[cfg(feature = "std")]
mod table;
mod time;
#[cfg(feature = "std")]
mod top;
#[cfg(feature = "std")]
mod wait;
mod word;

pub use algo::any::{AnyAlgorithm, UnknownAlgorithm};
pub use algo::dynamic_gcra::Inherit;
pub use algo::fixed_window::FixedWindow;
pub use algo::gcra::Gcra;
pub use algo::leaky_queue::LeakyQueue;
pub use algo::sliding_counter::SlidingCounter;
pub use algo::sliding_log::SlidingLog;
pub use algo::sub_windows::SubWindows;
pub use algo::warm_up::WarmUp;
pub use decision::parts::DecisionParts;
pub use decision::{Decision, Denied, Permit};
pub use quota::{Quota, QuotaError};
#[cfg(target_has_atomic = "64")]
pub use time::ManualClock;
pub use time::{Clock, Tick};

#[cfg(feature = "std")]
pub use {
    charge::lease::LocalLease,
    charge::reservation::Reservation,
    charge::source::{BucketSource, KeySource, Source},
    limiter::Limiter,
    limiter::builder::{BuildError, Builder, DirectBuilder, OnFull},
    limiter::direct::Direct,
    limiter::slot_layout::SlotLayout,
    limiter::stats::{DecisionCount, Occupancy, Stats},
    policy::composite::{
        Composite, CompositeBuilder, CompositeDenied, CompositeError, CompositePermit,
        CompositeShadow,
    },
    policy::dynamic::{DynamicGcra, DynamicGcraParams},
    policy::penalty::{Ban, Penalties, PenaltiesBuilder, PenaltyDenied, PenaltyStats},
    policy::plan::Plan,
    policy::shadow::{Shadow, ShadowCounts},
    snapshot::RestoreError,
    time::clocks::{CoarseClock, QuantaClock, TieredClock},
    top::{TopKey, TopKeys},
    wait::{Sleep, Timer, Wait, WaitError, WaitQueue, Waitable, Waited},
};

#[cfg(tollgate_loom)]
#[doc(hidden)]
pub use cell::{Busy, VersionedCell};
#[cfg(any(tollgate_loom, tollgate_shuttle))]
#[doc(hidden)]
pub use sync::{Fault, ThreadSlots, plant};
#[cfg(tollgate_loom)]
#[doc(hidden)]
pub use sync::{Loads, let_loads_return, model_words};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../docs/guide.md")]
struct Guide;
