//! The parts of a table's block, for a reader that has only its header and its bytes.

use super::block::piece_bytes;
use super::counters::Counters;
use super::slack::slack_factor;
use super::wide::holds_key;
use super::{BUCKET, LOAD_PERCENT};
use crate::cell::CompactWord;

const WORD_BYTES: u64 = size_of::<u64>() as u64;

/// The form of a table as a header states it. Any numbers have an answer.
pub(crate) struct TableForm {
    pub(crate) is_compact: bool,
    pub(crate) stated_buckets: u32,
    pub(crate) ring_words: u64,
    /// The place of its first piece in the block, in bytes.
    pub(crate) begins_at: u64,
}

/// Where the parts of a table are in a block: the counters, then the slots, then the rings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockView {
    is_compact: bool,
    stated_buckets: u32,
    /// With slack.
    buckets: u64,
    begins_at: u64,
}

impl BlockView {
    pub(crate) fn new(form: TableForm) -> Self {
        let TableForm { is_compact, stated_buckets, ring_words, begins_at } = form;
        let slot_words = if is_compact { 1 } else { ring_words.saturating_add(2) };
        let bucket_bytes = slot_words.saturating_mul(BUCKET as u64 * WORD_BYTES);
        let bucket_bytes = usize::try_from(bucket_bytes).unwrap_or(usize::MAX);
        let factor =
            if stated_buckets == 0 { 0 } else { slack_factor(stated_buckets, bucket_bytes) };
        let buckets = u64::from(stated_buckets) * u64::from(factor);
        Self { is_compact, stated_buckets, buckets, begins_at }
    }

    /// Live keys that there is room for.
    pub(crate) fn capacity(&self) -> u64 {
        u64::from(self.stated_buckets) * BUCKET as u64 * LOAD_PERCENT / 100
    }

    pub(crate) fn buckets(&self) -> u64 {
        self.buckets
    }

    pub(crate) fn slots(&self) -> u64 {
        self.buckets * BUCKET as u64
    }

    /// Words of a bucket, rings aside.
    pub(crate) fn bucket_words(&self) -> usize {
        if self.is_compact { BUCKET } else { 2 * BUCKET }
    }

    /// The place of the counters in the block, in bytes.
    pub(crate) fn counters_at(&self) -> u64 {
        self.begins_at
    }

    /// The place of a bucket in the block, in bytes.
    pub(crate) fn bucket_at(&self, bucket: u64) -> u64 {
        let first = self.begins_at.saturating_add(piece_bytes::<Counters>(1) as u64);
        first.saturating_add(bucket.saturating_mul(self.bucket_words() as u64 * WORD_BYTES))
    }

    /// How many slots of a bucket belong to a key, by the bucket's words.
    pub(crate) fn keys_in(&self, bucket: &[u64]) -> usize {
        match self.is_compact {
            true => {
                let words = bucket.iter().copied();
                words.filter_map(CompactWord::committed_from_bits).count()
            }
            false => {
                let slots = bucket.chunks_exact(2);
                slots.filter(|slot| holds_key(slot[0], slot[1])).count()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(ring_words: u64, begins_at: u64) -> BlockView {
        BlockView::new(TableForm { is_compact: false, stated_buckets: 8, ring_words, begins_at })
    }

    /// A ring of so many words would take a length that wraps around to a small one.
    #[test]
    fn a_form_of_any_numbers_has_a_place_for_each_part() {
        assert_eq!(view(0, 0).buckets(), 8 * 8, "a small table has slack");
        for ring_words in [1 << 58, (1 << 58) - 2, (1 << 61) - 2, u64::MAX - 1, u64::MAX] {
            assert_eq!(view(ring_words, 0).buckets(), 8, "{ring_words:x}");
        }
        let first = view(0, 4_096).bucket_at(0);
        assert_eq!(view(0, 4_096).bucket_at(3), first + 3 * 128);
        for bucket in [1 << 57, (1 << 57) - 16, u64::MAX] {
            assert_eq!(view(0, 4_096).bucket_at(bucket), u64::MAX, "{bucket:x}");
        }
        for begins_at in [u64::MAX - 64, u64::MAX] {
            assert_eq!(view(0, begins_at).bucket_at(0), u64::MAX, "{begins_at:x}");
        }
    }

    #[test]
    fn a_form_without_buckets_has_none() {
        let none = TableForm { is_compact: true, stated_buckets: 0, ring_words: 0, begins_at: 0 };
        let view = BlockView::new(none);
        assert_eq!((view.buckets(), view.slots(), view.capacity()), (0, 0, 0));
    }
}
