//! What the file of a block holds, as its description tells it and as another limiter finds it.

use core::error::Error;
use core::time::Duration;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::header::Kind;
use super::{Description, Form, Shared, SharedError, build_at, describe};
use crate::algo::CONFIG_WORDS;
use crate::concurrency::{ConcurrencyLimiter, DirectConcurrency, WhenNoSlot};
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
const COUNTS: usize = BUCKETS + 1;
const OVERFLOW: usize = COUNTS + 1;

/// A path that is removed at the end.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        let [number, ..] = Seeds::random().words();
        Self(std::env::temp_dir().join(format!("tollgate-block-{number:016x}")))
    }

    fn shared(&self) -> Shared {
        Shared::file(&self.0)
    }

    fn describe(&self) -> Description {
        describe(&self.0).expect("a block")
    }

    /// The value of a choice.
    fn choice(&self, index: usize) -> u64 {
        self.describe().choices[index].1
    }

    fn file(&self) -> File {
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

/// Other versions of the crate find the same words at the same places.
#[test]
fn a_header_has_zeros_for_what_a_limiter_does_not_have() {
    let hold = Duration::from_secs(60);
    let (direct, changing, keyed, in_flight, all) =
        (Place::new(), Place::new(), Place::new(), Place::new(), Place::new());
    let quota = Quota::per_day(100);
    Direct::builder(quota).build_shared(&direct.shared()).expect("created");
    let builder = Direct::builder(quota).algorithm(DynamicGcra::new());
    builder.build_shared(&changing.shared()).expect("created");
    let builder = Limiter::<u64>::builder(quota).algorithm(DynamicGcra::start_empty());
    let builder = builder.capacity(100).on_full(OnFull::SharedOverflow(Quota::per_day(9)));
    builder.build_shared(&keyed.shared()).expect("created");
    let builder = ConcurrencyLimiter::<u64>::builder(10).max_hold(hold).capacity(100);
    builder.build_shared(&in_flight.shared()).expect("created");
    let builder = DirectConcurrency::builder(10).max_hold(hold);
    builder.build_shared(&all.shared()).expect("created");

    for (place, kind, algorithm, config) in [
        (&direct, 2, 1, None),
        (&changing, 2, 8, Some(0)),
        (&keyed, 0, 8, Some(1)),
        (&in_flight, 3, 9, Some(60_000_000_000)),
        (&all, 4, 9, Some(60_000_000_000)),
    ] {
        let choices: Vec<u64> = place.describe().choices.iter().map(|(_, value)| *value).collect();
        assert_eq!(choices[..CONFIG], [kind, algorithm]);
        let buckets = if kind % 3 == 0 { 23 } else { 0 };
        assert_eq!(choices[BUCKETS..OVERFLOW], [buckets, 0], "kind {kind}");
        if let Some(first) = config {
            let expected = [first, 0, 0, 0, 0, 0, 0, 0];
            assert_eq!(choices[CONFIG..CONFIG + CONFIG_WORDS], expected, "kind {kind}");
        }
        let overflow = if kind == 0 { [9, DAY_NANOS, 9] } else { [0; 3] };
        let expected: Vec<u64> = overflow.into_iter().chain([0; 5]).collect();
        assert_eq!(choices[OVERFLOW..], expected, "kind {kind}");
    }
}

/// The pieces of a block, each of which begins at a multiple of 128 bytes, and nothing behind them.
#[test]
fn a_block_is_as_long_as_its_pieces() {
    let length = |build: &dyn Fn(&Shared) -> Option<SharedError>| {
        let place = Place::new();
        let error = build(&place.shared());
        assert!(error.is_none(), "{error:?}");
        place.describe().bytes - HEADER_BYTES as u64
    };
    let (quota, hold) = (Quota::per_day(100), Duration::from_secs(60));
    let direct = || Direct::builder(quota);
    let keyed = || Limiter::<u64>::builder(quota).capacity(100);
    let one = length(&|shared| direct().build_shared(shared).err());
    let table = length(&|shared| keyed().build_shared(shared).err());
    assert_eq!(one, 128);
    // The words of the wall clock.
    let aligned = FixedWindow::aligned();
    let wall = length(&|shared| direct().algorithm(aligned).build_shared(shared).err()) - one;
    assert_eq!(wall % 128, 0);
    assert!((1..=512).contains(&wall), "{wall}");
    assert_eq!(
        length(&|shared| keyed().algorithm(aligned).build_shared(shared).err()),
        table + wall
    );
    // Two quotas, the creator's and the one in force.
    let changing = DynamicGcra::new();
    let quotas = length(&|shared| direct().algorithm(changing).build_shared(shared).err()) - one;
    assert_eq!(quotas % 256, 0);
    assert_eq!(
        length(&|shared| keyed().algorithm(changing).build_shared(shared).err()),
        table + quotas
    );
    // A count and its limit; the overflow of a table is another count.
    let all = || DirectConcurrency::builder(10).max_hold(hold);
    assert_eq!(length(&|shared| all().build_shared(shared).err()), 256);
    let each = || ConcurrencyLimiter::<u64>::builder(10).max_hold(hold).capacity(100);
    assert_eq!(length(&|shared| each().build_shared(shared).err()), table + 128);
    let sharing = || each().when_no_slot(WhenNoSlot::SharedOverflow(3));
    assert_eq!(length(&|shared| sharing().build_shared(shared).err()), table + 256);
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
fn the_limit_of_requests_in_flight_is_told_as_it_is_in_force() {
    let (place, hold) = (Place::new(), Duration::from_secs(60));
    let builder = ConcurrencyLimiter::<u64>::builder(10).max_hold(hold).capacity(100);
    let gate = builder.build_shared(&place.shared()).expect("created");
    gate.set_limit(7).expect("in range");
    let quota = || place.describe().quota.expect("an algorithm");
    assert_eq!(quota(), "7 in flight, each lost after 60s");
    // The header states a length that has no place for the limit, or one that no file has.
    for bytes in [9, u64::MAX] {
        place.file().write_all_at(&bytes.to_ne_bytes(), 2 * 8).expect("written");
        assert_eq!(quota(), "spoilt");
    }
}

#[test]
fn a_quota_that_changes_is_told_as_it_is_in_force() {
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
    place.file().set_len(HEADER_BYTES as u64 + 8 * description.slots).expect("cut");
    assert!(slots_end <= description.bytes);
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
    let choice = DirectConcurrency::builder(0).max_hold(Duration::from_secs(60));
    let choice = choice.build_shared(&Shared::anonymous()).map(drop).expect_err("no limit");
    assert_eq!(choice.source().expect("that of the choice").to_string(), choice.to_string());
    let build = Limiter::<u64>::builder(Quota::per_day(9)).capacity(0);
    let build = build.build_shared(&Shared::anonymous()).map(drop).expect_err("no key");
    let source = build.source().expect("that of the builder");
    assert_eq!(source.downcast_ref(), Some(&BuildError::ZeroCapacity));
    let system = describe("/no/such/file").expect_err("no file");
    let source = system.source().expect("that of the system");
    assert!(source.downcast_ref::<std::io::Error>().is_some());
    assert!(SharedError::Foreign.source().is_none());
}
