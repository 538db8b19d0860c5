//! governor, the crate itself, by its own clock for tests.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::FakeRelativeClock;
use governor::{Quota as Theirs, RateLimiter};
use tollgate::{Gcra, ManualClock, Quota, Tick};

use crate::traces::{
    Draw, Ours, Request, SECOND, SLOTS, Seen, TRACES, cells_in_unit,
    differs_only_where_a_cell_comes_back, some_traces_differ, trace, whole_unit,
};

fn nonzero(number: u64) -> NonZeroU32 {
    let number = u32::try_from(number).expect("a number of 32 bits");
    NonZeroU32::new(number).expect("not zero")
}

/// Asks a bucket without a key and a keyed one.
fn theirs(quota: Theirs) -> impl FnMut(Request) -> bool {
    let clock = FakeRelativeClock::default();
    let direct = RateLimiter::direct_with_clock(quota, clock.clone());
    let keyed = RateLimiter::dashmap_with_clock(quota, clock.clone());
    let mut at = 0;
    move |request| {
        clock.advance(Duration::from_nanos(request.at - at));
        at = request.at;
        let cells = nonzero(request.cells);
        // The outer error says that the request is larger than the burst.
        let admitted = direct.check_n(cells).is_ok_and(|answer| answer.is_ok());
        let keyed = keyed.check_key_n(&"key", cells).is_ok_and(|answer| answer.is_ok());
        assert_eq!(admitted, keyed, "governor with a key and without, {request:?}");
        admitted
    }
}

#[test]
fn decisions_are_equal_where_the_interval_is_whole_nanoseconds_at_whole_time_units() {
    let (mut draw, mut seen) = (Draw::new(1), Seen::default());
    for slots in SLOTS {
        for _ in 0..TRACES {
            let burst = draw.one_of(&[1, 2, 4, 5, 8, 10, 20, 25]);
            let limit = draw.one_of(&[1, 2, 4, 5, 8, 10, 16, 20, 25, 40, 50, 100, 200, 400]);
            let (ours, quota) = match draw.between(0, 2) {
                0 => (Quota::per_second(limit), Theirs::per_second(nonzero(limit))),
                1 => (Quota::per_minute(limit), Theirs::per_minute(nonzero(limit))),
                _ => {
                    let interval = Duration::from_millis(limit);
                    (Quota::new(1, interval), Theirs::with_period(interval).expect("not zero"))
                }
            };
            let (ours, quota) = (ours.burst(burst), quota.allow_burst(nonzero(burst)));
            let step = whole_unit(ours, slots);
            let requests = trace(&mut draw, ours, step, burst.div_ceil(2) + 1);
            let (gate, mut theirs) = (Ours::new(slots, ours, Gcra::new()), theirs(quota));
            for request in requests {
                let (admitted, theirs) = (gate.admits(request), theirs(request));
                seen.alike(admitted, theirs, (ours, slots, request));
            }
        }
    }
}

/// Where the period does not divide, governor's interval is shorter by less than a nanosecond, and ours is
/// exact on a grid of time units.
#[test]
fn other_rates_differ_only_where_a_cell_comes_back() {
    some_traces_differ("governor", 2, |draw, slots| {
        let (limit, burst) = (draw.between(3, 399), draw.between(1, 30));
        let ours = Quota::per_second(limit).burst(burst);
        let quota = Theirs::per_second(nonzero(limit)).allow_burst(nonzero(burst));
        let requests = trace(draw, ours, 1, burst);
        // Each cell brings up to a nanosecond.
        let charged: u64 = requests.iter().map(|request| request.cells).sum();
        let charged = charged as f64 * limit as f64 / SECOND as f64;
        let gate = Ours::new(slots, ours, Gcra::new());
        differs_only_where_a_cell_comes_back(
            ours,
            &requests,
            cells_in_unit(ours, slots) + charged,
            |request| gate.admits(request),
            theirs(quota),
        )
    });
}

/// At 600 million a second an interval of 1.67 ns becomes 1 ns, and the rate 1,000 million a second.
#[test]
fn governor_rounds_the_interval_of_a_fast_rate_down() {
    let limit = 600_000_000;
    let clock = FakeRelativeClock::default();
    let theirs = RateLimiter::direct_with_clock(Theirs::per_second(nonzero(limit)), clock.clone());
    let quota = Quota::per_second(limit);
    let gate =
        tollgate::Direct::builder(quota).clock(ManualClock::new()).build().expect("in range");
    let ours = |cells, at| gate.ask().cells(cells).at(Tick::from_nanos(at)).check().is_ok();

    assert!(theirs.check_n(nonzero(limit)).expect("no more than the burst").is_ok());
    assert!(ours(limit, 0));
    clock.advance(Duration::from_millis(600));
    assert!(theirs.check_n(nonzero(limit)).expect("no more than the burst").is_ok());
    // 360 million have come back.
    let at = 600_000_000;
    assert!(!ours(limit, at) && !ours(360_000_001, at) && ours(360_000_000, at));
}

#[test]
fn a_request_beyond_the_burst_is_an_error_there_and_a_denial_without_a_time_here() {
    let theirs = RateLimiter::direct(Theirs::per_second(nonzero(3)));
    assert!(theirs.check_n(nonzero(4)).is_err());
    let gate = tollgate::Direct::new(Quota::per_second(3)).expect("in range");
    assert_eq!(gate.check_n(4).expect_err("too many").retry_after(), None);
}
