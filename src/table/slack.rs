//! Slack: more slots in a small table than its capacity needs.
//!
//! With slack nearly every key is in the slot it prefers: 93 of 100 with four times the slots, 96 with
//! eight times. So that slot is looked at first, and the branch is predicted. A table without slack reads
//! the slots of a cache line without a branch, which takes two to four times the instructions.

/// The largest table that has slack, a part of the L2 cache.
const SLACK_BYTES_MAX: usize = 128 << 10;
/// The smallest table that has slack. Smaller ones fit the L1 cache, and fill up at their stated
/// capacity.
const SLACK_BUCKETS_MIN: u32 = 8;

/// The factor by which a table of `stated_buckets` buckets is enlarged: 1, 2, 4 or 8.
pub(super) fn slack_factor(stated_buckets: u32, bucket_bytes: usize) -> u32 {
    let stated_bytes = (stated_buckets as usize).saturating_mul(bucket_bytes);
    match SLACK_BYTES_MAX / stated_bytes {
        _ if stated_buckets < SLACK_BUCKETS_MIN => 1,
        8.. => 8,
        4..8 => 4,
        2 | 3 => 2,
        _ => 1,
    }
}
