//! The calls of a history, and their order.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One call: the request, the answer, and when it began and returned.
#[derive(Clone, Debug)]
pub struct Call<O, A> {
    /// The thread that made it.
    pub thread: usize,
    /// The request.
    pub op: O,
    /// The answer.
    pub answer: A,
    /// The position of its beginning among all beginnings and returns of the history.
    pub begun: u64,
    /// The position of its return.
    pub returned: u64,
}

impl<O, A> Call<O, A> {
    /// From its beginning to its return.
    #[must_use]
    pub fn span(&self) -> (u64, u64) {
        (self.begun, self.returned)
    }
}

/// Numbers the beginnings and returns of a history.
///
/// The counter is an ordinary atomic, which shuttle does not schedule: no other thread runs between a number
/// and the call it belongs to.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Arc<AtomicU64>);

impl Recorder {
    /// Makes a call and records it.
    pub fn call<O, A>(&self, thread: usize, op: O, make: impl FnOnce(&O) -> A) -> Call<O, A> {
        let begun = self.next();
        let answer = make(&op);
        Call { thread, op, answer, begun, returned: self.next() }
    }

    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// The calls as text, a line each, in the order of their beginnings.
pub fn listing<'a, O: Debug + 'a, A: Debug + 'a>(
    calls: impl IntoIterator<Item = &'a Call<O, A>>,
) -> String {
    let mut calls: Vec<_> = calls.into_iter().collect();
    calls.sort_by_key(|call| call.begun);
    let row = |Call { thread, op, answer, begun, returned }: &Call<O, A>| {
        format!("{begun:>3}..{returned:<3} thread {thread} {op:?} -> {answer:?}\n")
    };
    calls.into_iter().map(row).collect()
}

/// Whether any two calls overlap, by their [spans](Call::span): neither returned before the other
/// began. A history without overlaps proves nothing.
#[must_use]
pub fn any_overlap(spans: &[(u64, u64)]) -> bool {
    let overlap = |a: &(u64, u64), b: &(u64, u64)| a.0 < b.1 && b.0 < a.1;
    let overlaps_later =
        |index: usize| spans[index + 1..].iter().any(|b| overlap(&spans[index], b));
    (0..spans.len()).any(overlaps_later)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_overlap_unless_one_returned_before_the_other_began() {
        assert!(!any_overlap(&[(0, 1), (4, 5), (2, 3)]));
        assert!(any_overlap(&[(0, 1), (2, 4), (3, 5)]));
        assert!(any_overlap(&[(2, 3), (0, 5)]));
    }
}
