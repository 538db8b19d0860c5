//! The keyed limiter: who keeps a place, who finds none, and what either is told.
//!
//! The tables here have 16 to 40 slots, so that places are claimed, given up and fought for all
//! the time. With 16 slots (two buckets) every slot is a candidate for every key, and what
//! happens can be told beforehand.

mod asks;
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
