//! Requests of several sizes for one key.

use super::*;

const PROCESSES: u64 = 8;
const SPAN_NANOS: u64 = 20 * SECOND;

/// Asks for one cell, and for `large` cells a hundred times a second if it is given. Returns how many requests of one
/// cell were admitted.
async fn process(
    leased: Leased<SimulatedSource, Local>,
    real: Local,
    per_second: f64,
    mut rng: Rng,
    large: Option<Range<u64>>,
) -> u64 {
    if let Some(large) = large {
        let (leased, mut rng) = (leased.clone(), Rng::new(rng.draw()));
        tokio::spawn(async move {
            while real.nanos() < SPAN_NANOS {
                sleep(rng.within(1..20 * MILLI)).await;
                let n = rng.within(large.clone());
                let _ = leased.check_n(b"key", n).await.expect("the link is good");
            }
        });
    }
    let (mut admitted, mut next) = (0, 0);
    while next < SPAN_NANOS {
        next += rng.gap(per_second);
        sleep(next.saturating_sub(real.nanos())).await;
        let answer = leased.check(b"key").await.expect("the link is good");
        admitted += u64::from(answer.decision.is_ok());
    }
    admitted
}

/// The key is asked for twice what comes back. Returns how many requests of one cell the first process admitted, which
/// is asked for `large` cells, too, and how many each of the others.
fn play(rate: u32, large: Range<u64>) -> (u64, u64) {
    simulate(async move {
        let server = Arc::new(SimulatedServer::new(rate.into(), 200, 100 * MILLI));
        let real = Local::real();
        let tasks: Vec<_> = (0..PROCESSES)
            .map(|index| {
                let link = Link::good(100 * MICRO..600 * MICRO);
                let remote = SimulatedSource::new(&server, &link, real, index);
                let leased = Leased::builder(remote).clock(real).build().expect("in range");
                let large = (index == 0).then(|| large.clone());
                let per_second = 2.0 * f64::from(rate) / 8.0;
                tokio::spawn(process(leased, real, per_second, Rng::new(index + 99), large))
            })
            .collect();
        let mut admitted = Vec::new();
        for task in tasks {
            admitted.push(task.await.expect("no panic"));
        }
        println!("{rate} a second, also asked for {large:?}: {admitted:?}");
        let others: u64 = admitted.iter().skip(1).sum();
        (admitted[0], others / (PROCESSES - 1))
    })
}

/// When a denial of several cells paused the calls for as long as those cells take, the first process admitted 26
/// requests of one cell, and each other 284: at 100 a second, beside requests for 1 to 999 cells.
#[test]
fn denied_requests_for_many_cells_leave_the_others_of_the_process_their_part() {
    for rate in [100, 1_000] {
        for large in [191..192, 20..21, 1..1_000] {
            let (first, other) = play(rate, large.clone());
            assert!(10 * first >= 6 * other, "{rate}, {large:?}: {first} of {other}");
        }
    }
}
