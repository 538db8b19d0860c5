//! Numbers drawn by SplitMix64: a few instructions each, and any state is as good as another.

/// A stream of numbers from a seed.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    /// The numbers of one case among those of a seed.
    pub(crate) fn of_case(seed: u64, number: u64) -> Self {
        Self(Self(seed ^ Self(number).any()).any())
    }

    pub(crate) fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        let wide = u128::from(self.any()) * u128::from(end);
        u64::try_from(wide >> 64).expect("a product's upper half")
    }

    pub(crate) fn within(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    pub(crate) fn few(&mut self, end: u32) -> u32 {
        u32::try_from(self.below(end.into())).expect("below a number of 32 bits")
    }

    /// A number below `2^bits`, small ones as likely as large ones.
    pub(crate) fn scaled(&mut self, bits: u32) -> u64 {
        let highest = 1 << self.few(bits);
        highest | (self.any() & (highest - 1))
    }

    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        let place = self.below(all.len() as u64);
        all[usize::try_from(place).expect("a place in a slice")]
    }

    /// A nanosecond less, none, or one more.
    pub(crate) fn off(&mut self) -> i64 {
        self.one_of(&[-1, 0, 1])
    }
}
