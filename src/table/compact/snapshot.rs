//! Live slots, read while others decide, and put back into a table nobody shares yet.
//!
//! A slot is one word, and thus one moment's. A fingerprint of 26 bits says nothing of its key's
//! buckets, so what may be told of a key that is put back twice is told within a bucket; of one in
//! two buckets, lookups see the first, and the other is idle some day.

use super::Compact;
use crate::algo::StateMachine;
use crate::cell::Word;
use crate::table::snapshot::{Misplaced, Row, debt_of};

impl Compact {
    /// The live slots of a bucket.
    pub(in crate::table) fn row<A: StateMachine>(
        &self,
        bucket: u32,
        algo: &A,
        instant: u64,
    ) -> Row {
        let mut row = Row::of(bucket);
        for (place, cell) in self.lines.bucket(bucket).iter().enumerate() {
            let word = cell.load();
            let nobodys = word.is_vacant() || word.is_provisional();
            if !nobodys && debt_of(word.state(), algo, instant) > 0 {
                row.add(place, [word.bits()]);
            }
        }
        row
    }

    /// Puts a key back into a slot that nobody has used, with the state that `rebase` makes of its
    /// own, if there is one. Of a key that is in the bucket already, the state with more debt is
    /// kept.
    pub(in crate::table) fn put_back<A: StateMachine>(
        &self,
        bucket: u32,
        place: usize,
        bits: u64,
        algo: &A,
        instant: u64,
        rebase: impl Fn(u64, &mut [u64]) -> Option<u64>,
    ) -> Result<(), Misplaced> {
        let word = Word::from_bits(bits).ok_or(Misplaced)?;
        let Some(state) = rebase(word.state(), &mut []) else { return Ok(()) };
        let word = Word::committed(word.fingerprint(), state);
        let bucket = self.lines.bucket(bucket);
        let debt = debt_of(state, algo, instant);
        for cell in bucket {
            let other = cell.load();
            if !other.is_committed_of(word.fingerprint()) {
                continue;
            }
            if debt_of(other.state(), algo, instant) >= debt {
                return Ok(());
            }
            // Nobody else is here: no swap fails.
            let _ = cell.swap(other, Word::VACANT);
        }
        let taken = bucket[place].swap(Word::VACANT, word);
        debug_assert!(taken.is_ok(), "put back twice");
        Ok(())
    }
}
