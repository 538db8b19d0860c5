//! Many tasks that ask for one key at once, with leases that are small compared with what they
//! spend.

use super::*;
use crate::sync::RelaxedCounter;

/// A crowd of tasks, and the source that it uses.
#[derive(Clone, Copy, Debug)]
struct Crowd {
    tasks: u64,
    /// The time between two requests of a task.
    gap_nanos: u64,
    span_nanos: u64,
    rate: u64,
    burst: u64,
    /// Cells of a lease.
    max_lease: u64,
    /// The largest latency of a message.
    latency_nanos: u64,
}

/// The result of a run.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    admitted: u64,
    denied: u64,
    stats: LeaseStats,
    max_in_flight: u64,
}

/// A source that counts calls in flight.
struct Counted {
    remote: SimulatedSource,
    in_flight: Arc<RelaxedCounter>,
    max_in_flight: Arc<RelaxedCounter>,
}

impl LeaseSource for Counted {
    async fn take(&self, key: &[u8], want: LeaseRequest) -> Result<Grant, Unavailable> {
        let in_flight = self.in_flight.add(1) + 1;
        self.max_in_flight.set(self.max_in_flight.read().max(in_flight));
        let grant = self.remote.take(key, want).await;
        self.in_flight.subtract(1);
        grant
    }
}

/// Leases live for 100 ms.
fn play(crowd: Crowd) -> Outcome {
    simulate(async move {
        let server = Arc::new(SimulatedServer::new(crowd.rate, crowd.burst, 100 * MILLI));
        let real = Local::real();
        let latency = crowd.latency_nanos.min(MILLI)..crowd.latency_nanos + 1;
        let remote = SimulatedSource::new(&server, &Link::good(latency), real, 1);
        let max = Arc::new(RelaxedCounter::default());
        let source = Counted { remote, in_flight: Arc::default(), max_in_flight: Arc::clone(&max) };
        let leased = Leased::builder(source)
            .clock(real)
            .max_lease(crowd.max_lease)
            .build()
            .expect("in range");
        let tasks: Vec<_> = (0..crowd.tasks)
            .map(|task| tokio::spawn(ask(leased.clone(), real, crowd, Rng::new(task))))
            .collect();
        let (mut admitted, mut denied) = (0, 0);
        for task in tasks {
            let (more, fewer) = task.await.expect("no panic");
            (admitted, denied) = (admitted + more, denied + fewer);
        }
        Outcome { admitted, denied, stats: leased.stats(), max_in_flight: max.read() }
    })
}

async fn ask(
    leased: Leased<Counted, Local>,
    real: Local,
    crowd: Crowd,
    mut rng: Rng,
) -> (u64, u64) {
    let (mut admitted, mut denied) = (0, 0);
    while real.nanos() < crowd.span_nanos {
        match leased.check(b"key").await.expect("the link is good").decision {
            Ok(_) => admitted += 1,
            Err(_) => denied += 1,
        }
        sleep(rng.within(1..2 * crowd.gap_nanos)).await;
    }
    (admitted, denied)
}

const PLENTY: Crowd = Crowd {
    tasks: 64,
    gap_nanos: 100 * MICRO,
    span_nanos: 200 * MILLI,
    rate: 1_000_000,
    burst: 1_000_000,
    max_lease: 10,
    latency_nanos: MILLI,
};

/// One call at a time would bring 5,000 cells a second, of 640,000 that are asked for.
#[test]
fn several_calls_are_in_flight_if_one_brings_too_little() {
    let found = play(PLENTY);
    println!("{found:?}");
    assert!(found.admitted > 30 * 1_000, "{found:?}");
    assert!((32..=256).contains(&found.max_in_flight), "{found:?}");
    assert_eq!(found.denied, 0, "the quota has room: {found:?}");
    assert!(found.stats.cells_taken <= 10 * found.stats.calls, "10 each: {found:?}");
}

/// A late reply now and then must not make requests wait: cells are fetched early enough.
#[test]
fn cells_arrive_before_they_are_needed_despite_uneven_round_trips() {
    let crowd = Crowd { tasks: 1, gap_nanos: 200 * MICRO, span_nanos: 2 * SECOND, ..PLENTY };
    for max_lease in [20, 50, 1_000] {
        let found = play(Crowd { max_lease, latency_nanos: 5 * MILLI, ..crowd });
        println!("{found:?}");
        let LeaseStats { calls, prefetches, from_lease, .. } = found.stats;
        assert!(found.denied == 0 && from_lease > 9_000, "{found:?}");
        assert!((calls - prefetches) * 20 <= calls, "waited for: {found:?}");
    }
}

/// Calls must not bring cells that are not spent.
#[test]
fn a_crowd_that_one_call_serves_makes_one_at_a_time() {
    let found = play(Crowd { max_lease: 100_000, ..PLENTY });
    println!("{found:?}");
    assert!(found.admitted > 100 * 1_000 && found.max_in_flight == 1, "{found:?}");
    let found = play(Crowd { gap_nanos: 20 * MILLI, ..PLENTY });
    println!("{found:?}");
    // At first all tasks ask at the same time; later about 6 in a round trip.
    assert!(found.max_in_flight <= 8 && found.denied == 0, "{found:?}");
    assert!(found.stats.cells_taken <= found.admitted * 5 / 4 + 20, "{found:?}");
}

/// In each pause of 10 ms as many cells come back as a lease has. That takes one call for the
/// cells, and one that finds nothing. It would be 1,150 calls if several were allowed as soon as
/// one brings all it asked for.
#[test]
fn a_crowd_at_a_short_source_makes_few_calls() {
    let found = play(Crowd { rate: 1_000, burst: 200, span_nanos: 2 * SECOND, ..PLENTY });
    println!("{found:?}");
    // 100 at once, and what comes back in two seconds.
    assert!((1_900..=2_100).contains(&found.admitted), "{found:?}");
    assert!(found.stats.calls <= 350, "{found:?}");
    assert!(found.denied > 100_000, "{found:?}");
}

/// A woken request that has gone passes its wake-up on, so all other requests are answered.
#[test]
fn every_waiting_request_is_answered_when_woken_ones_have_gone() {
    simulate(async {
        let server = Arc::new(SimulatedServer::new(1_000_000, 1_000_000, 100 * MILLI));
        let real = Local::real();
        let remote = SimulatedSource::new(&server, &Link::good(MILLI..MILLI + 1), real, 1);
        let leased = Leased::builder(remote).clock(real).max_lease(3).build().expect("in range");
        let mut rng = Rng::new(7);
        for _ in 0..50 {
            let clients: Vec<_> = (0..100)
                .map(|_| {
                    let (leased, patience) = (leased.clone(), rng.within(0..6 * MILLI));
                    let patience = (rng.within(0..2) == 0).then_some(patience);
                    tokio::spawn(async move {
                        let patience = Duration::from_nanos(patience.unwrap_or(SECOND)) * SLOWER;
                        let answer = tokio::time::timeout(patience, leased.check(b"key")).await;
                        (patience, answer)
                    })
                })
                .collect();
            for client in clients {
                let (patience, answer) = client.await.expect("no panic");
                let is_gone = answer.is_err() && patience < Duration::from_secs(1) * SLOWER;
                assert!(is_gone || matches!(answer, Ok(Ok(_))), "{answer:?}");
            }
        }
    });
}
