//! Quotas that change while they are read, and while keys are decided about.

#![cfg(tollgate_loom)]

use std::sync::Arc;

use loom::thread;
use loom_tests::{
    Keyed, ONE_BUCKET, Preemptions, ask, at, burst, catch_two, each_of, explore_four,
    explore_four_to, explore_three, explore_two_to, explore_two_whole, keyed,
};
use tollgate::OnFull;
use tollgate::dynamic::{DynamicGcra, Inherit};
use tollgate::internals::{Fault, VersionedCell, plant};

const KEY: u64 = 7;

/// Two words that are always replaced by equal ones.
fn replaced_while_read() {
    let shelf = Arc::new(VersionedCell::new(&[1, 1]));
    let other = Arc::clone(&shelf);
    let writer = thread::spawn(move || {
        for version in 2..=3 {
            let replaced = other.replace(|_| Ok::<_, ()>([version; 2]));
            assert!(matches!(replaced, Ok(Ok(()))), "nobody else writes");
        }
    });
    let [first, second] = shelf.read();
    assert_eq!(first, second, "of one version");
    writer.join().unwrap();
    assert_eq!(shelf.read(), [3, 3], "the last one");
}

#[test]
fn words_are_of_one_version() {
    explore_two_whole("live: replaced twice while read", replaced_while_read);
}

/// The mistake avoided: what was read is believed.
#[test]
#[should_panic(expected = "of one version")]
fn unlooked_at_words_are_of_two_versions() {
    plant(Fault::TornQuota);
    catch_two("live: torn", replaced_while_read);
}

#[test]
fn of_two_writers_one_may_give_up_but_none_is_lost() {
    explore_two_to("live: 2 writers", 3, Preemptions::Any, || {
        let shelf = Arc::new(VersionedCell::new(&[0, 0]));
        let add = |shelf: &VersionedCell<2>| {
            let replaced = shelf.replace(|&[a, b]| Ok::<_, ()>([a + 1, b + 1]));
            u64::from(replaced.is_ok())
        };
        let other = Arc::clone(&shelf);
        let writer = thread::spawn(move || add(&other));
        let written = add(&shelf) + writer.join().unwrap();
        assert!(written > 0, "one of them got its turn");
        assert_eq!(shelf.read(), [written; 2], "all that were told so");
    });
}

/// All threads but one read; that one writes twice.
fn readers_and_a_writer(threads: usize) {
    let shelf = Arc::new(VersionedCell::new(&[1, 1]));
    let written = each_of(threads, &shelf, |shelf, number| {
        if number == 0 {
            for version in 2..=3 {
                assert!(shelf.replace(|_| Ok::<_, ()>([version; 2])).is_ok());
            }
            return 3;
        }
        let [first, second] = shelf.read();
        assert_eq!(first, second, "of one version");
        first
    });
    assert!(written.iter().all(|version| (1..=3).contains(version)), "one that was written");
    assert_eq!(shelf.read(), [3, 3], "the last one");
}

#[test]
fn two_readers_and_a_writer() {
    explore_three("live: 2 readers, 1 writer", || readers_and_a_writer(3));
}

#[test]
#[ignore = "4 threads: in the full run"]
fn three_readers_and_a_writer() {
    explore_four("live: 3 readers, 1 writer, 4 threads", || readers_and_a_writer(4));
}

/// So many of a key's requests for one cell are admitted, one after the other.
fn ask_all(gate: &Keyed<DynamicGcra>) -> u64 {
    (0..4).map(|_| ask(gate, KEY, at(1))).sum()
}

/// A change from two cells to three against charges of a key, which has charged so many before.
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
fn what_is_charged_during_a_change_counts() {
    explore_three("live: changed while charged", || {
        changed_while_charged(1, Inherit::Additive, 3);
    });
}

#[test]
fn what_is_inherited_is_no_more_than_there_was() {
    explore_three("live: changed as is while charged", || {
        changed_while_charged(1, Inherit::AsIs, 2);
    });
}

#[test]
fn what_is_claimed_during_a_change_counts() {
    explore_three("live: changed while claimed", || {
        changed_while_charged(0, Inherit::Additive, 3);
    });
}

/// An idle key is charged while a change renews idle states, as one does that comes after so long a
/// time. The change itself gives nothing.
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
fn what_is_charged_during_a_renewal_counts() {
    explore_two_to("live: renewed while charged", 2, Preemptions::To(3), charged_while_renewed);
}

/// The mistake avoided: a state is renewed that was idle when it was first looked at.
#[test]
#[should_panic(expected = "no charge was lost")]
fn a_stale_renewal_loses_a_charge() {
    plant(Fault::RevisionStale);
    catch_two("live: stale renewal", charged_while_renewed);
}

/// Three threads charge a key while its quota changes from two cells to three.
#[test]
#[ignore = "4 threads: in the full run"]
fn three_charge_during_a_change() {
    explore_four_to(Preemptions::To(2), "live: 3 charges during a change, 4 threads", || {
        let gate = keyed(DynamicGcra::new(), burst(2), ONE_BUCKET, OnFull::Deny);
        let during = each_of(4, &gate, |gate, number| {
            if number == 0 {
                assert_eq!(gate.set_quota_at(burst(3), Inherit::Additive, at(1)), Ok(()));
                return 0;
            }
            ask(gate, KEY, at(1))
        });
        assert_eq!(during.iter().sum::<u64>() + ask_all(&gate), 3, "granted in all");
    });
}
