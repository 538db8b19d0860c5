//! Keys in the forms that peers accept: numbers, or text.

use std::borrow::Borrow;

use tollgate_benches::keys;

/// The form in which a peer takes keys.
pub trait Form: Send + Sync {
    /// The form in a sequence.
    type Own: Borrow<Self> + Send + Sync;

    /// The key of a rank.
    fn own(rank: usize) -> Self::Own;

    /// The sequence of this form.
    fn of(sequence: &Sequence) -> &[Self::Own];
}

impl Form for u64 {
    type Own = Self;

    fn own(rank: usize) -> Self {
        keys::key(rank)
    }

    fn of(sequence: &Sequence) -> &[Self] {
        &sequence.numbers
    }
}

/// The same numbers in 16 hexadecimal digits.
impl Form for str {
    type Own = Box<Self>;

    fn own(rank: usize) -> Box<Self> {
        format!("{:016x}", keys::key(rank)).into_boxed_str()
    }

    fn of(sequence: &Sequence) -> &[Box<Self>] {
        &sequence.texts
    }
}

/// The keys of a comparison in the order of the requests, in all forms.
#[derive(Debug)]
pub struct Sequence {
    numbers: Vec<u64>,
    texts: Vec<Box<str>>,
}

impl Sequence {
    /// The keys of these ranks.
    #[must_use]
    pub fn new(ranks: &[usize]) -> Self {
        let numbers = ranks.iter().map(|&rank| u64::own(rank)).collect();
        let texts = ranks.iter().map(|&rank| str::own(rank)).collect();
        Self { numbers, texts }
    }
}

/// All ranks below `count`, once each, in an order unrelated to their frequency.
///
/// # Panics
///
/// If `count` is zero, or divisible by the prime that determines the order.
pub fn mixed(count: usize) -> impl Iterator<Item = usize> {
    const STRIDE: usize = 7_368_787;
    assert!(!count.is_multiple_of(STRIDE), "another prime is needed");
    (0..count).map(move |index| index * STRIDE % count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn mixed_ranks_contain_each_rank_once() {
        for count in [1, 2, 1_000, 100_000] {
            assert_eq!(mixed(count).collect::<HashSet<usize>>().len(), count);
        }
    }

    #[test]
    fn text_keys_are_the_numbers_in_hexadecimal() {
        let sequence = Sequence::new(&[3, 1]);
        let read = |text: &str| u64::from_str_radix(text, 16).expect("hexadecimal");
        let numbers: Vec<u64> = str::of(&sequence).iter().map(|text| read(text)).collect();
        assert_eq!(numbers, u64::of(&sequence));
        assert!(str::of(&sequence).iter().all(|text| text.len() == 16));
    }
}
