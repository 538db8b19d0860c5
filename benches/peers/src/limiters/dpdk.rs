//! DPDK's single-rate meter: one bucket for one thread.

use std::num::NonZeroU32;

use tollgate_dpdk::{Meter, Parameters, ticks};

use crate::bucket::Watch;
use crate::plan::Plan;

/// DPDK's meter, with a plan's cells as bytes: a cell is as many bytes as the period has seconds. So one
/// cell an hour, which is less than a byte a second otherwise, is 3,600 bytes an hour.
#[derive(Debug)]
pub struct DpdkMeter {
    meter: Meter,
    cell_bytes: u32,
}

impl DpdkMeter {
    /// The name in tables.
    pub const NAME: &str = "DPDK meter for one thread";

    /// A full bucket for times in nanoseconds, from zero on.
    ///
    /// # Errors
    ///
    /// The reason, if the meter was not compiled.
    pub fn given(plan: Plan) -> Result<Self, &'static str> {
        Self::new(plan, 1_000_000_000, 0)
    }

    /// A full bucket for the processor's counter.
    ///
    /// # Errors
    ///
    /// The reason, if the meter was not compiled.
    pub fn own(plan: Plan) -> Result<Self, &'static str> {
        let ticks_per_second = ticks_per_second()?;
        Self::new(plan, ticks_per_second, ticks()?)
    }

    fn new(plan: Plan, ticks_per_second: u64, now: u64) -> Result<Self, &'static str> {
        let cell_bytes =
            u32::try_from(plan.period.as_secs()).map_err(|_| "the period is too long")?;
        if cell_bytes == 0 || plan.period.subsec_nanos() != 0 {
            return Err("the period is not in whole seconds");
        }
        let parameters = Parameters {
            bytes_per_second: NonZeroU32::new(plan.rate).ok_or("the rate is zero")?,
            burst_bytes: u64::from(plan.burst) * u64::from(cell_bytes),
            ticks_per_second,
        };
        Ok(Self { meter: Meter::new(&parameters, now)?, cell_bytes })
    }

    /// Whether one cell was granted at `now`.
    #[inline]
    pub fn check_at(&mut self, now: u64) -> bool {
        self.meter.check(now, self.cell_bytes)
    }

    /// How many of `count` cells were granted, the first at `now + step`, in a loop in C.
    pub fn check_given(&mut self, now: u64, step: u64, count: usize) -> usize {
        counted(self.meter.check_given(now, step, self.cell_bytes, count as u64))
    }

    /// How many of `count` cells were granted at the counter's times, in a loop in C.
    pub fn check_own(&mut self, count: usize) -> usize {
        counted(self.meter.check_own(self.cell_bytes, count as u64))
    }

    /// Whether `n` cells at once were granted at the counter's time; `None` if they are more bytes than a
    /// packet has.
    pub fn check_n_own(&mut self, n: u32) -> Option<bool> {
        let bytes = self.cell_bytes.checked_mul(n)?;
        Some(self.meter.check(ticks().ok()?, bytes))
    }
}

fn counted(green: u64) -> usize {
    usize::try_from(green).expect("64 bits")
}

/// The counter's ticks in a second, from 20 ms.
fn ticks_per_second() -> Result<u64, &'static str> {
    const NANOS_MIN: u64 = 20_000_000;
    let watch = Watch::start();
    let (first, begin) = (ticks()?, watch.nanos());
    loop {
        let (last, nanos) = (ticks()?, watch.nanos() - begin);
        if nanos >= NANOS_MIN {
            return Ok((last - first) * 1_000_000_000 / nanos);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The meter of `build`, or nothing where the header is not installed.
    fn meter(build: Result<DpdkMeter, &'static str>) -> Option<DpdkMeter> {
        build.inspect_err(|why| println!("SKIPPED: DPDK's meter: {why}")).ok()
    }

    #[test]
    fn the_meter_grants_its_burst_and_a_cell_each_hour() {
        let Some(mut meter) = meter(DpdkMeter::given(Plan::hourly(10))) else { return };
        let mut granted_at = |now| (0..30).filter(|_| meter.check_at(now)).count();
        assert_eq!(granted_at(1_000_000_000), 10);
        assert_eq!(granted_at(3_600_999_999_999), 0, "a nanosecond too early");
        assert_eq!(granted_at(3_601_000_000_000), 1);
    }

    #[test]
    fn the_meter_grants_its_burst_by_the_counter() {
        let Some(mut meter) = meter(DpdkMeter::own(Plan::hourly(10))) else { return };
        assert_eq!(meter.check_n_own(11), Some(false));
        assert_eq!(meter.check_n_own(5_124_097), None, "more than 2^32 bytes");
        assert_eq!(meter.check_own(30), 10);
    }
}
