use super::*;
use crate::algo::{Algorithm, PAYLOAD_BITS, Rebase, Restart};
use crate::{Quota, QuotaError};
use proptest::prelude::*;

fn params(quota: &str) -> SlidingLogParams {
    SlidingLog::new().params(&quota.parse().expect("a quota"), 0).expect("in range")
}

/// Hand-made cells, with bits of another life above their content.
#[derive(Clone, Copy)]
struct ByHand<'a>(&'a [u64]);

impl Ring for ByHand<'_> {
    type Cells = Self;

    fn parts(self) -> (Self, u64) {
        (self, 0)
    }

    fn of_parts(cells: Self, _: u64) -> Self {
        cells
    }

    fn cell(self, place: usize) -> u64 {
        let content = self.0[place];
        if content >> 54 == 0 { content } else { 0 }
    }

    fn xor(self, place: usize, content: u64) -> u64 {
        self.0[place] ^ content
    }
}

#[test]
fn a_place_counts_if_its_round_and_life_are_those_of_the_log() {
    let params = params("4/s");
    for lap in 0..=3 {
        // The latest event is at place 1: place 0 is of this round, places 2 and 3 of the one
        // before.
        for (back, before) in [(1, false), (2, true)] {
            let expected = ROUND.of(round_in_cell(if before { lap ^ 1 } else { lap }));
            if view(&params, &[0; 6], lap).known <= back {
                continue;
            }
            for (there, life) in (0..4).flat_map(|there| [(there, 0), (there, 1), (there, 512)]) {
                let word = life << 54 | ROUND.set(1_000, there);
                let mut ring = [0; 6];
                ring[cell_at(params.position(&view(&params, &ring, lap), back).0)] = word;
                let view = view(&params, &ring, lap);
                let found = match params.found(&view, back) {
                    Entry::Older { time } => Some(time),
                    Entry::Latest => None,
                };
                assert_eq!(
                    found,
                    (there == expected && life == 0).then_some(1_000),
                    "{lap} {back} {word:x}"
                );
            }
        }
    }
}

fn view<'a>(params: &SlidingLogParams, ring: &'a [u64], lap: u64) -> View<ByHand<'a>> {
    let word = params.time.set(params.lap.set(params.filled.set(0, 2), lap), 2_000);
    params.view(word, ByHand(ring), Tick::from_nanos(1_000_000_000))
}

#[test]
fn a_birth_is_before_later_events_also_where_time_wraps_around() {
    let params = params("4/s");
    for (birth, time, before) in [
        (1_000, 1_000, false),
        (1_000, 999, true),
        (1_000, 1_001, false),
        (TIME.max() - 5, 3, false),
        (3, TIME.max() - 5, true),
    ] {
        let view = View { birth, ..view(&params, &[0; 6], 1) };
        assert_eq!(params.before_birth(&view, time), before, "{birth} {time}");
    }
}

#[test]
fn a_word_that_fills_too_many_places_fills_them_all() {
    let params = params("4/s");
    let now = Tick::from_nanos(7_000_000_000);
    let floor = params.floor(now);
    let older = |units: u64| cell(floor - units, SECOND);
    let ring = [older(30), older(20), older(10), older(5), cell(floor - 90, FIRST), 0];
    let ring = [ring, [older(50), older(40), 0, 0, 0, 0]];
    for (ring, lap) in ring.iter().flat_map(|ring| (0..4).map(move |lap| (ring, lap))) {
        let [beyond, all] = [7, 4].map(|filled| {
            let word = params.time.set(params.lap.set(params.filled.set(0, filled), lap), floor);
            assert_eq!(params.filled.of(word), filled);
            let view = params.read(word, &ring[..], now, 1);
            let change = params.clock_change(&Restart::at(now));
            let mut rebased = *ring;
            let word = params.rebase(word, &mut rebased[..params.kept_cells()], &change);
            (params.answer(view, now, 1), word, rebased)
        });
        assert_eq!(beyond, all, "{lap}");
    }
}

/// For any cells and any birth.
#[test]
fn a_log_rebased_to_the_same_clock_answers_as_before() {
    let params = params("4/s");
    let now = Tick::from_nanos(7_000_000_000);
    let floor = params.floor(now);
    let events = [1_200, 900, 600, 300];
    for (lap, place) in (0..=3).flat_map(|lap| (0..4).map(move |place| (lap, place))) {
        // The birth is unknown, before all events, between them, or with the latest.
        for birth in [0, floor - 2_000, floor - 700, floor - 100] {
            let mut ring = [0; 6];
            for (before, older) in events.into_iter().enumerate() {
                let at = (place + 1 + before as u64) % 4;
                let its_lap = if at <= place { lap } else { lap ^ 1 };
                ring[cell_at(at)] = cell(floor - 150 * older, its_lap);
            }
            ring[cell_at(4)] = if birth == 0 { 0 } else { cell(birth, FIRST) };
            let latest = params.time.set(0, floor - 50);
            let word = latest | params.lap.set(0, lap) | params.filled.set(0, place + 1);
            let mut rebased = ring;
            let kept = params.kept_cells();
            let change = params.clock_change(&Restart::at(now));
            let next = params.rebase(word, &mut rebased[..kept], &change).expect("it is live");
            // Places that the first round has not reached are empty.
            let unknown = if lap == FIRST { place + 1..4 } else { 0..0 };
            assert!(unknown.into_iter().all(|at| rebased[cell_at(at)] == 0), "{lap} {place}");
            for millis in (0..1_100).step_by(50) {
                let later = now.saturating_add(Duration::from_millis(millis));
                for n in 1..=4 {
                    let answer = |word: u64, ring: &[u64; 6]| {
                        params.answer(params.read(word, &ring[..], later, n), later, n)
                    };
                    let told = (lap, place, birth, millis, n);
                    assert_eq!(answer(next, &rebased), answer(word, &ring), "{told:?}");
                }
            }
        }
    }
}

#[test]
fn the_latest_event_is_never_before_the_origin() {
    let params = params("1000/us"); // so fast that its time comes round
    let (ring, ahead) = (params.time.max() + 1, params.ahead_max);
    let (window, tolerance) = (params.window_max, params.grid.tolerance_units());
    assert!(ahead < tolerance && window < ring - tolerance);
    let last = |event: u64, floor: u64| params.last(params.time.set(0, event), floor);
    // A little ahead, behind, and so far behind that it is of the round before.
    assert_eq!(last(5_000, 4_990), (5_000, 10));
    assert_eq!(last(5_000, 9_000), (5_000, 0));
    assert_eq!(last(ring - 7, ring + window), (ring - 7, 0));
    // An event that would lie before the origin is ahead, as far as clocks may differ.
    let floor = window + 10;
    assert_eq!(last(floor + ahead + 1, floor), (floor + ahead + 1, ahead + 1));
    assert_eq!(last(floor + tolerance, floor), (floor + tolerance, tolerance));
    // An event at the origin itself is valid.
    let floor = ring - tolerance;
    assert_eq!(last(0, floor), (0, 0));
    // If clocks cannot differ by so much, it is as old as can be.
    let floor = window + 10;
    assert_eq!(last(floor + tolerance + 1, floor), (0, 0));
}

#[test]
fn the_latest_event_is_found_where_instants_come_round() {
    let params = params("1000/us");
    let last = |event: u64, floor: u64| params.last(params.time.set(0, event), floor);
    assert_eq!(last(6, u64::MAX - 3), (6, 10), "ahead of the last instant");
    assert!(params.window_max > 5);
    assert_eq!(last(5_u64.wrapping_sub(10), 5), (u64::MAX - 4, 0), "before the first one");
}

/// A thousand in a microsecond, in units of a nanosecond: the last instants have times that came round.
#[test]
fn a_log_decides_at_the_last_tick_and_a_little_before() {
    let params = params("1000/us");
    let ring = vec![0; params.ring_cells()];
    let (last, before) = (Tick::MAX, Tick::MAX.saturating_sub(Duration::from_nanos(1_010)));
    assert_eq!([last, before].map(|now| params.floor(now)), [999, u64::MAX - 10]);
    let charge = |word, now| {
        let view = params.read(word, &ring[..], now, 1);
        let permit = params.answer(view, now, 1).expect("there is room");
        let Step::Admit { next } = params.step(view, now, 1) else { unreachable!() };
        (next, permit.reset_after())
    };
    let (word, reset) = charge(params.fresh(last), last);
    assert_eq!(reset, Duration::from_micros(1));
    // For a clock that is behind, what was charged stays ahead, and so do its own charges.
    let (after, reset) = charge(word, before);
    assert_eq!(params.time.of(after), params.time.of(word));
    assert_eq!(reset, Duration::from_nanos(2_010));
}

/// Snapshots hold cells, so their form is fixed.
#[test]
fn a_cell_has_its_time_and_the_parity_of_its_round() {
    let [set, odd] = [1 << 53, 1 << 52];
    assert_eq!(
        [0, 1, 2, 3].map(|lap| cell(77, lap)),
        [set, set | odd, set, set | odd].map(|bits| bits | 77)
    );
    assert_eq!(cell(TIME.max() + 3, FIRST), set | odd | 2);
}

#[test]
fn an_event_may_have_the_latest_time_of_all() {
    let params = params("4/s");
    let mut ring = [0; 6];
    ring[0] = cell(TIME.max(), FIRST);
    let found = params.found(&view(&params, &ring, FIRST), 1);
    assert!(matches!(found, Entry::Older { time } if time == TIME.max()));
}

/// Two events of the first request are published by the second request, each in its place, and no other place is.
#[test]
fn events_of_one_instant_are_published_and_nothing_else() {
    let params = params("4/s");
    let at = |millis: u64| Tick::from_nanos(7_000_000_000 + millis * 1_000_000);
    let mut ring = [0; 6];
    let mut word = params.fresh(at(0));
    let mut written = Vec::new();
    for (millis, n) in [(0, 2), (100, 1), (200, 1)] {
        let view = params.read(word, &ring[..], at(millis), n);
        let Step::Admit { next } = params.step(view, at(millis), n) else { panic!("four fit") };
        let (cells, mut places) = (ring, Vec::new());
        params.publish(view, &cells[..], |place, content| {
            (ring[place], places) = (content, [places.clone(), vec![place]].concat());
            true
        });
        word = next;
        written.push(places);
    }
    let birth = cell_at(params.places);
    assert_eq!(written, [vec![birth], [0, 1].map(cell_at).to_vec(), vec![cell_at(2)]]);
}

/// In units of 5 microseconds. The first event is in the word alone, the second one's time in the ring.
#[test]
fn a_log_owes_each_event_for_as_long_as_the_latest_counts() {
    let params = params("4/s");
    let (mut ring, mut word) = ([0; 6], 0);
    let at = |millis: u64| Tick::from_nanos(7_000_000_000 + millis * 1_000_000);
    let mut owed = Vec::new();
    for (millis, event) in [(0, 0), (100, 1), (200, 2)] {
        let before = if event == 0 { params.fresh(at(0)) } else { word };
        let view = params.read(before, &ring[..], at(millis), 1);
        let Step::Admit { next } = params.step(view, at(millis), 1) else { panic!("four fit") };
        let cells = ring;
        params.publish(view, &cells[..], |place, content| {
            ring[place] = content;
            true
        });
        word = next;
        owed.push(params.owed(word, &ring[..], params.instant(at(millis))));
    }
    assert_eq!(owed, [200_000, 2 * 200_000, 3 * 200_000]);
    assert_eq!(params.owed(word, &ring[..], params.instant(at(1_150))), 10_000, "one counts");
}

#[test]
fn only_a_log_that_counts_denials_remembers_them() {
    let quota = Quota::per_second(4);
    assert!(!params("4/s").remembers_denials());
    let counts = SlidingLog::new().count_denials().params(&quota, 0).expect("in range");
    assert!(counts.remembers_denials());
}

#[test]
fn the_figures_hold_limits_of_up_to_two_to_the_sixteenth() {
    let second = |limit| Quota::per_second(limit);
    let config = |log: SlidingLog, limit| {
        log.params(&second(limit), 0).expect("in range").config_words(0)[2]
    };
    assert_eq!(config(SlidingLog::new(), 1), 0);
    assert_eq!(config(SlidingLog::new(), 1 << 16), 0xffff);
    let and = SlidingLog::new().and(Quota::per_minute(1 << 16));
    assert_eq!(config(and, 7), 6 << 16 | 0xffff);
}

#[test]
fn an_invalid_quota_is_an_error_also_for_compact_states() {
    let none = SlidingLog::new().compact_params(&Quota::per_second(5), 0);
    assert!(matches!(none, Ok(None)));
    let invalid = SlidingLog::new().compact_params(&Quota::per_second(0), 0);
    assert!(matches!(invalid, Err(QuotaError::ZeroLimit)));
}

proptest! {
    /// For any charges: the count of live events equals that of a list, and the debt is that count
    /// times the units until the latest has left.
    #[test]
    fn the_debt_of_a_log_is_its_live_events_times_the_time_left(
        charges in prop::collection::vec((0_u64..700, 1_u64..9), 1..40), wait in 0_u64..3_000, note: u64,
    ) {
        for log in [SlidingLog::new(), SlidingLog::new().and(Quota::new(12, Duration::from_secs(3)))] {
            let params = log.params(&Quota::per_second(8), 0).expect("in range");
            let mut ring = vec![0; params.ring_cells()];
            let mut now = Tick::from_nanos(5_000_000_000);
            let mut word = params.fresh(now);
            let mut events = Vec::new();
            for (pause, n) in &charges {
                now = now.saturating_add(Duration::from_millis(*pause));
                let view = params.read(word, &ring[..], now, *n);
                let Step::Admit { next } = params.step(view, now, *n) else { continue };
                let before = ring.clone();
                params.publish(view, &before[..], |place, content| {
                    ring[place] = content;
                    true
                });
                word = next;
                events.extend((0..*n).map(|_| params.instant(now)));
            }
            let instant = params.instant(now.saturating_add(Duration::from_millis(wait)));
            let live = events.iter().filter(|event| **event + params.window_max > instant).count();
            let left = events.last().map_or(0, |last| {
                (last + params.window_max).saturating_sub(instant)
            });
            // The note is a hint.
            *ring.last_mut().expect("a note") = note;
            prop_assert_eq!(params.owed(word, &ring[..], instant), live as u64 * left);
        }
    }

    #[test]
    fn any_word_and_any_ring_have_a_debt(
        word in 0_u64..1 << PAYLOAD_BITS, ring in prop::collection::vec(any::<u64>(), 6), instant: u64,
    ) {
        let params = params("4/s");
        let _ = params.owed(word, ByHand(&ring), instant);
    }
}
