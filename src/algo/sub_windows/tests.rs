use core::cell::Cell;

use proptest::prelude::*;

use super::*;
use crate::algo::{Algorithm, Step};
use crate::decision::Decision;
use crate::{Quota, SlidingCounter};

/// A key's word and ring.
#[derive(Clone)]
struct Counted<const WEIGHED: bool> {
    params: SubWindowParams<WEIGHED>,
    word: u64,
    ring: Vec<u64>,
}

impl<const WEIGHED: bool> Counted<WEIGHED> {
    fn new(params: SubWindowParams<WEIGHED>) -> Self {
        Self { params, word: params.fresh(Tick::ZERO), ring: vec![0; params.ring_cells()] }
    }

    fn read(&self, now: Tick, n: u64) -> Decision {
        let view = self.params.read(self.word, &*self.ring, now, n);
        self.params.answer(view, now, n)
    }

    fn charge(&mut self, now: Tick, n: u64) {
        let view = self.params.read(self.word, &*self.ring, now, n);
        let Step::Admit { next } = self.params.step(view, now, n) else { return };
        let mut published = None;
        self.params.publish(view, &*self.ring, |place, content| {
            published = Some((place, content));
            true
        });
        published.into_iter().for_each(|(place, content)| self.ring[place] = content);
        self.word = next;
    }
}

/// Charges a key by and by, and checks it after each charge.
fn after_each_charge<const WEIGHED: bool>(
    params: SubWindowParams<WEIGHED>,
    charges: &[(u64, u64)],
    part_nanos: u64,
    check: impl Fn(&Counted<WEIGHED>, Tick) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let (mut key, mut now) = (Counted::new(params), Tick::ZERO);
    for &(later, n) in charges {
        now = now.saturating_add(Duration::from_nanos(later * part_nanos));
        key.charge(now, n);
        check(&key, now)?;
    }
    Ok(())
}

/// Whether the retry time of a denial is the first instant of all at which those cells fit.
fn has_the_shortest_wait<const WEIGHED: bool>(
    params: SubWindowParams<WEIGHED>,
    charges: &[(u64, u64)],
    part_nanos: u64,
) -> Result<(), TestCaseError> {
    after_each_charge(params, charges, part_nanos, |key, now| {
        for n in 1..=params.limit.get() {
            let Err(denied) = key.read(now, n) else { continue };
            let wait = denied.retry_after().expect("at most the limit");
            let at = now.saturating_add(wait);
            prop_assert!(key.read(at, n).is_ok(), "{} of {:?} after {:?}", n, params.limit, wait);
            let before = at.saturating_sub(Duration::from_nanos(1));
            prop_assert!(key.read(before, n).is_err(), "{} fit earlier than {:?}", n, wait);
        }
        Ok(())
    })
}

fn charges() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((prop_oneof![Just(0), 0..40_u64, 0..200_u64], 1..30_u64), 1..12)
}

proptest! {
    #[test]
    fn the_retry_time_is_when_the_cells_fit(
        limit in 1..30_u64, count in 2..7_u32, older in 1..4_u32, charges in charges(),
    ) {
        // Windows of twelve seconds, and of twelve milliseconds.
        for part_nanos in [100_000, 100_000_000] {
            let quota = Quota::new(limit, Duration::from_nanos(120 * part_nanos));
            let plain = SubWindows::new().count(count).params(&quota, 0).expect("in range");
            has_the_shortest_wait(plain, &charges, part_nanos)?;
            let weighed = SlidingCounter::new().older(older).params(&quota, 0).expect("in range");
            has_the_shortest_wait(weighed, &charges, part_nanos)?;
        }
    }
}

/// Whether each decision at once equals the decision by all that counts.
fn decides_at_once_as_by_all_that_counts<const WEIGHED: bool>(
    params: SubWindowParams<WEIGHED>,
    charges: &[(u64, u64)],
    part_nanos: u64,
) -> Result<(), TestCaseError> {
    after_each_charge(params, charges, part_nanos, |key, now| {
        let clocks = [now, now.saturating_sub(Duration::from_nanos(17 * part_nanos))];
        for (now, n, brief) in clocks.iter().flat_map(|now| {
            (0..=params.limit.get() + 1).flat_map(move |n| [(*now, n, false), (*now, n, true)])
        }) {
            let Some(view) = params.read_at_once(key.word, || &*key.ring, now, n, brief) else {
                continue;
            };
            let full = params.read(key.word, &*key.ring, now, n);
            prop_assert_eq!(params.step(view, now, n), params.step(full, now, n));
            prop_assert_eq!(view.published, 0);
            prop_assert_eq!(full.published, 0);
            if !brief {
                prop_assert_eq!(params.answer(view, now, n), params.answer(full, now, n));
            }
        }
        Ok(())
    })
}

proptest! {
    #[test]
    fn a_decision_at_once_is_that_by_all_that_counts(
        limit in 1..30_u64, count in 2..7_u32, older in 1..4_u32, charges in charges(),
    ) {
        let quota = Quota::new(limit, Duration::from_millis(12_000));
        let plain = SubWindows::new().count(count).params(&quota, 0).expect("in range");
        decides_at_once_as_by_all_that_counts(plain, &charges, 100_000_000)?;
        let weighed = SlidingCounter::new().older(older).params(&quota, 0).expect("in range");
        decides_at_once_as_by_all_that_counts(weighed, &charges, 100_000_000)?;
    }
}

/// How a decision is made at once: by the word alone, by its ring too, or not at all.
fn read_at_once<const WEIGHED: bool>(
    params: SubWindowParams<WEIGHED>,
    at: u64,
    n: u64,
    brief: bool,
) -> &'static str {
    let second = |second: u64| Tick::from_nanos((8 + second) * 1_000_000_000);
    let mut key = Counted::new(params);
    (0..4).for_each(|at| key.charge(second(at), 2));
    let is_ring_read = Cell::new(false);
    let ring = || {
        is_ring_read.set(true);
        &*key.ring
    };
    match (params.read_at_once(key.word, ring, second(at), n, brief), is_ring_read.get()) {
        (Some(_), false) => "word",
        (Some(_), true) => "ring",
        (None, _) => "no",
    }
}

/// Ten cells in four seconds, of which two are charged in each. In full and briefly.
#[test]
fn a_decision_at_once_reads_the_ring_where_the_word_does_not_suffice() {
    let quota = Quota::new(10, Duration::from_secs(4));
    fn how<const WEIGHED: bool>(
        params: SubWindowParams<WEIGHED>,
        at: u64,
        n: u64,
    ) -> [&'static str; 2] {
        [false, true].map(|brief| read_at_once(params, at, n, brief))
    }
    let plain = SubWindows::new().count(4).params(&quota, 0).expect("in range");
    assert_eq!(how(plain, 3, 2), ["word"; 2], "there is room");
    assert_eq!(how(plain, 3, 4), ["ring", "word"], "there is room once the oldest has left");
    assert_eq!(how(plain, 3, 5), ["ring", "word"], "more than the oldest has to leave");
    assert_eq!(how(plain, 4, 1), ["no"; 2], "the next sub-window has begun");
    assert_eq!(how(plain, 3, 0), ["no"; 2]);
    assert_eq!(how(plain, 3, 11), ["no"; 2], "it can never fit");
    let quota = Quota::new(10, Duration::from_secs(3));
    let weighed = SlidingCounter::new().older(3).params(&quota, 0).expect("in range");
    assert_eq!(how(weighed, 3, 2), ["ring", "word"], "there is room even for the oldest in full");
    assert_eq!(how(weighed, 3, 3), ["ring"; 2], "there is room once the oldest weighs less");
    assert_eq!(how(weighed, 3, 5), ["ring"; 2], "the others alone leave no room");
    assert_eq!(how(weighed, 4, 1), ["no"; 2], "the next sub-window has begun");
}

#[test]
fn an_offset_shifts_the_windows_like_a_later_clock_origin() {
    let quota = Quota::per_hour(10);
    let later = 60_000_000_000;
    let plain = |origin| SubWindows::new().count(4).params(&quota, origin);
    let offset = SubWindows::new().count(4).utc_offset_secs(60);
    assert_eq!(offset.params(&quota, 0), plain(later));
    assert_ne!(plain(0), plain(later));
    let offset = SlidingCounter::new().utc_offset_secs(60);
    assert_eq!(offset.params(&quota, 0), SlidingCounter::new().params(&quota, later));
}

#[test]
fn room_for_several_cells_comes_sub_window_by_sub_window() {
    let quota = Quota::new(10, Duration::from_secs(4));
    let params = SubWindows::new().count(4).params(&quota, 0).expect("in range");
    let mut key = Counted::new(params);
    let second = |second: u64| Tick::from_nanos((8 + second) * 1_000_000_000);
    (0..4).for_each(|each| key.charge(second(each), each + 1));
    // For one, two, three and four cells: each leaves four or five seconds after its own began.
    let wait = |n| key.read(second(3), n).expect_err("it is full").retry_after().expect("it fits");
    let waits = (1..=10).map(wait).map(|wait| wait.as_secs()).collect::<Vec<_>>();
    let first = waits[0];
    let more = [0, 1, 1, 2, 2, 2, 3, 3, 3, 3].map(|more| first + more);
    assert_eq!(waits, more);
    has_the_shortest_wait(params, &[(20, 1), (10, 2), (10, 3), (10, 4)], 100_000_000)
        .expect("no instant is missed");
}
