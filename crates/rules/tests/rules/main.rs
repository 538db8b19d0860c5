//! Rules from text to verdicts.

mod body;
mod deciding;
mod errors;
mod explain;
#[path = "../../../../fuzz/kept.rs"]
mod kept;
mod path_body;
mod paths;
mod queues;
mod reload;
mod robust;
mod stores;
