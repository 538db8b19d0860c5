//! Live compact slots, read while other threads decide, and restored into a table that no other
//! thread shares yet.
//!
//! A slot is one word, and thus one moment's. A fingerprint of 26 bits says nothing of its key's
//! buckets, so a key that is restored twice is recognised within a bucket only. Of a key that is in
//! both of its buckets, lookups see the first; the other becomes idle some day.

use super::CompactSlots;
use crate::algo::StateMachine;
use crate::cell::{CompactWord, StateWord};
use crate::table::snapshot::{Misplaced, Row, SavedSlot, debt_of};

impl CompactSlots {
    /// The live slots of a bucket.
    pub(in crate::table) fn row<M: StateMachine>(
        &self,
        bucket: u32,
        machine: &M,
        instant: u64,
    ) -> Row {
        let mut row = Row::of(bucket);
        for (place, cell) in self.lines.bucket(bucket).iter().enumerate() {
            let word = cell.load();
            let has_key = !word.is_vacant() && !word.is_provisional();
            if has_key && debt_of(word.state(), machine, instant) > 0 {
                row.add(place, [word.bits()]);
            }
        }
        row
    }

    /// Restores a key into a slot that has not been used. `rebase` returns the state to store, from the saved
    /// state; after `None`, the key is left out. If the key is in the bucket already, the state with more
    /// debt is kept.
    pub(in crate::table) fn restore<M: StateMachine>(
        &self,
        saved: SavedSlot<'_>,
        machine: &M,
        instant: u64,
        rebase: impl Fn(u64, &mut [u64]) -> Option<u64>,
    ) -> Result<(), Misplaced> {
        let &[bits] = saved.words else { return Err(Misplaced) };
        let word = CompactWord::committed_from_bits(bits).ok_or(Misplaced)?;
        let Some(state) = rebase(word.state(), &mut []) else { return Ok(()) };
        let word = CompactWord::committed(word.fingerprint(), state);
        let bucket = self.lines.bucket(saved.bucket);
        let debt = debt_of(state, machine, instant);
        for cell in bucket {
            let other = cell.load();
            if !other.is_committed_of(word.fingerprint()) {
                continue;
            }
            if debt_of(other.state(), machine, instant) >= debt {
                return Ok(());
            }
            // No other thread is here, so no swap fails.
            let _ = cell.swap(other, CompactWord::VACANT);
        }
        let taken = bucket[saved.place].swap(CompactWord::VACANT, word);
        debug_assert!(taken.is_ok(), "restored twice");
        Ok(())
    }
}
