//! Aligned windows beside a naive limiter, while the wall clock is set, slewed, moved by its offset from
//! UTC, or goes on while the machine is suspended (which is a step forward).

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::limiter::SlotLayout;
use tollgate::{AnyAlgorithm, Clock, Decision, Direct, FixedWindow, Limiter, ManualClock, Quota};

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// 15 January 2024, 12:00:20 UTC.
const NOON: u64 = 1_705_320_020 * SECOND;
const LIMIT: u64 = 5;

type Keyed<A> = Limiter<u64, A, ManualClock>;

fn nanos(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

fn step(clock: &ManualClock, by: i64) {
    clock.set_unix_nanos(clock.unix_now_nanos().saturating_add_signed(by));
}

/// A step of a script: the wall clock changes, or a request is made.
#[derive(Clone, Copy, Debug)]
enum Event {
    Pass(u64),
    Step(i64),
    /// Parts in a million, for a time.
    Slew(i64, u64),
    Offset(i32),
    /// A request of a key, for so many cells.
    Ask(u64, u64),
    /// A request by an instant so long ago.
    Stale(u64, u64),
}

/// Without steps forward and changes of the offset: `back` only.
fn events(back: bool) -> impl Strategy<Value = Vec<Event>> {
    let hour = HOUR.cast_signed();
    let step = if back { (-3 * hour..0).boxed() } else { (-3 * hour..3 * hour).boxed() };
    let whole =
        if back { Just(-hour).boxed() } else { prop_oneof![Just(hour), Just(-hour)].boxed() };
    let event = prop_oneof![
        8 => (1..4_u64, 0..=LIMIT + 1).prop_map(|(key, cells)| Event::Ask(key, cells)),
        4 => (0..90 * SECOND).prop_map(Event::Pass),
        1 => (0..30 * HOUR).prop_map(Event::Pass),
        1 => prop_oneof![whole, step].prop_map(Event::Step),
        1 => (-500..=500_i64, 0..HOUR).prop_map(|(ppm, span)| Event::Slew(ppm, span)),
        u32::from(!back) => (-50..=50_i32).prop_map(|quarters| Event::Offset(900 * quarters)),
        u32::from(back) * 4 => (1..4_u64, 0..3 * MINUTE).prop_map(|(key, ago)| Event::Stale(key, ago)),
    ];
    prop::collection::vec(event, 1..120)
}

/// The naive limiter: it asks the wall clock at an edge, and at no other time.
struct Naive {
    period: i128,
    offset: i128,
    window: i128,
    /// The next edge, by the limiter's clock and by the wall clock.
    edge: (u64, i128),
    counted: HashMap<(u64, i128), u64>,
}

impl Naive {
    fn new(period: u64) -> Self {
        let counted = HashMap::new();
        Self { period: period.into(), offset: 0, window: i128::MIN, edge: (0, 0), counted }
    }

    fn look(&mut self, clock: &ManualClock) {
        let now = clock.now().as_nanos();
        if now >= self.edge.0 {
            let local = i128::from(clock.unix_now_nanos()) + self.offset;
            let shown = local.div_euclid(self.period);
            self.window = self.window.max(shown);
            let ends = (shown + 1) * self.period;
            self.edge = (now + u64::try_from(ends - local).expect("within a period"), ends);
        }
    }

    /// Whether it admits, what remains, and how long until the window ends if the wall clock is as it was.
    fn ask(&mut self, clock: &ManualClock, key: u64, cells: u64) -> (bool, u64, Duration) {
        self.look(clock);
        let counted = self.counted.entry((key, self.window)).or_default();
        let admitted = *counted + cells <= LIMIT;
        *counted += if admitted { cells } else { 0 };
        let held = (self.window + 1) * self.period - self.edge.1;
        let left =
            self.edge.0 - clock.now().as_nanos() + u64::try_from(held).expect("no earlier window");
        (admitted, LIMIT - *counted, nanos(if *counted == 0 { 0 } else { left }))
    }
}

/// A decision in the form of the naive limiter's. A denial must say to wait until the window ends.
fn answer(decision: Decision, cells: u64) -> (bool, u64, Duration) {
    match decision {
        Ok(permit) => (true, permit.remaining(), permit.reset_after()),
        Err(denied) => {
            let wait = denied.retry_after();
            assert_eq!(wait, (cells <= LIMIT).then(|| denied.reset_after()), "of {cells} cells");
            (false, denied.remaining(), denied.reset_after())
        }
    }
}

fn happen(event: Event, clock: &ManualClock) {
    match event {
        Event::Pass(span) => clock.advance(nanos(span)),
        Event::Step(by) => step(clock, by),
        Event::Slew(ppm, span) => {
            clock.advance(nanos(span));
            step(clock, span.cast_signed() / 1_000_000 * ppm);
        }
        Event::Offset(_) | Event::Ask(..) | Event::Stale(..) => {}
    }
}

fn periods() -> impl Strategy<Value = u64> {
    prop_oneof![Just(SECOND), Just(MINUTE), Just(HOUR), Just(DAY), SECOND..HOUR]
}

fn gate(period: u64, clock: &ManualClock, slots: SlotLayout) -> Keyed<AnyAlgorithm> {
    Limiter::builder(Quota::new(LIMIT, nanos(period)))
        .algorithm(AnyAlgorithm::from(FixedWindow::aligned()))
        .clock(clock.clone())
        .max_clock_skew(Duration::from_secs(1))
        .slots(slots)
        .capacity(100)
        .build()
        .expect("in range")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Every answer, and every time in it, by one bucket and by both kinds of slot.
    #[test]
    fn whatever_the_wall_clock_does_the_answers_are_those_of_a_naive_limiter(
        period in periods(),
        offset in -86_399..86_400_i32,
        events in events(false),
    ) {
        let clock = ManualClock::starting_at_unix_nanos(NOON);
        let mut naive = [Naive::new(period), Naive::new(period), Naive::new(period)];
        let algorithm = FixedWindow::aligned().utc_offset_secs(offset);
        let bucket = Direct::builder(Quota::new(LIMIT, nanos(period)))
            .algorithm(algorithm).clock(&clock).build().expect("in range");
        let slots: [Limiter<u64, _, _>; 2] = [SlotLayout::Wide, SlotLayout::Compact].map(|slots| {
            Limiter::builder(Quota::new(LIMIT, nanos(period)))
                .algorithm(algorithm).clock(&clock).slots(slots).capacity(100)
                .max_clock_skew(Duration::from_secs(1)).build().expect("in range")
        });
        let first = i128::from(offset) * i128::from(SECOND);
        naive.iter_mut().for_each(|naive| naive.offset = first);
        for event in events {
            happen(event, &clock);
            match event {
                Event::Offset(secs) => {
                    // Whole periods move nothing.
                    let moved = (i128::from(secs) - i128::from(offset)) * i128::from(SECOND);
                    naive.iter_mut().for_each(|naive| naive.offset = first + moved % i128::from(period));
                    bucket.set_utc_offset_secs(secs).expect("in range");
                    slots.iter().for_each(|gate| gate.set_utc_offset_secs(secs).expect("in range"));
                }
                Event::Ask(key, cells) => {
                    let expected = naive[0].ask(&clock, 0, cells);
                    prop_assert_eq!(answer(bucket.check_n(cells), cells), expected);
                    for (gate, naive) in slots.iter().zip(&mut naive[1..]) {
                        let expected = naive.ask(&clock, key, cells);
                        prop_assert_eq!(answer(gate.check_n(&key, cells), cells), expected);
                    }
                }
                _ => {}
            }
        }
    }

    /// However often the wall clock is set back, and however late callers are: between the first window
    /// and the present one, no more than the limit in each.
    #[test]
    fn a_clock_set_back_and_stale_callers_are_granted_no_window_twice(
        period in periods(),
        events in events(true),
    ) {
        let clock = ManualClock::starting_at_unix_nanos(NOON);
        clock.advance(nanos(HOUR));
        let begin = clock.now();
        let gate = gate(period, &clock, SlotLayout::Auto);
        let mut naive = Naive::new(period);
        let mut granted = HashMap::<u64, u64>::new();
        naive.look(&clock);
        assert!(gate.ask(&0).cells(0).check().is_ok());
        let first = naive.window;
        for event in events {
            happen(event, &clock);
            let now = clock.now();
            let (key, at) = match event {
                Event::Ask(key, _) => (key, now),
                Event::Stale(key, ago) => (key, now.saturating_sub(nanos(ago)).max(begin)),
                _ => continue,
            };
            naive.look(&clock);
            let all = granted.entry(key).or_default();
            *all += (0..=LIMIT).filter(|_| gate.ask(&key).at(at).check().is_ok()).count() as u64;
            let windows = naive.window - first + 1;
            prop_assert!(i128::from(*all) <= windows * i128::from(LIMIT), "{} in {} windows", all, windows);
        }
    }
}
