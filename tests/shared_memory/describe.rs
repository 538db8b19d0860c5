//! The description of a block is read from its file alone.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use tollgate::concurrency::{ConcurrencyLimiter, DirectConcurrency};
use tollgate::dynamic::{DynamicGcra, Inherit};
use tollgate::limiter::SlotLayout;
use tollgate::shared::{SharedError, describe};
use tollgate::{AnyAlgorithm, Direct, Limiter, Quota, SlidingLog, WarmUp};

use crate::{Folder, KINDS, quota, words};

#[test]
fn each_kind_is_described() {
    for kind in KINDS {
        let folder = Folder::new();
        let gate = kind.build(&folder.shared(), quota(50)).expect("created");
        let admitted = (0..300).filter(|key| gate.check(key).is_ok()).count();
        assert_eq!(admitted, 300);
        let description = describe(folder.path()).expect("a block");
        let slots = format!("Limiter, {} slots", format!("{:?}", kind.slots).to_lowercase());
        assert_eq!(description.kind, Some(&*slots));
        assert_eq!(description.algorithm, Some(kind.algorithm));
        assert!(description.problem.is_none());
        let occupancy = gate.occupancy();
        let of_gate = (occupancy.capacity as u64, occupancy.slots as u64, 300, gate.stats());
        let described =
            (description.capacity, description.slots, description.keys, description.stats);
        assert_eq!(described, of_gate, "{kind:?}");
        assert_eq!(description.bytes, fs::metadata(folder.path()).expect("a file").len());
    }
}

/// The description of the quota of an algorithm.
fn quota_text(algorithm: impl Into<AnyAlgorithm>, quota: &str, slots: SlotLayout) -> String {
    let folder = Folder::new();
    let builder = Limiter::<u64>::builder(quota.parse().expect("a quota"));
    let builder = builder.algorithm(algorithm.into()).slots(slots);
    drop(builder.build_shared(&folder.shared()).expect("created"));
    describe(folder.path()).expect("a block").quota.expect("an algorithm")
}

#[test]
fn quotas_are_told_in_words() {
    let named = |name: &str, quota, slots| {
        quota_text(name.parse::<AnyAlgorithm>().expect("an algorithm"), quota, slots)
    };
    for slots in [SlotLayout::Wide, SlotLayout::Compact] {
        assert_eq!(named("gcra", "100/d burst 7", slots), "1 every 864s, 7 at once");
        assert_eq!(named("leaky-queue", "2/s burst 3", slots), "1 every 500ms, 3 may wait");
        assert_eq!(named("fixed-window", "9/min", slots), "9 in each window of 60s");
        let aligned = named("fixed-window-aligned", "9/min", slots);
        assert_eq!(aligned, "9 in each window of 60s by the wall clock");
    }
    let wide = SlotLayout::Wide;
    assert_eq!(named("sub-windows", "9/min", wide), "9 in 60s, by 6 sub-windows");
    assert_eq!(named("sliding-counter", "9/min", wide), "about 9 in any 60s");
    assert_eq!(named("sliding-log", "9/min", wide), "9 in any 60s");
    let two = SlidingLog::new().and(Quota::per_hour(40));
    assert_eq!(quota_text(two, "9/min", wide), "9 in any 60s, 40 in any 3600s");
    let warm = WarmUp::new(Duration::from_secs(10));
    assert_eq!(quota_text(warm, "10/s", wide), "1 every 100ms when warm");
}

#[test]
fn a_description_shows_the_quota_in_force() {
    let folder = Folder::new();
    let builder =
        Limiter::<u64>::builder(Quota::per_hour(9)).algorithm(DynamicGcra::new()).capacity(50);
    let gate = builder.build_shared(&folder.shared()).expect("created");
    assert!(gate.check(&1).is_ok() && gate.check(&2).is_ok());
    for limit in 1..9 {
        gate.set_quota(Quota::per_hour(limit), Inherit::Spent).expect("in range");
        let described = describe(folder.path()).expect("a block");
        assert_eq!(described.quota, Some(Quota::per_hour(limit).to_string()));
        assert_eq!(described.algorithm, Some("gcra with a quota that changes"));
        assert_eq!((described.keys, described.stats), (2, gate.stats()));
    }
}

#[test]
fn a_bucket_without_keys_is_described() {
    let folder = Folder::new();
    let shared = folder.shared();
    drop(Direct::builder(Quota::per_day(100)).build_shared(&shared).expect("created"));
    let described = describe(folder.path()).expect("a block");
    assert_eq!((described.kind, described.slots, described.keys), (Some("Direct"), 0, 0));
    assert_eq!(described.quota.expect("an algorithm"), "1 every 864s, 100 at once");
}

#[test]
fn requests_in_flight_are_described() {
    let folder = Folder::new();
    let builder = ConcurrencyLimiter::<u64>::builder(5).max_hold(Duration::from_secs(60));
    let gate = builder.capacity(50).build_shared(&folder.shared()).expect("created");
    let _held = [gate.enter(&1).expect("room"), gate.enter(&2).expect("room")];
    gate.set_limit(7).expect("in range");
    let described = describe(folder.path()).expect("a block");
    assert_eq!(described.kind, Some("ConcurrencyLimiter"));
    assert_eq!(described.quota.expect("an algorithm"), "7 in flight, each lost after 60s");
    assert_eq!((described.keys, described.stats), (2, gate.stats()));
    fs::remove_file(folder.path()).expect("removed");
    let builder = DirectConcurrency::builder(3).max_hold(Duration::from_secs(60));
    drop(builder.build_shared(&folder.shared()).expect("created"));
    let described = describe(folder.path()).expect("a block");
    assert_eq!(described.kind, Some("DirectConcurrency"));
    assert_eq!(described.quota.expect("an algorithm"), "3 in flight, each lost after 60s");
}

#[test]
fn a_block_that_cannot_be_attached_is_described_with_the_reason() {
    let folder = Folder::new();
    let path = folder.path();
    drop(KINDS[0].build(&folder.shared(), quota(50)).expect("created"));
    let file = OpenOptions::new().write(true).open(&path).expect("a file");
    let whole = fs::read(&path).expect("its bytes");
    let problem = || describe(&path).expect("a block").problem.expect("a reason");
    file.set_len(8_192).expect("cut");
    assert!(matches!(problem(), SharedError::OtherLength { found: 8_192, .. }));
    file.write_all_at(&whole, 0).expect("restored");
    assert!(describe(&path).expect("a block").problem.is_none());
    // The identity of the start of the machine.
    file.write_all_at(&1_u64.to_ne_bytes(), 24).expect("written");
    assert!(matches!(problem(), SharedError::OtherBoot));
    file.write_all_at(&[9], 8).expect("written");
    assert!(matches!(describe(&path), Err(SharedError::OtherVersion { .. })));
    file.write_all_at(&[9], 0).expect("written");
    assert!(matches!(describe(&path), Err(SharedError::Foreign)));
}

#[test]
fn any_bytes_have_an_answer() {
    let folder = Folder::new();
    let path = folder.path();
    drop(KINDS[0].build(&folder.shared(), quota(50)).expect("created"));
    let whole = fs::read(&path).expect("its bytes");
    let (mut draw, mut described) = (words(7), 0);
    let mut draw = || draw.next().expect("endless");
    for round in 0..3_000 {
        let mut bytes = whole.clone();
        bytes.truncate(match round % 3 {
            0 => usize::try_from(draw() % 6_000).expect("small"),
            _ => bytes.len(),
        });
        // The magic word, the version and the length stay for half of the rounds.
        let first = if round % 2 == 0 { 0 } else { 24 };
        for _ in 0..draw() % 8 {
            let at = first + usize::try_from(draw() % 300).expect("small");
            let word = draw() >> (draw() % 64);
            if let Some(place) = bytes.get_mut(at..at + 8) {
                place.copy_from_slice(&word.to_ne_bytes());
            }
        }
        fs::write(&path, &bytes).expect("written");
        described += usize::from(describe(&path).is_ok());
    }
    assert!((500..3_000).contains(&described), "{described} of 3000 were described");
}

#[test]
fn what_is_no_file_is_no_block() {
    let folder = Folder::new();
    let path = folder.path();
    assert!(matches!(describe(&path), Err(SharedError::System { .. })), "none is there");
    assert!(matches!(describe(path.parent().expect("a folder")), Err(SharedError::Foreign)));
    File::create(&path).expect("an empty file");
    assert!(matches!(describe(&path), Err(SharedError::Foreign)));
    fs::remove_file(&path).expect("removed");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo is there").success());
    // Nothing writes to the pipe, and the answer does not wait for it.
    assert!(matches!(describe(&path), Err(SharedError::Foreign)));
}
