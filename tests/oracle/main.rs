//! The algorithms against their oracles, against exact arithmetic, and against the clock: what a single
//! bucket answers on one thread. It also runs the bodies of the fuzz targets, some of which have a whole table.

#[path = "../bodies/mod.rs"]
mod bodies;
mod choice;
mod denied;
mod drift;
mod equality;
mod fuzz_bodies;
mod meter;
mod model;
mod outlet;
mod peers;
mod rate;
mod ring_meter;
#[path = "../../fuzz/seeds.rs"]
mod seeds;
mod wall_clock;
mod warm_up;
mod window_meter;
mod words;
