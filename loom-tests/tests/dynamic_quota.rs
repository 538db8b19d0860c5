//! Dynamic quotas: a quota changes while threads read it and decide requests.
//!
//! The protocols are in `src/sync/versioned.rs`, `src/sync/derived.rs` and `src/policy/dynamic/in_force.rs`.

#![cfg(tollgate_loom)]

use std::sync::Arc;

use loom::thread;
use loom_tests::{
    Keyed, ONE_BUCKET, Preemptions, ask, at, burst, catch_two, each_of, explore_four,
    explore_four_to, explore_three, explore_two_to, explore_two_whole, keyed,
};
use tollgate::OnFull;
use tollgate::dynamic::{DynamicGcra, Inherit};
use tollgate::internals::{DerivedCell, Fault, VersionedCell, plant};

const KEY: u64 = 7;

/// A writer replaces two equal words by two others that are equal, twice.
fn replaced_while_read() {
    let cell = Arc::new(VersionedCell::new(&[1, 1]));
    let other = Arc::clone(&cell);
    let writer = thread::spawn(move || {
        for version in 2..=3 {
            let replaced = other.replace(|_| Ok::<_, ()>([version; 2]));
            assert!(matches!(replaced, Ok(Ok(()))), "no other thread writes");
        }
    });
    let [first, second] = cell.read();
    assert_eq!(first, second, "both words are of one version");
    writer.join().unwrap();
    assert_eq!(cell.read(), [3, 3], "the last version");
}

#[test]
fn a_reader_sees_words_of_one_version() {
    explore_two_whole("dynamic quota: replaced twice while read", replaced_while_read);
}

/// The planted fault: a reader takes the words without a check.
#[test]
#[should_panic(expected = "both words are of one version")]
fn without_the_check_a_reader_sees_words_of_two_versions() {
    plant(Fault::TornQuota);
    catch_two("dynamic quota: torn read", replaced_while_read);
}

#[test]
fn of_two_writers_one_succeeds_and_no_version_is_lost() {
    explore_two_to("dynamic quota: 2 writers", 3, Preemptions::Any, || {
        let cell = Arc::new(VersionedCell::new(&[0, 0]));
        let add = |cell: &VersionedCell<2>| {
            let replaced = cell.replace(|&[a, b]| Ok::<_, ()>([a + 1, b + 1]));
            u64::from(replaced.is_ok())
        };
        let other = Arc::clone(&cell);
        let writer = thread::spawn(move || add(&other));
        let written = add(&cell) + writer.join().unwrap();
        assert!(written > 0, "one writer succeeds");
        assert_eq!(cell.read(), [written; 2], "every successful write");
    });
}

/// The double of a word, beside the number of its version.
#[expect(clippy::unnecessary_wraps, reason = "of other words nothing could be derived")]
fn doubled(&[word]: &[u64; 1]) -> Option<[u64; 2]> {
    Some([2 * word, 0])
}

/// A writer replaces a word twice, while two threads read what is derived from it.
fn derived_while_replaced() {
    let cells = VersionedCell::new(&[1]);
    let derived = DerivedCell::new(&cells, doubled).expect("a word");
    let cells = Arc::new((cells, derived));
    let read =
        |(source, derived): &(VersionedCell<1>, DerivedCell<2>)| derived.read(source, doubled)[0];
    let other = Arc::clone(&cells);
    let reader = thread::spawn(move || read(&other));
    for word in [2, 3] {
        let replaced = cells.0.replace(|_| Ok::<_, ()>([word]));
        assert!(matches!(replaced, Ok(Ok(()))), "no other thread writes");
    }
    assert_eq!(read(&cells), 6, "a read after the changes is by the new version");
    assert!([2, 4, 6].contains(&reader.join().unwrap()), "words of one version");
    assert_eq!(read(&cells), 6, "the last version");
}

#[test]
fn what_is_derived_is_of_the_version_in_force() {
    explore_two_to("dynamic quota: derived", 2, Preemptions::To(4), derived_while_replaced);
}

/// The planted fault: the number of a version is loaded after its words.
#[test]
#[should_panic(expected = "version")]
fn with_a_number_that_is_loaded_late_an_old_version_stays() {
    plant(Fault::NumberLoadedLate);
    catch_two("dynamic quota: number loaded late", derived_while_replaced);
}

/// The first thread writes twice, and the others read.
fn readers_and_a_writer(threads: usize) {
    let cell = Arc::new(VersionedCell::new(&[1, 1]));
    let versions = each_of(threads, &cell, |cell, number| {
        if number == 0 {
            for version in 2..=3 {
                assert!(cell.replace(|_| Ok::<_, ()>([version; 2])).is_ok());
            }
            return 3;
        }
        let [first, second] = cell.read();
        assert_eq!(first, second, "both words are of one version");
        first
    });
    assert!(versions.iter().all(|version| (1..=3).contains(version)), "a version that was written");
    assert_eq!(cell.read(), [3, 3], "the last version");
}

#[test]
fn two_readers_beside_a_writer_see_words_of_one_version() {
    explore_three("dynamic quota: 2 readers, 1 writer", || readers_and_a_writer(3));
}

#[test]
#[ignore = "4 threads: in the full run"]
fn three_readers_beside_a_writer_see_words_of_one_version() {
    explore_four("dynamic quota: 3 readers, 1 writer, 4 threads", || readers_and_a_writer(4));
}

/// Asks for one cell four times, and returns how many were admitted.
fn ask_all(gate: &Keyed<DynamicGcra>) -> u64 {
    (0..4).map(|_| ask(gate, KEY, at(1))).sum()
}

/// A quota changes from two cells to three while a key is charged, which has spent `before` cells.
fn changed_while_charged(before: u64, inherit: Inherit, granted: u64) {
    let gate = keyed(DynamicGcra::new(), burst(2), ONE_BUCKET, OnFull::Deny);
    assert_eq!((0..before).map(|_| ask(&gate, KEY, at(1))).sum::<u64>(), before);
    let other = Arc::clone(&gate);
    let setter = thread::spawn(move || other.set_quota_at(burst(3), inherit, at(1)));
    let during = ask(&gate, KEY, at(1));
    assert_eq!(setter.join().unwrap(), Ok(()));
    let total = before + during + ask_all(&gate);
    assert_eq!(total, granted, "granted in all");
}

#[test]
fn a_charge_during_a_change_counts() {
    explore_three("dynamic quota: changed while charged", || {
        changed_while_charged(1, Inherit::Additive, 3);
    });
}

#[test]
fn a_key_inherits_no_more_than_it_had() {
    explore_three("dynamic quota: inherited as is while charged", || {
        changed_while_charged(1, Inherit::AsIs, 2);
    });
}

#[test]
fn a_claim_during_a_change_counts() {
    explore_three("dynamic quota: changed while claimed", || {
        changed_while_charged(0, Inherit::Additive, 3);
    });
}

/// A change of quota after 90 years renews idle states. Here it renews one while its key is charged.
/// The change itself adds no cells.
fn charged_while_renewed() {
    let gate = keyed(DynamicGcra::new(), burst(2), ONE_BUCKET, OnFull::Deny);
    assert_eq!(ask(&gate, KEY, at(1)), 1);
    let late = at(90 * 365 * 86_400);
    let other = Arc::clone(&gate);
    let setter = thread::spawn(move || other.set_quota_at(burst(2), Inherit::Additive, late));
    let during = ask(&gate, KEY, late) + ask(&gate, KEY, late);
    assert_eq!(setter.join().unwrap(), Ok(()));
    assert_eq!(during, 2, "an idle key has all its cells");
    assert_eq!(ask(&gate, KEY, late), 0, "no charge was lost");
}

#[test]
fn a_charge_during_a_renewal_counts() {
    explore_two_to(
        "dynamic quota: renewed while charged",
        2,
        Preemptions::To(3),
        charged_while_renewed,
    );
}

/// The planted fault: a renewal overwrites a state that was idle when it was first read.
#[test]
#[should_panic(expected = "no charge was lost")]
fn with_a_stale_renewal_a_charge_is_lost() {
    plant(Fault::RevisionStale);
    catch_two("dynamic quota: stale renewal", charged_while_renewed);
}

/// Three threads charge a key while its quota changes from two cells to three.
#[test]
#[ignore = "4 threads: in the full run"]
fn three_charges_during_a_change_count() {
    explore_four_to(
        Preemptions::To(2),
        "dynamic quota: 3 charges during a change, 4 threads",
        || {
            let gate = keyed(DynamicGcra::new(), burst(2), ONE_BUCKET, OnFull::Deny);
            let during = each_of(4, &gate, |gate, number| {
                if number == 0 {
                    assert_eq!(gate.set_quota_at(burst(3), Inherit::Additive, at(1)), Ok(()));
                    return 0;
                }
                ask(gate, KEY, at(1))
            });
            assert_eq!(during.iter().sum::<u64>() + ask_all(&gate), 3, "granted in all");
        },
    );
}
