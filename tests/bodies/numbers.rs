//! Numbers from which options are drawn, whatever they come from.

/// A source of numbers.
pub(crate) trait Numbers {
    /// Any number.
    fn any(&mut self) -> u64;

    /// A number below `end`, which is not 0.
    fn below(&mut self, end: u64) -> u64 {
        let wide = u128::from(self.any()) * u128::from(end);
        u64::try_from(wide >> 64).expect("a product's upper half")
    }

    fn within(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    fn few(&mut self, end: u32) -> u32 {
        u32::try_from(self.below(end.into())).expect("below a number of 32 bits")
    }

    /// A number below `2^bits`, small ones as likely as large ones.
    fn scaled(&mut self, bits: u32) -> u64 {
        let highest = 1 << self.few(bits);
        highest | (self.any() & (highest - 1))
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        let place = self.below(all.len() as u64);
        all[usize::try_from(place).expect("a place in a slice")]
    }

    /// A nanosecond less, none, or one more.
    fn off(&mut self) -> i64 {
        self.one_of(&[-1, 0, 1])
    }
}

/// The numbers of a list, and zeros after them. Smaller numbers draw simpler options, so a property that fails
/// shrinks to them.
pub(crate) struct Listed<'n>(pub(crate) &'n [u64]);

impl Numbers for Listed<'_> {
    fn any(&mut self) -> u64 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }
}
