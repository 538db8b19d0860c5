//! No span sees more than the quota, whatever happens to processes and messages.

use proptest::prelude::*;

use super::Rng;
use super::*;

/// The planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    None,
    CountedFromReply,
    BurstNotLowered,
}

/// When how many cells were spent by all processes, in order.
type Spent = Arc<Mutex<Vec<(u64, u64)>>>;

/// The largest excess of any span over `burst + rate * span`, in nanoseconds of the rate, and not
/// above 0 if there is none. The level of a bucket that leaks at the rate is the worst span that
/// ends now.
fn worst_excess_nanos(spent: &[(u64, u64)], interval_nanos: u64, burst: u64) -> i128 {
    let (mut level, mut last, mut worst) = (0_i128, 0, i128::MIN);
    for &(at, n) in spent {
        level = (level - i128::from(at - last)).max(0) + i128::from(n * interval_nanos);
        worst = worst.max(level - i128::from(burst * interval_nanos));
        last = at;
    }
    worst
}

/// Runs a world drawn from a seed. Returns what was spent, and the interval and burst of the quota.
fn world(seed: u64, planted: Planted) -> (Vec<(u64, u64)>, u64, u64) {
    simulate(async move {
        let mut rng = Rng::new(seed);
        let rate = [10, 100, 1_000, 10_000][usize::try_from(rng.within(0..4)).expect("few")];
        let burst = rng.within(2..200);
        let lifetime = burst * SECOND / rate * rng.within(10..75) / 100;
        let server = Arc::new(match planted {
            Planted::BurstNotLowered => SimulatedServer::with_whole_burst(rate, burst, lifetime),
            _ => SimulatedServer::new(rate, burst, lifetime),
        });
        let slowest = [lifetime / 20, lifetime / 2, 2 * lifetime];
        let slowest = slowest[usize::try_from(rng.within(0..3)).expect("few")];
        let link = Link {
            latency_nanos: MICRO..slowest + 2 * MICRO,
            lost_per_mille: [0, 0, 50, 300][usize::try_from(rng.within(0..4)).expect("few")],
            deadline_nanos: 2 * slowest + 5 * MICRO,
            counts_from_reply: planted == Planted::CountedFromReply,
        };
        let spent = Spent::default();
        let real = Local::real();
        let processes = rng.within(1..9);
        let life = Life { server, link, real, spent: Arc::clone(&spent), rate, burst, processes };
        let tasks: Vec<_> = (0..processes)
            .map(|_| tokio::spawn(process(life.clone(), Rng::new(rng.draw()))))
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
        let spent = spent.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (spent, SECOND / rate, burst)
    })
}

#[derive(Clone, Debug)]
struct Life {
    server: Arc<SimulatedServer>,
    link: Link,
    real: Local,
    spent: Spent,
    rate: u64,
    burst: u64,
    processes: u64,
}

impl Life {
    /// Starts a process with a clock of its own and no cells.
    fn begin(&self, rng: &mut Rng) -> Leased<SimulatedSource, Local> {
        let remote = SimulatedSource::new(&self.server, &self.link, self.real, rng.draw());
        let clock = self.real.skewed(rng.within(0..1 << 60));
        let max = rng.within(1..2 * self.burst + 2);
        Leased::builder(remote).clock(clock).max_lease(max).build().expect("in range")
    }
}

/// Asks now and then, rests until all cells are back, and crashes.
async fn process(life: Life, mut rng: Rng) {
    let Life { rate, burst, processes, .. } = life;
    let mut leased = life.begin(&mut rng);
    let mut asked = Vec::new();
    // About as long as it takes to restore the burst a few times.
    let requests = 8 * burst / processes + 20;
    #[allow(clippy::cast_precision_loss, reason = "small")]
    let pace = 2.5 * rate as f64 / processes as f64;
    for _ in 0..requests {
        match rng.within(0..200) {
            0 => sleep(burst * SECOND / rate).await,
            1 => leased = life.begin(&mut rng),
            2..50 => {}
            _ => sleep(rng.gap(pace)).await,
        }
        // Some requests do not wait for their answer, so cells are left over.
        let patience = match rng.within(0..5) {
            0 => life.link.latency_nanos.end,
            _ => 10 * life.link.deadline_nanos,
        };
        let patience = Duration::from_nanos(patience) * SLOWER;
        let n = if rng.within(0..10) == 0 { rng.within(0..burst + 2) } else { 1 };
        let (leased, real, spent) = (leased.clone(), life.real, Arc::clone(&life.spent));
        asked.push(tokio::spawn(async move {
            let answer = tokio::time::timeout(patience, leased.check_n(b"key", n)).await;
            if let Ok(Ok(Answer { decision: Ok(_), .. })) = answer {
                let mut spent = spent.lock().unwrap_or_else(PoisonError::into_inner);
                spent.push((real.nanos(), n));
            }
        }));
    }
    for request in asked {
        request.await.expect("no panic");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_span_sees_more_than_the_quota(seed: u64) {
        let (spent, interval, burst) = world(seed, Planted::None);
        prop_assert!(worst_excess_nanos(&spent, interval, burst) <= 0);
    }
}

/// The worst excess after this scenario: clients drop their requests while a call is in flight, so
/// their cells are held; then, after `rush_nanos`, requests rush to this process and to another.
fn rush_after(rush_nanos: u64, planted: Planted) -> i128 {
    let (rate, burst, lifetime) = (1_000, 200, 50 * MILLI);
    simulate(async move {
        let server = Arc::new(match planted {
            Planted::BurstNotLowered => SimulatedServer::with_whole_burst(rate, burst, lifetime),
            _ => SimulatedServer::new(rate, burst, lifetime),
        });
        let real = Local::real();
        let begin = |latency: u64| {
            let counts_from_reply = planted == Planted::CountedFromReply;
            let link = Link { counts_from_reply, ..Link::good(latency..latency + 1) };
            let remote = SimulatedSource::new(&server, &link, real, 1);
            Leased::builder(remote).clock(real).build().expect("in range")
        };
        let (far, near) = (begin(20 * MILLI), begin(MICRO));
        let clients: Vec<_> = (0..burst)
            .map(|_| {
                let far = far.clone();
                tokio::spawn(async move { far.check(b"key").await })
            })
            .collect();
        // One client had a cell by then. The next call is in flight.
        sleep(50 * MILLI).await;
        clients.iter().for_each(|client| client.abort());
        sleep(rush_nanos).await;
        let mut spent = 0;
        while far.try_check(b"key", 1).is_some_and(|answer| answer.decision.is_ok()) {
            spent += 1;
        }
        while near.check(b"key").await.is_ok_and(|answer| answer.decision.is_ok()) {
            spent += 1;
        }
        let now = real.nanos();
        worst_excess_nanos(&[(now, spent)], SECOND / rate, burst)
    })
}

fn worst_rush(planted: Planted) -> i128 {
    (0..100).map(|millis| rush_after(millis * MILLI, planted)).max().expect("some")
}

#[test]
fn a_rush_on_held_and_restored_cells_stays_within_the_bound() {
    let excess = worst_rush(Planted::None);
    assert!((-30 * i128::from(MILLI)..=0).contains(&excess), "{excess}: it is a close thing");
}

#[test]
fn the_test_would_notice_a_lifetime_counted_from_the_reply() {
    let excess = worst_rush(Planted::CountedFromReply);
    assert!(excess > 0, "{excess}");
}

#[test]
fn the_test_would_notice_a_burst_that_is_not_lowered() {
    let excess = worst_rush(Planted::BurstNotLowered);
    assert!(excess > 0, "{excess}");
    let exceeds = |seed: &u64| {
        let (spent, interval, burst) = world(*seed, Planted::BurstNotLowered);
        worst_excess_nanos(&spent, interval, burst) > 0
    };
    let count = (0..100).filter(exceeds).count();
    assert!(count >= 5, "only {count} of 100");
}

#[test]
fn the_worst_span_is_found() {
    // 10 at once, 1 every 100 ns: the second 5 come 200 ns after the first 10.
    assert_eq!(worst_excess_nanos(&[(0, 10), (200, 2)], 100, 10), 0);
    assert_eq!(worst_excess_nanos(&[(0, 10), (200, 5), (900, 1)], 100, 10), 300);
    assert_eq!(worst_excess_nanos(&[(0, 1), (5_000, 11)], 100, 10), 100);
}
