//! The id that a node has in the list of nodes.

#![allow(clippy::disallowed_types, reason = "the time tells processes apart, and limits nothing")]

use core::time::Duration;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::{SystemTime, UNIX_EPOCH};

/// An id that no other node has: 128 bits of two hashes with random keys.
///
/// `RandomState` draws its keys once for each thread, and `fork` copies them. Therefore the process id and
/// the time are hashed, which differ between the processes of a fork.
pub(super) fn new() -> String {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    of([RandomState::new(), RandomState::new()], std::process::id(), since_epoch)
}

fn of(random: [RandomState; 2], process: u32, since_epoch: Duration) -> String {
    let [first, second] = random.map(|keys| keys.hash_one((process, since_epoch)));
    format!("{first:016x}{second:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forked_processes_have_ids_of_their_own() {
        let random = [RandomState::new(), RandomState::new()];
        let now = Duration::from_nanos(1_780_000_000_000_000_001);
        let id = |process, since_epoch| of(random.clone(), process, since_epoch);
        assert_eq!(id(7, now), id(7, now), "the keys are the same in both processes");
        assert_ne!(id(7, now), id(8, now), "forked at the same moment");
        // In a new namespace, each process may have the number 1.
        assert_ne!(id(1, now), id(1, now + Duration::from_nanos(1)));
        assert_eq!(id(7, now).len(), 32);
    }

    #[test]
    fn shares_of_one_process_have_ids_of_their_own() {
        assert_ne!(new(), new());
    }
}
