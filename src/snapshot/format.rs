//! The file format of a snapshot. All integers are little-endian.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | `tollgate` |
//! | 8 | 4 | version, 1 |
//! | 12 | 4 | length of this header in bytes |
//! | 16 | 8 | length of the whole snapshot in bytes |
//! | 24 | 8 | number of keys |
//! | 32 | 8, 8, 8 | Unix time, tick, and Unix time of the clock's origin, in nanoseconds |
//! | 56 | 4 x 8 | seeds of the hash |
//! | 88 | 3 x 8 | hashes of fixed values, to recognize the hash function |
//! | 112 | 22 x 8 | parameters that the limiter was built from: see [`Shape`] |
//! | 288 | 8, 8 | 1 if the shared overflow has a state, else 0; that state |
//! | 304 | | the ring of the shared overflow, if it has a state: 8 bytes a word |
//! | | | rows |
//! | -8 | 8 | [CRC-64](super::checksum) of all bytes before |
//!
//! A row holds the live slots of one bucket; the rows are in ascending order of their buckets. It
//! consists of the bucket's number (4 bytes), one bit for each live slot (1 byte), the words of
//! those slots (8 bytes each: fingerprint and state of a wide slot, one word of a compact slot),
//! and the rings of those slots, one after the other (8 bytes a word; the header has the words per
//! ring).

use super::RestoreError;
use super::checksum::checksum;
use super::shape::Shape;
use crate::limiter::hash_seeds::{Proof, Seeds};
use crate::table::Row;

const MAGIC: [u8; 8] = *b"tollgate";
pub(super) const VERSION: u32 = 1;
const PROOF_WORDS: usize = 3;
/// Words of the header after magic, version and header length.
const WORDS: usize = 1 + 1 + 3 + Seeds::COUNT + PROOF_WORDS + Shape::WORDS + 2;
/// The header length, as the header states it.
const HEADER_LENGTH: u32 = 304;
const HEADER_BYTES: usize = HEADER_LENGTH as usize;
const _: () = assert!(HEADER_BYTES == 16 + 8 * WORDS);
const CHECKSUM_BYTES: usize = 8;
const TOTAL_AT: usize = 16;

/// The header, without magic, version and lengths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) keys: u64,
    pub(super) unix_nanos: u64,
    pub(super) tick: u64,
    pub(super) unix_origin_nanos: u64,
    pub(super) seeds: Seeds,
    pub(super) proof: Proof,
    pub(super) shape: Shape,
    /// The state of the shared overflow, and its ring.
    pub(super) overflow: Option<(u64, Vec<u64>)>,
}

impl Header {
    fn words(&self, total_bytes: u64) -> [u64; WORDS] {
        let overflow = self.overflow.as_ref().map_or([0, 0], |(state, _)| [1, *state]);
        let mut words =
            [total_bytes, self.keys, self.unix_nanos, self.tick, self.unix_origin_nanos]
                .into_iter()
                .chain(self.seeds.words())
                .chain(self.proof)
                .chain(self.shape.words())
                .chain(overflow);
        core::array::from_fn(|_| words.next().expect("WORDS counts them all"))
    }

    /// `None` if the overflow words contradict each other.
    fn from_words(words: [u64; WORDS]) -> Option<Self> {
        let mut words = words.into_iter();
        let mut next = || words.next().expect("WORDS counts them all");
        let _total_bytes = next();
        let [keys, unix_nanos, tick, unix_origin_nanos] = core::array::from_fn(|_| next());
        let seeds = Seeds::from_words(core::array::from_fn(|_| next()));
        let proof = core::array::from_fn(|_| next());
        let shape = Shape::from_words(core::array::from_fn(|_| next()));
        let overflow = match (next(), next()) {
            (0, 0) => None,
            (1, state) => Some((state, Vec::new())),
            _ => return None,
        };
        Some(Self { keys, unix_nanos, tick, unix_origin_nanos, seeds, proof, shape, overflow })
    }
}

/// Encodes a snapshot. The number of keys in the header is counted here.
pub(super) fn write(mut header: Header, rows: impl Iterator<Item = Row>) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    if let Some((_, ring)) = &header.overflow {
        put_words(&mut bytes, ring);
    }
    for row in rows.filter(|row| row.places != 0) {
        header.keys += u64::from(row.places.count_ones());
        bytes.extend_from_slice(&row.bucket.to_le_bytes());
        bytes.push(row.places);
        put_words(&mut bytes, row.words());
        put_words(&mut bytes, &row.rings);
    }
    let total_bytes = (bytes.len() + CHECKSUM_BYTES) as u64;
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&HEADER_LENGTH.to_le_bytes());
    let words = header.words(total_bytes);
    for (field, word) in bytes[16..HEADER_BYTES].chunks_exact_mut(8).zip(words) {
        field.copy_from_slice(&word.to_le_bytes());
    }
    let checksum = checksum(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

fn put_words(bytes: &mut Vec<u8>, words: &[u64]) {
    words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
}

/// Checks the checksum, decodes the header, and returns the rows undecoded.
pub(super) fn open(bytes: &[u8]) -> Result<(Header, Rows<'_>), RestoreError> {
    let has_begun = bytes.len().min(MAGIC.len());
    if bytes[..has_begun] != MAGIC[..has_begun] {
        return Err(RestoreError::NotASnapshot);
    }
    let mut rest = &bytes[has_begun..];
    let version = take_u32(&mut rest).ok_or(RestoreError::TooShort)?;
    if version != VERSION {
        return Err(RestoreError::Version(version));
    }
    let header_bytes = take_u32(&mut rest).ok_or(RestoreError::TooShort)?;
    if bytes.len() < HEADER_BYTES + CHECKSUM_BYTES {
        return Err(RestoreError::TooShort);
    }
    let total_bytes = word_at(bytes, TOTAL_AT);
    match (bytes.len() as u64).cmp(&total_bytes) {
        core::cmp::Ordering::Less => return Err(RestoreError::TooShort),
        core::cmp::Ordering::Greater => return Err(damaged("there are bytes after its end")),
        core::cmp::Ordering::Equal => {}
    }
    let (content, sum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
    if checksum(content) != word_at(sum, 0) {
        return Err(damaged("its checksum is wrong"));
    }
    if header_bytes != HEADER_LENGTH {
        return Err(damaged("its header has the wrong length for its version"));
    }
    let words = core::array::from_fn(|index| word_at(content, TOTAL_AT + 8 * index));
    let mut header = Header::from_words(words).ok_or(damaged("its overflow state is invalid"))?;
    let mut rest = &content[HEADER_BYTES..];
    if let Some((_, ring)) = &mut header.overflow {
        let cells = usize::try_from(header.shape.overflow_ring_cells).unwrap_or(usize::MAX);
        let cut_off = damaged("the overflow's ring is cut off");
        take_words(&mut rest, cells, ring).ok_or(cut_off)?;
    }
    Ok((header, Rows { rest, after: 0 }))
}

/// The error for a snapshot whose checksum is right and whose content is invalid.
pub(super) fn damaged(what: &'static str) -> RestoreError {
    RestoreError::Damaged { what }
}

/// The eight bytes from `offset`, which must exist.
fn word_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..][..8].try_into().expect("eight bytes"))
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, others) = rest.split_first_chunk()?;
    *rest = others;
    Some(*first)
}

fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    take(rest).map(u32::from_le_bytes)
}

/// Appends `count` words, or returns `None` if there are fewer.
fn take_words(rest: &mut &[u8], count: usize, to: &mut Vec<u64>) -> Option<()> {
    let (first, others) = rest.split_at_checked(count.checked_mul(8)?)?;
    *rest = others;
    to.extend(first.chunks_exact(8).map(|word| word_at(word, 0)));
    Some(())
}

/// The rows of a snapshot that are not decoded yet.
pub(super) struct Rows<'a> {
    rest: &'a [u8],
    /// The least bucket that the next row may have.
    after: u64,
}

impl Rows<'_> {
    /// Decodes the next row, for slots of `words_in_slot` words with `ring_cells` ring cells each.
    pub(super) fn next(
        &mut self,
        words_in_slot: usize,
        ring_cells: usize,
    ) -> Result<Option<Row>, RestoreError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let cut_off = damaged("a row is cut off");
        let bucket = take_u32(&mut self.rest).ok_or(cut_off)?;
        let [live] = take(&mut self.rest).ok_or(cut_off)?;
        if u64::from(bucket) < self.after {
            return Err(damaged("its buckets are out of order"));
        }
        self.after = u64::from(bucket) + 1;
        if live == 0 {
            return Err(damaged("a row is empty"));
        }
        let mut row = Row::of(bucket);
        for slot in Row::places_in(live) {
            let mut word = || take(&mut self.rest).map(u64::from_le_bytes).ok_or(cut_off);
            match words_in_slot {
                1 => row.add(slot, [word()?]),
                _ => row.add(slot, [word()?, word()?]),
            }
        }
        let count = ring_cells.saturating_mul(live.count_ones() as usize);
        take_words(&mut self.rest, count, &mut row.rings).ok_or(cut_off)?;
        Ok(Some(row))
    }
}
