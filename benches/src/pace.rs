//! Clocks for windows: minutes of limiter time pass while a benchmark runs for a second.

#![allow(clippy::disallowed_types, reason = "nothing here is on the limiter's path")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::clock::QuantaClock;
use tollgate::{Clock, Tick};

/// A supply of given times. Threads take runs of times from one supply, so that they stay together,
/// and time advances with the decisions of all threads.
#[derive(Debug)]
#[repr(align(128))]
pub struct Supply {
    next_nanos: AtomicU64,
    step_nanos: u64,
}

impl Supply {
    /// The number of times in a run.
    pub const RUN: usize = 64;

    /// Starts at `first_nanos`, with steps of `step_nanos`.
    #[must_use]
    pub fn new(first_nanos: u64, step_nanos: u64) -> Self {
        Self { next_nanos: AtomicU64::new(first_nanos), step_nanos }
    }

    /// The first time of the next run.
    #[inline]
    pub fn run(&self) -> u64 {
        self.next_nanos.fetch_add(Self::RUN as u64 * self.step_nanos, Ordering::Relaxed)
    }

    /// The step between two times of a run.
    #[inline]
    #[must_use]
    pub fn step_nanos(&self) -> u64 {
        self.step_nanos
    }
}

/// The limiter's own clock, read as usual, with nanoseconds that count several times. It stops
/// while other rows have their turn.
#[derive(Debug)]
pub struct Stretched {
    real: QuantaClock,
    /// The factor of a real nanosecond.
    times: AtomicU64,
    /// Added to the product of real nanoseconds and the factor.
    ahead_nanos: AtomicU64,
    /// The intended step between two decisions. If slow limiters had larger steps than fast ones,
    /// their keys would ask for less. 0: the factor is constant.
    step_nanos: u64,
    turn: Mutex<Turns>,
}

#[derive(Debug)]
struct Turns {
    threads: usize,
    began_nanos: u64,
    /// The time at which this clock stopped.
    ended_nanos: u64,
    decisions: usize,
}

impl Stretched {
    /// Starts at `first_nanos`; a real nanosecond counts `times`.
    #[must_use]
    pub fn new(first_nanos: u64, times: u64) -> Self {
        let turn = Turns { threads: 0, began_nanos: 0, ended_nanos: first_nanos, decisions: 0 };
        Self {
            real: QuantaClock::new(),
            times: AtomicU64::new(times),
            ahead_nanos: AtomicU64::new(0),
            step_nanos: 0,
            turn: Mutex::new(turn),
        }
    }

    /// Starts at `first_nanos`. In each turn the factor is such that decisions as long as those of
    /// the turn before are `step_nanos` apart. The first turn assumes 100 nanoseconds for a
    /// decision.
    #[must_use]
    pub fn paced(first_nanos: u64, step_nanos: u64) -> Self {
        Self { step_nanos, ..Self::new(first_nanos, (step_nanos / 100).max(1)) }
    }

    /// A thread begins its turn.
    ///
    /// # Panics
    ///
    /// If another thread panicked while it held the lock.
    pub fn begin(&self) {
        let mut turn = self.turn.lock().expect("no panic");
        if turn.threads == 0 {
            turn.began_nanos = self.real.now().as_nanos();
            turn.decisions = 0;
            let ahead = turn.ended_nanos.wrapping_sub(self.stretched(turn.began_nanos));
            self.ahead_nanos.store(ahead, Ordering::Relaxed);
        }
        turn.threads += 1;
    }

    /// A thread ends its turn, after `decisions` decisions.
    ///
    /// # Panics
    ///
    /// If another thread panicked while it held the lock.
    pub fn end(&self, decisions: usize) {
        let mut turn = self.turn.lock().expect("no panic");
        turn.threads -= 1;
        turn.decisions += decisions;
        let real = self.real.now().as_nanos();
        turn.ended_nanos = turn.ended_nanos.max(self.read(real));
        let took_nanos = real.saturating_sub(turn.began_nanos);
        if turn.threads == 0 && self.step_nanos > 0 && took_nanos > 0 {
            let times = times_for(self.step_nanos, turn.decisions, took_nanos);
            self.times.store(times, Ordering::Relaxed);
        }
    }

    #[inline]
    fn stretched(&self, real_nanos: u64) -> u64 {
        real_nanos.wrapping_mul(self.times.load(Ordering::Relaxed))
    }

    #[inline]
    fn read(&self, real_nanos: u64) -> u64 {
        self.stretched(real_nanos).wrapping_add(self.ahead_nanos.load(Ordering::Relaxed))
    }
}

/// The factor for which decisions that took this long are a step apart.
fn times_for(step_nanos: u64, decisions: usize, took_nanos: u64) -> u64 {
    let times = u128::from(step_nanos) * decisions as u128 / u128::from(took_nanos);
    u64::try_from(times).unwrap_or(u64::MAX).max(1)
}

impl Clock for Stretched {
    #[inline]
    fn now(&self) -> Tick {
        Tick::from_nanos(self.read(self.real.now().as_nanos()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_supply_returns_each_time_once() {
        let supply = Supply::new(7, 10);
        assert_eq!((supply.run(), supply.run()), (7, 647));
    }

    #[test]
    fn a_stretched_clock_is_stopped_between_turns() {
        let clock = Stretched::new(5_000_000_000, 1_000_000);
        clock.begin();
        clock.end(1);
        std::thread::sleep(std::time::Duration::from_millis(20));
        clock.begin();
        let seconds = clock.now().as_nanos() / 1_000_000_000 - 5;
        clock.end(1);
        assert!(seconds < 20_000, "20 ms are 20,000 s on it: {seconds}");
    }

    #[test]
    fn a_paced_clock_uses_the_pace_of_the_turn_before() {
        assert_eq!(times_for(1_000, 50, 25_000), 2, "500 ns each");
        assert_eq!(times_for(1_000, 50, 100_000_000), 1, "never slower than the real one");
        let clock = Stretched::paced(0, 1_000_000);
        clock.begin();
        std::thread::sleep(std::time::Duration::from_millis(20));
        clock.end(1);
        assert!(clock.times.load(Ordering::Relaxed) <= 1, "a decision of 20 ms");
        clock.begin();
        clock.end(1_000_000_000);
        assert!(clock.times.load(Ordering::Relaxed) > 1_000_000, "of next to nothing");
    }
}
