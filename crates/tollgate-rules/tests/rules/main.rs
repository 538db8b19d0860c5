//! Rules from text to verdicts.

mod body;
mod deciding;
mod errors;
mod explain;
mod reload;
mod robust;
mod stores;
