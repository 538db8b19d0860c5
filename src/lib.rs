//! A lock-free, bounded, keyed rate limiter that never grants more than the quota.
//!
//! ```sh
//! cargo add tollgate
//! ```
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
//! # I want to …
//!
//! | task | item |
//! |---|---|
//! | limit each client, tenant or route | [`Limiter::check`] |
//! | limit everything together | [`Direct::check`] |
//! | read a quota from a configuration | [`Quota`]'s text form |
//! | answer 429 with `Retry-After` | [`Denied::retry_after`] |
//! | charge several cells, or none | [`Limiter::check_n`] |
//! | only look | [`Limiter::peek`] |
//! | get yes or no, faster | [`Limiter::allow`] |
//! | pass the time, or a plan, or a longest delay | [`Limiter::ask`], which gives an [`Ask`] |
//! | choose how cells are counted | [`Builder::algorithm`]: [`Gcra`], [`LeakyQueue`], [`WarmUp`], [`FixedWindow`], [`SlidingCounter`], [`SubWindows`], [`SlidingLog`] |
//! | choose that when the program runs | [`AnyAlgorithm`] |
//! | bound the memory, and say what a full table does | [`Builder::capacity`], [`OnFull`] |
//! | see whether the table is large enough | [`Limiter::stats`], [`Limiter::occupancy`] |
//! | try a limit that denies nothing | [`shadow`] |
//! | apply several limits to a request, all or none | [`composite`] |
//! | give some keys another quota | [`plan`] |
//! | change a quota while it is in use | [`dynamic`] |
//! | reserve a cost and settle it, as for tokens of a language model | [`reservation`] |
//! | charge a cost that is known afterwards | [`Ask::charge`] |
//! | wait for my turn, blocking or async | [`wait`] |
//! | limit how many requests are in flight | [`concurrency`] |
//! | find that limit by latencies and failures | [`concurrency::adaptive`] |
//! | ban keys that are denied, or fail, too often | [`penalty`] |
//! | name the keys that are denied most | [`top`] |
//! | keep the state over a restart | [`snapshot`] |
//! | share a limiter between processes | `shared`, with the feature `shared-memory` |
//! | decide many requests at once | [`Limiter::ask_each`] |
//! | relieve a key that many threads ask for | [`lease`], [`Builder::lease_hot_keys`] |
//! | read the clock less often | [`clock`] |
//! | test without sleeping | [`ManualClock`] |
//! | make decisions in a limiter of my own | [`decision`] |
//!
//! Limits of HTTP requests ([tollgate-http]), in a file ([tollgate-rules]), over several machines
//! ([tollgate-redis]), of bytes in streams ([tollgate-paced]) and of a client ([tollgate-client]), and metrics
//! ([tollgate-observe]) are crates of their own. The [guide] has a task a page, and pages for those who come from
//! governor, nginx, Envoy, Bucket4j or Go.
//!
//! # Guarantees
//!
//! - **Never over the limit**, whatever the threads do: at most `burst + rate * span` cells in any span
//!   for the token bucket. Each algorithm's page has its own bound, to the time unit.
//! - **Exact answers.** After [`retry_after`](Denied::retry_after) the same request is admitted if nothing else
//!   happens to the key. A nanosecond earlier it is not. No rate is rounded.
//! - **Bounded.** Memory is fixed when the limiter is built, and nothing is allocated afterwards. [`OnFull`] says
//!   what happens to a key that finds no slot, and each case is counted.
//! - **A decision takes no lock, and no thread runs in the background unless you start one.** A denial changes no
//!   state, with two exceptions: the first denial of a bucket that starts empty, and a log that counts denials.
//!
//! Each type says under "Not guaranteed" what it does not promise. The page of [guarantees] names the test, model
//! or proof of each promise.
//!
//! # Numbers
//!
//! Median nanoseconds per decision, by each limiter's own clock, on 2 cores: first tollgate, then the fastest of
//! governor, other crates, maps and locks. The lower figure is bold. Reading the clock is a large part of it. The
//! [results] have all rows, and those that tollgate loses, for each processor.
//!
//! |  | EPYC Zen 3 | EPYC Zen 4 | Xeon Emerald Rapids | Xeon Rocket Lake |
//! |---|---|---|---|---|
//! | one bucket, 1 thread | 17.9; **14.3**, an atomic word | 10.3; **10.1**, an atomic word | 31.2; **31.0**, an atomic word | 21.5; **20.9**, an atomic word |
//! | 100,000 keys, uniform, 2 threads | **48.3**; 77.7, a word in scc | **38.2**; 53.1, 64 locked maps | **74.7**; 152.6, a word in papaya | **68.2**; 121.5, a word in papaya |
//! | sliding log, one bucket, `allow`, 1 thread | 27.3; **22.2**, a mutex | 19.4; **17.5**, a mutex | 50.3; **39.8**, a mutex | 31.7; **23.9**, a mutex |
//! | sliding log, one bucket, `allow`, 2 threads | 110.1; **81.8**, a mutex | **61.1**; 64.2, a mutex | **135.7**; 231.7, a mutex | **88.3**; 244.5, a mutex |
//!
//! # Cargo features
//!
//! `shared-memory`: limiters in memory that the processes of a machine share, on Unix.
//!
//! `serde`: a [`Quota`] is serialized as its text, such as `"100/s burst 20"`.
//!
//! `tokio`: `WaitQueue::ready`, which awaits a turn by tokio's timer.
//!
//! `std` (default): the clocks, [`Direct`], [`Limiter`] and all that is built on them. Without it the
//! values and the algorithms remain. They need neither the standard library nor an allocator, and
//! no atomics.
//!
//! # What a minor version may add
//!
//! | | items | reason |
//! |---|---|---|
//! | sealed | all traits but [`Clock`] | a method may be added |
//! | open | [`Clock`] | users implement it; added methods have a default |
//! | `#[non_exhaustive]` | all errors, choices and figures: [`BuildError`], [`QuotaError`], [`OnFull`], [`AnyAlgorithm`], [`SlotLayout`](limiter::SlotLayout), [`Stats`](stats::Stats), [`TopKey`](top::TopKey) | more of them may come |
//!
//! All other types but [`DecisionParts`](decision::DecisionParts) have private fields. A type is `Send` and `Sync`
//! if its clock and any key that it stores are. A [`Limiter`] stores no key, so its key type need not be.
//!
//! [tollgate-client]: https://docs.rs/tollgate-client
//! [tollgate-http]: https://docs.rs/tollgate-http
//! [tollgate-observe]: https://docs.rs/tollgate-observe
//! [tollgate-paced]: https://docs.rs/tollgate-paced
//! [tollgate-redis]: https://docs.rs/tollgate-redis
//! [tollgate-rules]: https://docs.rs/tollgate-rules

#![cfg_attr(doc, doc = "")]
#![cfg_attr(doc, doc = concat!("[guide]: ", env!("CARGO_PKG_REPOSITORY"), "/blob/HEAD/docs/guide.md"))]
#![cfg_attr(doc, doc = concat!("[guarantees]: ", env!("CARGO_PKG_REPOSITORY"), "/blob/HEAD/docs/guarantees.md"))]
#![cfg_attr(doc, doc = concat!("[results]: ", env!("CARGO_PKG_REPOSITORY"), "/blob/HEAD/benches/results/README.md"))]
#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]
// Every type that is exhaustive gives its reason.
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

#[cfg(all(feature = "std", not(target_has_atomic = "64")))]
compile_error!(
    "the limiters need atomics of 64 bits, which this target lacks: use default-features = false \
     for the values and the algorithms alone"
);

#[cfg(all(feature = "shared-memory", not(unix)))]
compile_error!(
    "the feature `shared-memory` needs Unix: ask for it in \
     [target.'cfg(unix)'.dependencies] of your manifest, or leave it out"
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
#[doc(inline)]
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
