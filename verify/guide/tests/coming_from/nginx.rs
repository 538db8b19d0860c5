//! The arithmetic of nginx's `limit_req`. A real nginx decides beside the proxy in
//! `crates/cli/tests/clients/peers.rs`.

use std::cell::Cell;
use std::time::Duration;

use tollgate::limiter::SlotLayout;
use tollgate::{LeakyQueue, Quota};

use crate::traces::{
    Draw, MILLISECOND, Ours, Request, Seen, TRACES, cells_in_unit,
    differs_only_where_a_cell_comes_back, some_traces_differ, time_unit, trace,
};

/// `limit_req zone=... burst=BURST delay=DELAY`. All numbers are in thousandths of a request.
struct LimitReq {
    rate: i64,
    burst: i64,
    /// `None` for `nodelay`.
    delay: Option<i64>,
    /// How far the key is over its rate, and when that was noted, in milliseconds.
    state: Option<(i64, i64)>,
}

impl LimitReq {
    fn per_second(rate: u64, burst: u64, delay: Option<u64>) -> Self {
        Self::kept_as(1_000 * rate, burst, delay)
    }

    /// Rates by the minute lose what is below a thousandth of a request a second.
    fn per_minute(rate: u64, burst: u64) -> Self {
        Self::kept_as(1_000 * rate / 60, burst, None)
    }

    fn kept_as(rate: u64, burst: u64, delay: Option<u64>) -> Self {
        let signed = |number: u64| i64::try_from(number).expect("a small number");
        let delay = delay.map(|requests| signed(1_000 * requests));
        Self { rate: signed(rate), burst: signed(1_000 * burst), delay, state: None }
    }

    /// The milliseconds that a request waits, or `None` if it is denied.
    fn decide(&mut self, now_ms: u64) -> Option<u64> {
        let now = i64::try_from(now_ms).expect("a short trace");
        let excess = match self.state {
            // The first request of a key is on time.
            None => 0,
            Some((excess, noted)) => {
                let drained = self.rate * (now - noted) / 1_000;
                (excess - drained + 1_000).max(0)
            }
        };
        if excess > self.burst {
            return None;
        }
        self.state = Some((excess, now));
        let beyond = self.delay.map_or(0, |free| (excess - free).max(0));
        Some(u64::try_from(beyond * 1_000 / self.rate).expect("not negative"))
    }
}

fn at_ms(request: Request) -> u64 {
    request.at / MILLISECOND
}

/// Which requests are admitted, and how many whole milliseconds each waits.
#[test]
fn decisions_and_delays_are_equal_for_rates_by_the_second() {
    let (mut draw, mut seen, mut delayed) = (Draw::new(3), Seen::default(), 0);
    for _ in 0..TRACES {
        // Their interval is a whole number of the library's time units.
        let rate = draw.one_of(&[1, 2, 4, 5, 8, 10, 16, 20, 25, 40, 50, 100, 200]);
        let burst = draw.between(0, 12);
        let delay = draw.one_of(&[None, Some(0), Some(0), Some(3), Some(7)]);
        let quota = Quota::per_second(rate).burst(burst + 1);
        let immediate = delay.map_or(u64::MAX, |requests| requests + 1);
        let algorithm = LeakyQueue::new().immediate(immediate);
        let gate = Ours::new(SlotLayout::Wide, quota, algorithm);
        let mut theirs = LimitReq::per_second(rate, burst, delay);
        for request in trace(&mut draw, quota, MILLISECOND, 1) {
            let (answer, waits) = (gate.check(request), theirs.decide(at_ms(request)));
            seen.alike(answer.is_ok(), waits.is_some(), (quota, delay, request));
            let Ok(permit) = answer else { continue };
            assert_eq!(
                Some(permit.delay().as_millis()),
                waits.map(u128::from),
                "{quota}, {request:?}"
            );
            delayed += u64::from(!permit.delay().is_zero());
        }
    }
    assert!(delayed > TRACES, "only {delayed} requests were delayed");
}

/// Compact slots: decisions differ only where a request comes back, and delays by less than a time unit (and
/// the part of a millisecond that nginx drops).
#[test]
fn in_compact_slots_decisions_and_delays_differ_by_less_than_a_time_unit() {
    let slots = SlotLayout::Compact;
    let (mut draw, mut differences, mut delayed) = (Draw::new(15), 0, 0);
    for _ in 0..TRACES {
        let (rate, burst) = (draw.between(1, 300), draw.between(0, 12));
        let delay = draw.one_of(&[None, Some(0), Some(0), Some(3), Some(7)]);
        let quota = Quota::per_second(rate).burst(burst + 1);
        let (units, nanos) = time_unit(quota, slots);
        let unit = Duration::from_nanos(nanos.div_ceil(units));
        let immediate = delay.map_or(u64::MAX, |requests| requests + 1);
        let gate = Ours::new(slots, quota, LeakyQueue::new().immediate(immediate));
        let mut theirs = LimitReq::per_second(rate, burst, delay);
        let requests = trace(&mut draw, quota, MILLISECOND, 1);
        let ours = Cell::new(None);
        let differs = differs_only_where_a_cell_comes_back(
            quota,
            &requests,
            cells_in_unit(quota, slots),
            |request| {
                ours.set(gate.check(request).ok().map(|permit| permit.delay()));
                ours.get().is_some()
            },
            |request| {
                let theirs = theirs.decide(at_ms(request)).map(Duration::from_millis);
                if let (Some(ours), Some(theirs)) = (ours.get(), theirs) {
                    let least = theirs.saturating_sub(unit);
                    let most = theirs + Duration::from_millis(1) + unit;
                    assert!((least..most).contains(&ours), "{quota}: {ours:?}, {theirs:?}");
                    delayed += u64::from(!ours.is_zero());
                }
                theirs.is_some()
            },
        );
        differences += u64::from(differs);
    }
    println!("nginx, {slots:?}: {differences} of {TRACES} traces have a difference");
    assert!(differences > 0, "the page says that there are differences");
    assert!(delayed > TRACES, "only {delayed} requests were delayed");
}

/// nginx keeps `100r/m` as 1.666 requests a second. With that quota, decisions differ only where a
/// request comes back, by a time unit and the thousandth of a request that nginx may drop with each one.
#[test]
fn rates_by_the_minute_are_kept_in_thousandths_of_a_request_a_second() {
    some_traces_differ("nginx", 4, |draw, slots| {
        let (rate, burst) = (draw.between(1, 300), draw.between(0, 12));
        let kept = 1_000 * rate / 60;
        let quota = Quota::new(kept, Duration::from_secs(1_000)).burst(burst + 1);
        let requests = trace(draw, quota, MILLISECOND, 1);
        let gate = Ours::new(slots, quota, LeakyQueue::new().immediate(u64::MAX));
        let mut theirs = LimitReq::per_minute(rate, burst);
        differs_only_where_a_cell_comes_back(
            quota,
            &requests,
            cells_in_unit(quota, slots) + requests.len() as f64 / 1_000.0,
            |request| gate.admits(request),
            |request| theirs.decide(at_ms(request)).is_some(),
        )
    });
}

/// The page's figure: `1r/m` is one request in 62.5 s there, and one in 60 s here.
#[test]
fn one_request_a_minute_is_one_in_62_and_a_half_seconds_in_nginx() {
    let quota = Quota::per_minute(1);
    let gate = Ours::new(SlotLayout::Wide, quota, LeakyQueue::new().immediate(u64::MAX));
    let mut theirs = LimitReq::per_minute(1, 0);
    let ours = |at_ms| gate.admits(Request { at: at_ms * MILLISECOND, cells: 1 });
    assert!(ours(0) && theirs.decide(0).is_some());
    assert!(theirs.decide(60_000).is_none() && ours(60_000));
    assert!(theirs.decide(62_499).is_none() && theirs.decide(62_500).is_some());
}
