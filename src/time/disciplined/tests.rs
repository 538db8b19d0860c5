use core::cell::Cell;

use proptest::prelude::*;

use super::line::{FIRST_NANOS, LAST_NANOS, SLEW_MAX_NANOS};
use super::*;
use crate::sync::SharedNanos;

const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// Ticks in a nanosecond, in 2^-32, of a counter that is sold as one of 3 GHz.
const NOMINAL: u128 = 3 << 32;
/// Nanoseconds in a tick, in 2^-32, that the clock assumes for such a counter when it begins.
const FREQUENCY: u64 = (1 << 32) / 3;

/// A system's clock, and a counter that runs faster by some parts in a million.
struct World {
    nanos: Cell<u64>,
    /// In 2^-32.
    ticks: Cell<u128>,
    ppm: Cell<i64>,
    /// A sample's time is up to this many nanoseconds too early.
    noise: u64,
    drawn: Cell<u64>,
}

impl World {
    fn new(ppm: i64) -> Self {
        let (nanos, ticks) = (Cell::new(HOUR), Cell::new(7 << 70));
        Self { nanos, ticks, ppm: Cell::new(ppm), noise: 0, drawn: Cell::new(0) }
    }

    /// Both clocks run for a time.
    fn pass(&self, nanos: u64) {
        self.nanos.set(self.nanos.get() + nanos);
        let rate =
            NOMINAL * u128::try_from(1_000_000 + self.ppm.get()).expect("positive") / 1_000_000;
        self.ticks.set(self.ticks.get() + u128::from(nanos) * rate);
    }

    /// The counter alone runs, or jumps, by what is nominally a time.
    fn jump(&self, nanos: i64) {
        let ticks = u128::from(nanos.unsigned_abs()) * NOMINAL;
        let jumped = match nanos < 0 {
            true => self.ticks.get().wrapping_sub(ticks),
            false => self.ticks.get().wrapping_add(ticks),
        };
        self.ticks.set(jumped);
    }

    fn clock(&self) -> Disciplined {
        Disciplined::new(self.sample(), FREQUENCY)
    }
}

impl TimeSource for World {
    #[expect(clippy::cast_possible_truncation, reason = "a counter wraps around")]
    fn ticks(&self) -> u64 {
        (self.ticks.get() >> 32) as u64
    }

    fn sample(&self) -> Sample {
        self.drawn.set(self.drawn.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        let early = (self.drawn.get() >> 33) % (self.noise + 1);
        Sample { ticks: self.ticks(), nanos: self.nanos.get() - early }
    }
}

/// Reads the clock now and then, and compares it with the system's.
struct Watch<'a> {
    world: &'a World,
    clock: Disciplined,
    last: u64,
    /// The most nanoseconds that the clock was ahead, and behind.
    ahead: u64,
    behind: u64,
    /// The longest step back.
    back: u64,
}

impl<'a> Watch<'a> {
    fn new(world: &'a World) -> Self {
        Self { world, clock: world.clock(), last: 0, ahead: 0, behind: 0, back: 0 }
    }

    fn read(&mut self) -> u64 {
        let (read, truth) = (self.clock.now(self.world), self.world.nanos.get());
        self.ahead = self.ahead.max(read.saturating_sub(truth));
        self.behind = self.behind.max(truth.saturating_sub(read));
        self.back = self.back.max(self.last.saturating_sub(read));
        self.last = read;
        read
    }

    /// Reads every `gap` nanoseconds for `span`.
    fn read_every(&mut self, gap: u64, span: u64) {
        for _ in 0..span / gap {
            self.world.pass(gap);
            self.read();
        }
    }

    fn error(&self) -> u64 {
        self.ahead.max(self.behind)
    }

    fn forget(&mut self) {
        (self.ahead, self.behind) = (0, 0);
    }
}

#[test]
fn a_drift_of_500_ppm_never_adds_up_to_two_microseconds_whatever_the_pattern_of_calls() {
    for ppm in [-500, -260, 0, 49, 500] {
        for gap in [10 * MICRO, 317 * MICRO, 40 * MILLI, SECOND, 7 * SECOND, 3 * HOUR] {
            let world = World::new(ppm);
            let mut watch = Watch::new(&world);
            watch.read_every(gap, MINUTE.max(20 * gap));
            let what = format!("{ppm} ppm, a call every {gap} ns");
            assert!(watch.error() < 2 * MICRO, "{what}: {} off", watch.error());
            assert_eq!(watch.back, 0, "{what}: back");
        }
    }
}

#[test]
fn any_minute_of_a_drifting_counter_is_a_minute_within_1_ppm() {
    let world = World { noise: 300, ..World::new(500) };
    let mut watch = Watch::new(&world);
    for _ in 0..20 {
        let before = watch.read();
        watch.read_every(100 * MICRO, MINUTE);
        let minute = watch.read() - before;
        assert!(minute.abs_diff(MINUTE) < MINUTE / 1_000_000, "{minute} ns");
    }
}

#[test]
fn a_clock_that_is_ahead_runs_slower_and_is_not_set_back() {
    for ppm in [100, 500, 900] {
        let world = World::new(ppm);
        let mut watch = Watch::new(&world);
        watch.read_every(100, 20 * MILLI);
        assert!(watch.ahead >= u64::try_from(ppm).expect("positive") - 10, "it begins too fast");
        assert!(watch.error() < 2 * MICRO, "{} off", watch.error());
        assert_eq!(watch.back, 0, "back");
        watch.forget();
        watch.read_every(MICRO, SECOND);
        assert!(watch.error() < 100, "{} off later", watch.error());
        assert_eq!(watch.back, 0, "back");
    }
}

#[test]
fn bursts_of_calls_between_idle_hours_are_on_time() {
    let world = World::new(-500);
    let mut watch = Watch::new(&world);
    for _ in 0..50 {
        watch.read_every(3 * MICRO, 100 * MILLI);
        world.pass(5 * HOUR);
        watch.read();
    }
    assert!(watch.error() < 2 * MICRO, "{} off", watch.error());
    assert_eq!(watch.back, 0, "back");
}

#[test]
fn a_system_clock_that_takes_microseconds_to_read_adds_some_microseconds() {
    let world = World { noise: 2 * MICRO, ..World::new(300) };
    let mut watch = Watch::new(&world);
    watch.read_every(20 * MICRO, MINUTE);
    assert!(watch.error() < 40 * MICRO, "{} off", watch.error());
    assert_eq!(watch.back, 0, "back");
}

#[test]
fn a_frequency_that_changes_by_500_ppm_costs_a_quarter_of_a_millisecond() {
    for (before, after) in [(0, 500), (0, -500), (250, -250), (-500, 0)] {
        for phase in [0, 1, 77, 250, 499] {
            let world = World::new(before);
            let mut watch = Watch::new(&world);
            watch.read_every(MILLI, 3 * SECOND + phase * MILLI);
            world.ppm.set(after);
            watch.forget();
            watch.read_every(20 * MICRO, 3 * SECOND);
            let bound = LAST_NANOS / 2_000 + 2 * MICRO;
            assert!(watch.error() <= bound, "{before} to {after}: {} off", watch.error());
            watch.forget();
            watch.read_every(MILLI, SECOND);
            assert!(watch.error() < 2 * MICRO, "{before} to {after}: {} off later", watch.error());
            assert_eq!(watch.back, 0, "{before} to {after}: back");
        }
    }
}

/// The virtual machine was moved to a processor of another frequency, and its counter was not scaled.
#[test]
fn a_frequency_that_changes_by_a_fifth_is_found_within_half_a_second() {
    for (ppm, phase) in [(200_000, 0), (-200_000, 130), (200_000, 260), (-200_000, 390)] {
        let world = World::new(10);
        let mut watch = Watch::new(&world);
        watch.read_every(MILLI, 3 * SECOND + phase * MILLI);
        world.ppm.set(ppm);
        watch.read_every(MILLI / 10, LAST_NANOS * 5 / 4);
        watch.forget();
        watch.read_every(MILLI / 10, 10 * SECOND);
        assert!(watch.error() < MILLI, "{} off", watch.error());
        watch.forget();
        watch.read_every(MILLI / 10, MINUTE);
        assert!(watch.error() < 2 * MICRO, "{} off later", watch.error());
    }
}

#[test]
fn a_counter_that_jumps_further_than_a_check_is_corrected_before_it_is_used() {
    for jump in [SECOND, HOUR, 400 * 24 * HOUR] {
        for jump in [jump.cast_signed(), -jump.cast_signed()] {
            let world = World::new(120);
            let mut watch = Watch::new(&world);
            for _ in 0..5 {
                watch.read_every(MILLI, 2 * SECOND);
                world.jump(jump);
                watch.read();
            }
            watch.read_every(MILLI, 2 * SECOND);
            assert!(watch.error() < 2 * MICRO, "a jump by {jump} ns: {} off", watch.error());
            assert_eq!(watch.back, 0, "a jump by {jump} ns: back");
        }
    }
}

#[test]
fn a_smaller_jump_of_the_counter_is_found_by_the_next_check() {
    for jump in [200 * MILLI, 20 * MILLI, 3 * MILLI, 800 * MICRO] {
        for jump in [jump.cast_signed(), -jump.cast_signed()] {
            let world = World::new(-80);
            let mut watch = Watch::new(&world);
            watch.read_every(MILLI, 2 * SECOND);
            world.jump(jump);
            watch.read_every(MILLI, LAST_NANOS + 210 * MILLI);
            watch.forget();
            watch.read_every(MILLI, 2 * SECOND);
            assert!(watch.error() < MILLI, "a jump by {jump} ns: {} off", watch.error());
            watch.forget();
            watch.read_every(MILLI, SECOND);
            assert!(watch.error() < 2 * MICRO, "a jump by {jump} ns: {} off later", watch.error());
        }
    }
}

#[test]
fn a_step_back_of_the_counter_by_microseconds_is_no_jump() {
    let world = World::new(40);
    let mut watch = Watch::new(&world);
    for round in 0..3_000 {
        watch.read_every(100 * MICRO, MILLI);
        // As on another core.
        world.jump(if round % 2 == 0 { -700 } else { 700 });
        watch.read();
    }
    assert!(watch.error() < 5 * MICRO, "{} off", watch.error());
    assert!(watch.back <= 701, "{} back", watch.back);
}

#[test]
fn of_a_suspension_the_clock_shows_what_the_system_shows() {
    for seconds in [1, 600, 8 * 3_600] {
        let suspensions: [fn(&World, u64); 3] = [
            // The counter runs on, the system's clock stands.
            |world, nanos| world.jump(nanos.cast_signed()),
            // The counter begins anew, the system's clock runs on.
            |world, nanos| {
                world.nanos.set(world.nanos.get() + nanos);
                world.ticks.set(0);
            },
            // The counter stands, the system's clock runs on.
            |world, nanos| world.nanos.set(world.nanos.get() + nanos),
        ];
        for (kind, suspend) in suspensions.iter().enumerate() {
            let world = World::new(-300);
            let mut watch = Watch::new(&world);
            for _ in 0..4 {
                watch.read_every(MILLI, 3 * SECOND);
                suspend(&world, seconds * SECOND);
                watch.read_every(MILLI, LAST_NANOS);
                watch.forget();
                watch.read_every(MILLI, 3 * SECOND);
                let what = format!("kind {kind}, {seconds} s");
                assert!(watch.error() < 2 * MICRO, "{what}: {} off", watch.error());
            }
            assert_eq!(watch.back, 0, "kind {kind}, {seconds} s: back");
        }
    }
}

#[test]
fn an_idle_hour_with_a_suspension_in_it_does_not_spoil_the_frequency() {
    for minutes in [1, 10, 15] {
        let world = World::new(-300);
        let mut watch = Watch::new(&world);
        watch.read_every(MILLI, 3 * SECOND);
        world.pass(HOUR);
        world.jump((minutes * MINUTE).cast_signed());
        watch.read();
        watch.read_every(10 * MICRO, SECOND);
        assert!(watch.error() < 2 * MICRO, "{minutes} minutes: {} off", watch.error());
    }
}

#[test]
fn a_sample_from_before_the_line_is_told_by_either_clock() {
    let line = Line::first(Sample { ticks: HOUR, nanos: MINUTE }, 1 << 32);
    let is_older = |ticks, nanos| line.is_newer_than(Sample { ticks, nanos });
    assert!(is_older(HOUR - MICRO, MINUTE - MICRO), "by both");
    assert!(is_older(HOUR - MICRO, MINUTE + 1), "on a core whose counter is behind");
    assert!(is_older(HOUR - SECOND, MINUTE - SECOND), "by a thread that was delayed");
    assert!(!is_older(0, MINUTE), "the counter was reset");
    assert!(!is_older(HOUR + SECOND, MINUTE + SECOND));
}

#[test]
fn a_counter_may_wrap_around() {
    let world = World::new(500);
    world.ticks.set(u128::from(u64::MAX - 100 * MILLI) << 32);
    let mut watch = Watch::new(&world);
    watch.read_every(50 * MICRO, SECOND);
    assert!(watch.error() < 2 * MICRO, "{} off", watch.error());
    assert_eq!(watch.back, 0, "back");
}

/// Counters of 24 MHz, 1 GHz and 5 GHz. The clock is given their frequencies with an error of up to 500 ppm.
#[test]
fn slow_and_fast_counters_are_read_to_the_tick() {
    for (ticks, nanos, off) in [(24_u64, 1_000_u64, 42), (1_000, 1_000, 2), (5_000, 1_000, 2)] {
        let nominal = (u128::from(nanos) << 32) / u128::from(ticks);
        let first = Sample { ticks: 5, nanos: 0 };
        let told = u64::try_from(nominal * 10_005 / 10_000).expect("in range");
        let clock = Disciplined::new(first, told);
        struct At(Sample);
        impl TimeSource for At {
            fn ticks(&self) -> u64 {
                self.0.ticks
            }
            fn sample(&self) -> Sample {
                self.0
            }
        }
        for now in (0..3 * SECOND).step_by(99_991) {
            let read = clock.now(&At(Sample { ticks: 5 + now * ticks / nanos, nanos: now }));
            assert!(read.abs_diff(now) < 1_500 + off, "{ticks} MHz at {now}: {read}");
        }
    }
}

/// The threads share the two clocks, which one of them moves.
#[derive(Default)]
struct SharedWorld(SharedNanos);

impl TimeSource for SharedWorld {
    fn ticks(&self) -> u64 {
        // 3 GHz, and 500 ppm too fast.
        let nanos = self.0.read();
        nanos * 3 + nanos * 3 / 2_000
    }

    fn sample(&self) -> Sample {
        let nanos = self.0.read();
        Sample { ticks: nanos * 3 + nanos * 3 / 2_000, nanos }
    }
}

#[test]
fn two_threads_that_correct_at_once_read_the_same_time() {
    let world = SharedWorld::default();
    let clock = Disciplined::new(world.sample(), FREQUENCY);
    let latest = SharedNanos::default();
    let work = |moves: bool| {
        let mut last = 0;
        while world.0.read() < 20 * SECOND {
            if moves {
                world.0.advance(60 * MICRO);
            }
            let (before, others) = (world.0.read(), latest.read());
            let read = clock.now(&world);
            let after = world.0.read();
            assert!(
                read + 4 * MICRO >= before && read <= after + 4 * MICRO,
                "{before}..{after}: {read}"
            );
            assert!(
                read + 4 * MICRO >= others,
                "another thread has read {others}, this one {read}"
            );
            assert!(read >= last, "{last}, then {read}");
            last = read;
            latest.set(read);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| work(false));
        scope.spawn(|| work(false));
        work(true);
    });
}

#[test]
fn while_a_correction_is_halted_the_others_read_the_systems_time() {
    let world = World::new(-500);
    let clock = world.clock();
    let halted = clock.line.replace(|_, _| {
        for _ in 0..100 {
            world.pass(7 * MILLI);
            assert_eq!(clock.now(&world), world.nanos.get());
        }
        None
    });
    assert_eq!(halted, Ok(()));
    world.pass(HOUR);
    assert_eq!(clock.now(&world), world.nanos.get(), "corrections go on");
    world.pass(MILLI / 2);
    assert!(clock.now(&world).abs_diff(world.nanos.get()) <= MICRO);
}

/// An event in a world.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// Calls at a distance, for a time.
    Calls(u64, u64),
    /// The counter runs faster, or slower, from now on.
    Drift(i64),
    /// The counter alone jumps.
    Jump(i64),
    /// The system's clock alone runs on.
    Stand(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        5 => (10..30 * MILLI, MILLI..2 * SECOND)
            .prop_map(|(gap, span)| Event::Calls(gap.max(span / 500), span)),
        2 => (-500..=500_i64).prop_map(Event::Drift),
        1 => (-400..=400_i64).prop_map(|days| Event::Jump(days * 86_400 * SECOND.cast_signed())),
        1 => (SECOND..HOUR).prop_map(Event::Stand),
    ];
    prop::collection::vec(event, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 300 }))]

    /// The oracle is the system's clock itself.
    #[test]
    fn whatever_happens_the_clock_is_within_a_millisecond_and_is_not_set_back(
        ppm in -500..=500_i64,
        events in events(),
    ) {
        let world = World::new(ppm);
        let mut watch = Watch::new(&world);
        for event in events {
            match event {
                Event::Calls(gap, span) => watch.read_every(gap, span),
                Event::Drift(ppm) => world.ppm.set(ppm),
                Event::Jump(nanos) => world.jump(nanos),
                // Until the next check, it cannot be known.
                Event::Stand(nanos) => {
                    world.nanos.set(world.nanos.get() + nanos);
                    world.pass(LAST_NANOS + MILLI);
                }
            }
            watch.read();
            prop_assert!(watch.error() < MILLI, "{:?}: {} off", event, watch.error());
            // A jump ends a line early: how far its readings got is not known.
            let back = if matches!(event, Event::Jump(_)) { watch.ahead } else { 0 };
            prop_assert!(watch.back <= back, "{:?}: {} back", event, watch.back);
            watch.back = 0;
        }
    }

    /// Any words and any sample: nothing panics, and the next line keeps its promises.
    #[test]
    fn the_next_line_is_total_and_begins_and_ends_where_it_should(
        (from, at, frequency) in (any::<u64>(), 0..u64::MAX / 4, 1_u64..1 << 45),
        (slowed, span) in (0..=SLEW_MAX_NANOS, FIRST_NANOS..=LAST_NANOS),
        ticks in prop_oneof![any::<u64>(), 0..1_u64 << 34],
        nanos in prop_oneof![any::<u64>(), 0..2 * SECOND],
        near_end in prop::option::of(0..2 * SLEW_MAX_NANOS),
    ) {
        let line = Line { from, at, ..Line::first(Sample { ticks: from, nanos: at }, frequency) };
        let line = Line { span: line.span.saturating_mul(span / FIRST_NANOS), at: at + slowed, ..line };
        let nanos = match near_end {
            Some(before) => (line.end() + MICRO).saturating_sub(before).max(at),
            None => at.saturating_add(nanos),
        };
        let sample = Sample { ticks: from.wrapping_add(ticks), nanos };
        let next = line.next(sample);
        let truth = sample.nanos.min(u64::MAX / 2);
        let expected = match line.end() {
            end if end > truth && end - truth <= SLEW_MAX_NANOS => end,
            _ => truth,
        };
        prop_assert_eq!((next.from, next.at, next.truth), (sample.ticks, expected, truth));
        prop_assert!(next.rate <= next.frequency && next.span >= 1);
        // The naive reading, without words: it ends where the frequency leads from the true time.
        let exact = |ticks: u64| i128::from(next.at) + ((i128::from(ticks) * i128::from(next.rate)) >> 32);
        for ticks in [0, next.span / 3, next.span - 1] {
            let read = next.reading(sample.ticks.wrapping_add(ticks)).map(i128::from);
            prop_assert_eq!(read, Some(exact(ticks)));
        }
        prop_assert_eq!(next.reading(sample.ticks.wrapping_add(next.span)), None);
        prop_assert_eq!(next.reading(sample.ticks.wrapping_sub(1)), None);
        let led = i128::from(truth) + ((i128::from(next.span) * i128::from(next.frequency)) >> 32);
        let tick = i128::from(next.frequency >> 32) + i128::from(next.span >> 32) + 2;
        let end = i128::from(next.end());
        prop_assert!((end - led).abs() <= tick, "ends at {}, not {}", end, led);
    }
}
