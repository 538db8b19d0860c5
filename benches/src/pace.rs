//! Time for windows to pass in: minutes, while a benchmark runs for a second.

#![allow(clippy::disallowed_types, reason = "nothing here is on the limiter's path")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::{Clock, QuantaClock, Tick};

/// Times that the caller gives. Threads take them in runs from one supply, so that they stay
/// together, and time goes by with the decisions of all threads.
#[derive(Debug)]
#[repr(align(128))]
pub struct Supply {
    next_nanos: AtomicU64,
    step_nanos: u64,
}

impl Supply {
    /// Times in a run.
    pub const RUN: usize = 64;

    /// From `first_nanos` on, `step_nanos` apart.
    #[must_use]
    pub fn new(first_nanos: u64, step_nanos: u64) -> Self {
        Self { next_nanos: AtomicU64::new(first_nanos), step_nanos }
    }

    /// The next run's first time.
    #[inline]
    pub fn run(&self) -> u64 {
        self.next_nanos.fetch_add(Self::RUN as u64 * self.step_nanos, Ordering::Relaxed)
    }

    /// From one time of a run to the next.
    #[inline]
    #[must_use]
    pub fn step_nanos(&self) -> u64 {
        self.step_nanos
    }
}

/// The limiter's own clock, read as ever, whose nanoseconds count several times. It stands still
/// while other rows have their turn.
#[derive(Debug)]
pub struct Stretched {
    real: QuantaClock,
    first_nanos: u64,
    times: u64,
    /// Real nanoseconds that do not count.
    paused_nanos: AtomicU64,
    turn: Mutex<Turns>,
}

#[derive(Debug)]
struct Turns {
    threads: usize,
    ended_nanos: u64,
}

impl Stretched {
    /// From `first_nanos` on; a real nanosecond is `times` of its own.
    #[must_use]
    pub fn new(first_nanos: u64, times: u64) -> Self {
        let turn = Mutex::new(Turns { threads: 0, ended_nanos: 0 });
        let real = QuantaClock::new();
        Self { real, first_nanos, times, paused_nanos: AtomicU64::new(0), turn }
    }

    /// A thread begins its turn.
    ///
    /// # Panics
    ///
    /// If another thread panicked meanwhile.
    pub fn begin(&self) {
        let mut turn = self.turn.lock().expect("no panic");
        if turn.threads == 0 {
            let pause = self.real.now().as_nanos() - turn.ended_nanos;
            self.paused_nanos.fetch_add(pause, Ordering::Relaxed);
        }
        turn.threads += 1;
    }

    /// A thread ends its turn.
    ///
    /// # Panics
    ///
    /// If another thread panicked meanwhile.
    pub fn end(&self) {
        let mut turn = self.turn.lock().expect("no panic");
        turn.threads -= 1;
        turn.ended_nanos = self.real.now().as_nanos();
    }
}

impl Clock for Stretched {
    #[inline]
    fn now(&self) -> Tick {
        // Counters of two cores may differ by a little.
        let real = self.real.now().as_nanos();
        let own = real.saturating_sub(self.paused_nanos.load(Ordering::Relaxed));
        Tick::from_nanos(self.first_nanos + own * self.times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_supply_gives_each_time_once() {
        let supply = Supply::new(7, 10);
        assert_eq!((supply.run(), supply.run()), (7, 647));
    }

    #[test]
    fn a_stretched_clock_stands_still_between_turns() {
        let clock = Stretched::new(5_000_000_000, 1_000_000);
        clock.begin();
        clock.end();
        std::thread::sleep(std::time::Duration::from_millis(20));
        clock.begin();
        let seconds = clock.now().as_nanos() / 1_000_000_000 - 5;
        clock.end();
        assert!(seconds < 20_000, "20 ms are 20,000 s on it: {seconds}");
    }
}
