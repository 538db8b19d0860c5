//! Reservations, charges after the fact, and added cells, compared with an oracle, and with the
//! same limiter charged only for what was spent.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::algorithm::Algorithm;
use tollgate::internals::{Refund, StateMachine};
use tollgate::limiter::SlotLayout;
use tollgate::{Direct, FixedWindow, Gcra, Limiter, ManualClock, Quota, Tick};

use crate::bodies::grid::nanos;
use crate::bodies::refund_model::{Held, RefundModel, compact_level, level, window};

const KEY: &str = "key";

/// Ends a reservation, by settling or by dropping it.
type End<'a> = Box<dyn FnOnce(Option<u64>, Tick) + 'a>;

/// A limiter with or without keys.
trait Gate {
    fn clock(&self) -> &ManualClock;
    fn tolerance(&self) -> Option<Duration>;
    fn check(&self, n: u64, now: Tick) -> bool;
    fn left(&self, now: Tick) -> (u64, Duration);
    fn reserve(&self, n: u64, now: Tick) -> Option<End<'_>>;
    fn charge(&self, n: u64, now: Tick) -> Duration;
    fn drain(&self, max: u64, now: Tick) -> u64;
    fn add(&self, n: u64, now: Tick);
}

macro_rules! gate {
    ($gate:ty, $($key:expr)?) => {
        impl<A: Algorithm<Params: Refund>> Gate for $gate {
            fn clock(&self) -> &ManualClock {
                self.clock()
            }
            fn tolerance(&self) -> Option<Duration> {
                self.params().skew_tolerance()
            }
            fn check(&self, n: u64, now: Tick) -> bool {
                self.ask($($key)?).cells(n).at(now).check().is_ok()
            }
            fn left(&self, now: Tick) -> (u64, Duration) {
                let permit = self.ask($($key)?).cells(0).at(now).peek().expect("a peek for no cells succeeds");
                (permit.remaining(), permit.reset_after())
            }
            fn reserve(&self, n: u64, now: Tick) -> Option<End<'_>> {
                let held = self.ask($($key)?).cells(n).at(now).reserve().ok()?;
                assert_eq!(held.cells(), n);
                Some(Box::new(move |actual, now| match actual {
                    Some(actual) => held.settle_at(actual, now),
                    None => drop(held),
                }))
            }
            fn charge(&self, n: u64, now: Tick) -> Duration {
                self.ask($($key)?).cells(n).at(now).charge()
            }
            fn drain(&self, max: u64, now: Tick) -> u64 {
                self.ask($($key)?).cells(max).at(now).charge_available()
            }
            fn add(&self, n: u64, now: Tick) {
                self.ask($($key)?).cells(n).at(now).refund();
            }
        }
    };
}
gate!(Direct<A, ManualClock>,);
gate!(Limiter<str, A, ManualClock>, KEY);

fn direct<A: Algorithm>(algorithm: A, quota: Quota) -> Direct<A, ManualClock> {
    let clock = ManualClock::new();
    Direct::builder(quota).algorithm(algorithm).clock(clock).build().expect("in range")
}

/// A limiter for the one key of a test. Clearing a table of the default capacity would take most of the time.
fn keyed<A: Algorithm>(
    algorithm: A,
    quota: Quota,
    slots: SlotLayout,
) -> Limiter<str, A, ManualClock> {
    let begun = Limiter::builder(quota).algorithm(algorithm).clock(ManualClock::new());
    begun.slots(slots).capacity(1).build().expect("in range")
}

/// A number of cells, some of them relative to the burst.
#[derive(Clone, Copy, Debug)]
enum Cells {
    Few(u64),
    /// In eighths of the burst.
    Share(u64),
    Huge,
}

impl Cells {
    fn of(self, burst: u64) -> u64 {
        match self {
            Self::Few(n) => n,
            Self::Share(eighths) => burst * eighths / 8,
            Self::Huge => u64::MAX,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Check(Cells),
    /// The cells to reserve, and the cells that will be spent of them: the counterfactual run needs
    /// both.
    Reserve(Cells, Cells),
    Settle(usize),
    Drop(usize),
    Charge(Cells),
    Drain(Cells),
    Add(Cells),
}

/// The time that passes before, in 24ths of the time of a cell and of a whole burst; and how far
/// the caller's clock is behind, in 24ths of a cell.
#[derive(Clone, Copy, Debug)]
struct Event {
    cells: u64,
    bursts: u64,
    behind: u64,
    act: Act,
}

fn cells() -> impl Strategy<Value = Cells> {
    prop_oneof![
        6 => (0_u64..6).prop_map(Cells::Few),
        6 => (0_u64..12).prop_map(Cells::Share),
        1 => (0_u64..200).prop_map(Cells::Share),
        1 => Just(Cells::Huge),
    ]
}

fn acts(gifts: u32) -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => cells().prop_map(Act::Check),
        6 => (cells(), cells()).prop_map(|(n, actual)| Act::Reserve(n, actual)),
        4 => (0_usize..8).prop_map(Act::Settle),
        3 => (0_usize..8).prop_map(Act::Drop),
        2 => cells().prop_map(Act::Charge),
        1 => cells().prop_map(Act::Drain),
        gifts => cells().prop_map(Act::Add),
    ]
}

/// At most one and a half bursts between two events, so that a short time ring is never left.
fn events(gifts: u32, behind: u64) -> impl Strategy<Value = Vec<Event>> {
    let behind = prop_oneof![3 => Just(0), 1 => 0..=behind];
    let event =
        (prop_oneof![3 => Just(0), 3 => 0_u64..60], prop_oneof![6 => Just(0), 1 => 0_u64..36]);
    let event = (event, behind, acts(gifts)).prop_map(|((cells, bursts), behind, act)| Event {
        cells,
        bursts,
        behind,
        act,
    });
    prop::collection::vec(event, 1..30)
}

/// The time that a sequence of events has reached.
struct Time {
    nanos: u64,
    interval: u64,
    burst: u64,
    /// The maximum lag of a clock.
    tolerance: u64,
}

impl Time {
    fn new(gate: &impl Gate, start: u64, quota: &Quota) -> Self {
        let period = u64::try_from(quota.period().as_nanos()).expect("in range");
        let whole =
            u128::from(period) * u128::from(quota.burst_cells()) / u128::from(quota.limit());
        let burst = u64::try_from(whole).expect("a burst in range");
        let tolerance = gate.tolerance().map_or(u64::MAX, nanos);
        Self { nanos: start, interval: period / quota.limit(), burst, tolerance }
    }

    /// The instant by the caller's clock.
    fn pass(&mut self, event: &Event) -> Tick {
        let share = |span: u64, parts: u64| {
            u64::try_from(u128::from(span) * u128::from(parts) / 24).expect("a share of a span")
        };
        let gap = share(self.interval, event.cells) + share(self.burst, event.bursts);
        self.nanos = self.nanos.saturating_add(gap);
        let behind = share(self.interval, event.behind).min(self.tolerance);
        Tick::from_nanos(self.nanos.saturating_sub(behind))
    }
}

/// Checks that every operation answers like the model and leaves its state.
fn follows(
    gate: &impl Gate,
    model: &mut impl RefundModel,
    quota: &Quota,
    start: u64,
    events: &[Event],
) {
    let burst = quota.burst_cells();
    let mut time = Time::new(gate, start, quota);
    let first = Tick::from_nanos(start);
    if gate.left(first).0 == 0 {
        // The model does not say which requests begin the life of a key that starts empty.
        assert!(!gate.check(1, first) && model.charge(first, 1).is_none());
    }
    let mut held: Vec<(u64, u64, Held, End<'_>)> = Vec::new();
    for event in events {
        let now = time.pass(event);
        gate.clock().set(now);
        match event.act {
            Act::Check(n) => {
                let n = n.of(burst);
                assert_eq!(gate.check(n, now), model.charge(now, n).is_some(), "{event:?}");
            }
            Act::Reserve(n, actual) => {
                let n = n.of(burst);
                let (end, charge) = (gate.reserve(n, now), model.charge(now, n));
                assert_eq!(end.is_some(), charge.is_some(), "{event:?}");
                held.extend(end.zip(charge).map(|(end, held)| (n, actual.of(burst), held, end)));
            }
            Act::Settle(index) if index < held.len() => {
                let (n, actual, charge, end) = held.swap_remove(index);
                end(Some(actual), now);
                if actual > n {
                    model.charge_anyway(now, actual - n);
                } else {
                    model.refund(now, charge, n - actual);
                }
            }
            Act::Drop(index) if index < held.len() => {
                let (n, _, charge, end) = held.swap_remove(index);
                end(None, now);
                model.refund(now, charge, n);
            }
            Act::Settle(_) | Act::Drop(_) => {}
            Act::Charge(n) => {
                let n = n.of(burst);
                assert_eq!(gate.charge(n, now), model.charge_anyway(now, n), "{event:?}");
            }
            Act::Drain(max) => {
                let max = max.of(burst);
                let left = model.left(now).0.min(max);
                assert_eq!(gate.drain(max, now), left, "{event:?}");
                // If nothing is left, a bucket that starts empty is asked for one cell.
                let drained = max > 0 && model.charge(now, left.max(1)).is_some();
                assert_eq!(drained, left > 0, "what is left can be charged");
            }
            Act::Add(n) => {
                gate.add(n.of(burst), now);
                model.add(now, n.of(burst));
            }
        }
        assert_eq!(gate.left(now), model.left(now), "after {event:?} at {now:?}");
    }
}

/// Quotas with long and short time rings, and bursts that take a cell's time or a month.
const WIDE: [&str; 6] =
    ["10/s", "7/s burst 3", "1000/min burst 50", "1/s burst 1", "1000000000/s burst 100", "40/30d"];
const COMPACT: [&str; 6] =
    ["10/s", "7/s burst 3", "100/s burst 20", "1/s burst 1", "1000/d", "40/30d"];
const WINDOWS: [&str; 6] = ["10/s", "7/min", "1000/h", "1/s", "1023/d", "6/s"];

fn quota(text: &str) -> Quota {
    text.parse().expect("a quota")
}

/// The origin, some day, or so near to the end of time that the end is reached.
fn starts() -> impl Strategy<Value = u64> {
    prop_oneof![
        1 => Just(0),
        4 => 0..1_u64 << 60,
        1 => (0_u64..10_000_000_000).prop_map(|before| u64::MAX - before),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn a_bucket_agrees_with_the_level_model(
        text in prop::sample::select(&WIDE), start in starts(), start_empty: bool, events in events(2, 48),
    ) {
        let quota = quota(text);
        let algorithm = if start_empty { Gcra::start_empty() } else { Gcra::new() };
        let gate = direct(algorithm, quota);
        let model = level(gate.params(), &quota, (0, start_empty));
        follows(&gate, &mut model.clone(), &quota, start, &events);
        let gate = keyed(algorithm, quota, SlotLayout::Wide);
        follows(&gate, &mut model.clone(), &quota, start, &events);
    }

    /// The level follows the lowered burst.
    #[test]
    fn a_bucket_with_leases_agrees_with_the_level_model(
        leases in 1_u64..=5, start in starts(), events in events(2, 48),
    ) {
        let quota = Quota::per_second(10);
        let gate = keyed(Gcra::new().leases(leases), quota, SlotLayout::Wide);
        let mut model = level(gate.params(), &quota, (leases, false));
        follows(&gate, &mut model, &quota, start, &events);
    }

    #[test]
    fn a_bucket_in_compact_slots_agrees_with_the_level_model(
        text in prop::sample::select(&COMPACT), start in starts(), start_empty: bool,
        events in events(2, 48),
    ) {
        let quota = quota(text);
        let algorithm = if start_empty { Gcra::start_empty() } else { Gcra::new() };
        let gate = keyed(algorithm, quota, SlotLayout::Compact);
        let mut model = compact_level(gate.params(), &quota, start_empty);
        follows(&gate, &mut model, &quota, start, &events);
    }

    #[test]
    fn a_window_agrees_with_the_count_model(
        text in prop::sample::select(&WINDOWS), start in starts(), aligned: bool,
        events in events(2, 48),
    ) {
        let quota = quota(text);
        let algorithm = if aligned { FixedWindow::aligned() } else { FixedWindow::anchored() };
        let gate = direct(algorithm, quota);
        let model = window(gate.params(), &quota, aligned);
        follows(&gate, &mut model.clone(), &quota, start, &events);
        let gate = keyed(algorithm, quota, SlotLayout::Wide);
        follows(&gate, &mut model.clone(), &quota, start, &events);
    }

    #[test]
    fn a_window_in_compact_slots_agrees_with_the_count_model(
        text in prop::sample::select(&["20/min", "1000/h", "6/d", "7/h"]), start in starts(),
        aligned: bool, events in events(2, 48),
    ) {
        let quota = quota(text);
        let algorithm = if aligned { FixedWindow::aligned() } else { FixedWindow::anchored() };
        let gate = keyed(algorithm, quota, SlotLayout::Compact);
        let mut model = window(gate.params(), &quota, aligned);
        follows(&gate, &mut model, &quota, start, &events);
    }
}

/// Checks that while reservations are settled, no more is left than if the refunded cells had never
/// been charged.
fn never_better(
    gate: &impl Gate,
    without: &impl Gate,
    quota: &Quota,
    start: u64,
    events: &[Event],
) {
    let burst = quota.burst_cells();
    // A debt at its bound forgives, so it is never reached here.
    let bounded = |cells: Cells| cells.of(burst).min(burst / 4 + 1);
    let mut time = Time::new(gate, start, quota);
    let mut held: Vec<(u64, u64, End<'_>)> = Vec::new();
    let both_have = |now| (gate.left(now), without.left(now));
    for event in events {
        let now = time.pass(event);
        gate.clock().set(now);
        match event.act {
            Act::Check(n) if gate.check(n.of(burst), now) => {
                assert!(without.check(n.of(burst), now), "denied with less charged: {event:?}");
            }
            Act::Reserve(n, actual) => {
                let (n, actual) = (n.of(burst), bounded(actual));
                if let Some(end) = gate.reserve(n, now) {
                    without.charge(n.min(actual), now);
                    held.push((n, actual, end));
                }
            }
            Act::Settle(index) | Act::Drop(index) if index < held.len() => {
                let (n, actual, end) = held.swap_remove(index);
                end(Some(actual), now);
                without.charge(actual.saturating_sub(n), now);
            }
            Act::Charge(n) => {
                gate.charge(bounded(n), now);
                without.charge(bounded(n), now);
            }
            Act::Drain(max) => {
                without.charge(gate.drain(max.of(burst), now), now);
            }
            _ => {}
        }
        let ((left, reset), (left_without, reset_without)) = both_have(now);
        assert!(left <= left_without && reset >= reset_without, "better after {event:?}");
    }
    let now = Tick::from_nanos(time.nanos);
    for (n, actual, end) in held.drain(..) {
        end(Some(actual), now);
        without.charge(actual.saturating_sub(n), now);
        let ((left, reset), (left_without, reset_without)) = both_have(now);
        assert!(left <= left_without && reset >= reset_without, "better at the end");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_bucket_never_has_more_after_refunds_than_without_the_charges(
        text in prop::sample::select(&["10/s", "7/s burst 3", "100/s burst 20", "1000/d"]),
        start in 0..1_u64 << 60, events in events(0, 0), compact: bool,
    ) {
        let quota = quota(text);
        let slots = if compact { SlotLayout::Compact } else { SlotLayout::Wide };
        let gates = [(); 2].map(|()| keyed(Gcra::new(), quota, slots));
        never_better(&gates[0], &gates[1], &quota, start, &events);
    }

    /// Windows of the wall clock. (An anchored window stays where a charge has opened it.)
    #[test]
    fn an_aligned_window_never_has_more_after_refunds_than_without_the_charges(
        text in prop::sample::select(&["20/min", "1000/h", "6/d"]),
        start in 0..1_u64 << 60, events in events(0, 0), compact: bool,
    ) {
        let quota = quota(text);
        let slots = if compact { SlotLayout::Compact } else { SlotLayout::Wide };
        let gates = [(); 2].map(|()| keyed(FixedWindow::aligned(), quota, slots));
        never_better(&gates[0], &gates[1], &quota, start, &events);
    }

    /// While no time passes, spent, reserved and remaining cells sum to the burst and what was
    /// added to it.
    #[test]
    fn at_one_instant_spent_reserved_and_remaining_cells_sum_to_the_burst(
        start in starts(), events in events(0, 0), gift in 0_u64..30,
    ) {
        let quota = Quota::per_hour(1_000);
        let now = Tick::from_nanos(start);
        for slots in [SlotLayout::Wide, SlotLayout::Compact] {
            accounts_for_all(&keyed(Gcra::new(), quota, slots), now, gift, &events);
        }
    }
}

/// Of a thousand cells, a hundred are spent, and `gift` cells are added.
fn accounts_for_all(gate: &impl Gate, now: Tick, gift: u64, events: &[Event]) {
    gate.clock().set(now);
    assert!(gate.check(100, now));
    gate.add(gift, now);
    let mut spent = 100 - i128::from(gift);
    let mut held: Vec<(u64, u64, End<'_>)> = Vec::new();
    for event in events {
        match event.act {
            Act::Check(n) if gate.check(n.of(100), now) => spent += i128::from(n.of(100)),
            Act::Reserve(n, actual) => {
                let (n, actual) = (n.of(100), actual.of(100).min(300));
                held.extend(gate.reserve(n, now).map(|end| (n, actual, end)));
            }
            Act::Settle(index) if index < held.len() => {
                let (_, actual, end) = held.swap_remove(index);
                end(Some(actual), now);
                spent += i128::from(actual);
            }
            Act::Drop(index) if index < held.len() => held.swap_remove(index).2(None, now),
            Act::Drain(n) => spent += i128::from(gate.drain(n.of(100).min(50), now)),
            _ => {}
        }
        let out = spent + held.iter().map(|held| i128::from(held.0)).sum::<i128>();
        assert_eq!(i128::from(gate.left(now).0), (1_000 - out).max(0), "after {event:?}");
    }
}

const SECOND: u64 = 1_000_000_000;

/// A key that starts empty owes its burst, not the largest debt.
#[test]
fn a_key_that_starts_empty_can_be_overdrawn() {
    fn is_charged(gate: &impl Gate) {
        assert_eq!(gate.charge(5, Tick::ZERO), Duration::from_millis(500));
        assert_eq!(gate.left(Tick::from_nanos(SECOND)).0, 5);
    }
    is_charged(&keyed(Gcra::start_empty(), Quota::per_second(10), SlotLayout::Wide));
    is_charged(&keyed(Gcra::start_empty(), Quota::per_second(10), SlotLayout::Compact));
    is_charged(&direct(Gcra::start_empty(), Quota::per_second(10)));
}

/// The charge returns the wait even if part of the debt is forgiven.
#[test]
fn a_charge_beyond_the_largest_debt_still_returns_the_wait() {
    let gate = keyed(Gcra::new(), Quota::per_second(10), SlotLayout::Compact);
    let charge = |n| gate.ask(KEY).cells(n).at(Tick::ZERO).charge();
    assert_eq!(charge(u64::MAX), Duration::from_secs(15), "sixteen bursts");
    assert_eq!(charge(1), Duration::from_secs(15));
    assert_eq!(charge(0), Duration::ZERO, "no cells, no wait");
    let gate = direct(FixedWindow::anchored(), Quota::per_second(6));
    assert_eq!(gate.ask().cells(9).at(Tick::ZERO).charge(), Duration::from_secs(1));
    assert_eq!(gate.ask().at(Tick::from_nanos(SECOND / 2)).charge(), Duration::from_millis(500));
}

/// The debt of a quota whose burst takes a month is not cut off at the burst.
#[test]
fn a_burst_of_a_month_can_be_overdrawn_in_compact_slots() {
    let gate = keyed(Gcra::new(), quota("1000/30d"), SlotLayout::Compact);
    let days = gate.ask(KEY).cells(3_000).at(Tick::ZERO).charge().as_secs() / 86_400;
    assert!((59..=60).contains(&days), "two bursts beyond the first: {days} days");
}

/// Keys without a slot share a limiter, which is charged for them and refunded.
#[test]
fn charges_and_refunds_of_keys_without_a_slot_go_to_the_shared_overflow() {
    let quota = Quota::per_hour(20);
    let gate: Limiter<u64, Gcra, _> = Limiter::builder(quota)
        .clock(ManualClock::new())
        .capacity(1)
        .on_full(tollgate::OnFull::SharedOverflow(Quota::per_hour(10)))
        .build()
        .expect("in range");
    for other in 0..64 {
        let _ = gate.ask(&other).cells(12).at(Tick::ZERO).check();
    }
    assert_eq!(gate.ask(&1_000).cells(100).at(Tick::ZERO).charge(), Duration::from_secs(9 * 3_600));
    assert!(gate.ask(&1_000).at(Tick::from_nanos(SECOND)).reserve().is_err(), "they share a debt");
}
