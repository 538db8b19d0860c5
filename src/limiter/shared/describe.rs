//! Says what a block holds, without attaching it.
//!
//! The file is read and never mapped. So permission to read is enough, a file that is cut meanwhile ends no
//! process, and any bytes have an answer.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use super::SharedError;
use super::file::check_kind;
use super::header::{
    ALGORITHM, BUCKETS, CONFIG, KIND, RING_WORDS, choices, identity_in, stated_bytes,
};
use super::quota_text::{CountedBy, QuotaSource};
use crate::algo::numbered::Config;
use crate::limiter::stats::Stats;
use crate::sync::LockableFile;
use crate::table::block::{HEADER_BYTES, HEADER_WORDS};
use crate::table::{BlockView, Counters, TableForm};

/// Buckets of a table that are looked at.
const BUCKETS_READ_MAX: u64 = 32_768;

/// The limiter that a block holds and the kind of its slots, by the number of the block's kind.
const KINDS: [(&str, Slots); 5] = [
    ("Limiter, wide slots", Slots::Wide),
    ("Limiter, compact slots", Slots::Compact),
    ("Direct", Slots::None),
    ("ConcurrencyLimiter", Slots::Wide),
    ("DirectConcurrency", Slots::None),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Slots {
    Wide,
    Compact,
    None,
}

/// The content of a block, as [`describe`] reads it. While processes use the block, the counts may be of
/// slightly different moments.
///
/// ```
/// # let path = std::env::temp_dir().join(format!("tollgate-description-{}", std::process::id()));
/// use tollgate::shared::{Shared, describe};
/// use tollgate::{Limiter, Quota};
///
/// let gate = Limiter::<str>::builder(Quota::per_day(100)).build_shared(&Shared::file(&path))?;
/// assert!(gate.check("192.0.2.7").is_ok());
/// let description = describe(&path)?;
/// assert_eq!(description.algorithm, Some("gcra"));
/// assert_eq!(description.quota.unwrap(), "1 every 864s, 100 at once");
/// assert_eq!((description.keys, description.stats.claimed), (1, 1));
/// assert!(description.problem.is_none());
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), tollgate::shared::SharedError>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Description {
    /// The kind of limiter and of its slots; `None`: a kind that this version does not know.
    pub kind: Option<&'static str>,
    /// The algorithm; `None`: this version does not know it.
    pub algorithm: Option<&'static str>,
    /// The quota that is in force, in words; `None`: this version does not know the algorithm.
    pub quota: Option<String>,
    /// Live keys that there is room for; 0 without keys.
    pub capacity: u64,
    /// Slots in all.
    pub slots: u64,
    /// About how many slots have a key, live or idle. An idle key's slot is given to the next key that needs
    /// it.
    pub keys: u64,
    /// The length of the file.
    pub bytes: u64,
    /// The counts of all processes since the block was created.
    pub stats: Stats,
    /// Why no process can attach the block; `None`: those that make the same choices can.
    pub problem: Option<SharedError>,
    /// The choices in the header, each with its name.
    pub choices: Vec<(&'static str, u64)>,
}

/// Reads what the block in a file holds. It attaches nothing and changes nothing.
///
/// Of a table for more than 140,000 keys it looks at a sample of the buckets, and estimates the number of keys
/// from them.
///
/// # Errors
///
/// The file cannot be read, is none of this crate's, or was written by a version with another layout. A block
/// that cannot be attached for another reason is described, with the [`problem`](Description::problem).
///
/// ```
/// use tollgate::shared::{SharedError, describe};
///
/// assert!(matches!(describe("/no/such/file"), Err(SharedError::System { .. })));
/// assert!(matches!(describe("/dev/null"), Err(SharedError::Foreign)));
/// ```
pub fn describe(path: impl AsRef<Path>) -> Result<Description, SharedError> {
    let file = open(path.as_ref())?;
    let bytes = file.metadata().map_err(SharedError::system("read the file's length"))?.len();
    let header = words_at(&file, 0, HEADER_WORDS)?;
    if header.len() < HEADER_WORDS {
        return Err(match identity_in(load(&header), bytes) {
            Err(SharedError::Foreign) => SharedError::Foreign,
            _ => SharedError::OtherLength { found: bytes, expected: HEADER_BYTES as u64 },
        });
    }
    let problem = match identity_in(load(&header), bytes) {
        Ok(_) => None,
        Err(error @ (SharedError::Foreign | SharedError::OtherVersion { .. })) => {
            return Err(error);
        }
        Err(error) => Some(error),
    };
    let choices = choices(load(&header));
    let choice = |index: usize| choices[index].1;
    let counted_by = CountedBy::number(choice(ALGORITHM));
    let quota = QuotaSource {
        config: Config(core::array::from_fn(|word| choice(CONFIG + word))),
        bytes: stated_bytes(load(&header)),
        read: &|place, count| words_at(&file, place, count).unwrap_or_default(),
    };
    let kind = usize::try_from(choice(KIND)).ok().and_then(|kind| KINDS.get(kind));
    let slots = kind.map_or(Slots::None, |(_, slots)| *slots);
    let stated_buckets = match slots {
        Slots::None => 0,
        Slots::Wide | Slots::Compact => u32::try_from(choice(BUCKETS)).unwrap_or(0),
    };
    let form = TableForm {
        is_compact: slots == Slots::Compact,
        stated_buckets,
        ring_words: choice(RING_WORDS),
        begins_at: HEADER_BYTES as u64 + counted_by.map_or(0, CountedBy::bytes_before_table),
    };
    let view = BlockView::new(form);
    let counters = match slots {
        Slots::None => Vec::new(),
        Slots::Wide | Slots::Compact => words_at(&file, view.counters_at(), Counters::WORDS)?,
    };
    Ok(Description {
        kind: kind.map(|(name, _)| *name),
        algorithm: counted_by.map(|known| known.name(&quota.config)),
        quota: counted_by.map(|known| known.quota(&quota)),
        capacity: view.capacity(),
        slots: view.slots(),
        keys: count_keys(&file, &view)?,
        bytes,
        stats: Stats::by_event(|event| Counters::total_in(&counters, event)),
        problem,
        choices: choices.to_vec(),
    })
}

/// Opens a file for reading, without waiting for the other end of a pipe. It is closed as lockable files are, so that
/// no other thread loses its lock of the same file.
fn open(path: &Path) -> Result<LockableFile, SharedError> {
    let mut options = OpenOptions::new();
    // The constant has the bits of the C library's `int`.
    let no_wait = OFlags::NONBLOCK.bits().cast_signed();
    let file = options.read(true).custom_flags(no_wait).open(path);
    let file = LockableFile::new(file.map_err(SharedError::system("open the file"))?);
    check_kind(&file)?;
    Ok(file)
}

fn load(header: &[u64]) -> impl Fn(usize) -> u64 {
    |word| header.get(word).copied().unwrap_or(0)
}

/// Reads `count` words from a place on, or fewer if the file ends before.
fn words_at(file: &File, place: u64, count: usize) -> Result<Vec<u64>, SharedError> {
    let mut bytes = vec![0; count * size_of::<u64>()];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], place.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(SharedError::system("read the file")(error)),
        }
    }
    let (words, _) = bytes[..filled].as_chunks();
    Ok(words.iter().map(|word| u64::from_ne_bytes(*word)).collect())
}

/// About how many slots have a key, by a sample of the buckets.
fn count_keys(file: &File, view: &BlockView) -> Result<u64, SharedError> {
    let step = view.buckets().div_ceil(BUCKETS_READ_MAX).max(1);
    let (mut keys, mut read) = (0, 0);
    let mut bucket = 0;
    while bucket < view.buckets() {
        let words = words_at(file, view.bucket_at(bucket), view.bucket_words())?;
        // The header may state more buckets than the file has.
        if words.is_empty() {
            break;
        }
        keys += view.keys_in(&words) as u64;
        read += 1;
        bucket += step;
    }
    if read == 0 {
        return Ok(0);
    }
    let all = u128::from(keys) * u128::from(view.buckets()) / read;
    Ok(u64::try_from(all).unwrap_or(u64::MAX))
}

#[cfg(all(test, target_os = "linux", not(any(tollgate_loom, tollgate_shuttle))))]
mod tests {
    use std::time::Duration;

    use super::{LockableFile, describe, words_at};
    use crate::limiter::direct::Direct;
    use crate::limiter::shared::Shared;
    use crate::quota::Quota;

    /// To close a file ends the locks that the process has on it.
    #[test]
    fn a_description_closes_no_file_that_another_thread_has_locked() {
        let path = std::env::temp_dir().join(format!("tollgate-locked-{}", std::process::id()));
        let shared = Shared::file(&path);
        let gate = Direct::builder(Quota::per_second(10)).build_shared(&shared);
        drop(gate.expect("created"));
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&path);
        let file = LockableFile::new(file.expect("a file"));
        let lock = file.lock_within(Duration::from_secs(60)).expect("no other process has it");
        std::thread::scope(|scope| {
            let describing = scope.spawn(|| describe(&path));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!describing.is_finished(), "it has closed the file");
            drop(lock);
            assert!(describing.join().expect("no panic").is_ok());
        });
        drop(file);
        std::fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn the_words_of_a_file_that_ends_early_are_those_before_its_end() {
        let path = std::env::temp_dir().join(format!("tollgate-words-{}", std::process::id()));
        let bytes: Vec<u8> = [1_u64, 2, 3].into_iter().flat_map(u64::to_ne_bytes).collect();
        std::fs::write(&path, bytes).expect("written");
        let file = std::fs::File::open(&path).expect("a file");
        for (place, count, words) in
            [(0, 2, &[1, 2][..]), (8, 9, &[2, 3]), (16, 2, &[3]), (24, 2, &[])]
        {
            assert_eq!(words_at(&file, place, count).expect("read"), words);
        }
        std::fs::remove_file(&path).expect("it is there");
    }
}
