//! The header of a block: what its words mean, and for whom.
//!
//! # Layout
//!
//! ```text
//! word 0       magic, which also tells the byte order
//! word 1       version of this layout
//! word 2       length of the block in bytes
//! words 3..15  the choices that give the table its form, see `FIELDS`
//! word 15      Unix time of the clock's origin in nanoseconds
//! words 16..20 seeds of the hash
//! words 20..23 hashes of fixed values by these seeds
//! words 23..25 identity of the start of the machine
//! ```
//!
//! A header is written before other processes can see the block, and never again. A process that attaches
//! compares it once, and then relies on its own values only.

use super::SharedError;
use crate::algo::{CONFIG_WORDS, Rebase};
use crate::limiter::builder::TableShape;
use crate::limiter::hash_seeds::Seeds;
use crate::table::Table;
use crate::table::block::Block;

const MAGIC: u64 = 0x746f_6c6c_6761_7465;
const VERSION: u64 = 1;

const MAGIC_AT: usize = 0;
const VERSION_AT: usize = 1;
const BYTES_AT: usize = 2;
const FIELDS_AT: usize = 3;
const ORIGIN_AT: usize = FIELDS_AT + FIELDS.len();
const SEEDS_AT: usize = ORIGIN_AT + 1;
const PROOF_AT: usize = SEEDS_AT + Seeds::COUNT;
const BOOT_AT: usize = PROOF_AT + 3;

const QUOTA: &str = "the quota, or an option of the algorithm";

/// The names of the choices, in the order in which they explain each other.
const FIELDS: [&str; 4 + CONFIG_WORDS] = {
    let mut fields = [QUOTA; 4 + CONFIG_WORDS];
    fields[0] = "the number of the algorithm";
    fields[1] = "the kind of slots (Builder::slots; 1 is compact)";
    fields[CONFIG_WORDS + 2] = "the words of a key's ring";
    fields[CONFIG_WORDS + 3] = "the capacity, in buckets";
    fields
};

/// The header of a block that a process would create.
pub(super) struct Header {
    pub(super) bytes: usize,
    fields: [u64; FIELDS.len()],
    origin: u64,
    seeds: Seeds,
}

impl Header {
    /// `None`: the table is larger than the address space.
    pub(super) fn of<P: Rebase>(shape: &TableShape<'_, P>, seeds: Seeds) -> Option<Self> {
        let &TableShape { params, origin, is_compact, buckets, ring } = shape;
        let mut fields = [0; FIELDS.len()];
        fields[0] = params.algorithm();
        fields[1] = is_compact.into();
        fields[2..CONFIG_WORDS + 2].copy_from_slice(&params.config_words(origin));
        fields[CONFIG_WORDS + 2] = params.ring_cells() as u64;
        fields[CONFIG_WORDS + 3] = buckets.into();
        let bytes = Table::block_bytes(is_compact, buckets, ring)?;
        Some(Self { bytes, fields, origin, seeds })
    }

    /// Writes the header of a block that no other process can see yet.
    pub(super) fn write(&self, block: &Block) {
        let [boot, more_of_boot] = boot_id();
        let words = [MAGIC, VERSION, self.bytes as u64]
            .into_iter()
            .chain(self.fields)
            .chain([self.origin])
            .chain(self.seeds.words())
            .chain(self.seeds.proof())
            .chain([boot, more_of_boot]);
        for (index, word) in words.enumerate() {
            block.store(index, word);
        }
    }

    /// Whether this process would have made the same block.
    pub(super) fn check(&self, block: &Block) -> Result<(), SharedError> {
        for (index, (field, expected)) in FIELDS.into_iter().zip(self.fields).enumerate() {
            let found = block.load(FIELDS_AT + index);
            if found != expected {
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

/// The clock's origin and the seeds of the hash in the header of an attached block, if it was written by
/// this version, since the machine was started.
pub(super) fn identity(block: &Block) -> Result<(u64, Seeds), SharedError> {
    if block.load(MAGIC_AT) != MAGIC {
        return Err(SharedError::Foreign);
    }
    if block.load(VERSION_AT) != VERSION {
        return Err(SharedError::OtherVersion { found: block.load(VERSION_AT) });
    }
    if block.load(BYTES_AT) != block.bytes() as u64 {
        let (found, expected) = (block.bytes() as u64, block.load(BYTES_AT));
        return Err(SharedError::OtherLength { found, expected });
    }
    if [block.load(BOOT_AT), block.load(BOOT_AT + 1)] != boot_id() {
        return Err(SharedError::OtherBoot);
    }
    let seeds = Seeds::from_words(core::array::from_fn(|index| block.load(SEEDS_AT + index)));
    if seeds.proof() != core::array::from_fn(|index| block.load(PROOF_AT + index)) {
        return Err(SharedError::OtherHash);
    }
    Ok((block.load(ORIGIN_AT), seeds))
}

/// The system's identifier of the present boot; zeros where it has none.
fn boot_id() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let half = |digits: Option<&str>| digits.and_then(|half| u64::from_str_radix(half, 16).ok());
    [half(digits.get(..16)).unwrap_or(0), half(digits.get(16..32)).unwrap_or(0)]
}
