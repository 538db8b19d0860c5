//! Leases of a real server: what several processes spend of one quota.

use std::time::{Duration, Instant};

use tollgate::Quota;
use tollgate_redis::{
    Answer, Fallback, LeaseStats, Leased, Origin, RedisLimiter, Store, Unavailable, WithFallback,
};

use crate::harness::{PATIENCE, Server, block_on};
use crate::proxy::Proxy;
use crate::workers::{self, Worker, report, runtime};

/// The largest number of cells that a process asks for in one call.
const LEASE_MAX: u64 = 50;
/// A process may hold the rest of a lease, and a new one.
const HELD_MAX: u64 = 2 * LEASE_MAX;
const BURST: u64 = 100_000;

fn redis_limiter(store: &Store, quota: Quota, lifetime: Duration) -> RedisLimiter {
    RedisLimiter::builder(store, "leased", quota).leases(lifetime).build().expect("a limiter")
}

fn leased(store: &Store, quota: Quota, lifetime: Duration) -> Leased<RedisLimiter> {
    let leased = Leased::builder(redis_limiter(store, quota, lifetime)).max_lease(LEASE_MAX);
    leased.build().expect("a limiter")
}

/// A quota so slow that no test sees a cell come back. The lifetime costs a fraction of a cell, so
/// one cell.
fn large() -> Quota {
    Quota::new(BURST, Duration::from_secs(30 * 86_400))
}

fn small() -> Quota {
    Quota::per_day(500)
}

const LONG: Duration = Duration::from_secs(10);

/// Asks from 8 tasks until all are denied. Returns what was admitted.
async fn exhaust(leased: &Leased<RedisLimiter>) -> u64 {
    let task = || {
        let leased = leased.clone();
        tokio::spawn(async move {
            let (mut granted, mut denied) = (0, 0);
            while denied < 20 {
                match leased.check(b"k").await.expect("an answer").decision {
                    Ok(_) => (granted, denied) = (granted + 1, 0),
                    Err(_) => {
                        denied += 1;
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                }
            }
            granted
        })
    };
    let mut granted = 0;
    for task in (0..8).map(|_| task()).collect::<Vec<_>>() {
        granted += task.await.expect("it exits");
    }
    granted
}

/// Granted: the burst at most, and at least the burst minus what leases can hold unspent.
#[test]
fn three_processes_of_eight_tasks_are_granted_the_burst() {
    let Some(server) = Server::start() else { return };
    let workers: Vec<_> =
        (0..3).map(|_| Worker::start(&server, "leased::exhausting_worker", 3)).collect();
    let reports: Vec<_> = workers.into_iter().map(Worker::numbers).collect();
    let sum = |which: usize| reports.iter().map(|numbers| numbers[which]).sum::<u64>();
    let (granted, taken, calls) = (sum(0), sum(1), sum(2));
    assert!(granted <= BURST, "{reports:?}");
    assert!(granted >= BURST - 1 - 3 * HELD_MAX, "{reports:?}");
    assert!((BURST - 1..=BURST).contains(&taken), "{reports:?}");
    assert!(calls <= BURST / 20, "{calls} calls");
}

#[test]
fn exhausting_worker() {
    let Some(store) = workers::store() else { return };
    runtime(2).block_on(async {
        let leased = leased(&store, large(), LONG);
        let granted = exhaust(&leased).await;
        report(&[granted, leased.stats().cells_taken, store.stats().calls]);
    });
}

/// Granted: `burst + rate * span` in the span that the test measures around all processes. Most of that
/// is granted, unless the machine holds all processes up for longer than the burst takes to come back;
/// so the test is repeated before it fails.
#[test]
fn three_processes_in_a_rush_are_granted_the_burst_and_what_comes_back() {
    // All processes ask for 1.5 seconds: 150 cells at once, and 1,000 a second.
    const ENOUGH: u64 = 1_300;
    let mut granted = Vec::new();
    while granted.len() < 5 && granted.last().is_none_or(|last| *last < ENOUGH) {
        let Some(server) = Server::start() else { return };
        granted.push(granted_in_a_rush(&server));
    }
    assert!(granted.last().is_some_and(|last| *last >= ENOUGH), "{granted:?}");
}

fn granted_in_a_rush(server: &Server) -> u64 {
    let began = Instant::now();
    let workers: Vec<_> =
        (0..3).map(|_| Worker::start(server, "leased::rushing_worker", 3)).collect();
    let reports: Vec<_> = workers.into_iter().map(Worker::numbers).collect();
    let span = began.elapsed();
    let granted: u64 = reports.iter().map(|numbers| numbers[0]).sum();
    let restored = |micros: u128| u64::try_from(micros / 1_000).expect("a short test");
    assert!(granted <= 200 + restored(span.as_micros()), "{granted} in {span:?}");
    granted
}

#[test]
fn rushing_worker() {
    let Some(store) = workers::store() else { return };
    let granted: u64 = runtime(2).block_on(async {
        let quota = Quota::per_second(1_000).burst(200);
        let leased = leased(&store, quota, Duration::from_millis(50));
        let began = Instant::now();
        let task = || {
            let leased = leased.clone();
            tokio::spawn(async move {
                let mut granted = 0;
                while began.elapsed() < Duration::from_millis(1_500) {
                    match leased.check(b"k").await {
                        Ok(answer) => granted += u64::from(answer.decision.is_ok()),
                        // The answers came later than the leases in them had ended.
                        Err(why) => assert_eq!(why, Unavailable::TimedOut),
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                granted
            })
        };
        let mut granted = 0;
        for task in (0..8).map(|_| task()).collect::<Vec<_>>() {
            granted += task.await.expect("it exits");
        }
        granted
    });
    report(&[granted]);
}

/// Granted: nothing, by a fallback that denies. The leases end before they arrive, and each answer comes by
/// the deadline.
#[test]
fn leases_shorter_than_a_round_trip_delay_no_request_beyond_the_deadline() {
    const DEADLINE: Duration = Duration::from_secs(2);
    let Some(server) = Server::start() else { return };
    let link = Proxy::to(server.port());
    let store = Store::builder(link.url()).deadline(DEADLINE).connect_timeout(DEADLINE);
    let leased = leased(&store.build().expect("a store"), large(), Duration::from_millis(30));
    let gate = WithFallback::new(leased, Fallback::Deny);
    block_on(async {
        assert_eq!(gate.check("connected").await.origin, Origin::Server);
        link.delay(Duration::from_millis(1_500));
        for _ in 0..2 {
            let asked = Instant::now();
            let answer = gate.check("k").await;
            assert_eq!((answer.origin, answer.decision.is_ok()), (Origin::Fallback, false));
            let took = asked.elapsed();
            assert!(took < Duration::from_millis(2_900), "{took:?}: less than two round trips");
        }
    });
}

/// Granted: the burst at most. Lost: the cells that the killed process held.
#[test]
fn a_process_killed_with_a_lease_in_hand_only_loses_it() {
    let Some(server) = Server::start() else { return };
    let dead = Worker::start(&server, "leased::holding_worker", 1).numbers_and_kill();
    let [spent, taken] = *dead else { panic!("{dead:?}") };
    assert!(taken > spent && taken - spent <= HELD_MAX, "it held some: {dead:?}");
    runtime(2).block_on(async {
        let store = server.store().build().expect("a store");
        let granted = exhaust(&leased(&store, small(), LONG)).await;
        assert!(spent + granted <= 500, "{spent} and {granted}");
        assert_eq!(granted, 499 - taken, "everything that it had not taken");
    });
}

#[test]
fn holding_worker() {
    let Some(store) = workers::store() else { return };
    runtime(2).block_on(async {
        let leased = leased(&store, small(), LONG);
        let mut spent = 0;
        while spent < 40 || leased.stats().cells_taken == spent {
            spent += u64::from(leased.check(b"k").await.expect("it").decision.is_ok());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        settle(&leased).await;
        report(&[spent, leased.stats().cells_taken]);
        tokio::time::sleep(Duration::from_secs(60)).await;
    });
}

/// The outcomes of some requests.
#[derive(Debug, Default)]
struct Found {
    admitted: u64,
    from_lease: u64,
    denied: u64,
    unavailable: u64,
}

async fn ask(leased: &Leased<RedisLimiter>, requests: u32) -> Found {
    let mut found = Found::default();
    for _ in 0..requests {
        match leased.check(b"k").await {
            Ok(Answer { decision: Ok(_), origin }) => {
                found.admitted += 1;
                found.from_lease += u64::from(origin == Origin::Lease);
            }
            Ok(_) => found.denied += 1,
            Err(_) => found.unavailable += 1,
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    found
}

fn with_short_deadline(server: &Server) -> Store {
    // A busy machine meets this deadline. The circuit opens after two calls that do not.
    let store = server.store().deadline(Duration::from_secs(2)).open_after(2);
    store.probe_every(Duration::from_millis(200)).build().expect("a store")
}

/// Asks until the server answers, which happens once no cells are held. Returns what was admitted
/// by then.
async fn recovered(leased: &Leased<RedisLimiter>) -> u64 {
    let began = Instant::now();
    let mut admitted = 0;
    while began.elapsed() < Duration::from_secs(60) {
        match leased.check(b"k").await {
            Ok(Answer { decision, origin: Origin::Server }) => {
                return admitted + u64::from(decision.is_ok());
            }
            Ok(Answer { decision: Ok(_), .. }) => admitted += 1,
            // Denied from memory, or not answered.
            Ok(_) | Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    panic!("the server is back, but is not asked");
}

/// Granted: the burst at most, including cells held when the server stopped. Charged and not spent:
/// the cells of calls that timed out.
#[test]
fn a_server_that_is_stopped_leaves_what_is_in_hand() {
    let Some(server) = Server::start() else { return };
    runtime(2).block_on(async {
        let store = with_short_deadline(&server);
        let leased = leased(&store, small(), LONG);
        let before = ask(&leased, 100).await;
        assert_eq!(before.admitted, 100);
        settle(&leased).await;
        let held_cells = held(&leased.stats(), before.admitted);
        server.signal("STOP");
        let during = ask(&leased, 150).await;
        assert_eq!(during.admitted, held_cells, "{during:?}");
        assert_eq!((during.from_lease, during.denied), (held_cells, 0));
        assert!(during.unavailable > 0);
        server.signal("CONT");
        let after = recovered(&leased).await + exhaust(&leased).await;
        let granted = before.admitted + during.admitted + after;
        let lost = store.stats().timed_out * LEASE_MAX;
        assert!(granted <= 500 && granted + lost >= 499 - HELD_MAX, "{granted}, {lost}");
    });
}

/// Waits until the server has charged as many cells of [`small`] as this process knows of, and no call
/// is on its way. A lease is fetched in the background before it is needed.
async fn settle(leased: &Leased<RedisLimiter>) {
    const ALL: u64 = 499;
    let began = Instant::now();
    loop {
        let left = leased.source().peek_n("k", 0).await.expect("an answer").expect("room for none");
        let (store, taken) = (leased.source().store().stats(), leased.stats().cells_taken);
        if store.calls == store.answered && taken + left.remaining() == ALL {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{store:?}, {taken} taken, {left:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Cells that were taken and are not spent yet.
fn held(stats: &LeaseStats, spent: u64) -> u64 {
    stats.cells_taken - stats.cells_lapsed - spent
}

/// Granted: one fresh burst for a restart of a server that keeps nothing, and one for a `FLUSHALL`.
/// Cells held at that moment belong to the burst before, and are spent.
#[test]
fn a_server_that_forgets_costs_one_fresh_burst() {
    let Some(mut server) = Server::start() else { return };
    runtime(2).block_on(async {
        let store = with_short_deadline(&server);
        let leased = leased(&store, small(), LONG);
        let mut granted = ask(&leased, 100).await.admitted;
        assert_eq!(granted, 100);
        server.kill();
        server.restart();
        granted += recovered(&leased).await + exhaust(&leased).await;
        // The cells of calls that a busy machine did not answer in time.
        let lost = || store.stats().timed_out * LEASE_MAX;
        assert!(granted <= 1_000 && granted + lost() >= 500, "one burst more: {granted}");
        let second = granted;
        let _: () = redis::cmd("FLUSHALL").query(&mut server.admin()).expect("it");
        // A denial is trusted for a second.
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        granted += ask(&leased, 20).await.admitted;
        granted += exhaust(&leased).await;
        let third = granted - second;
        assert!(third <= 500 && third + lost() >= 450, "and one more: {granted}");
        assert!(store.stats().scripts_sent >= 2, "the new server did not have it");
    });
}

/// Granted: the burst. A flush of scripts adds nothing.
#[test]
fn a_flush_of_scripts_between_leases_changes_nothing() {
    let Some(server) = Server::start() else { return };
    block_on(async {
        let store = server.store().build().expect("a store");
        let leased = leased(&store, small(), LONG);
        let mut granted = 0;
        for _ in 0..4 {
            let mut flush = redis::cmd("SCRIPT");
            let _: () = flush.arg("FLUSH").query(&mut server.admin()).expect("it");
            granted += ask(&leased, 50).await.admitted;
        }
        assert_eq!(granted, 200);
        granted += exhaust(&leased).await;
        assert_eq!((granted, store.stats().failed), (499, 0));
    });
}

/// Granted: the burst. After it, a hundred thousand denials cost no call.
#[test]
fn a_denied_hot_key_costs_no_call() {
    let Some(server) = Server::start() else { return };
    block_on(async {
        let store = server.store().build().expect("a store");
        // Longer than the denials below take on a busy machine.
        let memory = Duration::from_secs(60);
        let leased = Leased::builder(redis_limiter(&store, small(), LONG)).memory(memory);
        let leased = leased.max_lease(LEASE_MAX).build().expect("a limiter");
        assert_eq!(exhaust(&leased).await, 499);
        let before = (store.stats().calls, leased.stats().from_memory);
        for _ in 0..50_000 {
            assert!(leased.check(b"k").await.expect("an answer").decision.is_err());
            assert!(leased.try_check(b"k", 1).is_some_and(|answer| answer.decision.is_err()));
        }
        let after = (store.stats().calls, leased.stats().from_memory);
        assert_eq!(after, (before.0, before.1 + 100_000));
    });
}

/// Granted: everything, because the load is below the quota. Leases are fetched while cells remain,
/// so almost no request waits for one. A busy machine may hold the server up, so the best of
/// several rounds counts.
#[test]
fn no_request_waits_while_cells_remain() {
    const ROUNDS: usize = 12;
    let Some(server) = Server::start() else { return };
    runtime(2).block_on(async {
        let store = server.store().build().expect("a store");
        let quota = Quota::per_second(100_000);
        let leased = leased(&store, quota, Duration::from_millis(200));
        for _ in 0..200 {
            assert!(leased.check(b"k").await.expect("an answer").decision.is_ok());
        }
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let round = ask_evenly(&leased).await;
            if round.is_ahead() {
                return;
            }
            rounds.push(round);
        }
        panic!("{rounds:?}");
    });
}

/// The result of 1,000 requests, one every 200 microseconds.
#[derive(Debug)]
struct Even {
    waited: u64,
    calls: u64,
    prefetches: u64,
}

impl Even {
    /// Whether most calls were made before their cells were needed, and few requests waited.
    fn is_ahead(&self) -> bool {
        self.calls >= 1_000 / LEASE_MAX / 2
            && self.waited * 4 <= self.calls
            && self.prefetches * 4 >= self.calls * 3
    }
}

async fn ask_evenly(leased: &Leased<RedisLimiter>) -> Even {
    let (before, mut waited) = (leased.stats(), 0);
    for _ in 0..1_000 {
        if leased.try_check(b"k", 1).is_none() {
            waited += 1;
            assert!(leased.check(b"k").await.expect("an answer").decision.is_ok());
        }
        let began = Instant::now();
        while began.elapsed() < Duration::from_micros(200) {
            tokio::task::yield_now().await;
        }
    }
    let after = leased.stats();
    Even {
        waited,
        calls: after.calls - before.calls,
        prefetches: after.prefetches - before.prefetches,
    }
}

/// Granted: the cells held in leases, and then this process's share by the fallback.
#[test]
fn a_lease_is_spent_before_the_fallback_decides() {
    let Some(mut server) = Server::start() else { return };
    runtime(2).block_on(async {
        let store = with_short_deadline(&server);
        let leased = leased(&store, small(), LONG);
        let fallback = Fallback::local(leased.source(), 5, 100).expect("a share");
        let gate = WithFallback::new(leased.clone(), fallback);
        for _ in 0..30 {
            assert!(gate.check(b"k").await.decision.is_ok());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        settle(&leased).await;
        let held_cells = held(&leased.stats(), 30);
        server.kill();
        let (mut by_lease, mut by_fallback) = (0, 0);
        for _ in 0..500 {
            let Answer { decision, origin } = gate.check(b"k").await;
            match origin {
                Origin::Lease => by_lease += u64::from(decision.is_ok()),
                Origin::Fallback => by_fallback += u64::from(decision.is_ok()),
                other => panic!("{other:?} with a dead server"),
            }
        }
        assert_eq!(by_lease, held_cells);
        assert_eq!(
            by_fallback,
            100 - 30 - held_cells,
            "its share of 100 was charged from the start"
        );
    });
}

/// Granted: nothing to requests for no cells, which are admitted, whether the key is known here or not.
#[test]
fn requests_for_no_cells_charge_none() {
    let Some(server) = Server::start() else { return };
    block_on(async {
        let store = server.store().build().expect("a store");
        let source = redis_limiter(&store, small(), LONG);
        let leased = Leased::builder(source.clone()).build().expect("a limiter");
        let left = async |key: &str| {
            let permit = source.peek_n(key, 0).await.expect("an answer").expect("room for none");
            permit.remaining()
        };
        let all = left("new").await;
        let asks_for_none = async |key: &str| {
            let answer = leased.check_n(key.as_bytes(), 0).await.expect("an answer");
            assert!(answer.decision.is_ok(), "{key}");
        };
        asks_for_none("new").await;
        asks_for_none("new").await;
        assert_eq!((left("new").await, leased.stats().cells_taken), (all, 0));
    });
}

/// Granted: nothing for a key that holds another type, nor by a source without leases. Both errors
/// say so.
#[test]
fn requests_that_cannot_be_leased_are_errors() {
    let Some(server) = Server::start() else { return };
    block_on(async {
        let store = server.store().build().expect("a store");
        let alien = leased(&store, small(), LONG);
        let place = alien.source().redis_key("k");
        let _: () = redis::cmd("RPUSH").arg(place).arg("a").query(&mut server.admin()).expect("it");
        let Err(Unavailable::Failed(text)) = alien.check(b"k").await else { panic!("a lease") };
        assert!(text.contains("WRONGTYPE"), "{text}");
        let plain = RedisLimiter::builder(&store, "plain", small()).build().expect("a limiter");
        let plain = Leased::builder(plain).build().expect("a limiter");
        let Err(Unavailable::Failed(text)) = plain.check(b"k").await else { panic!("a lease") };
        assert!(text.contains("without leases"), "{text}");
        assert_eq!(store.stats().circuit_opened, 0, "the server is well");
    });
}
