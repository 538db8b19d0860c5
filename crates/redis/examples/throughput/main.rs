//! The cost of a decision by each strategy: decisions a second, latency, and calls.
//!
//! ```sh
//! cargo run --release -p tollgate-redis --example throughput
//! ```
//!
//! Words after `--` select the strategies whose names contain one of them (`-- "leases of 100"`).
//! Plain always runs, because the others are compared with it.
//!
//! The program starts a `redis-server` of its own on a free port of the loopback interface, or uses
//! the one that `REDIS_URL` names. If `REDIS_CELL` is the path of redis-cell's library (crates.io
//! has its source: `cargo build --release` there), the server loads it, and its command is measured
//! too. Each strategy is run by 64 tasks on a runtime of 1 and of 2 threads, in short rounds that
//! take turns. Admissions are counted. The quota is never reached, so a denial means that too many
//! requests waited for one lease. Tasks yield after every 32 decisions, and every eighth decision
//! is timed.

#![allow(clippy::disallowed_types, reason = "a clock of its own")]

mod peer;
mod server;

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate::Quota;
use tollgate_redis::{Batched, Leased, RedisLimiter, RedisMembership, Share, Store, Windows};

use peer::RedisCell;
use server::Server;

/// A quota that is never reached.
const QUOTA: Quota = Quota::per_second(100_000_000);
const TASKS: u64 = 64;
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(250);
/// One key for each task.
const SOME_KEYS: u64 = TASKS;
const MANY_KEYS: u64 = 10_000;
/// Prime, so that keys follow each other in no order.
const STRIDE: u64 = 7_919;

/// A limiter to measure.
enum Gate {
    Plain(RedisLimiter),
    Leased(Leased<RedisLimiter>),
    Batched(Batched<Windows>),
    Share(Share<RedisMembership>),
    Peer(Arc<RedisCell>),
}

impl Gate {
    /// Whether a request is admitted.
    async fn check(&self, key: u64) -> Result<bool, Box<dyn Error>> {
        let key = key.to_be_bytes();
        Ok(match self {
            Self::Plain(gate) => gate.check(key).await?.is_ok(),
            Self::Leased(gate) => gate.check(&key).await?.decision.is_ok(),
            Self::Batched(gate) => gate.check(&key).await?.decision.is_ok(),
            Self::Share(gate) => gate.check(&key).decision.is_ok(),
            Self::Peer(gate) => gate.check(&key).await?,
        })
    }
}

type Made = Result<Gate, Box<dyn Error>>;

/// One line of the table.
struct Line {
    name: String,
    gate: Arc<Gate>,
    store: Store,
    keys: u64,
    rounds: Vec<Round>,
}

struct Round {
    per_second: f64,
    p50_micros: f64,
    p99_micros: f64,
    calls_each: f64,
    turned_away: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let server = Server::of_the_environment_or_new()?;
    println!(
        "| threads | keys | strategy | admitted/s, median (least to most) | to plain | p50 µs | p99 µs | calls each | denied or unanswered |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for threads in [1, 2] {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(threads).enable_all().build()?;
        runtime.block_on(async {
            let peer = RedisCell::of(&server.url, QUOTA).await?.map(Arc::new);
            let mut lines = lines(&server.url, threads, peer.as_ref())?;
            for line in &lines {
                round(line).await?;
            }
            for _ in 0..ROUNDS {
                for line in &mut lines {
                    let round = round(line).await?;
                    line.rounds.push(round);
                }
            }
            print(threads, &lines);
            Ok::<(), Box<dyn Error>>(())
        })?;
    }
    Ok(())
}

/// The strategies, each on a store of its own. The first line for each number of keys is the one
/// that others are compared with.
fn lines(
    url: &str,
    threads: usize,
    peer: Option<&Arc<RedisCell>>,
) -> Result<Vec<Line>, Box<dyn Error>> {
    let quota = QUOTA;
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let mut lines = Vec::new();
    let mut add = |name: String, keys: u64, gate: &dyn Fn(&Store) -> Made| {
        let is_chosen = chosen.is_empty() || chosen.iter().any(|word| name.contains(word));
        if !is_chosen && !name.starts_with("plain") {
            return Ok(());
        }
        let prefix = format!("throughput-{threads}-{}", lines.len());
        let second = Duration::from_secs(1);
        let store = Store::builder(url).prefix(prefix).deadline(second).connect_timeout(second);
        let store = store.build()?;
        let gate = Arc::new(gate(&store)?);
        lines.push(Line { name, gate, store, keys, rounds: Vec::new() });
        Ok::<(), Box<dyn Error>>(())
    };
    let plain = |store: &Store| Ok(Gate::Plain(RedisLimiter::builder(store, "t", quota).build()?));
    let leases = |max: u64| {
        move |store: &Store| {
            let redis_limiter =
                RedisLimiter::builder(store, "t", quota).leases(Duration::from_millis(100));
            Ok(Gate::Leased(Leased::builder(redis_limiter.build()?).max_lease(max).build()?))
        }
    };
    let batches = |unsent: u64| {
        move |store: &Store| {
            let windows = Windows::aligned(store, "t", Duration::from_millis(100))?;
            let gate = Batched::builder(windows, 16_000_000).max_unsent(unsent).build()?;
            Ok(Gate::Batched(gate))
        }
    };
    let share = |store: &Store| {
        let share = Share::builder(RedisMembership::new(store, "t")?, quota);
        Ok(Gate::Share(share.interval(Duration::from_millis(100)).build()?))
    };
    add("plain: a script a decision".into(), 1, &plain)?;
    for max in [1, 10, 100, 1_000] {
        add(format!("leases of {max}"), 1, &leases(max))?;
    }
    add("batches, 1,000 unsent".into(), 1, &batches(1_000))?;
    add("share".into(), 1, &share)?;
    if let Some(peer) = peer {
        let peer = |_: &Store| Ok(Gate::Peer(Arc::clone(peer)));
        add("redis-cell: a command a decision".into(), 1, &peer)?;
    }
    add("plain: a script a decision".into(), SOME_KEYS, &plain)?;
    for max in [10, 100] {
        add(format!("leases of {max}"), SOME_KEYS, &leases(max))?;
    }
    add("plain: a script a decision".into(), MANY_KEYS, &plain)?;
    add("leases of 100".into(), MANY_KEYS, &leases(100))?;
    add("batches, 1,000 unsent".into(), MANY_KEYS, &batches(1_000))?;
    add("share".into(), MANY_KEYS, &share)?;
    Ok(lines)
}

/// The result of a task.
#[derive(Default)]
struct Found {
    admitted: u64,
    /// Denied although the quota has room, or not answered.
    turned_away: u64,
    nanos: Vec<u64>,
}

async fn round(line: &Line) -> Result<Round, Box<dyn Error>> {
    if let Gate::Share(share) = &*line.gate {
        // A new node has no part yet.
        while share.stats().live.is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    let calls = line.store.stats().calls;
    let began = Instant::now();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| tokio::spawn(ask(Arc::clone(&line.gate), task, line.keys, began + ROUND)))
        .collect();
    let mut all = Found::default();
    for task in tasks {
        let found = task.await?;
        all.admitted += found.admitted;
        all.turned_away += found.turned_away;
        all.nanos.extend(found.nanos);
    }
    let seconds = began.elapsed().as_secs_f64();
    all.nanos.sort_unstable();
    let percentile = |percent: usize| {
        let place = (all.nanos.len() * percent / 100).min(all.nanos.len().saturating_sub(1));
        all.nanos.get(place).map_or(0.0, |nanos| float(*nanos) / 1_000.0)
    };
    Ok(Round {
        per_second: float(all.admitted) / seconds,
        p50_micros: percentile(50),
        p99_micros: percentile(99),
        calls_each: match &*line.gate {
            Gate::Peer(_) => 1.0,
            _ => float(line.store.stats().calls - calls) / float(all.admitted),
        },
        turned_away: float(all.turned_away) / float(all.admitted + all.turned_away),
    })
}

async fn ask(gate: Arc<Gate>, task: u64, keys: u64, end: Instant) -> Found {
    let mut found = Found::default();
    let mut key = task * STRIDE;
    while Instant::now() < end {
        for turn in 0..32 {
            key = (key + STRIDE) % keys;
            let asked = (turn % 8 == 0).then(Instant::now);
            let answer = gate.check(key).await;
            if let Some(asked) = asked {
                found.nanos.push(u64::try_from(asked.elapsed().as_nanos()).unwrap_or(u64::MAX));
            }
            match answer {
                Ok(true) => found.admitted += 1,
                Ok(false) | Err(_) => found.turned_away += 1,
            }
            // A round trip is long, so the round may have ended.
            if matches!(*gate, Gate::Plain(_) | Gate::Peer(_)) && Instant::now() >= end {
                break;
            }
        }
        tokio::task::yield_now().await;
    }
    found
}

fn print(threads: usize, lines: &[Line]) {
    for line in lines {
        let plain = lines.iter().find(|other| other.keys == line.keys).unwrap_or(line);
        let of = |figure: &dyn Fn(&Round) -> f64| sorted(line.rounds.iter().map(figure).collect());
        let rates = of(&|round| round.per_second);
        let ratios = line.rounds.iter().zip(&plain.rounds);
        let ratios = sorted(ratios.map(|(its, plain)| its.per_second / plain.per_second).collect());
        println!(
            "| {threads} | {} | {} | {:.0} ({:.0} to {:.0}) | {:.1} | {:.2} | {:.2} | {:.5} | {:.1} % |",
            line.keys,
            line.name,
            middle(&rates),
            rates.first().copied().unwrap_or(0.0),
            rates.last().copied().unwrap_or(0.0),
            middle(&ratios),
            middle(&of(&|round| round.p50_micros)),
            middle(&of(&|round| round.p99_micros)),
            middle(&of(&|round| round.calls_each)),
            100.0 * middle(&of(&|round| round.turned_away)),
        );
    }
}

fn sorted(mut figures: Vec<f64>) -> Vec<f64> {
    figures.sort_unstable_by(f64::total_cmp);
    figures
}

fn middle(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

#[allow(clippy::cast_precision_loss, reason = "counts of a short run")]
fn float(count: u64) -> f64 {
    count as f64
}
