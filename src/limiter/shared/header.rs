//! The header of a block: what its words mean, and for whom.
//!
//! # Layout
//!
//! ```text
//! word 0       magic, which also tells the byte order
//! word 1       version of this layout
//! word 2       length of the block in bytes
//! words 3..5   identity of the start of the machine
//! word 5       Unix time of the clock's origin in nanoseconds
//! words 6..10  seeds of the hash
//! words 10..13 hashes of fixed values by these seeds
//! words 13..   the choices that give the block its form, see `FIELDS`
//! ```
//!
//! A header is written before other processes can see the block, and never again. A process that attaches
//! compares it once, and then relies on its own values only.

use super::SharedError;
use crate::algo::fixed_window::FixedWindowParams;
use crate::algo::{CONFIG_WORDS, Numbered};
use crate::limiter::builder::BuildError;
use crate::limiter::hash_seeds::Seeds;
use crate::table::block::{Block, HEADER_BYTES};

const MAGIC: u64 = 0x746f_6c6c_6761_7465;
const VERSION: u64 = 1;

const MAGIC_AT: usize = 0;
const VERSION_AT: usize = 1;
const BYTES_AT: usize = 2;
const BOOT_AT: usize = 3;
const ORIGIN_AT: usize = 5;
const SEEDS_AT: usize = 6;
const PROOF_AT: usize = SEEDS_AT + Seeds::COUNT;
const FIELDS_AT: usize = PROOF_AT + 3;

/// The kind of limiter that a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A limiter with wide slots.
    Wide,
    /// A limiter with compact slots.
    Compact,
    /// A limiter with one bucket.
    Direct,
    /// Requests in flight, by key.
    Concurrency,
    /// Requests in flight, in all.
    DirectConcurrency,
}

/// The choices that give a block its form. All processes of the block must have made the same ones.
pub(crate) struct Form {
    pub(crate) kind: Kind,
    pub(crate) algorithm: u64,
    /// The quota with the algorithm's options, as the algorithm has them.
    pub(crate) config: [u64; CONFIG_WORDS],
    /// Words of a key's ring.
    pub(crate) ring_words: usize,
    /// Buckets of the capacity; 0 without keys.
    pub(crate) buckets: u32,
    pub(crate) counts_decisions: bool,
    /// The quota that keys without a slot share, as `config`; zeros if there is none.
    pub(crate) overflow: [u64; CONFIG_WORDS],
    /// Bytes of all the block's pieces.
    pub(crate) bytes: usize,
}

const QUOTA: &str = "the quota, or an option of the algorithm";
/// The places of these choices in [`FIELDS`].
pub(super) const KIND: usize = 0;
pub(super) const ALGORITHM: usize = 1;
pub(super) const CONFIG: usize = 2;
pub(super) const RING_WORDS: usize = CONFIG + CONFIG_WORDS;
pub(super) const BUCKETS: usize = RING_WORDS + 1;
const COUNTS: usize = BUCKETS + 1;
const OVERFLOW: usize = COUNTS + 1;

/// The place of the instant at which aligned windows begin, if the algorithm is a [`FIXED_WINDOW`].
const BEGINNING: usize = CONFIG + 4;
/// The number of the algorithm.
const FIXED_WINDOW: u64 = FixedWindowParams::NUMBER;

/// The names of the choices, in the order in which they explain each other.
const FIELDS: [&str; OVERFLOW + CONFIG_WORDS] = {
    let mut fields = [QUOTA; OVERFLOW + CONFIG_WORDS];
    fields[KIND] = "the kind of limiter (0 wide slots, 1 compact slots, 2 Direct, 3 ConcurrencyLimiter, \
                 4 DirectConcurrency)";
    fields[ALGORITHM] = "the number of the algorithm";
    fields[RING_WORDS] = "the words of a key's ring";
    fields[BUCKETS] = "the capacity, in buckets";
    fields[COUNTS] = "whether decisions are counted (count_decisions)";
    let mut at = OVERFLOW;
    while at < fields.len() {
        fields[at] = "the quota of the shared overflow";
        at += 1;
    }
    fields
};

/// The name of a choice that differs.
fn field_name(index: usize, algorithm: u64) -> &'static str {
    match (index, algorithm) {
        (BEGINNING, FIXED_WINDOW) => {
            "when windows begin, in nanoseconds (utc_offset_secs of the builder, which a change of the offset \
             leaves as it was)"
        }
        _ => FIELDS[index],
    }
}

impl Form {
    fn fields(&self) -> [u64; FIELDS.len()] {
        let mut fields = [0; FIELDS.len()];
        fields[KIND] = self.kind as u64;
        fields[ALGORITHM] = self.algorithm;
        fields[CONFIG..RING_WORDS].copy_from_slice(&self.config);
        fields[RING_WORDS] = self.ring_words as u64;
        fields[BUCKETS] = self.buckets.into();
        fields[COUNTS] = self.counts_decisions.into();
        fields[OVERFLOW..].copy_from_slice(&self.overflow);
        fields
    }
}

/// The header of a block that a process would create.
pub(super) struct Header {
    pub(super) bytes: usize,
    fields: [u64; FIELDS.len()],
    origin: u64,
    seeds: Seeds,
}

impl Header {
    pub(super) fn new(form: Form, origin: u64, seeds: Seeds) -> Result<Self, SharedError> {
        let bytes =
            HEADER_BYTES.checked_add(form.bytes).filter(|bytes| isize::try_from(*bytes).is_ok());
        let bytes = bytes.ok_or(BuildError::OutOfMemory)?;
        Ok(Self { bytes, fields: form.fields(), origin, seeds })
    }

    /// Writes the header of a block that no other process relies on yet.
    pub(super) fn write(&self, block: &Block) {
        let [boot, more_of_boot] = boot_id();
        let words = [MAGIC, VERSION, self.bytes as u64]
            .into_iter()
            .chain([boot, more_of_boot, self.origin])
            .chain(self.seeds.words())
            .chain(self.seeds.proof())
            .chain(self.fields);
        // The magic word comes last. A creator that is killed before it leaves a block without a header.
        for (index, word) in words.enumerate().skip(1) {
            block.store(index, word);
        }
        block.store(MAGIC_AT, MAGIC);
    }

    /// Whether this process would have made the same block.
    pub(super) fn check(&self, block: &Block) -> Result<(), SharedError> {
        for (index, expected) in self.fields.into_iter().enumerate() {
            let found = block.load(FIELDS_AT + index);
            if found != expected {
                let field = field_name(index, self.fields[ALGORITHM]);
                return Err(SharedError::Different { field, found, expected });
            }
        }
        match block.bytes() == self.bytes {
            true => Ok(()),
            false => {
                let (found, expected) = (block.bytes() as u64, self.bytes as u64);
                Err(SharedError::OtherLength { found, expected })
            }
        }
    }
}

/// Whether the header of a block has been written, by whichever program.
pub(super) fn has_header(block: &Block) -> bool {
    block.load(MAGIC_AT) != 0
}

/// The clock's origin and the seeds of the hash in the header of an attached block, if it was written by
/// this version, since the machine was started.
pub(super) fn identity(block: &Block) -> Result<(u64, Seeds), SharedError> {
    identity_in(|word| block.load(word), block.bytes() as u64)
}

/// As [`identity`], of words that were read from a file of `bytes` bytes.
pub(super) fn identity_in(
    load: impl Fn(usize) -> u64,
    bytes: u64,
) -> Result<(u64, Seeds), SharedError> {
    if load(MAGIC_AT) != MAGIC {
        return Err(SharedError::Foreign);
    }
    if load(VERSION_AT) != VERSION {
        return Err(SharedError::OtherVersion { found: load(VERSION_AT) });
    }
    if load(BYTES_AT) != bytes {
        let (found, expected) = (bytes, load(BYTES_AT));
        return Err(SharedError::OtherLength { found, expected });
    }
    if [load(BOOT_AT), load(BOOT_AT + 1)] != boot_id() {
        return Err(SharedError::OtherBoot);
    }
    let seeds = Seeds::from_words(core::array::from_fn(|index| load(SEEDS_AT + index)));
    if seeds.proof() != core::array::from_fn(|index| load(PROOF_AT + index)) {
        return Err(SharedError::OtherHash);
    }
    Ok((load(ORIGIN_AT), seeds))
}

/// The error for a file that is shorter than a header. An empty file may be a block that was cut.
pub(super) fn too_short(first_word: u64, found: u64) -> SharedError {
    match first_word == MAGIC || found == 0 {
        true => SharedError::OtherLength { found, expected: HEADER_BYTES as u64 },
        false => SharedError::Foreign,
    }
}

/// The length that a header states.
pub(super) fn stated_bytes(load: impl Fn(usize) -> u64) -> u64 {
    load(BYTES_AT)
}

/// The choices in a header, each with its name.
pub(super) fn choices(load: impl Fn(usize) -> u64) -> [(&'static str, u64); FIELDS.len()] {
    core::array::from_fn(|index| (FIELDS[index], load(FIELDS_AT + index)))
}

/// The system's identifier of the present boot; zeros where it has none.
fn boot_id() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let half = |digits: Option<&str>| digits.and_then(|half| u64::from_str_radix(half, 16).ok());
    [half(digits.get(..16)).unwrap_or(0), half(digits.get(16..32)).unwrap_or(0)]
}
