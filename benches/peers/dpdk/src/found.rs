//! The meter that `meter.c` compiles from DPDK's header.

#![allow(unsafe_code, reason = "functions in C are declared")]

use crate::{Parameters, Period};

/// A meter with its profile: `struct tollgate_meter` in `meter.c`, where the layout is checked.
#[derive(Debug)]
#[repr(C)]
pub struct Meter {
    /// When bytes were last restored.
    time: u64,
    committed_bytes: u64,
    excess_bytes: u64,
    burst_bytes: u64,
    excess_burst_bytes: u64,
    period_ticks: u64,
    period_bytes: u64,
}

// SAFETY: the signatures are those of `meter.c`. A meter is passed as an exclusive reference to a struct of
// the same layout, and the functions access nothing else. They keep no pointer. Each divides by
// `period_ticks` only, which `Meter::new` makes at least 1; all other arithmetic is on unsigned words, which
// wrap.
unsafe extern "C" {
    safe fn tollgate_meter_ticks() -> u64;
    safe fn tollgate_meter_check(meter: &mut Meter, now: u64, bytes: u32) -> bool;
    safe fn tollgate_meter_check_given(
        meter: &mut Meter,
        now: u64,
        step: u64,
        bytes: u32,
        count: u64,
    ) -> u64;
    safe fn tollgate_meter_check_own(meter: &mut Meter, bytes: u32, count: u64) -> u64;
}

/// The processor's counter.
///
/// # Errors
///
/// None where the meter was compiled.
pub fn ticks() -> Result<u64, &'static str> {
    Ok(tollgate_meter_ticks())
}

impl Meter {
    /// A full bucket.
    ///
    /// # Errors
    ///
    /// If a period is shorter than a tick.
    pub fn new(parameters: &Parameters, now: u64) -> Result<Self, &'static str> {
        let Period { ticks, bytes } = parameters.period();
        if ticks == 0 {
            return Err("a period is shorter than a tick: use a counter with more ticks");
        }
        Ok(Self {
            time: now,
            committed_bytes: parameters.burst_bytes,
            excess_bytes: 0,
            burst_bytes: parameters.burst_bytes,
            excess_burst_bytes: 0,
            period_ticks: ticks,
            period_bytes: bytes,
        })
    }

    /// Whether a packet is green.
    #[inline]
    pub fn check(&mut self, now: u64, bytes: u32) -> bool {
        tollgate_meter_check(self, now, bytes)
    }

    /// How many of `count` packets are green, the first at `now + step`.
    pub fn check_given(&mut self, now: u64, step: u64, bytes: u32, count: u64) -> u64 {
        tollgate_meter_check_given(self, now, step, bytes, count)
    }

    /// How many of `count` packets are green, at times that the loop reads from the counter.
    pub fn check_own(&mut self, bytes: u32, count: u64) -> u64 {
        tollgate_meter_check_own(self, bytes, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten bytes, and one more each 100,000,000 ticks.
    fn meter() -> Meter {
        let bytes_per_second = 10.try_into().expect("not zero");
        let parameters =
            Parameters { bytes_per_second, burst_bytes: 10, ticks_per_second: 1_000_000_000 };
        Meter::new(&parameters, 5_000).expect("DPDK was found")
    }

    #[test]
    fn a_burst_is_green_once_and_restored_byte_by_byte() {
        let mut meter = meter();
        assert!(!meter.check(5_000, 11), "beyond the burst");
        assert_eq!((0..30).filter(|_| meter.check(5_000, 1)).count(), 10);
        assert!(!meter.check(100_004_999, 1), "a tick too early");
        assert!(meter.check(100_005_000, 1) && !meter.check(100_005_000, 1));
        let much_later = 3_600_000_000_000;
        assert_eq!((0..30).filter(|_| meter.check(much_later, 1)).count(), 10);
    }

    #[test]
    fn the_loops_decide_as_single_calls_do() {
        let (mut calls, mut given, mut own) = (meter(), meter(), meter());
        let step = 30_000_000;
        let green = (1..=40).filter(|index| calls.check(5_000 + index * step, 1)).count();
        assert_eq!(green, 22, "ten, and one each 100 ms of 1.2 s");
        assert_eq!(given.check_given(5_000, step, 1, 40), 22);
        own.time = tollgate_meter_ticks();
        assert_eq!(own.check_own(1, 30), 10, "no byte is restored in so few ticks");
    }

    /// The difference of the times wraps, so the meter takes it for centuries.
    #[test]
    fn a_time_before_the_last_one_fills_the_bucket() {
        let mut meter = meter();
        assert!(meter.check(200_005_000, 10) && !meter.check(200_005_000, 1));
        assert!(meter.check(200_004_999, 10));
    }
}
