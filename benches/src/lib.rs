//! The shared parts of the benchmarks: interleaved measuring, reports, key sequences, the peer.
//!
//! `cargo bench -p tollgate-benches` runs all of them. `README.md` says how they measure, and what
//! they found.

pub mod calls;
pub mod floor;
pub mod keys;
pub mod locked;
pub mod markdown;
pub mod options;
pub mod pace;
pub mod peer;
pub mod process;
pub mod processor;
pub mod publish;
pub mod record;
pub mod report;
pub mod rounds;
pub mod saved;
pub mod target;
pub mod timer;
