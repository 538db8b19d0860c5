//! Bit fields of a 64-bit word.

/// A run of bits in a word: `bits` of them, the lowest at `shift`.
///
/// Widths may depend on the quota, so a field is a value; the constant ones cost nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    shift: u32,
    /// The largest value, which the hot path needs.
    max: u64,
}

impl Field {
    /// The field of `bits` bits (1 to 64) that begins at bit `shift`.
    pub(crate) const fn new(shift: u32, bits: u32) -> Self {
        assert!(bits >= 1 && shift + bits <= 64, "a field must lie inside the word");
        Self { shift, max: u64::MAX >> (64 - bits) }
    }

    /// The field of `bits` bits directly above this one.
    pub(crate) const fn above(self, bits: u32) -> Self {
        Self::new(self.shift + self.bits(), bits)
    }

    pub(crate) const fn bits(self) -> u32 {
        self.max.count_ones()
    }

    /// The largest value, which is also the mask of the unshifted value.
    #[inline]
    pub(crate) const fn max(self) -> u64 {
        self.max
    }

    /// The value of this field in `word`.
    #[inline]
    pub(crate) const fn of(self, word: u64) -> u64 {
        (word >> self.shift) & self.max()
    }

    /// As [`of`](Self::of), for a field that begins at bit 0.
    #[inline]
    pub(crate) const fn lowest_of(self, word: u64) -> u64 {
        debug_assert!(self.shift == 0);
        word & self.max()
    }

    /// As [`of`](Self::of), for the highest field of a word whose bits above it are zeros.
    #[inline]
    pub(crate) const fn highest_of(self, word: u64) -> u64 {
        debug_assert!(word >> self.shift <= self.max());
        word >> self.shift
    }

    /// `word` with this field holding `value`. The field is 0 before, and `value` fits it.
    #[inline]
    pub(crate) const fn fill(self, word: u64, value: u64) -> u64 {
        debug_assert!(value <= self.max() && self.of(word) == 0);
        word | value << self.shift
    }

    /// `word` with this field holding the low bits of `value`.
    #[inline]
    pub(crate) const fn set(self, word: u64, value: u64) -> u64 {
        (word & !(self.max() << self.shift)) | ((value & self.max()) << self.shift)
    }

    #[cfg(test)]
    const fn mask(self) -> u64 {
        self.max() << self.shift
    }
}

/// Whether the fields cover the lowest `bits` bits of a word, each bit once.
#[cfg(test)]
pub(crate) fn tile(fields: &[Field], bits: u32) -> bool {
    let mut covered: u64 = 0;
    for field in fields {
        if covered & field.mask() != 0 {
            return false;
        }
        covered |= field.mask();
    }
    covered == u64::MAX >> (64 - bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_field_keeps_its_value_and_leaves_the_rest(
            shift in 0_u32..64, width in 1_u32..=64, word: u64, value: u64,
        ) {
            let field = Field::new(shift, width.min(64 - shift));
            let changed = field.set(word, value);
            prop_assert_eq!(field.of(changed), value & field.max());
            prop_assert_eq!(changed & !field.mask(), word & !field.mask());
            prop_assert_eq!(field.set(changed, field.of(word)), word);
            prop_assert_eq!(field.fill(word & !field.mask(), value & field.max()), changed);
            let highest = word & (u64::MAX >> field.mask().leading_zeros());
            prop_assert_eq!(field.highest_of(highest), field.of(word));
        }
    }
}
