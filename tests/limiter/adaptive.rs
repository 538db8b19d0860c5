//! Adaptive limits, in front of a simulated upstream: so many workers, a service time, and a
//! queue. Time is simulated, so every run is the same.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use tollgate::concurrency::adaptive::{
    AdaptiveBuilder, AdaptiveError, AdaptiveGuard, AdaptiveLimit, Aimd, Controller, Gradient,
    MinLatency,
};
use tollgate::{Clock, ManualClock, Tick};

const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLI;

/// An upstream. The k-th request to arrive is served by the worker that is free first.
struct Upstream {
    /// When each worker is free.
    free_at: BinaryHeap<Reverse<u64>>,
    /// The longest wait for a worker. A request that would wait longer fails at once.
    patience: u64,
}

impl Upstream {
    fn new(workers: usize) -> Self {
        Self { free_at: vec![Reverse(0); workers].into(), patience: u64::MAX }
    }

    /// When the answer comes, and whether it is a good one.
    fn serve(&mut self, now: u64, service: u64) -> (u64, bool) {
        let Reverse(free) = self.free_at.pop().expect("a worker");
        let start = free.max(now);
        if start - now > self.patience {
            self.free_at.push(Reverse(free));
            return (now + MILLI, false);
        }
        self.free_at.push(Reverse(start + service));
        (start + service, true)
    }
}

/// The measurements in a span of the simulation.
#[derive(Debug, Default)]
struct Seen {
    limit: f64,
    latency_millis: f64,
    served_per_second: f64,
    failed: u64,
    denied: u64,
    in_flight_max: u64,
}

struct Simulation {
    limit: AdaptiveLimit<ManualClock>,
    clock: ManualClock,
    upstream: Upstream,
    now: u64,
    random: u64,
}

impl Simulation {
    fn new(builder: AdaptiveBuilder, upstream: Upstream) -> Self {
        let clock = ManualClock::new();
        let limit = builder.clock(clock.clone()).build().expect("in range");
        Self { limit, clock, upstream, now: 0, random: 7 }
    }

    /// A number below `bound`.
    fn random(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % bound
    }

    /// Requests arrive at a rate for so many seconds; each takes about `service_millis`.
    fn run(&mut self, seconds: u64, per_second: u64, service_millis: u64) -> Seen {
        let Self { now: begin, .. } = *self;
        let end = begin + seconds * SECOND;
        let mut seen = Seen::default();
        let (mut latencies, mut limits, mut arrivals, mut served) = (0, 0, 0, 0_u64);
        let mut guards: Vec<Option<(AdaptiveGuard<'_, _>, u64, bool)>> = Vec::new();
        let mut ends: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
        let mut now = begin;
        // Drawn before the guards borrow the limit.
        let draw = |_| (self.random(2 * SECOND / per_second), self.random(service_millis * MILLI));
        let drawn: Vec<(u64, u64)> = (0..seconds * per_second * 2).map(draw).collect();
        let Self { limit, clock, upstream, .. } = self;
        for (gap, extra) in drawn {
            now += gap;
            if now >= end {
                break;
            }
            while let Some(&Reverse((at, index))) = ends.peek() {
                if at > now {
                    break;
                }
                ends.pop();
                let (guard, began, good) = guards[index].take().expect("ends once");
                clock.set(Tick::from_nanos(at));
                if good {
                    served += 1;
                    latencies += at - began;
                    guard.succeeded();
                } else {
                    seen.failed += 1;
                    guard.failed();
                }
            }
            clock.set(Tick::from_nanos(now));
            arrivals += 1;
            limits += limit.limit();
            match limit.enter() {
                Ok(guard) => {
                    // From 0.5 to 1.5 of the service time.
                    let service = service_millis * MILLI / 2 + extra;
                    let (at, good) = upstream.serve(now, service);
                    guards.push(Some((guard, now, good)));
                    ends.push(Reverse((at, guards.len() - 1)));
                    seen.in_flight_max = seen.in_flight_max.max(limit.in_flight());
                }
                Err(_) => seen.denied += 1,
            }
        }
        // The requests that are still under way end.
        while let Some(Reverse((at, index))) = ends.pop() {
            let (guard, _, good) = guards[index].take().expect("ends once");
            now = now.max(at);
            clock.set(Tick::from_nanos(at.max(end)));
            if good { guard.succeeded() } else { guard.failed() }
        }
        self.now = now.max(end);
        let float = |count: u64| f64::from(u32::try_from(count).expect("small"));
        seen.limit = float(limits) / float(arrivals);
        seen.latency_millis = float(latencies / MILLI) / float(served).max(1.0);
        seen.served_per_second = float(served) / float(seconds);
        seen
    }
}

fn builder(controller: impl Into<Controller>) -> AdaptiveBuilder {
    AdaptiveLimit::builder(controller).limits(3, 500)
}

/// 20 workers of 50 ms serve 400 a second; 600 a second arrive.
const WORKERS: usize = 20;
const SERVICE_MILLIS: u64 = 50;
const RATE: f64 = 400.0;

#[test]
fn under_overload_min_latency_settles_near_the_capacity_and_a_fixed_limit_queues() {
    let mut adaptive = Simulation::new(builder(MinLatency::new()), Upstream::new(WORKERS));
    adaptive.run(20, 600, SERVICE_MILLIS);
    let seen = adaptive.run(30, 600, SERVICE_MILLIS);
    println!("min latency: {seen:?}");
    // 1.25 c and a square root: 25 + 5. Little's law: a limit of 30 at 400 a second is 75 ms.
    assert!((22.0..=33.0).contains(&seen.limit), "{seen:?}");
    assert!(seen.latency_millis < 1.6 * 50.0, "{seen:?}");
    assert!(seen.served_per_second > 0.95 * RATE, "{seen:?}");

    // The control: the same upstream behind a limit that never moves.
    let fixed = AdaptiveLimit::builder(Aimd::new()).limits(200, 200);
    let mut fixed = Simulation::new(fixed, Upstream::new(WORKERS));
    fixed.run(20, 600, SERVICE_MILLIS);
    let queued = fixed.run(30, 600, SERVICE_MILLIS);
    println!("fixed at 200: {queued:?}");
    assert!(queued.latency_millis > 8.0 * 50.0, "{queued:?}");
    assert!(queued.served_per_second < 1.05 * seen.served_per_second, "{queued:?} {seen:?}");
}

#[test]
fn under_overload_a_gradient_keeps_the_latency_low_for_as_long_as_its_average() {
    let mut adaptive = Simulation::new(builder(Gradient::new()), Upstream::new(WORKERS));
    adaptive.run(10, 200, SERVICE_MILLIS); // knows the latency without a queue
    adaptive.run(10, 600, SERVICE_MILLIS);
    let seen = adaptive.run(20, 600, SERVICE_MILLIS);
    println!("gradient: {seen:?}");
    assert!(seen.limit < 60.0 && seen.latency_millis < 3.0 * 50.0, "{seen:?}");
    assert!(seen.served_per_second > 0.95 * RATE, "{seen:?}");
}

#[test]
fn aimd_finds_the_limit_at_which_an_upstream_begins_to_fail() {
    // A request that would wait for 50 ms fails: 20 are served and about 20 wait.
    let upstream = Upstream { patience: 50 * MILLI, ..Upstream::new(WORKERS) };
    let mut adaptive = Simulation::new(builder(Aimd::new()), upstream);
    adaptive.run(20, 600, SERVICE_MILLIS);
    let seen = adaptive.run(30, 600, SERVICE_MILLIS);
    println!("aimd: {seen:?}");
    assert!((25.0..=50.0).contains(&seen.limit), "{seen:?}");
    assert!(seen.served_per_second > 0.95 * RATE, "{seen:?}");
    let share = seen.failed * 100 / (30 * 400);
    assert!(share < 5, "{share} % failed: {seen:?}");

    let fixed = AdaptiveLimit::builder(Aimd::new()).limits(200, 200);
    let upstream = Upstream { patience: 50 * MILLI, ..Upstream::new(WORKERS) };
    let failed = Simulation::new(fixed, upstream).run(30, 600, SERVICE_MILLIS).failed;
    assert!(failed > 5 * seen.failed, "{failed} without a controller, and {}", seen.failed);
}

#[test]
fn an_upstream_that_becomes_slower_and_recovers_is_followed() {
    let every = MinLatency::new().measure_every(Duration::from_secs(20)).measure_samples(20);
    // A window is several times the slower latency.
    let builder = builder(every).window(Duration::from_millis(800));
    let mut adaptive = Simulation::new(builder, Upstream::new(WORKERS));
    adaptive.run(20, 600, 50);
    let slow = {
        adaptive.run(20, 600, 200);
        adaptive.run(20, 600, 200)
    };
    println!("slow: {slow:?}");
    // A quarter of the rate by as many workers: the limit is about the same, and the queue is short.
    assert!(slow.latency_millis < 2.0 * 200.0, "{slow:?}");
    assert!(slow.served_per_second > 0.8 * RATE / 4.0, "{slow:?}");
    adaptive.run(30, 600, 50);
    let recovered = adaptive.run(20, 600, 50);
    println!("recovered: {recovered:?}");
    assert!(recovered.latency_millis < 2.0 * 50.0, "{recovered:?}");
    assert!(recovered.served_per_second > 0.9 * RATE, "{recovered:?}");
}

#[test]
fn one_request_at_a_time_is_served_and_leaves_the_limit_alone() {
    for controller in
        [Aimd::new().into(), Gradient::new().into(), Controller::from(MinLatency::new())]
    {
        let mut adaptive = Simulation::new(builder(controller).initial(40), Upstream::new(WORKERS));
        let seen = adaptive.run(120, 2, SERVICE_MILLIS);
        assert_eq!(seen.denied, 0, "{controller:?}");
        let last = adaptive.limit.limit();
        assert!(last == 3 || last >= 35, "{controller:?}: {last}");
        assert!(last <= 40, "{controller:?}: grows without load to {last}");
    }
}

#[test]
fn requests_in_flight_never_exceed_the_range_and_the_guards_report_once() {
    for controller in
        [Aimd::new().into(), Gradient::new().into(), Controller::from(MinLatency::new())]
    {
        let mut adaptive =
            Simulation::new(AdaptiveLimit::builder(controller).limits(2, 30), Upstream::new(5));
        let seen = adaptive.run(60, 500, 40);
        assert!(seen.in_flight_max <= 30, "{controller:?}: {seen:?}");
        assert_eq!(adaptive.limit.in_flight(), 0);
        assert!((2..=30).contains(&adaptive.limit.limit()));
    }
}

#[test]
fn each_end_of_a_guard_is_counted_as_what_it_is() {
    let clock = ManualClock::new();
    let limit = AdaptiveLimit::builder(Aimd::new())
        .window(Duration::from_secs(1))
        .min_samples(1)
        .clock(clock.clone())
        .build()
        .expect("in range");
    let samples = || limit.reading().expect("no thread steps").samples;
    let enter = || {
        let guards: Vec<_> = (0..10).map(|_| limit.enter().expect("room")).collect();
        clock.advance(Duration::from_secs(1));
        guards
    };
    assert_eq!(limit.limit(), 20);
    // Of ten requests the first to end, which began last, ends the window; the others are in the next.
    enter().into_iter().rev().for_each(AdaptiveGuard::ignored);
    assert_eq!((limit.limit(), samples()), (20, 0));
    enter().into_iter().rev().for_each(AdaptiveGuard::succeeded);
    assert_eq!((limit.limit(), samples()), (21, 1));
    enter().into_iter().rev().for_each(AdaptiveGuard::failed);
    assert_eq!((limit.limit(), samples()), (18, 11), "nine good ones, and one of ten that failed");
    clock.advance(Duration::from_secs(1));
    drop(limit.enter().expect("room"));
    assert_eq!((limit.limit(), samples()), (17, 21), "nine that failed, and one that was dropped");
    assert_eq!(limit.in_flight(), 0);
}

#[test]
fn the_latency_of_a_guard_that_is_restarted_begins_there() {
    let clock = ManualClock::new();
    let limit = AdaptiveLimit::builder(Aimd::new().max_latency(Duration::from_millis(100)))
        .limits(1, 20)
        .initial(2)
        .min_samples(1)
        .clock(clock.clone())
        .build()
        .expect("in range");
    let mut guard = limit.enter().expect("room");
    clock.advance(Duration::from_secs(1));
    assert_eq!(limit.in_flight(), 1);
    guard.restart_at(clock.now());
    clock.advance(Duration::from_millis(20));
    guard.succeeded();
    assert_eq!(limit.limit(), 3, "20 ms are not slow");
}

/// A limit of ten that has measured a latency of 10 ms, and is due to measure again.
fn measured(clock: &ManualClock) -> AdaptiveLimit<ManualClock> {
    let controller = MinLatency::new().measure_every(Duration::from_secs(1)).measure_samples(2);
    let limit = AdaptiveLimit::builder(controller)
        .limits(1, 20)
        .initial(10)
        .min_samples(1)
        .window(Duration::from_millis(1))
        .clock(clock.clone())
        .build()
        .expect("in range");
    for _ in 0..2 {
        let guard = limit.enter().expect("room");
        clock.advance(Duration::from_millis(10));
        guard.succeeded();
    }
    assert_eq!((measures(&limit), baseline_millis(&limit)), (false, 10));
    clock.advance(Duration::from_secs(2));
    limit
}

fn measures(limit: &AdaptiveLimit<ManualClock>) -> bool {
    limit.reading().expect("no thread steps").is_measuring
}

/// The latency that was measured last, to the nearest millisecond: a state holds it in units.
fn baseline_millis(limit: &AdaptiveLimit<ManualClock>) -> u128 {
    let baseline = limit.reading().expect("no thread steps").baseline.expect("measured");
    (baseline.as_micros() + 500) / 1_000
}

/// As where a body streams for seconds after the head of the response.
#[test]
fn a_measurement_that_a_late_report_begins_leaves_out_the_requests_that_began_before_the_report() {
    let clock = ManualClock::new();
    let limit = measured(&clock);
    let streamed = limit.enter().expect("room");
    clock.advance(Duration::from_millis(10));
    let answered = clock.now();
    clock.advance(Duration::from_secs(5));
    let under_load: Vec<_> = (0..5).map(|_| limit.enter().expect("room")).collect();
    clock.advance(Duration::from_millis(100));
    streamed.succeeded_at(answered);
    assert!(measures(&limit));
    clock.advance(Duration::from_millis(100));
    under_load.into_iter().for_each(AdaptiveGuard::succeeded);
    assert!(measures(&limit), "they began before the measurement");
    for _ in 0..2 {
        let guard = limit.enter().expect("room");
        clock.advance(Duration::from_millis(20));
        guard.succeeded_at(clock.now());
        clock.advance(Duration::from_secs(1));
    }
    assert_eq!((measures(&limit), baseline_millis(&limit)), (false, 20));
}

#[test]
fn a_measurement_leaves_out_the_requests_that_entered_before_it_and_were_restarted_after() {
    let clock = ManualClock::new();
    let limit = measured(&clock);
    let mut waiting: Vec<_> = (0..5).map(|_| limit.enter().expect("room")).collect();
    clock.advance(Duration::from_millis(1));
    limit.enter().expect("room").succeeded();
    assert!(measures(&limit));
    clock.advance(Duration::from_millis(50));
    waiting.iter_mut().for_each(|guard| guard.restart_at(clock.now()));
    clock.advance(Duration::from_millis(200));
    waiting.into_iter().for_each(AdaptiveGuard::succeeded);
    assert_eq!((measures(&limit), baseline_millis(&limit)), (true, 10));
}

/// A caller's instant may be ahead of the clock.
#[test]
fn a_window_ends_at_the_latest_instant_that_is_known() {
    let clock = ManualClock::new();
    let limit = measured(&clock);
    let guard = limit.enter_at(clock.now()).expect("room");
    guard.succeeded_at(clock.now().saturating_add(Duration::from_secs(9)));
    assert!(measures(&limit));
    limit.enter().expect("room").failed();
    assert!(measures(&limit), "it began before the measurement");
}

#[test]
fn lost_guards_expire() {
    let clock = ManualClock::new();
    let limit = AdaptiveLimit::builder(Aimd::new())
        .limits(1, 1)
        .max_hold(Duration::from_secs(60))
        .clock(clock.clone())
        .build()
        .expect("in range");
    std::mem::forget(limit.enter().expect("room"));
    assert!(limit.enter().is_err());
    clock.advance(Duration::from_secs(120));
    assert!(limit.enter().is_ok());
}

#[test]
fn choices_out_of_range_are_errors_that_say_what_to_do() {
    let text = |builder: AdaptiveBuilder| builder.build().expect_err("out of range").to_string();
    let begun = || AdaptiveLimit::builder(Aimd::new());
    assert_eq!(text(begun().limits(0, 8)), "the smallest limit must be 1 at least");
    assert_eq!(
        text(begun().limits(9, 8)),
        "the smallest limit, 9, is above the largest, 8: swap them"
    );
    assert_eq!(
        text(begun().initial(2_000)),
        "the first limit, 2000, must be 3 to 1000: change it or limits"
    );
    assert_eq!(text(begun().window(Duration::ZERO)), "window must be 1 ms to 60 s");
    assert_eq!(text(begun().min_samples(0)), "min_samples must be 1 to 1,000");
    assert_eq!(
        text(AdaptiveLimit::builder(Aimd::new().increase(0))),
        "a controller's increase must be 1 to 1,000"
    );
    assert!(text(begun().limits(1, 5_000_000)).contains("4194303"));
    let long = begun().limits(1, 70_000).max_hold(Duration::from_secs(60));
    assert!(matches!(long.build(), Err(AdaptiveError::Concurrency(_))));
}
