//! Replaces this package where DPDK's header is not installed: it gives the reason.

use crate::Parameters;

/// No value of this type exists.
#[derive(Debug)]
pub enum Meter {}

const WHY: &str = env!("TOLLGATE_DPDK_MISSING");

/// The processor's counter.
///
/// # Errors
///
/// The reason why there is no meter.
pub fn ticks() -> Result<u64, &'static str> {
    Err(WHY)
}

impl Meter {
    /// A full bucket.
    ///
    /// # Errors
    ///
    /// The reason why there is no meter.
    pub fn new(_parameters: &Parameters, _now: u64) -> Result<Self, &'static str> {
        Err(WHY)
    }

    /// Whether a packet is green.
    pub fn check(&mut self, _now: u64, _bytes: u32) -> bool {
        match *self {}
    }

    /// How many of `count` packets are green, the first at `now + step`.
    pub fn check_given(&mut self, _now: u64, _step: u64, _bytes: u32, _count: u64) -> u64 {
        match *self {}
    }

    /// How many of `count` packets are green, at times that the loop reads from the counter.
    pub fn check_own(&mut self, _bytes: u32, _count: u64) -> u64 {
        match *self {}
    }
}
