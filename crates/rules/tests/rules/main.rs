//! Rules from text to decisions.

mod deciding;
mod errors;
mod explain;
mod file_body;
#[path = "../../../../fuzz/kept.rs"]
mod kept;
mod path_body;
mod paths;
mod queues;
mod reload;
mod robust;
mod stores;
