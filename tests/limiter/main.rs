//! The keyed limiter: which keys keep a slot, which find none, and what each is answered.
//!
//! The tables here have 16 to 40 slots, so that keys compete for slots all the time. With 16 slots
//! (two buckets) every slot is a candidate for every key, so the outcome can be predicted.

mod batch;
#[path = "../bodies/mod.rs"]
mod bodies;
mod composite;
mod denials;
mod leases;
mod lines;
mod live;
mod lives;
mod occupancy;
mod penalty;
mod places;
mod plans;
mod settle;
mod shadow;
mod slots;
mod snapshot;
mod tiers;
mod windows;
