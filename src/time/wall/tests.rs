use core::time::Duration;
use std::cell::Cell;

use proptest::prelude::*;

use super::*;
use crate::time::ManualClock;

const SECOND_NANOS: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND_NANOS;
const HOUR: u64 = 60 * MINUTE;
/// Unix time at the clock's origin, 14 seconds into a minute.
const BEGIN: u64 = 1_000 * HOUR + 14 * SECOND_NANOS;

fn wall_clock(period: u64) -> WallClock {
    WallClock::new(period, (BEGIN % period).cast_signed(), BEGIN, 0)
}

fn followed(period: u64) -> (WallClock, ManualClock) {
    (wall_clock(period), ManualClock::starting_at_unix_nanos(BEGIN))
}

/// Words in a block, of which this test has the only copy.
#[cfg(all(feature = "shared-memory", target_os = "linux"))]
#[derive(Clone, Debug)]
struct InTestBlock(Arc<(WallWords, crate::sync::LockableFile)>);

#[cfg(all(feature = "shared-memory", target_os = "linux"))]
impl InBlock<WallWords> for InTestBlock {
    fn get(&self) -> &WallWords {
        &self.0.0
    }

    fn try_lock(&self) -> Option<crate::sync::FileLock<'_>> {
        self.0.1.lock_within(Duration::from_secs(60))
    }
}

/// The wall clocks of two processes that share their words.
#[cfg(all(feature = "shared-memory", target_os = "linux"))]
fn shared(period: u64) -> [WallClock; 2] {
    use rustix::fs::{MemfdFlags, memfd_create};
    let file = memfd_create("wall", MemfdFlags::CLOEXEC).expect("a file");
    let file = crate::sync::LockableFile::new(file.into());
    let words = InTestBlock(Arc::new((wall_clock(period).unread_words(), file)));
    [(); 2].map(|()| {
        let mut wall = wall_clock(period);
        wall.move_to(Box::new(words.clone()));
        wall
    })
}

#[cfg(all(feature = "shared-memory", target_os = "linux"))]
#[test]
fn a_window_that_one_process_holds_is_held_by_the_other() {
    let [one, other] = shared(MINUTE);
    let clock = ManualClock::starting_at_unix_nanos(BEGIN);
    let (first, left, _) = seen(&one, &clock);
    step(&clock, -HOUR.cast_signed());
    advance(&clock, left);
    // One that had not read the mapping before would follow the wall clock back.
    for minute in 0..60 {
        let wall = if minute % 7 == 0 { &one } else { &other };
        assert_eq!(seen(wall, &clock).0, first);
        advance(&clock, MINUTE);
    }
    assert_eq!(seen(&other, &clock), (first + 1, MINUTE, first + 1));
    assert_eq!(seen(&one, &clock), (first + 1, MINUTE, first + 1));
}

#[cfg(all(feature = "shared-memory", target_os = "linux"))]
#[test]
fn an_offset_that_one_process_changes_holds_in_the_other() {
    let [one, other] = shared(24 * HOUR);
    let clock = ManualClock::starting_at_unix_nanos(BEGIN);
    let (_, left, _) = seen(&one, &clock);
    one.set_offset_secs(3_600);
    advance(&clock, left);
    // The local day begins an hour earlier from then on.
    assert_eq!(seen(&other, &clock).1, 23 * HOUR);
}

#[cfg(all(feature = "shared-memory", target_os = "linux"))]
#[test]
fn after_a_process_died_in_a_replacement_the_next_one_goes_on() {
    let [one, other] = shared(MINUTE);
    let clock = ManualClock::starting_at_unix_nanos(BEGIN);
    let (first, left, _) = seen(&one, &clock);
    // As a killed process leaves it.
    one.0.words.edges.begin_as_if_killed();
    advance(&clock, left);
    assert_eq!(seen(&other, &clock), (first + 1, MINUTE, first + 1));
    let until = |wall: &WallClock| WallEdges::from_words(wall.0.words.edges.read()).until();
    assert_eq!(until(&one), left + MINUTE, "the next mapping is published");
}

fn wall_time(placed: WallPosition, now: u64) -> u64 {
    now.checked_add_signed(placed.ahead_nanos).expect("wall time begins before")
}

/// The number of the window of an instant, counted from the Unix epoch.
fn window(wall: &WallClock, placed: WallPosition, now: u64) -> u64 {
    let period = wall.0.period;
    (wall_time(placed, now) + BEGIN / period * period - wall.shift_nanos()) / period
}

/// The window of an instant, how long until its end, and the wall clock's window.
fn seen(wall: &WallClock, clock: &ManualClock) -> (u64, u64, u64) {
    let (now, period) = (clock.now().as_nanos(), wall.0.period);
    let placed = wall.place(clock.now(), clock);
    let left = period - wall_time(placed, now) % period + placed.held * period;
    (window(wall, placed, now), left, clock.unix_now_nanos() / period)
}

fn step(clock: &ManualClock, nanos: i64) {
    clock.set_unix_nanos(clock.unix_now_nanos().saturating_add_signed(nanos));
}

fn advance(clock: &ManualClock, nanos: u64) {
    clock.advance(Duration::from_nanos(nanos));
}

#[test]
fn a_step_of_an_hour_forward_waits_for_the_edge_and_skips_windows() {
    let (wall, clock) = followed(MINUTE);
    let (first, left, _) = seen(&wall, &clock);
    assert_eq!(left, 46 * SECOND_NANOS);
    step(&clock, (HOUR + 20 * SECOND_NANOS).cast_signed());
    advance(&clock, left - 1);
    assert_eq!(seen(&wall, &clock).0, first, "until the edge nothing changes");
    advance(&clock, 1);
    let (now, left, shown) = seen(&wall, &clock);
    assert_eq!((now, shown), (first + 61, now), "at the edge, the wall clock's window");
    assert_eq!(left, 40 * SECOND_NANOS);
}

#[test]
fn a_step_of_an_hour_back_holds_the_window_until_the_wall_clock_reaches_its_end() {
    let (wall, clock) = followed(MINUTE);
    let (first, left, _) = seen(&wall, &clock);
    step(&clock, -HOUR.cast_signed());
    advance(&clock, left);
    for minute in 0..60 {
        let (now, left, shown) = seen(&wall, &clock);
        assert_eq!((now, shown), (first, first + 1 + minute - 60));
        assert_eq!(left, HOUR - minute * MINUTE, "until it ends");
        advance(&clock, MINUTE);
    }
    assert_eq!(seen(&wall, &clock), (first + 1, MINUTE, first + 1));
}

#[test]
fn a_step_back_that_is_corrected_is_over_at_the_next_edge_of_the_wall_clock() {
    let (wall, clock) = followed(MINUTE);
    let (first, left, _) = seen(&wall, &clock);
    step(&clock, -HOUR.cast_signed());
    advance(&clock, left + 5 * SECOND_NANOS);
    assert_eq!(seen(&wall, &clock).0, first);
    step(&clock, HOUR.cast_signed());
    advance(&clock, 54 * SECOND_NANOS);
    assert_eq!(seen(&wall, &clock).0, first, "the edge is at the minute");
    advance(&clock, SECOND_NANOS);
    assert_eq!(seen(&wall, &clock).0, first + 2);
}

#[test]
fn a_machine_that_was_suspended_finds_its_window_at_the_next_edge() {
    let (wall, clock) = followed(HOUR);
    let (first, left, _) = seen(&wall, &clock);
    // The clock stands for ten hours.
    step(&clock, 10 * HOUR.cast_signed());
    assert_eq!(seen(&wall, &clock).0, first);
    advance(&clock, left);
    let (now, _, shown) = seen(&wall, &clock);
    assert_eq!((now, shown), (first + 11, first + 11));
}

#[test]
fn a_wall_clock_that_was_set_back_before_it_was_read_holds_nothing() {
    let (wall, clock) = followed(MINUTE);
    step(&clock, -100 * HOUR.cast_signed());
    let (first, left, _) = seen(&wall, &clock);
    assert_eq!(left, 46 * SECOND_NANOS);
    advance(&clock, left);
    assert_eq!(seen(&wall, &clock), (first + 1, MINUTE, first + 1));
    assert_eq!(wall.shift_nanos(), 100 * HOUR);
}

#[test]
fn an_offset_moves_the_windows_by_less_than_a_period() {
    for (period, offset, moved) in [
        (MINUTE, -3_600, 0),
        (HOUR, 3_600, 0),
        (24 * HOUR, 3_600, 3_600),
        (24 * HOUR, -3_600, -3_600),
        (45 * MINUTE, -3_600, -900),
        (HOUR, 19_800, 1_800),
    ] {
        let (wall, _) = followed(period);
        wall.set_offset_secs(offset);
        assert_eq!(wall.0.moved(), moved * SECOND, "{period} {offset}");
    }
}

#[test]
fn a_local_day_of_daylight_saving_has_23_or_25_hours() {
    for (offset, hours) in [(3_600, 23), (-3_600, 25)] {
        let (wall, clock) = followed(24 * HOUR);
        let (first, left, _) = seen(&wall, &clock);
        wall.set_offset_secs(offset);
        advance(&clock, left);
        if offset < 0 {
            assert_eq!(seen(&wall, &clock).0, first);
            advance(&clock, HOUR);
        }
        let (second, left, _) = seen(&wall, &clock);
        let lasts = if offset < 0 { 24 } else { hours };
        assert_eq!((second, left), (first + 1, lasts * HOUR));
    }
}

#[test]
fn an_instant_ahead_of_the_clock_is_placed_and_publishes_nothing() {
    let (wall, clock) = followed(MINUTE);
    let (first, ..) = seen(&wall, &clock);
    let far = 10 * HOUR;
    let placed = wall.place(Tick::from_nanos(far), &clock);
    assert_eq!(window(&wall, placed, far), (BEGIN + far) / MINUTE);
    step(&clock, 2 * HOUR.cast_signed());
    let placed = wall.place(Tick::from_nanos(far), &clock);
    assert_eq!(window(&wall, placed, far), (BEGIN + 2 * HOUR + far) / MINUTE);
    assert_eq!(seen(&wall, &clock).0, first, "the edge is still to come");
    advance(&clock, MINUTE);
    assert_eq!(seen(&wall, &clock).0, first + 121);
    let end = wall.place(Tick::MAX, &clock);
    assert_eq!(end.ahead_nanos, (2 * HOUR + 14 * SECOND_NANOS).cast_signed());
}

/// A clock of which every reading takes a time, and whose wall clock is set at one of them.
struct Slow {
    now: Cell<u64>,
    took: [u64; 3],
    readings: Cell<usize>,
}

impl Clock for Slow {
    fn now(&self) -> Tick {
        Tick::from_nanos(self.now.get())
    }

    fn unix_now_nanos(&self) -> u64 {
        let reading = self.readings.get();
        self.readings.set(reading + 1);
        let before = self.now.get();
        self.now.set(before + self.took[reading]);
        // Read late within a pause.
        BEGIN + self.now.get()
    }
}

#[test]
fn a_reading_that_was_interrupted_is_repeated_and_the_shortest_one_is_used() {
    for (took, readings, off) in
        [([900, 0, 0], 1, 450), ([5_000, 400, 0], 2, 200), ([9_000; 3], 3, 4_500)]
    {
        let clock = Slow { now: Cell::new(0), took, readings: Cell::new(0) };
        let placed = wall_clock(MINUTE).place(Tick::ZERO, &clock);
        let expected = (14 * SECOND_NANOS + off).cast_signed();
        assert_eq!((clock.readings.get(), placed.ahead_nanos), (readings, expected));
    }
}

#[test]
fn while_a_replacement_is_halted_the_others_place_by_the_wall_clock() {
    let (wall, clock) = followed(MINUTE);
    let (first, left, _) = seen(&wall, &clock);
    let halted = wall.0.words.edges.replace(|_| {
        step(&clock, HOUR.cast_signed());
        advance(&clock, left);
        assert_eq!(seen(&wall, &clock).0, first + 61);
        Err::<[u64; WORDS], _>(())
    });
    assert!(matches!(halted, Ok(Err(()))));
    assert_eq!(seen(&wall, &clock).0, first + 61, "and the next one publishes");
}

/// A step of a script: the wall clock changes, or a decision is made.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// Time passes, and then a decision is made.
    Pass(u64),
    /// The wall clock is set.
    Step(i64),
    /// The wall clock runs faster or slower for a while: parts in a million.
    Slew(i64, u64),
    /// The offset from UTC, in quarters of an hour.
    Offset(i32),
    /// A decision by an instant that is ahead, or behind.
    Ask(i64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let hour = HOUR.cast_signed();
    let event = prop_oneof![
        6 => (0..3 * MINUTE).prop_map(Event::Pass),
        1 => (0..30 * HOUR).prop_map(Event::Pass),
        1 => prop_oneof![Just(hour), Just(-hour), -3 * hour..3 * hour, -1_000_000..1_000_000_i64]
            .prop_map(Event::Step),
        1 => (-500..=500_i64, 0..HOUR).prop_map(|(ppm, span)| Event::Slew(ppm, span)),
        1 => (-50..=50_i32).prop_map(Event::Offset),
        1 => (-hour..hour).prop_map(Event::Ask),
    ];
    prop::collection::vec(event, 1..80)
}

/// The naive windows: at each edge, and at no other time, they ask the wall clock.
struct Naive {
    period: i128,
    window: i128,
    /// Nanoseconds of the clock to the next edge, when the window was last asked for, and when that was.
    left: i128,
    asked: u64,
}

impl Naive {
    fn asked(&mut self, now: u64, wall: i128) -> i128 {
        let passed = i128::from(now - self.asked);
        self.asked = now;
        if passed < self.left {
            self.left -= passed;
        } else {
            self.window = self.window.max(wall.div_euclid(self.period));
            self.left = self.period - wall.rem_euclid(self.period);
        }
        self.window
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 500 }))]

    #[test]
    fn the_windows_are_those_of_naive_ones_that_never_go_back(
        period in prop_oneof![Just(MINUTE), Just(HOUR), Just(24 * HOUR), SECOND_NANOS..HOUR],
        events in events(),
    ) {
        let clock = ManualClock::starting_at_unix_nanos(BEGIN);
        let wall = wall_clock(period);
        let long = i128::from(period);
        let mut naive = Naive { period: long, window: 0, left: 0, asked: 0 };
        let mut offset = 0;
        let mut last = 0;
        for event in events {
            match event {
                Event::Pass(nanos) => advance(&clock, nanos),
                Event::Step(nanos) => step(&clock, nanos),
                Event::Slew(ppm, span) => {
                    advance(&clock, span);
                    step(&clock, span.cast_signed() / 1_000_000 * ppm);
                }
                Event::Offset(quarters) => {
                    offset = i128::from(quarters) * 900 * SECOND % long;
                    wall.set_offset_secs(quarters * 900);
                }
                Event::Ask(nanos) => {
                    let now = clock.now().as_nanos().saturating_add_signed(nanos);
                    let placed = wall.place(Tick::from_nanos(now), &clock);
                    if now < clock.now().as_nanos() {
                        prop_assert!(window(&wall, placed, now) <= last.max(seen(&wall, &clock).0));
                    }
                }
            }
            let now = clock.now().as_nanos();
            let shown = i128::from(clock.unix_now_nanos()) + offset;
            let expected = naive.asked(now, shown);
            let placed = wall.place(clock.now(), &clock);
            prop_assert_eq!(i128::from(window(&wall, placed, now)), expected, "{:?}", event);
            // The time until the next edge is that of the naive windows.
            let left = period - wall_time(placed, now) % period;
            prop_assert_eq!(i128::from(left), naive.left, "{:?}", event);
            last = window(&wall, placed, now);
        }
    }

    /// Without steps, all instants are in the windows that they were in when the wall clock was read once.
    #[test]
    fn without_a_step_every_instant_is_in_the_window_that_it_always_was(
        period in SECOND_NANOS..HOUR,
        begin in 0..u64::MAX / 4,
        instants in prop::collection::vec((0..10 * HOUR, 0..10 * HOUR), 1..50),
    ) {
        let clock = ManualClock::starting_at_unix_nanos(begin);
        let ahead = (begin % period).cast_signed();
        let wall = WallClock::new(period, ahead, begin, 0);
        for (now, asked) in instants {
            clock.set(Tick::from_nanos(now));
            let placed = wall.place(Tick::from_nanos(asked), &clock);
            prop_assert_eq!(placed, WallPosition { ahead_nanos: ahead, held: 0, held_for: 0 });
        }
    }

    /// Any words and any reading: nothing panics, and no later instant is in an earlier window, unless wall
    /// time has got to one of its ends.
    #[test]
    fn the_next_mapping_is_total_and_its_windows_rise(
        readings in prop::collection::vec((any::<u64>(), any::<i64>(), any::<bool>()), 1..8),
        period in prop_oneof![1..u64::MAX, SECOND_NANOS..HOUR],
        mut instants in prop::collection::vec(any::<u64>(), 2..20),
    ) {
        let mut edges = WallEdges::unread(0);
        let mut is_at_end = false;
        for (passed, ahead, small) in readings {
            let before = edges;
            let now = edges.until().saturating_add(if small { passed >> 20 } else { passed });
            let ahead = i128::from(if small { ahead >> 20 } else { ahead });
            edges = edges.next(now, ahead, period, true);
            let wall = i128::from(edges.until().max(before.until())) + ahead + i128::from(edges.shift());
            is_at_end |= !(0..i128::from(u64::MAX - period)).contains(&wall);
            is_at_end |= edges.to_words().contains(&u64::MAX);
            prop_assert!(edges.until() > now || now == u64::MAX);
            prop_assert_eq!(WallEdges::from_words(edges.to_words()), edges);
            instants.extend([before.until().saturating_sub(1), before.until(), edges.until().saturating_sub(1)]);
        }
        instants.sort_unstable();
        let label = |&now: &u64| {
            now.saturating_add_signed(edges.place(now, period).ahead_nanos) / period
        };
        let labels: Vec<u64> = instants.iter().filter(|now| **now < edges.until()).map(label).collect();
        prop_assert!(is_at_end || labels.is_sorted(), "{:?}: {:?}", edges, labels);
    }
}
