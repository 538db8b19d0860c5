//! Processes, links and a source in one thread, drawn from one seed: the limiter that ships, on
//! tokio's paused clock.
//!
//! Time is slowed down: a microsecond here is a millisecond of tokio's, whose timers have no finer
//! resolution.

#![allow(clippy::disallowed_types, reason = "a test's server may have a lock")]

mod crowd;
mod efficiency;
mod safety;
mod sizes;

use core::future::Future;
use core::ops::Range;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;
use tollgate::decision::DecisionParts;
use tollgate::{Clock, Tick};

use super::*;
use crate::answer::Answer;
use crate::unavailable::Unavailable;

pub(crate) const MICRO: u64 = 1_000;
pub(crate) const MILLI: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const SLOWER: u32 = 1_000;

/// Runs a simulation to its end.
pub(crate) fn simulate<F: Future>(simulation: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(simulation)
}

pub(crate) async fn sleep(nanos: u64) {
    tokio::time::sleep(Duration::from_nanos(nanos) * SLOWER).await;
}

/// A process's clock: real time, from an origin of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local {
    start: Instant,
    offset_nanos: u64,
}

impl Local {
    /// Real time.
    pub(crate) fn real() -> Self {
        Self { start: Instant::now(), offset_nanos: 0 }
    }

    pub(crate) fn skewed(self, offset_nanos: u64) -> Self {
        Self { offset_nanos, ..self }
    }

    pub(crate) fn nanos(&self) -> u64 {
        self.now().as_nanos()
    }
}

impl Clock for Local {
    fn now(&self) -> Tick {
        let elapsed = self.start.elapsed() / SLOWER;
        Tick::from_duration(elapsed).saturating_add(Duration::from_nanos(self.offset_nanos))
    }
}

/// A pseudo-random generator.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.draw() % (range.end - range.start)
    }

    /// From 0 to 1.
    #[allow(clippy::cast_precision_loss, reason = "53 bits")]
    fn share(&mut self) -> f64 {
        ((self.draw() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// The time to the next of this many independent events a second.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a short span")]
    fn gap(&mut self, per_second: f64) -> u64 {
        (-self.share().ln() / per_second * 1e9) as u64
    }
}

/// A token bucket in whole nanoseconds.
#[derive(Clone, Debug)]
struct Exact {
    interval_nanos: u64,
    burst: u64,
    /// When each key has all its cells back.
    full_at: HashMap<Box<[u8]>, u64>,
}

impl Exact {
    fn new(rate: u64, burst: u64) -> Self {
        assert_eq!(SECOND % rate, 0, "a whole number of nanoseconds");
        Self { interval_nanos: SECOND / rate, burst, full_at: HashMap::new() }
    }

    /// The cells granted, the cells left, the time until the key is full, and the time until `min`
    /// cells fit.
    fn take(&mut self, key: &[u8], want: LeaseRequest, now: u64) -> (u64, u64, u64, u64) {
        let full_at = self.full_at.entry(key.into()).or_insert(0);
        let full = self.burst * self.interval_nanos;
        let owed = full_at.saturating_sub(now);
        let there = full.saturating_sub(owed) / self.interval_nanos;
        let given = if there < want.min { 0 } else { there.min(want.max) };
        *full_at = now.max(*full_at) + given * self.interval_nanos;
        let wait = (owed + want.min * self.interval_nanos).saturating_sub(full);
        (given, there - given, *full_at - now, wait)
    }
}

/// The server that all processes share. It leases for a lifetime in which `rate * lifetime` cells
/// come back, and lowers the burst by them.
#[derive(Debug)]
pub(super) struct SimulatedServer {
    exact: Mutex<Exact>,
    lifetime_nanos: u64,
    pub(super) limit: u64,
}

impl SimulatedServer {
    pub(super) fn new(rate: u64, burst: u64, lifetime_nanos: u64) -> Self {
        let lowered = burst - (lifetime_nanos * rate).div_ceil(SECOND);
        Self { limit: lowered, ..Self::with_whole_burst(rate, lowered, lifetime_nanos) }
    }

    /// The mistake: the burst is not lowered.
    fn with_whole_burst(rate: u64, burst: u64, lifetime_nanos: u64) -> Self {
        let exact = Mutex::new(Exact::new(rate, burst));
        Self { exact, lifetime_nanos, limit: burst }
    }

    fn take(&self, key: &[u8], want: LeaseRequest, now: u64) -> Grant {
        let mut exact = self.exact.lock().unwrap_or_else(PoisonError::into_inner);
        let (cells, remaining, reset, wait) = exact.take(key, want, now);
        let reset_after = Duration::from_nanos(reset);
        let parts = DecisionParts { limit: self.limit, remaining, reset_after };
        let fits = want.min <= self.limit;
        let retry_after = (cells < want.min && fits).then(|| Duration::from_nanos(wait));
        Grant { cells, lifetime: Duration::from_nanos(self.lifetime_nanos), parts, retry_after }
    }
}

/// How a process reaches the server.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// Latency of a request, and of a reply.
    latency_nanos: Range<u64>,
    /// Lost requests in a thousand, and lost replies in a thousand.
    lost_per_mille: u64,
    deadline_nanos: u64,
    /// The mistake: lifetimes are counted from when the reply arrives.
    counts_from_reply: bool,
}

impl Link {
    pub(super) fn good(latency_nanos: Range<u64>) -> Self {
        let deadline_nanos = SECOND;
        Self { latency_nanos, lost_per_mille: 0, deadline_nanos, counts_from_reply: false }
    }
}

/// The server as one process reaches it.
#[derive(Debug)]
pub(super) struct SimulatedSource {
    server: Arc<SimulatedServer>,
    link: Link,
    clock: Local,
    rng: Mutex<Rng>,
}

impl SimulatedSource {
    pub(super) fn new(server: &Arc<SimulatedServer>, link: &Link, clock: Local, seed: u64) -> Self {
        let rng = Mutex::new(Rng::new(seed));
        Self { server: Arc::clone(server), link: link.clone(), clock, rng }
    }

    /// The latency of a message. `None` if it never arrives.
    fn fate(&self) -> Option<u64> {
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        let is_lost = rng.within(0..1_000) < self.link.lost_per_mille;
        let latency = rng.within(self.link.latency_nanos.clone());
        (!is_lost).then_some(latency)
    }

    async fn exchange(&self, key: &[u8], want: LeaseRequest) -> Grant {
        let (Some(there), back) = (self.fate(), self.fate()) else {
            return core::future::pending().await;
        };
        let sent = self.clock.nanos();
        sleep(there).await;
        let mut grant = self.server.take(key, want, self.clock.nanos());
        match back {
            Some(back) => sleep(back).await,
            None => core::future::pending().await,
        }
        if self.link.counts_from_reply {
            grant.lifetime += Duration::from_nanos(self.clock.nanos() - sent);
        }
        grant
    }
}

impl LeaseSource for SimulatedSource {
    async fn take(&self, key: &[u8], want: LeaseRequest) -> Result<Grant, Unavailable> {
        let deadline = Duration::from_nanos(self.link.deadline_nanos) * SLOWER;
        tokio::time::timeout(deadline, self.exchange(key, want))
            .await
            .map_err(|_| Unavailable::TimedOut)
    }
}
