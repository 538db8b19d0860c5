//! Histories of whole limiters, on schedules that shuttle makes, each checked for linearizability
//! against the oracles.
//!
//! They run only with `RUSTFLAGS="--cfg tollgate_shuttle"` (see `ci/check.sh shuttle`); without the flag
//! this package is empty. Under the flag a bucket has two slots and a table one bucket, so that three keys
//! fill it.
//!
//! | module | what it holds |
//! |---|---|
//! | `explore` | runs histories on schedules, random ones and PCT's, and counts them |
//! | `families` | the limiters, and the requests that they get |
//! | `script` | the requests of each thread, drawn anew for every history |
//! | `record` | the calls with their answers, and their order |
//! | `linear` | the search for an order that explains a history |
//! | `bucket` | the specification: the answers that a key's bucket may give |
//! | `in_flight` | the same for requests in flight |
//! | `reservations` | the same for reservations |
//! | `quota_changes` | the same for a quota that changes |
//! | `play` | plays a script on a limiter, and checks its history |

#![cfg(tollgate_shuttle)]

pub mod bucket;
pub mod explore;
pub mod families;
pub mod in_flight;
pub mod linear;
pub mod play;
pub mod quota_changes;
pub mod record;
pub mod reservations;
pub mod script;
