//! DPDK's single-rate meter (RFC 2697, color-blind), compiled from its installed header.
//!
//! The meter is a plain struct that a decision writes: one thread at a time may use it. It counts bytes
//! and ticks of a counter. Where `build.rs` finds no header, there is no [`Meter`], and [`Meter::new`]
//! says why.

use std::num::NonZeroU32;

#[cfg(dpdk)]
mod found;
#[cfg(not(dpdk))]
mod missing;

#[cfg(dpdk)]
pub use found::{Meter, ticks};
#[cfg(not(dpdk))]
pub use missing::{Meter, ticks};

/// The parameters of a meter.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// The committed information rate.
    pub bytes_per_second: NonZeroU32,
    /// The committed burst size. The excess burst size is zero.
    pub burst_bytes: u64,
    /// The ticks of a second.
    pub ticks_per_second: u64,
}

/// How a meter restores bytes: `bytes` in every `ticks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// The length.
    pub ticks: u64,
    /// The bytes that it restores.
    pub bytes: u64,
}

impl Parameters {
    /// The period that DPDK's `rte_meter_srtcm_profile_config` chooses: one byte, or as many as take 100
    /// ticks. It is in whole ticks, rounded down, so the rate is up to 1 % too high.
    ///
    /// That function is not called here: it asks for the ticks of a second, which DPDK knows only after its
    /// environment was started.
    #[must_use]
    pub fn period(&self) -> Period {
        const MIN_TICKS: u64 = 100;
        let rate = u64::from(self.bytes_per_second.get());
        if self.ticks_per_second >= MIN_TICKS * rate {
            return Period { ticks: self.ticks_per_second / rate, bytes: 1 };
        }
        let bytes = (MIN_TICKS * rate).div_ceil(self.ticks_per_second);
        Period { ticks: self.ticks_per_second * bytes / rate, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(bytes_per_second: u32, ticks_per_second: u64) -> [u64; 2] {
        let bytes_per_second = bytes_per_second.try_into().expect("not zero");
        let Period { ticks, bytes } =
            Parameters { bytes_per_second, burst_bytes: 1, ticks_per_second }.period();
        [ticks, bytes]
    }

    #[test]
    fn a_period_has_a_hundred_ticks_or_one_byte() {
        assert_eq!(period(1, 1_000_000_000), [1_000_000_000, 1]);
        assert_eq!(period(3, 1_000_000_000), [333_333_333, 1]);
        assert_eq!(period(10_000_000, 1_000_000_000), [100, 1]);
        assert_eq!(period(10_000_001, 1_000_000_000), [199, 2]);
        assert_eq!(period(4_000_000_000, 1_000_000_000), [100, 400]);
    }
}
