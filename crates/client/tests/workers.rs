//! Eight workers that know nothing of one another share a quota that they are not told. They use more than
//! 90 % of it, under 1 % of their requests are denied, and their shares are even (Jain's index above 0.95).
//!
//! Time is tokio's, paused: minutes pass in moments, and a seed repeats a run exactly.

#![allow(clippy::disallowed_types, reason = "tokio's clock is the clock here")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use http::{HeaderValue, Response};
use tokio::time::{Instant, sleep};
use tollgate::{AnyAlgorithm, Clock, Direct, FixedWindow, Gcra, Quota, SlidingLog, Tick};
use tollgate_client::{Pacer, Settings};

const WORKERS: usize = 8;
/// The rates settle in this time: in windows of ten seconds, a denial tells less often.
const WARM_UP: Duration = Duration::from_secs(120);
const WARM_UP_IN_LONG_WINDOWS: Duration = Duration::from_secs(400);
/// The span that is measured.
const SPAN: Duration = Duration::from_secs(300);

struct Paused(Instant);

impl Clock for Paused {
    fn now(&self) -> Tick {
        Tick::from_duration(self.0.elapsed())
    }
}

/// The fields that responses have.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shows {
    Nothing,
    /// `RateLimit`.
    Left,
    /// `RateLimit` and `RateLimit-Policy`: all workers know the quota, and not how many share it.
    LeftAndPolicy,
}

/// A server with a hidden quota.
struct Server {
    limiter: Direct<AnyAlgorithm, Paused>,
    quota: Quota,
    shows: Shows,
    admitted: RefCell<[u64; WORKERS]>,
    denied: Cell<u64>,
}

impl Server {
    fn answer(&self, worker: usize) -> Response<()> {
        let mut response = Response::new(());
        let secs = |span: Duration| span.as_secs() + u64::from(span.subsec_nanos() > 0);
        let (left, reset) = match self.limiter.check() {
            Ok(permit) => {
                self.admitted.borrow_mut()[worker] += 1;
                (permit.remaining(), secs(permit.reset_after()))
            }
            Err(denied) => {
                self.denied.set(self.denied.get() + 1);
                let wait = secs(denied.retry_after().expect("it fits")).max(1);
                *response.status_mut() = http::StatusCode::TOO_MANY_REQUESTS;
                response.headers_mut().insert("retry-after", HeaderValue::from(wait));
                (denied.remaining(), wait)
            }
        };
        if self.shows != Shows::Nothing {
            let field = format!("\"hidden\";r={left};t={reset}");
            response.headers_mut().insert("ratelimit", field.parse().expect("ASCII"));
        }
        if self.shows == Shows::LeftAndPolicy {
            let (limit, period) = (self.quota.limit(), self.quota.period());
            let field = format!("\"hidden\";q={limit};w={}", period.as_secs());
            response.headers_mut().insert("ratelimit-policy", field.parse().expect("ASCII"));
        }
        response
    }

    /// Admitted of each worker and denied so far.
    fn counts(&self) -> ([u64; WORKERS], u64) {
        (*self.admitted.borrow(), self.denied.get())
    }
}

/// A generator of numbers: splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// Sends requests for ever, each when its turn comes.
async fn work(server: Rc<Server>, worker: usize, seed: u64, initial: f64) {
    let mut random = Random(seed * 1_000 + worker as u64);
    // Workers do not begin at the same moment.
    sleep(Duration::from_millis(random.below(3_000))).await;
    let pacer = Rc::new(Pacer::new(Settings::new(initial)).expect("in range"));
    // Several requests may be under way at once, so that the latency does not bound the rate.
    for lane in 0..8 {
        let (pacer, server) = (Rc::clone(&pacer), Rc::clone(&server));
        let mut random = Random(random.below(1 << 40) + lane);
        tokio::task::spawn_local(async move {
            loop {
                let Ok(turn) = pacer.turn().await else { continue };
                sleep(Duration::from_millis(1 + random.below(10))).await;
                let (head, ()) = server.answer(worker).into_parts();
                sleep(Duration::from_millis(1 + random.below(10))).await;
                turn.answered(&head);
            }
        });
    }
}

#[derive(Debug)]
struct Outcome {
    used_percent: f64,
    denied_percent: f64,
    jain: f64,
}

fn float(count: u64) -> f64 {
    f64::from(u32::try_from(count).expect("small"))
}

fn paused() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime")
}

/// Runs so many workers, each of which begins with a part of its share of the quota.
fn run(algorithm: AnyAlgorithm, quota: Quota, shows: Shows, workers: usize, seed: u64) -> Outcome {
    let runtime = paused();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let built = Direct::builder(quota).algorithm(algorithm).clock(Paused(Instant::now()));
        let server = Rc::new(Server {
            limiter: built.build().expect("in range"),
            quota,
            shows,
            admitted: RefCell::default(),
            denied: Cell::new(0),
        });
        let per_second = float(quota.limit()) / quota.period().as_secs_f64();
        for worker in 0..workers {
            // A quarter of its share: the workers do not know the quota.
            let initial = per_second / float(workers as u64) / 4.0;
            tokio::task::spawn_local(work(Rc::clone(&server), worker, seed, initial));
        }
        let is_long = quota.period() > Duration::from_secs(1);
        sleep(if is_long { WARM_UP_IN_LONG_WINDOWS } else { WARM_UP }).await;
        let (before, denied_before) = server.counts();
        sleep(SPAN).await;
        let (after, denied) = server.counts();
        let shares: Vec<f64> =
            after.iter().zip(before).map(|(after, before)| float(after - before)).collect();
        let admitted: f64 = shares.iter().sum();
        let denied = float(denied - denied_before);
        let squares: f64 = shares.iter().map(|share| share * share).sum();
        Outcome {
            used_percent: 100.0 * admitted / (per_second * SPAN.as_secs_f64()),
            denied_percent: 100.0 * denied / (admitted + denied),
            jain: admitted * admitted / (float(workers as u64) * squares),
        }
    })
}

fn assert_good(name: &str, algorithm: &AnyAlgorithm, quota: Quota, shows: Shows, seeds: u64) {
    for seed in 1..=seeds {
        let outcome = run(*algorithm, quota, shows, WORKERS, seed);
        println!(
            "{name}, {quota}, seed {seed}: {:.1} % used, {:.2} % denied, Jain {:.3}",
            outcome.used_percent, outcome.denied_percent, outcome.jain
        );
        assert!(outcome.used_percent > 90.0, "{name} {seed}: {outcome:?}");
        assert!(outcome.denied_percent < 1.0, "{name} {seed}: {outcome:?}");
        assert!(outcome.jain > 0.95, "{name} {seed}: {outcome:?}");
    }
}

#[test]
fn workers_share_a_hidden_token_bucket() {
    let bucket = AnyAlgorithm::from(Gcra::new());
    for (rate, burst, seeds) in [(80, 20, 3), (200, 50, 1), (800, 100, 1)] {
        assert_good("bucket", &bucket, Quota::per_second(rate).burst(burst), Shows::Nothing, seeds);
    }
}

#[test]
fn workers_share_a_hidden_token_bucket_that_shows_what_is_left() {
    let bucket = AnyAlgorithm::from(Gcra::new());
    let quota = Quota::per_second(200).burst(50);
    assert_good("bucket with fields", &bucket, quota, Shows::Left, 2);
    assert_good("bucket with policy", &bucket, quota, Shows::LeftAndPolicy, 1);
}

/// Each admission leaves nothing, for a time of less than a second that the field rounds up to one. A worker that
/// obeys it sends one request a second, at any rate of the quota from 1/s on.
#[test]
fn a_worker_sends_a_request_a_second_to_a_bucket_of_one_that_shows_what_is_left() {
    for (rate, shows) in [1, 10, 100]
        .into_iter()
        .flat_map(|rate| [(rate, Shows::Left), (rate, Shows::LeftAndPolicy)])
    {
        let quota = Quota::per_second(rate).burst(1);
        let outcome = run(AnyAlgorithm::from(Gcra::new()), quota, shows, 1, 1);
        let used_percent = outcome.used_percent * float(rate);
        println!("{quota}, {shows:?}: {used_percent:.1} % of a request a second, {outcome:?}");
        assert!(used_percent > 95.0, "{quota} {shows:?}: {outcome:?}");
        assert!(outcome.denied_percent < 1.0, "{quota} {shows:?}: {outcome:?}");
    }
}

#[test]
fn workers_share_a_hidden_window() {
    let window = AnyAlgorithm::from(FixedWindow::aligned());
    assert_good("window", &window, Quota::new(2_000, Duration::from_secs(10)), Shows::Nothing, 2);
}

#[test]
fn workers_share_a_hidden_log() {
    let log = AnyAlgorithm::from(SlidingLog::new());
    assert_good("log", &log, Quota::per_second(200), Shows::Nothing, 2);
}

/// The control: without a pacer that learns, the quota is used and most requests are denied.
#[test]
fn workers_that_do_not_learn_are_denied() {
    paused().block_on(async {
        let quota = Quota::per_second(400).burst(100);
        let built = Direct::builder(quota)
            .algorithm(AnyAlgorithm::from(Gcra::new()))
            .clock(Paused(Instant::now()));
        let server = Server {
            limiter: built.build().expect("in range"),
            quota,
            shows: Shows::Nothing,
            admitted: RefCell::default(),
            denied: Cell::new(0),
        };
        for _ in 0..100_000 {
            sleep(Duration::from_millis(1)).await;
            server.answer(0);
        }
        let (admitted, denied) = server.counts();
        assert!(denied * 100 > 50 * (admitted[0] + denied), "{admitted:?} {denied}");
    });
}
