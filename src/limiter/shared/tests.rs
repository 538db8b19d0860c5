//! The contents of a block's file, read by its description and by another limiter.

use core::error::Error;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::header::Kind;
use super::{Description, Form, Shared, SharedError, build_at, describe};
use crate::algo::CONFIG_WORDS;
use crate::dynamic::{DynamicGcra, Inherit};
use crate::limiter::builder::BuildError;
use crate::limiter::hash_seeds::Seeds;
use crate::table::block::HEADER_BYTES;
use crate::{Direct, FixedWindow, Limiter, OnFull, Quota};

const DAY_NANOS: u64 = 24 * 3_600 * 1_000_000_000;
/// The place of the choices in the header, in words.
const CHOICES_AT: u64 = 13;
const KIND: usize = 0;
const ALGORITHM: usize = 1;
const CONFIG: usize = 2;
const BUCKETS: usize = CONFIG + CONFIG_WORDS + 1;

/// A path that is removed at the end.
pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn new() -> Self {
        let [number, ..] = Seeds::random().words();
        Self(std::env::temp_dir().join(format!("tollgate-block-{number:016x}")))
    }

    pub(crate) fn shared(&self) -> Shared {
        Shared::file(&self.0)
    }

    pub(crate) fn describe(&self) -> Description {
        describe(&self.0).expect("a block")
    }

    /// The value of a choice.
    fn choice(&self, index: usize) -> u64 {
        self.describe().choices[index].1
    }

    pub(crate) fn file(&self) -> File {
        OpenOptions::new().read(true).write(true).open(&self.0).expect("a file")
    }

    /// Spoils a choice in the header.
    fn spoil(&self, index: usize, value: u64) {
        let place = (CHOICES_AT + index as u64) * 8;
        self.file().write_all_at(&value.to_ne_bytes(), place).expect("written");
    }

    /// How many words of the file, behind its header, have this value.
    fn count(&self, value: u64) -> usize {
        let bytes = fs::read(&self.0).expect("a file");
        let words = bytes[HEADER_BYTES..].chunks_exact(8);
        words.filter(|word| **word == value.to_ne_bytes()).count()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The choices from the kind on, and those of the overflow.
pub(crate) fn choices(place: &Place) -> (Vec<u64>, Vec<u64>) {
    let choices: Vec<u64> = place.describe().choices.iter().map(|(_, value)| *value).collect();
    (choices[..CONFIG + CONFIG_WORDS].to_vec(), choices[BUCKETS..].to_vec())
}

/// The length of the pieces of a block that is built there.
pub(crate) fn pieces_of<G>(build: impl FnOnce(&Shared) -> Result<G, SharedError>) -> u64 {
    let place = Place::new();
    drop(build(&place.shared()).map_err(|error| error.to_string()).expect("created"));
    place.describe().bytes - HEADER_BYTES as u64
}

/// Other versions of the crate find the same words at the same places.
#[test]
fn a_header_has_zeros_for_what_a_limiter_does_not_have() {
    let (direct, changing, keyed) = (Place::new(), Place::new(), Place::new());
    let quota = Quota::per_day(100);
    Direct::builder(quota).build_shared(&direct.shared()).expect("created");
    let builder = Direct::builder(quota).algorithm(DynamicGcra::new());
    builder.build_shared(&changing.shared()).expect("created");
    let builder = Limiter::<u64>::builder(quota).algorithm(DynamicGcra::start_empty());
    let builder = builder.capacity(100).on_full(OnFull::SharedOverflow(Quota::per_day(9)));
    builder.build_shared(&keyed.shared()).expect("created");

    let (first, rest) = choices(&direct);
    assert_eq!((&first[..CONFIG], rest), (&[2, 1][..], vec![0; 10]));
    assert_eq!(choices(&changing), (vec![2, 8, 0, 0, 0, 0, 0, 0, 0, 0], vec![0; 10]));
    let rest = vec![23, 0, 9, DAY_NANOS, 9, 0, 0, 0, 0, 0];
    assert_eq!(choices(&keyed), (vec![0, 8, 1, 0, 0, 0, 0, 0, 0, 0], rest));
}

/// The pieces of a block, each of which begins at a multiple of 128 bytes, and nothing behind them.
#[test]
fn a_block_is_as_long_as_its_pieces() {
    let direct = || Direct::builder(Quota::per_day(100));
    let keyed = || Limiter::<u64>::builder(Quota::per_day(100)).capacity(100);
    let one = pieces_of(|shared| direct().build_shared(shared));
    let table = pieces_of(|shared| keyed().build_shared(shared));
    assert_eq!(one, 128);
    // The words of the wall clock.
    let aligned = FixedWindow::aligned();
    let wall = pieces_of(|shared| direct().algorithm(aligned).build_shared(shared)) - one;
    assert_eq!(wall % 128, 0);
    assert!((1..=512).contains(&wall), "{wall}");
    let with_wall = pieces_of(|shared| keyed().algorithm(aligned).build_shared(shared));
    assert_eq!(with_wall, table + wall);
    // Two quotas, the creator's and the one in force.
    let changing = DynamicGcra::new();
    let quotas = pieces_of(|shared| direct().algorithm(changing).build_shared(shared)) - one;
    assert_eq!(quotas % 256, 0);
    let with_quotas = pieces_of(|shared| keyed().algorithm(changing).build_shared(shared));
    assert_eq!(with_quotas, table + quotas);
}

#[test]
fn the_offset_that_a_wall_clock_follows_is_in_the_block() {
    let quota = Quota::per_day(100);
    let (one, keyed) = (Place::new(), Place::new());
    let builder = Direct::builder(quota).algorithm(FixedWindow::aligned());
    let gate = builder.build_shared(&one.shared()).expect("created");
    gate.set_utc_offset_secs(4_321).expect("below a day");
    let builder = Limiter::<u64>::builder(quota).algorithm(FixedWindow::aligned()).capacity(100);
    let gate = builder.build_shared(&keyed.shared()).expect("created");
    gate.set_utc_offset_secs(4_321).expect("below a day");
    assert_eq!([one.count(4_321), keyed.count(4_321)], [1; 2]);
}

#[test]
fn a_description_shows_the_quota_in_force() {
    let place = Place::new();
    let builder = Limiter::<u64>::builder(Quota::per_hour(9)).algorithm(DynamicGcra::new());
    let gate = builder.capacity(100).build_shared(&place.shared()).expect("created");
    assert!(gate.check(&7).is_ok());
    for quota in [Quota::per_hour(2), Quota::per_hour(2).burst(5)] {
        gate.set_quota(quota, Inherit::Spent).expect("in range");
        let description = place.describe();
        assert_eq!(description.quota, Some(quota.to_string()));
        assert_eq!((description.keys, description.stats.claimed), (1, 1));
    }
}

#[test]
fn choices_that_this_version_does_not_know_are_left_out() {
    let place = Place::new();
    let gate = Limiter::<u64>::builder(Quota::per_day(9)).capacity(100);
    let gate = gate.build_shared(&place.shared()).expect("created");
    assert!(gate.check(&7).is_ok());
    let buckets = place.choice(BUCKETS);
    place.spoil(ALGORITHM, 99);
    let description = place.describe();
    assert_eq!((description.algorithm, description.quota), (None, None));
    assert_eq!((description.keys, description.stats.claimed), (1, 1));
    place.spoil(BUCKETS, 1 << 40);
    assert_eq!((place.describe().slots, place.describe().capacity), (0, 0));
    place.spoil(BUCKETS, buckets);
    place.spoil(KIND, 99);
    assert_eq!((place.describe().kind, place.describe().slots), (None, 0));
}

/// As many as its buckets would have if they were all as full as those that are left.
#[test]
fn the_keys_of_a_file_that_was_cut_are_estimated_from_what_is_left() {
    let place = Place::new();
    let gate = Limiter::<u64>::builder(Quota::per_day(9)).capacity(2_000).hash_seed(1);
    let gate = gate.build_shared(&place.shared()).expect("created");
    (0..1_000).for_each(|key| assert!(gate.check(&key).is_ok()));
    drop(gate);
    let description = place.describe();
    assert_eq!(description.keys, 1_000);
    let slots_end = HEADER_BYTES as u64 + 16 * description.slots;
    assert!(slots_end <= description.bytes);
    place.file().set_len(HEADER_BYTES as u64 + 8 * description.slots).expect("cut");
    let cut = place.describe();
    assert!(matches!(cut.problem, Some(SharedError::OtherLength { .. })));
    assert!((900..1_100).contains(&cut.keys), "{}", cut.keys);
}

#[test]
fn a_file_that_is_shorter_than_a_header_is_told_from_one_of_another_program() {
    let (place, whole) = (Place::new(), Place::new());
    drop(Direct::builder(Quota::per_day(9)).build_shared(&whole.shared()).expect("created"));
    let bytes = fs::read(&whole.0).expect("a file");
    for length in [8, 16, HEADER_BYTES - 8] {
        fs::write(&place.0, &bytes[..length]).expect("written");
        let error = describe(&place.0).expect_err("too short");
        let SharedError::OtherLength { found, expected } = error else { panic!("{error}") };
        assert_eq!((found, expected), (length as u64, HEADER_BYTES as u64));
    }
    for bytes in [&b""[..], b"7 bytes", b"something else"] {
        fs::write(&place.0, bytes).expect("written");
        assert!(matches!(describe(&place.0), Err(SharedError::Foreign)));
    }
}

#[test]
fn a_process_that_is_slower_to_create_a_file_attaches_the_one_that_is_there() {
    let place = Place::new();
    let form = || Form {
        kind: Kind::Direct,
        algorithm: 1,
        config: [0; CONFIG_WORDS],
        ring_words: 0,
        buckets: 0,
        counts_decisions: false,
        overflow: [0; CONFIG_WORDS],
        bytes: 128,
    };
    let others = core::cell::Cell::new(0);
    let source = build_at(&place.shared(), None, |site| {
        let source = site.source(form())?;
        if others.replace(others.get() + 1) == 0 {
            build_at(&place.shared(), None, |site| site.source(form())).expect("it is faster");
        }
        Ok(source)
    });
    assert!(source.is_ok());
    assert_eq!(others.get(), 2, "it begins again");
}

#[test]
fn an_error_names_the_one_that_it_is_about() {
    let choice = SharedError::Choice(Box::new(BuildError::NotCompact));
    let source = choice.source().expect("that of the choice");
    assert_eq!(source.downcast_ref(), Some(&BuildError::NotCompact));
    let build = Limiter::<u64>::builder(Quota::per_day(9)).capacity(0);
    let build = build.build_shared(&Shared::anonymous()).map(drop).expect_err("no key");
    let source = build.source().expect("that of the builder");
    assert_eq!(source.downcast_ref(), Some(&BuildError::ZeroCapacity));
    let system = describe("/no/such/file").expect_err("no file");
    let source = system.source().expect("that of the system");
    assert!(source.downcast_ref::<std::io::Error>().is_some());
    assert!(SharedError::Foreign.source().is_none());
}
