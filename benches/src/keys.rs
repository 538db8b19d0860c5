//! Key sequences. They are made before the measurement, and are the same for all rows of a
//! comparison.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};

/// Keys in a sequence: 4 MB of `u64`, read in order, so prefetched.
pub const SEQUENCE: usize = 1 << 19;

/// Keys of a table that may be taken for another. Of a million in compact slots, two coincide in one table
/// of ten.
pub const COINCIDING_MAX: usize = 5;

const ZIPF: f64 = 0.99;
const STEEP: f64 = 1.2;

/// Asks for a first cell for every key. All are admitted but those that coincide with another.
///
/// # Panics
///
/// If more are denied than can be explained so.
pub fn ask_for_all<K>(keys: &[K], check: impl Fn(&K) -> bool) {
    let denied = keys.iter().filter(|key| !check(key)).count();
    assert!(denied <= COINCIDING_MAX, "{denied} of {} fresh keys are denied", keys.len());
}

/// The distribution of the ranks in a sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Draw {
    /// All keys have the same weight.
    Uniform,
    /// The key of rank `r` with a weight of `r` to the power of minus 0.99.
    Zipf,
    /// The same with an exponent of 1.2, so that a few keys have most of the weight.
    Steep,
    /// Always the first key.
    One,
}

impl Draw {
    /// The name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf 0.99",
            Self::Steep => "zipf 1.2",
            Self::One => "one key",
        }
    }

    /// The sum of all weights. The weight of the first key is 1.
    #[must_use]
    pub fn weights(self, count: usize) -> f64 {
        let exponent = match self {
            Self::Uniform => return as_float(count),
            Self::One => return 1.0,
            Self::Zipf => ZIPF,
            Self::Steep => STEEP,
        };
        (1..=count).map(|rank| as_float(rank).powf(-exponent)).sum()
    }
}

/// A sequence of ranks below `count`.
#[must_use]
pub fn ranks(draw: Draw, count: usize) -> Vec<usize> {
    let mut rng = SmallRng::seed_from_u64(0x7011_6a7e);
    let exponent = if draw == Draw::Steep { STEEP } else { ZIPF };
    let zipf = Zipf::new(as_float(count), exponent).expect("a count above zero");
    let mut draw_one = || match draw {
        Draw::Uniform => rng.random_range(0..count),
        Draw::Zipf | Draw::Steep => whole(zipf.sample(&mut rng)).clamp(1, count) - 1,
        Draw::One => 0,
    };
    (0..SEQUENCE).map(|_| draw_one()).collect()
}

/// The key of a rank. Keys are distinct and unordered.
#[must_use]
pub fn key(rank: usize) -> u64 {
    let mixed = (rank as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// The key of a rank as the text of an IPv4 address: distinct, 7 to 15 bytes long.
#[must_use]
pub fn address(rank: usize) -> String {
    let mixed = (rank as u64).wrapping_mul(0x9e37_79b1) & 0xffff_ffff;
    std::net::Ipv4Addr::from(u32::try_from(mixed).expect("masked to 32 bits")).to_string()
}

#[allow(clippy::cast_precision_loss, reason = "counts of keys are far below 2^52")]
fn as_float(count: usize) -> f64 {
    count as f64
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank, clamped next")]
fn whole(rank: f64) -> usize {
    rank as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_are_distinct() {
        let keys: HashSet<u64> = (0..100_000).map(key).collect();
        assert_eq!(keys.len(), 100_000);
        let addresses: HashSet<String> = (0..100_000).map(address).collect();
        assert_eq!(addresses.len(), 100_000);
    }

    #[test]
    fn a_zipf_sequence_has_the_expected_share_of_the_first_rank() {
        for (draw, exponent) in [(Draw::Zipf, 0.99), (Draw::Steep, 1.2)] {
            let ranks = ranks(draw, 1_000);
            assert!(ranks.iter().all(|&rank| rank < 1_000));
            let harmonic: f64 = (1..=1_000).map(|rank| f64::from(rank).powf(-exponent)).sum();
            assert!((draw.weights(1_000) / harmonic - 1.0).abs() < 1e-12);
            let expected = as_float(SEQUENCE) / harmonic;
            let first = as_float(ranks.iter().filter(|&&rank| rank == 0).count());
            assert!((first / expected - 1.0).abs() < 0.02, "{first} of about {expected}");
        }
    }

    #[test]
    fn a_uniform_sequence_reaches_all_keys() {
        let seen: HashSet<usize> = ranks(Draw::Uniform, 1_000).into_iter().collect();
        assert_eq!(seen.len(), 1_000);
    }
}
