//! The limiters as people usually write them: the clock of `std` is read under a lock, numbers are
//! floating point, and there is one map. Besides, a counter that a thread resets to zero.

#![allow(clippy::disallowed_types, reason = "a lock, and this clock, are what is measured")]

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The state under the lock, limit included.
pub trait Textbook: Send {
    /// Admits at most `limit` cells in `period`, beginning `now`.
    fn new(limit: u32, period: Duration, now: Instant) -> Self;

    /// Asks for one cell.
    fn check_at(&mut self, now: Instant) -> bool;
}

/// A number of tokens, with fractions, up to the limit.
#[derive(Debug)]
pub struct TokenBucket {
    tokens: f64,
    capacity: f64,
    per_second: f64,
    refilled: Instant,
}

impl Textbook for TokenBucket {
    fn new(limit: u32, period: Duration, now: Instant) -> Self {
        let capacity = f64::from(limit);
        let per_second = capacity / period.as_secs_f64();
        Self { tokens: capacity, capacity, per_second, refilled: now }
    }

    #[inline]
    fn check_at(&mut self, now: Instant) -> bool {
        let passed = now.duration_since(self.refilled).as_secs_f64();
        self.tokens = (self.tokens + passed * self.per_second).min(self.capacity);
        self.refilled = now;
        let admitted = self.tokens >= 1.0;
        if admitted {
            self.tokens -= 1.0;
        }
        admitted
    }
}

/// A level, with fractions, that falls at the rate.
#[derive(Debug)]
pub struct LeakyLevel {
    level: f64,
    capacity: f64,
    per_second: f64,
    leaked: Instant,
}

impl Textbook for LeakyLevel {
    fn new(limit: u32, period: Duration, now: Instant) -> Self {
        let capacity = f64::from(limit);
        Self { level: 0.0, capacity, per_second: capacity / period.as_secs_f64(), leaked: now }
    }

    #[inline]
    fn check_at(&mut self, now: Instant) -> bool {
        let passed = now.duration_since(self.leaked).as_secs_f64();
        self.level = (self.level - passed * self.per_second).max(0.0);
        self.leaked = now;
        let admitted = self.level + 1.0 <= self.capacity;
        if admitted {
            self.level += 1.0;
        }
        admitted
    }
}

/// The requests in a queue, in order; one leaves in each interval.
#[derive(Debug)]
pub struct LeakyQueue {
    waiting: VecDeque<Instant>,
    capacity: usize,
    interval: Duration,
    leaked: Instant,
}

impl Textbook for LeakyQueue {
    fn new(limit: u32, period: Duration, now: Instant) -> Self {
        let capacity = usize::try_from(limit).expect("64 bits");
        let waiting = VecDeque::with_capacity(capacity);
        Self { waiting, capacity, interval: period / limit, leaked: now }
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "at most as many as wait; below 50 days")]
    fn check_at(&mut self, now: Instant) -> bool {
        let nanos = |span: Duration| span.as_nanos() as u64;
        let left = nanos(now.duration_since(self.leaked)) / nanos(self.interval);
        self.leaked += Duration::from_nanos(left * nanos(self.interval));
        let left = left.min(self.waiting.len() as u64) as usize;
        self.waiting.drain(..left);
        let admitted = self.waiting.len() < self.capacity;
        if admitted {
            self.waiting.push_back(now);
        }
        admitted
    }
}

/// A count, and the beginning of its window.
#[derive(Debug)]
pub struct WindowCount {
    count: u32,
    limit: u32,
    period: Duration,
    began: Instant,
}

impl Textbook for WindowCount {
    fn new(limit: u32, period: Duration, now: Instant) -> Self {
        Self { count: 0, limit, period, began: now }
    }

    #[inline]
    fn check_at(&mut self, now: Instant) -> bool {
        if now.duration_since(self.began) >= self.period {
            self.began = now;
            self.count = 0;
        }
        let admitted = self.count < self.limit;
        self.count += u32::from(admitted);
        admitted
    }
}

/// A textbook limiter under `std`'s mutex. The clock is read under the lock.
#[derive(Debug)]
#[repr(align(128))]
pub struct One<T>(Mutex<T>);

impl<T: Textbook> One<T> {
    /// Admits at most `limit` cells in `period`.
    #[must_use]
    pub fn new(limit: u32, period: Duration) -> Self {
        Self(Mutex::new(T::new(limit, period, Instant::now())))
    }

    /// Asks for one cell.
    ///
    /// # Panics
    ///
    /// If another thread panicked while it held the lock.
    #[inline]
    pub fn check(&self) -> bool {
        self.0.lock().expect("no panic").check_at(Instant::now())
    }
}

/// A textbook limiter for each key, in one default `HashMap` under `std`'s mutex.
#[derive(Debug)]
pub struct Keyed<T> {
    map: Mutex<HashMap<u64, T>>,
    limit: u32,
    period: Duration,
}

impl<T: Textbook> Keyed<T> {
    /// Admits at most `limit` cells of each key in `period`.
    #[must_use]
    pub fn new(limit: u32, period: Duration) -> Self {
        Self { map: Mutex::default(), limit, period }
    }

    /// Asks for one cell for a key.
    ///
    /// # Panics
    ///
    /// If another thread panicked while it held the lock.
    #[inline]
    pub fn check(&self, key: u64) -> bool {
        let mut map = self.map.lock().expect("no panic");
        let now = Instant::now();
        map.entry(key).or_insert_with(|| T::new(self.limit, self.period, now)).check_at(now)
    }
}

/// A counter that its own thread resets to zero in each period: a decision reads no clock and takes
/// no lock. A denial is counted, too, and a window begins when that thread runs.
#[derive(Debug)]
pub struct Ticked {
    counter: Arc<Counter>,
    limit: u64,
    /// Dropping it ends the thread.
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Counter(AtomicU64);

impl Ticked {
    /// Admits at most `limit` cells between two resets, which are `period` apart.
    #[must_use]
    pub fn new(limit: u64, period: Duration) -> Self {
        let (stop, stopped) = mpsc::channel();
        let counter = Arc::new(Counter::default());
        let reset = Arc::clone(&counter);
        let thread = std::thread::spawn(move || {
            while stopped.recv_timeout(period) == Err(mpsc::RecvTimeoutError::Timeout) {
                reset.0.store(0, Ordering::Relaxed);
            }
        });
        Self { counter, limit, stop: Some(stop), thread: Some(thread) }
    }

    /// Asks for one cell.
    #[inline]
    pub fn check(&self) -> bool {
        self.counter.0.fetch_add(1, Ordering::Relaxed) < self.limit
    }
}

impl Drop for Ticked {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("no panic");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers at these milliseconds, with 2 cells in 100 ms.
    fn asked<T: Textbook, const N: usize>(at_ms: [u64; N]) -> [bool; N] {
        let begin = Instant::now();
        let mut state = T::new(2, Duration::from_millis(100), begin);
        at_ms.map(|at| state.check_at(begin + Duration::from_millis(at)))
    }

    #[test]
    fn tokens_are_restored_one_by_one() {
        let at = [0, 0, 49, 51, 51, 300, 300, 300];
        let admitted = [true, true, false, true, false, true, true, false];
        assert_eq!(asked::<TokenBucket, _>(at), admitted);
        assert_eq!(asked::<LeakyLevel, _>(at), admitted);
    }

    #[test]
    fn a_queue_leaks_one_request_in_each_interval() {
        let at = [0, 1, 49, 50, 99, 100, 300, 300, 300];
        let admitted = [true, true, false, true, false, true, true, true, false];
        assert_eq!(asked::<LeakyQueue, _>(at), admitted);
    }

    #[test]
    fn a_window_counts_from_its_first_event() {
        let at = [0, 99, 99, 100, 150, 199, 250];
        let admitted = [true, true, false, true, true, false, true];
        assert_eq!(asked::<WindowCount, _>(at), admitted);
    }

    #[test]
    fn keys_are_independent() {
        let gate: Keyed<TokenBucket> = Keyed::new(1, Duration::from_secs(3_600));
        assert!(gate.check(1) && gate.check(2) && !gate.check(1) && !gate.check(2));
    }

    #[test]
    fn a_counter_with_a_ticker_admits_the_limit_in_each_period() {
        let hour = Ticked::new(3, Duration::from_secs(3_600));
        assert_eq!([0; 5].map(|_| hour.check()), [true, true, true, false, false]);
        let gate = Ticked::new(1, Duration::from_millis(5));
        let begin = Instant::now();
        let granted = (0..3).map(|_| while !gate.check() {}).count();
        // Two resets happen between three cells.
        assert!(granted == 3 && begin.elapsed() >= Duration::from_millis(5));
    }
}
