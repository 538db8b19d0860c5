//! Paced streams over loopback: what pacing costs where it never waits, and how exact the rate is, beside
//! `async-speed-limit`.
//!
//! ```sh
//! cargo bench -p tollgate-benches --bench paced -- --rounds 25
//! ```
//!
//! One thread writes and reads. Turns are short and the rows take turns, so that other programs leave most
//! turns alone; the fastest tenth of the turns shows the least of them.

#![allow(clippy::disallowed_types, reason = "it measures real time")]

use std::fs;
use std::hint::black_box;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tollgate::{Direct, Limiter, Quota};
use tollgate_benches::options::Options;
use tollgate_benches::process;
use tollgate_benches::report::quartiles;
use tollgate_paced::{Pace, Paced};

/// Bytes of a turn: a few milliseconds, so that most turns are undisturbed.
const TURN_BYTES: usize = 8 << 20;
/// Turns over loopback in each round that the options ask for.
const TURNS: usize = 16;
/// Writes of a turn to a sink.
const WRITES: usize = 100_000;
/// Sizes of writes. `tokio::io::copy` has 8 KiB.
const SIZES: [usize; 2] = [8 << 10, 64 << 10];
const RATES: [u64; 3] = [1_000_000, 10_000_000, 100_000_000];
/// How long a rate is measured in each round, after the burst.
const RATE_SPAN: Duration = Duration::from_secs(3);

/// A burst of a terabyte is never used up.
const PLENTY: Quota = Quota::per_second(1_000_000_000).burst(1 << 40);
/// Finite, so that `async-speed-limit` counts.
const UNREACHED: f64 = 1e15;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unpaced,
    /// The writer has a bucket of its own.
    Own,
    /// The reader has one.
    OwnRead,
    Keyed,
    /// The writer has a bucket of its own, that of a key, and a shared one.
    Three,
    SpeedLimit,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Unpaced => "unpaced",
            Self::Own => "Paced, one bucket, writing",
            Self::OwnRead => "Paced, one bucket, reading",
            Self::Keyed => "Paced, a key of a million, writing",
            Self::Three => "Paced, three buckets, writing",
            Self::SpeedLimit => "async-speed-limit, writing",
        }
    }
}

fn main() {
    let options = Options::from_args();
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    println!("# paced\n\n{}; load average {:.1}\n", process::machine(), process::load_average());
    calls(&options, &runtime);
    overhead(&options, &runtime);
    rates(&options, &runtime);
}

/// Writes to a sink, which cost nothing themselves: the time of the pacing alone.
fn calls(options: &Options, runtime: &Runtime) {
    let kinds = [Kind::Unpaced, Kind::Own, Kind::Keyed, Kind::Three, Kind::SpeedLimit];
    let mut nanos = vec![Vec::new(); kinds.len()];
    for _ in 0..options.rounds {
        for (kind, nanos) in kinds.iter().zip(&mut nanos) {
            nanos.push(runtime.block_on(turn_to_sink(*kind)));
        }
    }
    println!("## A write of 8 KiB to a sink\n\n| row | ns | quartiles |\n|---|---|---|");
    for (kind, spent) in kinds.iter().zip(&nanos) {
        let [low, median, high] = quartiles(spent);
        println!("| {} | {median:.1} | {low:.1} to {high:.1} |", kind.name());
    }
    println!();
}

/// Nanoseconds of a write.
async fn turn_to_sink(kind: Kind) -> f64 {
    let sink = tokio::io::sink();
    let paced = |pace| Paced::new(tokio::io::sink(), Pace::unlimited(), pace);
    match kind {
        Kind::Unpaced => writes(sink).await,
        Kind::Keyed => writes(paced(keyed())).await,
        Kind::Three => writes(paced(own(PLENTY).and(&keyed()).and(&own(PLENTY)))).await,
        Kind::Own | Kind::OwnRead => writes(paced(own(PLENTY))).await,
        Kind::SpeedLimit => writes(<async_speed_limit::Limiter>::new(UNREACHED).limit(sink)).await,
    }
}

async fn writes<S: AsyncWrite + Unpin>(mut sink: S) -> f64 {
    let bytes = vec![7; 8 << 10];
    let start = Instant::now();
    for _ in 0..WRITES {
        sink.write_all(black_box(&bytes)).await.expect("a sink takes all");
    }
    start.elapsed().as_secs_f64() * 1e9 / WRITES as f64
}

/// Streams of all kinds send the same, at a rate that they do not reach.
fn overhead(options: &Options, runtime: &Runtime) {
    let kinds =
        [Kind::Unpaced, Kind::Own, Kind::OwnRead, Kind::Keyed, Kind::Three, Kind::SpeedLimit];
    for size in SIZES {
        let mut nanos = vec![Vec::new(); kinds.len()];
        // The first round warms up.
        for round in 0..=options.rounds * TURNS {
            for (kind, nanos) in kinds.iter().zip(&mut nanos) {
                let spent = runtime.block_on(turn(*kind, size));
                if round > 0 {
                    nanos.push(spent);
                }
            }
        }
        println!("## 8 MiB over loopback, writes of {} KiB\n", size >> 10);
        println!("| row | GB/s | time, of the unpaced | quartiles | fastest tenth |");
        println!("|---|---|---|---|---|");
        let fastest = |spent: &[f64]| {
            let mut spent = spent.to_vec();
            spent.sort_by(f64::total_cmp);
            spent[spent.len() / 10]
        };
        for (kind, spent) in kinds.iter().zip(&nanos) {
            let ratios: Vec<_> =
                spent.iter().zip(&nanos[0]).map(|(nanos, unpaced)| nanos / unpaced).collect();
            let [low, median, high] = quartiles(&ratios);
            let speed = TURN_BYTES as f64 / fastest(spent);
            let tenth = fastest(spent) / fastest(&nanos[0]);
            let name = kind.name();
            println!("| {name} | {speed:.2} | {median:.4} | {low:.4} to {high:.4} | {tenth:.4} |");
        }
        println!();
    }
}

/// Sends the bytes of a turn, and returns the nanoseconds that it took.
async fn turn(kind: Kind, size: usize) -> f64 {
    let quota = PLENTY;
    let (sender, receiver) = pair().await;
    match kind {
        Kind::Unpaced => send(sender, receiver, size).await,
        Kind::Own => send(Paced::new(sender, Pace::unlimited(), own(quota)), receiver, size).await,
        Kind::OwnRead => {
            send(sender, Paced::new(receiver, own(quota), Pace::unlimited()), size).await
        }
        Kind::Keyed => {
            let paced = Paced::new(sender, Pace::unlimited(), keyed());
            send(paced, receiver, size).await
        }
        Kind::Three => {
            let pace = own(quota).and(&keyed()).and(&own(quota));
            send(Paced::new(sender, Pace::unlimited(), pace), receiver, size).await
        }
        Kind::SpeedLimit => {
            let limiter = <async_speed_limit::Limiter>::new(UNREACHED);
            send(limiter.limit(sender), receiver, size).await
        }
    }
}

async fn send<S, R>(mut sender: S, mut receiver: R, size: usize) -> f64
where
    S: AsyncWrite + Unpin,
    R: AsyncRead + Unpin,
{
    let (bytes, mut buffer) = (vec![7; size], vec![0; 64 << 10]);
    let start = Instant::now();
    let write = async {
        for _ in 0..TURN_BYTES / size {
            sender.write_all(&bytes).await.expect("connected");
        }
        sender.shutdown().await.expect("connected");
    };
    let read = async {
        let mut received = 0;
        loop {
            match receiver.read(&mut buffer).await.expect("connected") {
                0 => break received,
                bytes => received += bytes,
            }
        }
    };
    let ((), received) = tokio::join!(write, read);
    let spent = start.elapsed().as_secs_f64() * 1e9;
    assert_eq!(received, TURN_BYTES);
    spent
}

/// How long this thread was on a processor, to some milliseconds.
fn processor_nanos() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split_ascii_whitespace().next().and_then(|first| first.parse().ok()).expect("a number")
}

fn own(quota: Quota) -> Pace {
    Pace::shared(&Arc::new(Direct::new(quota).expect("in range"))).expect("a large burst")
}

/// A key of a table for a million, which is built once: to build it takes longer than a turn.
fn keyed() -> Pace {
    static CLIENTS: OnceLock<Arc<Limiter<u64>>> = OnceLock::new();
    let clients = CLIENTS.get_or_init(|| {
        Arc::new(Limiter::builder(PLENTY).capacity(1_000_000).build().expect("in range"))
    });
    Pace::keyed(clients, 7_u64).expect("a large burst")
}

/// Measures the rate in real time. Both have a burst of a tenth of a second.
fn rates(options: &Options, runtime: &Runtime) {
    println!("## Error of the rate over {} s, writes of 64 KiB\n", RATE_SPAN.as_secs());
    println!("| rate | row | error, median | largest | processor time |\n|---|---|---|---|---|");
    let rounds = options.rounds / 12 + 1;
    let kinds = [Kind::Own, Kind::SpeedLimit];
    for rate in RATES {
        let mut errors = vec![Vec::new(); kinds.len()];
        let mut shares = vec![Vec::new(); kinds.len()];
        for _ in 0..rounds {
            for (index, kind) in kinds.iter().enumerate() {
                let before = processor_nanos();
                let start = Instant::now();
                let measured = runtime.block_on(rate_of(*kind, rate));
                let spent = processor_nanos() - before;
                shares[index].push(spent / 1e9 / start.elapsed().as_secs_f64());
                errors[index].push(measured / rate as f64 - 1.0);
            }
        }
        for (index, kind) in kinds.iter().enumerate() {
            let [_, median, _] = quartiles(&errors[index]);
            let largest = errors[index].iter().fold(0.0_f64, |max, error| max.max(error.abs()));
            let [_, share, _] = quartiles(&shares[index]);
            println!(
                "| {} MB/s | {} | {:+.3} % | {:.3} % | {:.2} % |",
                rate / 1_000_000,
                kind.name(),
                median * 100.0,
                largest * 100.0,
                share * 100.0,
            );
        }
    }
    println!();
}

/// The rate of a stream in bytes a second.
async fn rate_of(kind: Kind, rate: u64) -> f64 {
    let burst = rate / 10;
    let (sender, receiver) = pair().await;
    match kind {
        Kind::SpeedLimit => {
            let limiter = <async_speed_limit::Limiter>::builder(rate as f64).build();
            slope(limiter.limit(sender), receiver).await
        }
        _ => {
            let pace = own(Quota::per_second(rate).burst(burst));
            slope(Paced::new(sender, Pace::unlimited(), pace), receiver).await
        }
    }
}

/// Writes for a while, and fits a line to the bytes that were written, every millisecond. Bytes pass in
/// steps, so the first and the last count alone would depend on where the steps are.
async fn slope<S: AsyncWrite + Unpin>(mut sender: S, mut receiver: TcpStream) -> f64 {
    let bytes = vec![7; 64 << 10];
    let drain = tokio::spawn(async move {
        let mut buffer = vec![0; 256 << 10];
        while receiver.read(&mut buffer).await.expect("connected") > 0 {}
    });
    let start = Instant::now();
    let settled = Duration::from_millis(500);
    let (mut points, mut written) = (Vec::new(), 0_u64);
    let mut sample = settled;
    while start.elapsed() < settled + RATE_SPAN {
        // A `write` may take a part, and that is what a step is.
        let passed = sender.write(&bytes).await.expect("connected") as u64;
        let now = start.elapsed();
        while sample < now {
            points.push((sample.as_secs_f64(), written as f64));
            sample += Duration::from_millis(1);
        }
        written += passed;
    }
    drop(sender);
    drain.await.expect("no panic");
    let count = points.len() as f64;
    let (sum_x, sum_y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0, y + point.1));
    let (mean_x, mean_y) = (sum_x / count, sum_y / count);
    let (mut over, mut under) = (0.0, 0.0);
    for (x, y) in points {
        over += (x - mean_x) * (y - mean_y);
        under += (x - mean_x) * (x - mean_x);
    }
    over / under
}

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
    (client.expect("listening"), server.expect("a client").0)
}
