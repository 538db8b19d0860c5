//! How many calls decisions cost, and which part of an exact limiter's admissions is admitted.

use super::*;
use crate::sync::RelaxedCounter;

/// A load on several processes.
#[derive(Clone, Copy, Debug)]
struct Load {
    rate: u64,
    burst: u64,
    lifetime_nanos: u64,
    /// The requests, as a multiple of the rate.
    times: f64,
    processes: u64,
    seconds: u64,
    max_pause: Duration,
}

const MAX_PAUSE: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    decisions: u64,
    calls: u64,
    admitted: u64,
    exact: u64,
    lapsed: u64,
}

#[allow(clippy::cast_precision_loss, reason = "counts")]
impl Measured {
    fn calls_each(&self) -> f64 {
        self.calls as f64 / self.decisions as f64
    }

    fn of_exact(&self) -> f64 {
        self.admitted as f64 / self.exact as f64
    }
}

/// The counts of all processes together.
#[derive(Debug)]
struct Tally {
    admitted: RelaxedCounter,
    exact: Mutex<(Exact, u64)>,
}

/// Measures one key or several. `key` draws the key of a request.
fn measure(
    load: Load,
    seed: u64,
    key: impl Fn(&mut Rng) -> u64 + Copy + Send + 'static,
) -> Measured {
    simulate(async move {
        let server = Arc::new(SimulatedServer::new(load.rate, load.burst, load.lifetime_nanos));
        let link = Link::good(100 * MICRO..600 * MICRO);
        let real = Local::real();
        let exact = Mutex::new((Exact::new(load.rate, load.burst), 0));
        let tally = Arc::new(Tally { admitted: RelaxedCounter::default(), exact });
        let tasks: Vec<_> = (0..load.processes)
            .map(|index| {
                let seed = seed.wrapping_mul(1_000).wrapping_add(index);
                let remote = SimulatedSource::new(&server, &link, real, seed ^ 0xabcd);
                let leased = Leased::builder(remote).clock(real);
                let leased = leased.max_pause(load.max_pause).build().expect("in range");
                let rng = Rng::new(seed);
                let task = process(load, leased.clone(), real, Arc::clone(&tally), rng, key);
                (leased, tokio::spawn(task))
            })
            .collect();
        let mut measured = Measured::default();
        for (leased, task) in tasks {
            task.await.expect("no panic");
            sleep(SECOND).await;
            let stats = leased.stats();
            measured.decisions += stats.decisions();
            measured.calls += stats.calls;
            measured.lapsed += stats.cells_lapsed;
        }
        measured.admitted = tally.admitted.read();
        measured.exact = tally.exact.lock().unwrap_or_else(PoisonError::into_inner).1;
        measured
    })
}

async fn process(
    load: Load,
    leased: Leased<SimulatedSource, Local>,
    real: Local,
    tally: Arc<Tally>,
    mut rng: Rng,
    key: impl Fn(&mut Rng) -> u64,
) {
    #[allow(clippy::cast_precision_loss, reason = "small")]
    let pace = load.times * load.rate as f64 / load.processes as f64;
    let mut next = 0;
    while next < load.seconds * SECOND {
        next += rng.gap(pace);
        sleep(next.saturating_sub(real.nanos())).await;
        let key = key(&mut rng).to_be_bytes();
        {
            let mut exact = tally.exact.lock().unwrap_or_else(PoisonError::into_inner);
            exact.1 += exact.0.take(&key, LeaseRequest { min: 1, max: 1 }, real.nanos()).0;
        }
        if let Some(answer) = leased.try_check(&key, 1) {
            tally.admitted.add(u64::from(answer.decision.is_ok()));
            continue;
        }
        let (leased, tally) = (leased.clone(), Arc::clone(&tally));
        tokio::spawn(async move {
            let answer = leased.check_n(&key, 1).await.expect("the link is good");
            tally.admitted.add(u64::from(answer.decision.is_ok()));
        });
    }
}

fn hot_key(rate: u64, burst: u64, lifetime_millis: u64, times: f64, seconds: u64) -> Measured {
    let lifetime_nanos = lifetime_millis * MILLI;
    let load =
        Load { rate, burst, lifetime_nanos, times, processes: 8, seconds, max_pause: MAX_PAUSE };
    let measured = measure(load, rate, |_| 7);
    println!(
        "{load:?}: {:.3} calls each, {:.4} of exact",
        measured.calls_each(),
        measured.of_exact()
    );
    measured
}

/// If a process is asked for 10 cells or more in a lifetime, a call serves several decisions. The
/// one-off loss is what the burst is lowered by.
#[test]
fn at_twice_the_limit_over_eight_processes_a_decision_costs_a_quarter_of_a_call() {
    let loads = [(100, 200, 1_000, 120), (1_000, 200, 100, 60), (10_000, 200, 10, 20)];
    for (rate, burst, lifetime, seconds) in loads {
        let measured = hot_key(rate, burst, lifetime, 2.0, seconds);
        assert!(measured.calls_each() <= 0.25, "{measured:?}");
        assert!(measured.of_exact() >= 0.99, "{measured:?}");
    }
    let measured = hot_key(10_000, 2_000, 100, 2.0, 20);
    assert!(measured.calls_each() <= 0.05 && measured.of_exact() >= 0.99, "{measured:?}");
}

#[test]
fn below_the_limit_almost_no_request_is_denied() {
    for (rate, burst, lifetime, seconds) in [(100, 200, 1_000, 60), (1_000, 200, 100, 20)] {
        let measured = hot_key(rate, burst, lifetime, 0.9, seconds);
        assert!(measured.of_exact() >= 0.999, "{measured:?}");
        assert!(measured.calls_each() <= 0.25, "{measured:?}");
    }
}

/// Shows the use of pauses that double.
#[test]
fn with_pauses_that_do_not_grow_a_decision_costs_more_calls() {
    let lifetime_nanos = 100 * MILLI;
    let load = |pause| Load {
        rate: 1_000,
        burst: 200,
        lifetime_nanos,
        times: 2.0,
        processes: 8,
        seconds: 20,
        max_pause: Duration::from_millis(pause),
    };
    let [short, long] = [10, 250].map(|pause| measure(load(pause), 1, |_| 7).calls_each());
    println!("pauses of 10 ms: {short:.3} calls each, growing: {long:.3}");
    assert!(short > 1.5 * long, "{short} and {long}");
}

/// Leases do not help here: a process is asked for 2 or 3 cells in a lifetime, and each costs a
/// call.
#[test]
fn a_lifetime_too_short_for_the_rate_saves_little() {
    let measured = hot_key(100, 20, 100, 2.0, 60);
    assert!(measured.calls_each() > 0.5, "{measured:?}");
    assert!(measured.of_exact() >= 0.98, "{measured:?}");
}

/// 100 keys by Zipf's law. The first three are above their limit; the last ones are asked for 5
/// times a second in a process.
#[test]
fn many_keys_of_which_few_are_hot() {
    let load = Load {
        rate: 1_000,
        burst: 200,
        lifetime_nanos: 100 * MILLI,
        times: 20.0,
        processes: 8,
        seconds: 10,
        max_pause: MAX_PAUSE,
    };
    let weights: f64 = (1..=100).map(|place| 1.0 / f64::from(place)).sum();
    let measured = measure(load, 3, move |rng| {
        let mut left = rng.share() * weights;
        (1..100_u32)
            .find(|&place| {
                left -= 1.0 / f64::from(place);
                left <= 0.0
            })
            .unwrap_or(100)
            .into()
    });
    println!("many keys: {:.3} calls each, {:.4}", measured.calls_each(), measured.of_exact());
    assert!(measured.calls_each() <= 0.5, "{measured:?}");
    assert!(measured.of_exact() >= 0.99, "{measured:?}");
}
