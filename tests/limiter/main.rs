//! The keyed limiter: which keys keep a slot, which find none, and what each is answered.
//!
//! The tables here have 16 to 40 slots, so that keys compete for slots all the time. With 16 slots
//! (two buckets) every slot is a candidate for every key, so the outcome can be predicted.

mod adaptive;
mod asks;
mod batch;
#[path = "../bodies/mod.rs"]
mod bodies;
mod composite;
mod concurrency;
mod denials;
mod dynamic_gcra;
mod leases;
mod lives;
mod max_delay;
mod no_slot;
mod occupancy;
mod penalty;
mod plan_verbs;
mod plans;
mod settle;
mod shadow;
mod slot_layout;
mod small_table;
mod snapshot;
mod texts;
mod tiers;
mod wait_first;
mod wait_queue;
mod wait_retry;
mod wall_clock;
mod wall_paths;
mod windows;
