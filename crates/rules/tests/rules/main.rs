//! Rules from text to decisions.

mod actions;
mod bans;
mod bytes;
mod costs;
mod deciding;
mod errors;
mod explain;
mod file_body;
#[cfg(all(target_os = "linux", feature = "shared-memory"))]
mod held_block;
mod in_flight;
mod matching;
mod path_body;
mod paths;
mod plans;
mod queues;
mod reload;
mod robust;
#[path = "../../../../fuzz/seeds.rs"]
mod seeds;
#[cfg(all(target_os = "linux", feature = "shared-memory"))]
mod sharing;
mod stores;
