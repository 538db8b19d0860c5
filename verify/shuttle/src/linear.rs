//! The search for an order that explains a history.
//!
//! The algorithm is Wing and Gong's, with Lowe's cache of states that were tried. Linearizability is local:
//! a history of many keys is linearizable if the history of each key is. So each key is searched by itself,
//! and the searches stay small.

use std::collections::HashSet;

use crate::record::Call;

/// A sequential specification, in one of its states.
pub trait Spec: Clone {
    /// A request.
    type Op;
    /// The answer to a request.
    type Answer;

    /// The possible states after this answer; none if the specification cannot give this answer.
    fn after(&self, op: &Self::Op, answer: &Self::Answer) -> Vec<Self>;

    /// A text that distinguishes this state from the others of the same search.
    fn mark(&self) -> String;
}

/// [`Spec::after`] of a specification that has only one answer, and one state after it.
pub fn only_if_equal<S, A: PartialEq>((next, answer): (S, A), given: &A) -> Vec<S> {
    if answer == *given { vec![next] } else { vec![] }
}

/// The maximum number of calls in one search: the set of placed calls is a word of 64 bits.
pub const CALLS_MAX: usize = 64;

/// Whether `spec` explains some order of the calls, in which no call comes before a call that had returned
/// when it began.
pub fn is_linearizable<S: Spec>(spec: &S, calls: &[&Call<S::Op, S::Answer>]) -> bool {
    assert!(calls.len() <= CALLS_MAX, "{} calls of one key", calls.len());
    Search { calls, failed: HashSet::new() }.continues(spec, 0)
}

struct Search<'a, S: Spec> {
    calls: &'a [&'a Call<S::Op, S::Answer>],
    /// Sets of placed calls, with the states that they lead to, from which no order of the others exists.
    failed: HashSet<(u64, String)>,
}

impl<S: Spec> Search<'_, S> {
    /// Whether the calls that are not `placed` can follow from this state.
    fn continues(&mut self, spec: &S, placed: u64) -> bool {
        let is_left = |index: usize| placed & 1 << index == 0;
        let left = (0..self.calls.len()).filter(|index| is_left(*index));
        let Some(first_return) = left.clone().map(|index| self.calls[index].returned).min() else {
            return true;
        };
        let mut mark = None;
        if !self.failed.is_empty() {
            let state = (placed, spec.mark());
            if self.failed.contains(&state) {
                return false;
            }
            mark = Some(state);
        }
        for index in left {
            let call = self.calls[index];
            if call.begun > first_return {
                continue;
            }
            for next in spec.after(&call.op, &call.answer) {
                if self.continues(&next, placed | 1 << index) {
                    return true;
                }
            }
        }
        self.failed.insert(mark.unwrap_or_else(|| (placed, spec.mark())));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that is set and read.
    #[derive(Clone)]
    struct Register(u64);

    #[derive(Clone, Copy, Debug)]
    enum Op {
        Set(u64),
        Read,
    }

    impl Spec for Register {
        type Op = Op;
        type Answer = u64;

        fn after(&self, op: &Op, answer: &u64) -> Vec<Self> {
            match op {
                Op::Set(value) => vec![Self(*value)],
                Op::Read if *answer == self.0 => vec![self.clone()],
                Op::Read => vec![],
            }
        }

        fn mark(&self) -> String {
            self.0.to_string()
        }
    }

    /// Operation, answer, beginning, return.
    type Row = (Op, u64, u64, u64);

    fn explained(rows: &[Row]) -> bool {
        let call =
            |(thread, &(op, answer, begun, returned))| Call { thread, op, answer, begun, returned };
        let calls: Vec<_> = rows.iter().enumerate().map(call).collect();
        is_linearizable(&Register(0), &calls.iter().collect::<Vec<_>>())
    }

    #[test]
    fn calls_that_overlap_may_come_in_any_order() {
        assert!(explained(&[(Op::Set(1), 0, 0, 3), (Op::Read, 1, 1, 2)]));
        assert!(explained(&[(Op::Set(1), 0, 0, 3), (Op::Read, 0, 1, 2)]));
        assert!(!explained(&[(Op::Set(1), 0, 0, 3), (Op::Read, 2, 1, 2)]));
    }

    #[test]
    fn a_call_sees_what_had_returned_before_it_began() {
        assert!(explained(&[(Op::Set(1), 0, 0, 1), (Op::Read, 1, 2, 3)]));
        assert!(!explained(&[(Op::Set(1), 0, 0, 1), (Op::Read, 0, 2, 3)]));
    }

    /// Herlihy and Wing's: two reads that each could be explained, but not both.
    #[test]
    fn two_reads_that_contradict_each_other_are_not_explained() {
        let set = (Op::Set(1), 0, 0, 9);
        assert!(explained(&[set, (Op::Read, 0, 1, 2), (Op::Read, 1, 3, 4)]));
        assert!(!explained(&[set, (Op::Read, 1, 1, 2), (Op::Read, 0, 3, 4)]));
    }

    #[test]
    fn many_orders_of_the_same_state_are_tried_once() {
        let mut rows: Vec<Row> = (0..12).map(|index| (Op::Set(7), 0, index, 100 + index)).collect();
        rows.push((Op::Read, 5, 12, 99));
        assert!(!explained(&rows));
        rows[12].1 = 7;
        assert!(explained(&rows));
    }
}
