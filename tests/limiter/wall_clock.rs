//! Aligned windows beside a wall clock that is set, slewed, or goes on while the machine is suspended.

use std::time::Duration;

use tollgate::composite::Composite;
use tollgate::limiter::SlotLayout;
use tollgate::{AnyAlgorithm, Clock, Direct, FixedWindow, Limiter, ManualClock, Quota, Tick};

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

fn keyed(quota: Quota, slots: SlotLayout, clock: &ManualClock) -> Keyed<FixedWindow> {
    Limiter::builder(quota)
        .algorithm(FixedWindow::aligned())
        .clock(clock.clone())
        .max_clock_skew(Duration::from_secs(1))
        .slots(slots)
        .capacity(100)
        .build()
        .expect("in range")
}

fn step(clock: &ManualClock, by: i64) {
    clock.set_unix_nanos(clock.unix_now_nanos().saturating_add_signed(by));
}

fn all_that_is_left(gate: &Keyed<FixedWindow>, key: u64) -> u64 {
    gate.ask(&key).cells(u64::MAX).charge_available()
}

/// Cells that a key is granted in each minute, all that there are.
fn minutes(gate: &Keyed<FixedWindow>, clock: &ManualClock, minutes: usize) -> Vec<u64> {
    let each = |_| {
        clock.advance(nanos(MINUTE));
        all_that_is_left(gate, 1)
    };
    (0..minutes).map(each).collect()
}

#[test]
fn a_wall_clock_set_back_by_an_hour_grants_no_window_twice() {
    for slots in [SlotLayout::Wide, SlotLayout::Compact] {
        let clock = ManualClock::starting_at_unix_nanos(NOON);
        let gate = keyed(Quota::per_minute(LIMIT), slots, &clock);
        assert_eq!(all_that_is_left(&gate, 1), LIMIT);
        assert_eq!(minutes(&gate, &clock, 3), [LIMIT; 3]);
        step(&clock, -HOUR.cast_signed());
        // This key was last granted in a window that the wall clock is about to show again.
        assert_eq!(gate.ask(&2).cells(LIMIT).check().map(|permit| permit.remaining()), Ok(0));
        let granted = minutes(&gate, &clock, 61);
        assert_eq!(granted.iter().sum::<u64>(), LIMIT, "{granted:?}");
        assert_eq!(granted.last(), Some(&LIMIT), "when the wall clock has caught up");
        assert_eq!(minutes(&gate, &clock, 2), [LIMIT; 2]);
    }
}

/// Windows so short, and a count so long, that an hour is more windows than the state can tell apart.
#[test]
fn a_window_is_held_for_longer_than_its_state_could_be_told_from_an_old_one() {
    const MANY: u64 = 1_000_000_000;
    let clock = ManualClock::starting_at_unix_nanos(NOON);
    let gate = Direct::builder(Quota::per_second(MANY))
        .algorithm(FixedWindow::aligned())
        .clock(clock.clone())
        .build()
        .expect("in range");
    let all = || gate.ask().cells(MANY).check();
    assert!(all().is_ok());
    step(&clock, -HOUR.cast_signed());
    for second in 1..=3_600 {
        clock.advance(nanos(SECOND));
        let denied = all().expect_err("the window is held");
        assert_eq!(denied.retry_after(), Some(Duration::from_secs(3_601 - second)));
    }
    clock.advance(nanos(SECOND));
    assert!(all().is_ok());
}

#[test]
fn a_wall_clock_set_forward_is_followed_from_the_next_edge_on() {
    let clock = ManualClock::starting_at_unix_nanos(NOON);
    let gate = keyed(Quota::per_hour(LIMIT), SlotLayout::Wide, &clock);
    assert_eq!(all_that_is_left(&gate, 1), LIMIT);
    // To 13:30:20. By the clock of before, the hour ends in 59:40.
    step(&clock, (HOUR + 30 * MINUTE).cast_signed());
    let denied = gate.check(&1).expect_err("nothing changes within a window");
    assert_eq!(denied.retry_after(), Some(nanos(HOUR - 20 * SECOND)));
    clock.advance(nanos(HOUR - 20 * SECOND - 1));
    assert!(gate.check(&1).is_err());
    clock.advance(nanos(1));
    // It is 14:30.
    let permit = gate.check(&1).expect("a new window");
    assert_eq!((permit.remaining(), permit.reset_after()), (LIMIT - 1, nanos(30 * MINUTE)));
}

#[test]
fn after_a_suspension_the_day_begins_when_the_wall_clock_says_so() {
    let clock = ManualClock::starting_at_unix_nanos(NOON);
    let gate = keyed(Quota::per_day(LIMIT), SlotLayout::Wide, &clock);
    assert_eq!(all_that_is_left(&gate, 1), LIMIT);
    // Ten hours pass of which the clock counts none: it is 22:00:20, and midnight seems 12 hours away.
    step(&clock, (10 * HOUR).cast_signed());
    clock.advance(nanos(12 * HOUR - 20 * SECOND));
    let permit = gate.check(&1).expect("the edge");
    assert_eq!(
        permit.reset_after(),
        nanos(14 * HOUR),
        "it is 10:00; the next day begins at midnight"
    );
    clock.advance(nanos(14 * HOUR));
    assert_eq!(gate.check(&1).expect("midnight").reset_after(), nanos(DAY));
}

#[test]
fn a_clock_of_the_callers_own_is_followed_too() {
    /// Its wall clock is set before the limiter is first used.
    struct SetLate;
    impl Clock for SetLate {
        fn now(&self) -> Tick {
            Tick::ZERO
        }
        fn unix_now_nanos(&self) -> u64 {
            NOON
        }
    }
    let gate = Direct::builder(Quota::per_hour(1))
        .algorithm(AnyAlgorithm::from(FixedWindow::aligned()))
        .clock(SetLate)
        .build()
        .expect("in range");
    assert_eq!(gate.check().expect("fresh").reset_after(), nanos(HOUR - 20 * SECOND));
    // Instants that the caller gives are placed by the same wall clock.
    let later = Tick::from_nanos(2 * HOUR);
    assert_eq!(
        gate.ask().at(later).check().expect("fresh").reset_after(),
        nanos(HOUR - 20 * SECOND)
    );
}

#[test]
fn daylight_saving_makes_a_day_of_25_hours_and_leaves_minutes_alone() {
    let clock = ManualClock::starting_at_unix_nanos(NOON);
    let build = |quota| {
        let summer = FixedWindow::aligned().utc_offset_secs(7_200);
        Limiter::<u64>::builder(quota)
            .algorithm(summer)
            .clock(clock.clone())
            .build()
            .expect("in range")
    };
    let (daily, minutely) = (build(Quota::per_day(LIMIT)), build(Quota::per_minute(LIMIT)));
    let until_midnight = 10 * HOUR - 20 * SECOND;
    assert_eq!(daily.check(&1).expect("fresh").reset_after(), nanos(until_midnight));
    for gate in [&daily, &minutely] {
        assert_eq!(gate.set_utc_offset_secs(3_600), Ok(()));
        assert!(gate.set_utc_offset_secs(86_400).is_err());
    }
    clock.advance(nanos(until_midnight));
    // It is 23:00, for the second time.
    assert_eq!(daily.check(&1).expect("of this day").remaining(), LIMIT - 2);
    assert_eq!(daily.peek(&1).expect("of this day").reset_after(), nanos(HOUR));
    for _ in 0..60 {
        assert_eq!(minutely.check(&1).expect("a window of its own").remaining(), LIMIT - 1);
        clock.advance(nanos(MINUTE));
    }
    assert_eq!(daily.check(&1).expect("midnight").reset_after(), nanos(DAY));
}

#[test]
fn plans_and_the_shared_overflow_change_their_offset_with_the_limiter() {
    let clock = ManualClock::starting_at_unix_nanos(NOON);
    let gate = Limiter::<u64>::builder(Quota::per_day(LIMIT))
        .algorithm(FixedWindow::aligned())
        .clock(clock.clone())
        .capacity(1)
        .on_full(tollgate::OnFull::SharedOverflow(Quota::per_day(1_000)))
        .build()
        .expect("in range");
    let plan = gate.plan(Quota::per_day(LIMIT + 1)).expect("the same windows");
    let day = |key| gate.ask(&key).plan(&plan).check().expect("in every day").reset_after();
    (0..100).for_each(|key| assert_eq!(day(key), nanos(12 * HOUR - 20 * SECOND)));
    assert!(gate.stats().overflowed > 50);
    assert_eq!(gate.set_utc_offset_secs(-3 * 3_600), Ok(()));
    clock.advance(nanos(15 * HOUR - 20 * SECOND));
    (0..100).for_each(|key| assert_eq!(day(key), nanos(DAY), "{key}"));
}

#[test]
fn a_reservation_of_a_window_that_is_held_can_be_refunded_and_no_other() {
    let clock = ManualClock::starting_at_unix_nanos(NOON);
    let gate = keyed(Quota::per_minute(LIMIT), SlotLayout::Wide, &clock);
    let reserve = || gate.ask(&1).cells(2).reserve().expect("there is room");
    let (before, left) = (reserve(), || gate.peek(&1).map_or(0, |permit| permit.remaining() + 1));
    step(&clock, -HOUR.cast_signed());
    clock.advance(nanos(10 * MINUTE));
    let within = reserve();
    assert_eq!(left(), 1);
    clock.advance(nanos(40 * MINUTE));
    drop(within);
    assert_eq!(left(), 3, "after 40 minutes of one window");
    drop(before);
    assert_eq!(left(), LIMIT, "charged before it was held");
    let late = reserve();
    clock.advance(nanos(12 * MINUTE));
    assert_eq!(left(), LIMIT);
    assert!(gate.check(&1).is_ok());
    drop(late);
    assert_eq!(left(), LIMIT - 1, "of another window");
}

#[test]
fn cells_of_a_lease_are_not_spent_after_their_window() {
    let clock = ManualClock::starting_at_unix_nanos(NOON);
    let gate: Keyed<FixedWindow> = Limiter::builder(Quota::per_minute(100))
        .algorithm(FixedWindow::aligned().leases(10))
        .clock(clock.clone())
        .build()
        .expect("in range");
    let mut lease = gate.lease(&1);
    assert!(lease.check().is_ok());
    step(&clock, -HOUR.cast_signed());
    clock.advance(nanos(MINUTE));
    // The window is held, and a lease is taken anew: the wall clock may be set forward at any edge.
    let left = || gate.ask(&1).cells(0).peek().map_or(0, |permit| permit.remaining());
    assert_eq!(left(), 90);
    assert!(lease.check().is_ok());
    assert_eq!(left(), 89, "nine are refunded, and ten taken");
    step(&clock, HOUR.cast_signed());
    clock.advance(nanos(MINUTE));
    assert_eq!(left(), 100);
    assert!(lease.check().is_ok());
    assert_eq!(left(), 90, "no cell of the last window is spent");
}

#[test]
fn a_snapshot_from_after_a_step_is_restored_to_the_same_window() {
    for stepped in [-5 * HOUR.cast_signed(), -20 * SECOND.cast_signed(), 0, 5 * HOUR.cast_signed()]
    {
        let clock = ManualClock::starting_at_unix_nanos(NOON);
        let gate = keyed(Quota::per_hour(LIMIT), SlotLayout::Wide, &clock);
        assert!(gate.check(&1).is_ok());
        step(&clock, stepped);
        clock.advance(nanos(6 * HOUR));
        assert!(gate.check_n(&1, LIMIT).is_ok() && gate.check(&1).is_err());
        let reset = gate.peek(&1).expect_err("spent").reset_after();
        let bytes = gate.snapshot();
        // A clock of another origin, made after the step; ten minutes have passed.
        let later = ManualClock::starting_at_unix_nanos(clock.unix_now_nanos() - 7 * SECOND);
        later.advance(nanos(10 * MINUTE + 7 * SECOND));
        let same = |clock: &ManualClock| {
            Limiter::<u64>::builder(Quota::per_hour(LIMIT))
                .algorithm(FixedWindow::aligned())
                .clock(clock.clone())
                .max_clock_skew(Duration::from_secs(1))
                .slots(SlotLayout::Wide)
                .capacity(100)
        };
        let restored = same(&later).restore(&bytes).expect("unharmed");
        let denied = restored.check(&1).expect_err("spent");
        assert_eq!(denied.reset_after(), reset - nanos(10 * MINUTE), "{stepped}");
        later.advance(denied.reset_after());
        assert!(restored.check(&1).is_ok());
        // The same to clocks that were made before their wall clocks were set, forward or back.
        for origin in [0, clock.unix_now_nanos() + 5 * HOUR] {
            let stale = ManualClock::starting_at_unix_nanos(origin);
            stale.advance(nanos(3 * SECOND));
            stale.set_unix_nanos(clock.unix_now_nanos());
            let restored = same(&stale).restore(&bytes).expect("unharmed");
            assert_eq!(restored.check(&1).expect_err("spent").reset_after(), reset, "{stepped}");
        }
    }
}

#[test]
fn a_composite_follows_the_wall_clock_with_each_of_its_windows() {
    let clock = ManualClock::starting_at_unix_nanos(NOON);
    let minutely = keyed(Quota::per_minute(2), SlotLayout::Wide, &clock);
    let hourly = keyed(Quota::per_hour(3), SlotLayout::Wide, &clock);
    let both = Composite::builder()
        .keyed("minute", &minutely, |key: &u64| key)
        .keyed("hour", &hourly, |key: &u64| key)
        .build()
        .expect("refundable");
    let granted = || (0..9).filter(|_| both.check(&1).is_ok()).count();
    assert_eq!(granted(), 2);
    step(&clock, -HOUR.cast_signed());
    clock.advance(nanos(MINUTE));
    assert_eq!(granted(), 0, "the minute is held, and the hour has not ended");
    clock.advance(nanos(HOUR));
    assert_eq!(granted(), 1, "the minute is over");
    clock.advance(nanos(HOUR));
    assert_eq!(granted(), 2, "the hour is over, too");
}
