//! Numbers drawn by SplitMix64: a few instructions each, and any state is as good as another.

use crate::bodies::numbers::Numbers;

/// A stream of numbers from a seed.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    /// The numbers of one case among those of a seed.
    pub(crate) fn of_case(seed: u64, number: u64) -> Self {
        Self(Self(seed ^ Self(number).any()).any())
    }
}

impl Numbers for Chance {
    fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
