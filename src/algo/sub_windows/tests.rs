mod restart;

use core::cell::Cell;

use proptest::prelude::*;

use super::*;
use crate::algo::{Algorithm, Moment, Rebase, Restart, Step};
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6_000))]

    /// Also where products of counts and shares need more than 64 bits, and for counts that no decision leaves.
    #[test]
    fn a_decision_at_once_weighs_counts_of_any_size(
        limit in prop_oneof![1..50_u64, 1..1_u64 << 29], older in 1..9_u32,
        period in prop_oneof![1_000_000..1_u64 << 32, 1 << 40..3_000_000_000_000_000_000_u64],
        at in 0..1_u64 << 62, from_limit in [-9_i64..9, -9..9], any: [u64; 2], n in 1..50_u64,
    ) {
        let quota = Quota::new(limit, Duration::from_nanos(period));
        // Two in five are out of range.
        let Ok(params) = SlidingCounter::new().older(older).params(&quota, 0) else {
            return Ok(());
        };
        let now = Tick::from_nanos(at);
        let (last, older) = (params.instant(now), u64::from(older));
        let oldest_index = last.wrapping_sub(older) & params.index.max();
        let near = |by: i64| limit.saturating_add_signed(by).min(params.count.max());
        let any = any.map(|count| count & params.count.max());
        for [oldest, more] in [from_limit.map(near), any, [near(from_limit[0]), any[1]]] {
            let total = (oldest + more).min(params.count.max());
            let word = params.index.set(params.count.set(0, total), last);
            let mut ring = vec![0; params.ring_cells()];
            ring[params.place(oldest_index)] = params.index.set(oldest, oldest_index);
            for (n, brief) in [(n, false), (n, true), (limit, false), (limit, true)] {
                let view = params.read_at_once(word, || &*ring, now, n, brief);
                let Some(view) = view else { continue };
                let full = params.read(word, &*ring, now, n);
                prop_assert_eq!(params.step(view, now, n), params.step(full, now, n));
                if !brief {
                    prop_assert_eq!(params.answer(view, now, n), params.answer(full, now, n));
                }
            }
        }
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
    assert_eq!(how(plain, 3, 1), ["word"; 2], "there is room");
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

/// Ten cells in each second, about.
fn ten_a_second() -> Counted<true> {
    let quota = Quota::new(10, Duration::from_secs(1));
    Counted::new(SlidingCounter::new().params(&quota, 0).expect("in range"))
}

fn millis(millis: u64) -> Tick {
    Tick::from_nanos(8_000_000_000 + millis * 1_000_000)
}

#[test]
fn a_weighed_decision_at_once_needs_counts_that_a_decision_may_have_left() {
    let mut key = ten_a_second();
    key.charge(millis(1_500), 2);
    let last = key.params.index.of(key.word);
    let cell = |count| key.params.index.set(key.params.count.set(0, count), last - 1);
    let is_decided = |word: u64, oldest: u64| {
        let ring = [oldest; 2];
        key.params.read_at_once(word, || &ring[..], millis(1_500), 9, false).is_some()
    };
    assert!(is_decided(key.word, 0), "no cell of the oldest");
    assert!(is_decided(key.word, cell(2)), "as many as the word counts in all");
    for more in [3, 10, 11, 31] {
        assert!(!is_decided(key.word, cell(more)), "{more}");
    }
}

/// Two weighed windows never count more than twice the limit, and whole ones no more than it.
#[test]
fn a_word_that_counts_too_much_is_decided_at_once_as_in_full() {
    fn compare<const WEIGHED: bool>(params: SubWindowParams<WEIGHED>, totals: [u64; 3]) {
        for total in totals {
            let word = params.index.set(params.count.set(0, total), params.instant(millis(500)));
            let ring = vec![0; params.ring_cells()];
            let now = millis(500);
            let at_once = params.read_at_once(word, || &ring[..], now, 1, false);
            let at_once = params.answer(at_once.expect("nothing is counted beside it"), now, 1);
            assert_eq!(at_once, params.answer(params.read(word, &ring[..], now, 1), now, 1));
            assert!(at_once.is_err(), "{total}");
        }
    }
    compare(ten_a_second().params, [20, 21, 31]);
    let quota = Quota::new(10, Duration::from_secs(2));
    compare(SubWindows::new().count(2).params(&quota, 0).expect("in range"), [10, 11, 15]);
}

/// A limit of 7 fills the count's field.
#[test]
fn an_older_count_of_the_whole_limit_counts() {
    let quota = Quota::new(7, Duration::from_secs(6));
    let mut key = Counted::new(SubWindows::new().params(&quota, 0).expect("in range"));
    assert_eq!(key.params.count.max(), 7);
    key.charge(millis(0), 7);
    key.charge(millis(6_000), 1);
    assert_eq!(key.read(millis(6_500), 0).expect("nothing").remaining(), 6);
    let mut key = Counted::new(key.params);
    key.charge(millis(0), 7);
    // Published by another thread, which has not advanced the word yet.
    let published = key.word;
    let place = key.params.place(key.params.index.of(published));
    key.ring[place] = published;
    let next = key.params.index.set(0, key.params.index.of(published) + 1);
    key.word = next | 7;
    assert!(key.read(millis(1_000), 1).is_err() && key.read(millis(5_999), 1).is_err());
    assert_eq!(key.read(millis(6_000), 7).expect("they have left").remaining(), 0);
}

/// Whether a cell that another thread has published, before it advanced the word, changes no answer and no
/// publication.
fn is_the_same_once_published<const WEIGHED: bool>(params: SubWindowParams<WEIGHED>) {
    let mut key = Counted::new(params);
    for (at, n) in [(0, 2), (1_100, 3), (2_200, 1)] {
        key.charge(millis(at), n);
    }
    let mut published = key.clone();
    let last = params.index.of(key.word);
    published.ring[params.place(last)] = params.index.set(params.count.set(0, 1), last);
    for at in (2_200..6_000).step_by(100) {
        for n in 0..=params.limit.get() {
            let found = |key: &Counted<WEIGHED>| {
                let view = params.read(key.word, &*key.ring, millis(at), n);
                (view.published, params.step(view, millis(at), n), key.read(millis(at), n))
            };
            assert_eq!(found(&published), found(&key), "{n} at {at}");
        }
    }
}

#[test]
fn a_cell_published_before_the_word_advances_changes_nothing() {
    let quota = |secs| Quota::new(6, Duration::from_secs(secs));
    is_the_same_once_published(SubWindows::new().count(3).params(&quota(3), 0).expect("in range"));
    let weighed = SlidingCounter::new().older(2).params(&quota(2), 0).expect("in range");
    is_the_same_once_published(weighed);
}

#[test]
fn nothing_is_published_of_a_sub_window_that_counts_no_more_or_counted_nothing() {
    let quota = Quota::new(6, Duration::from_secs(6));
    let mut key = Counted::new(SubWindows::new().params(&quota, 0).expect("in range"));
    let published = |key: &Counted<false>, at: u64| {
        key.params.read(key.word, &*key.ring, millis(at), 1).published
    };
    key.word = key.params.fresh(millis(0));
    assert_eq!(published(&key, 1_000), 0);
    key.charge(millis(0), 2);
    assert_eq!((published(&key, 5_000), published(&key, 6_000)), (key.word, 0));
}

#[test]
fn a_clock_one_window_behind_weighs_the_oldest_in_full() {
    let mut key = ten_a_second();
    for (at, n) in [(500, 10), (1_500, 3)] {
        key.charge(millis(at), n);
    }
    assert_eq!(key.read(millis(1_500), 0).expect("nothing").remaining(), 2);
    let denied = key.read(millis(500), 1).expect_err("all of the ten count there");
    // As when the next window began, which for this clock is in half a second.
    let next = Duration::from_millis(500);
    assert_eq!(key.read(millis(500).saturating_add(next), 1).expect_err("full").remaining(), 0);
    let later = Duration::from_nanos(300_000_001);
    assert_eq!((denied.remaining(), denied.retry_after()), (0, Some(next + later)));
}

/// So many cells in a day that their shares of a nanosecond are too many for a word.
#[test]
fn an_estimate_beyond_the_limit_leaves_no_cell() {
    const HOUR: u64 = 3_600_000;
    let quota = Quota::per_day(1_000_000);
    let mut key = Counted::new(SlidingCounter::new().params(&quota, 0).expect("in range"));
    let at = |hours: u64| Tick::from_nanos(hours * HOUR * 1_000_000);
    key.charge(at(23), 1_000_000);
    key.charge(at(24 + 18), 700_000);
    assert_eq!(key.read(at(24 + 18), 0).expect("nothing").remaining(), 50_000);
    // By a clock of the same day that is behind, three quarters of the first million count.
    let denied = key.read(at(24 + 6), 1).expect_err("1,450,000 of a million");
    assert_eq!(denied.remaining(), 0);
}

/// Eight sub-windows of more nanoseconds than a word has.
#[test]
fn the_waits_in_windows_of_a_century_are_those_of_the_model() {
    use crate::algo::oracle::{Oracle, Verdict};
    let century = Duration::from_nanos(100 * 365 * 86_400 * 1_000_000_000 - 1);
    let quota = Quota::new(200, century);
    let mut key = Counted::new(SlidingCounter::new().older(7).params(&quota, 0).expect("in range"));
    let mut model = key.params.oracle();
    let year = |years: u64| Tick::from_nanos(years * 365 * 86_400 * 1_000_000_000 + 12_345);
    for (at, n) in
        [(1, 90), (17, 60), (33, 49), (34, 2), (40, 150), (90, 1), (91, 1), (101, 201), (109, 120)]
    {
        let answer = key.read(year(at), n);
        assert_eq!(Verdict::from(&answer), model.decide(year(at), n), "{n} after {at} years");
        key.charge(year(at), n);
    }
}

#[test]
fn a_permit_for_a_cell_of_a_lease_counts_nothing_once_all_are_left() {
    let quota = Quota::per_minute(9);
    let mut key = Counted::new(SubWindows::new().leases(4).params(&quota, 0).expect("in range"));
    key.charge(millis(0), 4);
    let of = |left| {
        let permit = key.params.permit_ahead(key.word, millis(0), left);
        (permit.remaining(), permit.reset_after().as_secs())
    };
    // Eight seconds into a sub-window of ten.
    assert_eq!([4, 1, 0].map(of), [(9, 0), (6, 52), (5, 52)]);
}

/// Words of a clock whose sub-windows have other numbers, which are eight places apart.
#[test]
fn a_rebased_ring_has_cells_of_the_older_sub_windows_and_no_others() {
    let quota = "500000000/min".parse().expect("a quota");
    let params = SubWindows::new().params(&quota, 0).expect("in range");
    let mut key = Counted::new(params);
    for at in [0, 10_000, 20_000] {
        key.charge(millis(at), 1 + at / 10_000);
    }
    let last = params.index.of(key.word);
    // Older rounds have left cells in the places of later sub-windows.
    for later in 0..3 {
        key.ring[params.place(last + later)] = params.index.set(5, last + later - 8);
    }
    let restart = Restart::at(millis(20_000));
    let word = params.rebase(key.word, &mut key.ring, &params.clock_change(&restart));
    assert_eq!(word, Some(key.word));
    let counts = |back| (params.place(last - back), params.index.set(3 - back, last - back));
    let mut expected = [0; 8];
    for (place, cell) in [counts(1), counts(2)] {
        expected[place] = cell;
    }
    assert_eq!(*key.ring, expected);
}

/// A cell of a whole round ago may look like one of the oldest sub-window that counts. It takes away no more than
/// there is.
#[test]
fn a_cell_of_a_whole_round_ago_leaves_no_less_than_nothing() {
    let params = SubWindows::new().params(&"6/min".parse().expect("a quota"), 0).expect("in range");
    let mut key = Counted::new(params);
    key.charge(millis(0), 1);
    let last = params.index.of(key.word);
    let oldest = params.before(last, params.older);
    key.ring[params.place(oldest)] = params.index.set(3, oldest);
    let restart = Restart::at(millis(10_000));
    let change = params.clock_change(&restart);
    assert_eq!(params.rebase(key.word, &mut key.ring.clone(), &change), None);
    assert!(key.read(millis(10_000), 6).is_ok());
    let view = params.read(key.word, &*key.ring, millis(10_000), 1);
    assert_eq!(view.published, 0, "nothing is left of the sub-window before");
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
