//! Snapshots whose checksum is right and whose content is not, and what a header says of a limiter.

use core::error::Error;
use core::time::Duration;

use super::RestoreError;
use super::checksum::checksum;
use super::format::{Header, open, write};
use super::shape::Shape;
use crate::algo::CONFIG_WORDS;
use crate::table::Row;
use crate::{Limiter, OnFull, Quota, SubWindows};

/// The length of a header, and where a row has its bits of live slots.
const HEADER: usize = 304;
const LIVE: usize = HEADER + 4;

/// A snapshot without keys.
fn empty() -> Vec<u8> {
    Limiter::<u64>::builder(Quota::per_second(5)).build().expect("in range").snapshot()
}

fn header() -> Header {
    open(&empty()).expect("unharmed").0
}

/// Rows of compact slots, of two keys each.
fn with_rows(buckets: &[u32]) -> Vec<u8> {
    let rows = buckets.iter().map(|bucket| {
        let mut row = Row::of(*bucket);
        row.add(1, [0x77]);
        row.add(6, [0x99]);
        row
    });
    write(header(), rows)
}

/// The snapshot with other bytes from `at` on, and their checksum.
fn changed(mut snapshot: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    snapshot[at..][..bytes.len()].copy_from_slice(bytes);
    let content = snapshot.len() - 8;
    let sum = checksum(&snapshot[..content]).to_le_bytes();
    snapshot[content..].copy_from_slice(&sum);
    snapshot
}

fn error_of(snapshot: &[u8]) -> Option<RestoreError> {
    open(snapshot).err()
}

/// The buckets of all rows, by slots of one word with so many ring cells.
fn buckets(snapshot: &[u8], ring_cells: usize) -> Result<Vec<u32>, RestoreError> {
    let (_, mut rows) = open(snapshot)?;
    let mut buckets = Vec::new();
    while let Some(row) = rows.next(1, ring_cells)? {
        buckets.push(row.bucket);
    }
    Ok(buckets)
}

fn damaged<T>(what: &'static str) -> Result<T, RestoreError> {
    Err(RestoreError::Damaged { what })
}

#[test]
fn a_file_of_another_kind_version_or_header_is_named_as_such() {
    assert_eq!(error_of(b"tollgates are"), Some(RestoreError::Version(0x7261_2073)));
    for other in [&b"elsewhere"[..], b"toll-", &changed(empty(), 0, b"TOLLGATE")] {
        assert_eq!(error_of(other), Some(RestoreError::NotASnapshot));
    }
    for version in [0, 2] {
        let other = changed(empty(), 8, &[version]);
        assert_eq!(error_of(&other), Some(RestoreError::Version(version.into())));
    }
    let longer = changed(empty(), 12, &312_u32.to_le_bytes());
    let what = "its header has the wrong length for its version";
    assert_eq!(error_of(&longer), Some(RestoreError::Damaged { what }));
    assert_eq!(error_of(&changed(empty(), 12, &304_u32.to_le_bytes())), None);
}

#[test]
fn rows_are_in_ascending_order_and_none_is_empty() {
    assert_eq!(buckets(&with_rows(&[0, 1, 5, u32::MAX]), 0), Ok(vec![0, 1, 5, u32::MAX]));
    for disorder in [[2, 2], [2, 1], [2, 0]] {
        assert_eq!(buckets(&with_rows(&disorder), 0), damaged("its buckets are out of order"));
    }
    let hollow = changed(with_rows(&[3]), LIVE, &[0]);
    assert_eq!(buckets(&hollow, 0), damaged("a row is empty"));
}

#[test]
fn a_row_without_its_words_or_its_rings_is_cut_off() {
    let cut_off = || damaged("a row is cut off");
    let more = changed(with_rows(&[3]), LIVE, &[0b111]);
    assert_eq!(buckets(&more, 0), cut_off());
    for ring_cells in [1, usize::MAX / 2 + 1, usize::MAX] {
        assert_eq!(buckets(&with_rows(&[3]), ring_cells), cut_off(), "{ring_cells}");
    }
}

/// The words from `has_overflow` on.
#[test]
fn a_header_has_figures_of_a_shared_overflow_only_if_there_is_one() {
    let builder = || Limiter::<u64, _>::builder(Quota::per_minute(60)).algorithm(SubWindows::new());
    let of = |gate: &Limiter<u64, SubWindows>| Shape::of(gate).words();
    let alone = of(&builder().build().expect("in range"));
    assert_eq!(alone[4 + CONFIG_WORDS..], [0; 2 + CONFIG_WORDS]);
    let shared = builder().on_full(OnFull::SharedOverflow(Quota::per_minute(7)));
    let shared = of(&shared.build().expect("in range"));
    // Six sub-windows, and the figures of seven cells in those of ten seconds.
    assert_eq!(shared[4 + CONFIG_WORDS..][..6], [1, 6, 1, 10_000_000_000, 7, 5]);
}

#[test]
fn an_error_of_the_limiter_is_the_source_of_that_of_the_restore() {
    let error = Limiter::<u64>::builder(Quota::per_second(0)).restore(&empty());
    let error = error.map(drop).expect_err("a limit of nothing");
    let source = error.source().map(ToString::to_string);
    assert_eq!(source, Some(error.to_string()));
    assert!(RestoreError::TooShort.source().is_none());
}

/// With many keys, `SlotLayout::Auto` chooses compact slots if their instants last for the skew.
#[test]
fn a_skew_that_chooses_other_slots_is_named() {
    let with = |secs| {
        let quota = Quota::per_second(100).burst(20);
        Limiter::<u64>::builder(quota).capacity(100_000).max_clock_skew(Duration::from_secs(secs))
    };
    let bytes = with(1).build().expect("in range").snapshot();
    assert!(with(2).restore(&bytes).is_ok(), "the same slots");
    let error = with(3_600).restore(&bytes).expect_err("wide slots");
    assert!(error.to_string().contains("max_clock_skew"), "{error}");
}
