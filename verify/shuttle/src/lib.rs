//! Histories of whole limiters, on schedules that shuttle makes, each checked for linearizability
//! against the exact models.
//!
//! They run only with `RUSTFLAGS="--cfg tollgate_shuttle"` (see `ci/check.sh shuttle`); without it there is
//! nothing here. Under the flag a bucket has two slots, and a table one bucket, so that three keys
//! fill it.
//!
//! | module | what it holds |
//! |---|---|
//! | `explore` | runs histories on schedules, random ones and PCT's, and counts them |
//! | `families` | which limiter, and what is asked of it |
//! | `script` | what each thread asks for, drawn anew for every history |
//! | `record` | what was answered, and what came before what |
//! | `linear` | the search for an order that explains a history |
//! | `bucket` | what a key's bucket may answer: the specification |
//! | `spent` | the same for reservations |
//! | `shrinking` | the same for a quota that changes |
//! | `play` | plays a script on a limiter, and checks its history |

#![cfg(tollgate_shuttle)]

pub mod bucket;
pub mod explore;
pub mod families;
pub mod linear;
pub mod play;
pub mod record;
pub mod script;
pub mod shrinking;
pub mod spent;
