//! The answers that a key's bucket may give.
//!
//! The specification is the algorithm's oracle, which gives every field of a decision: whether it is
//! granted, what is left, when to come back. It accepts any times in any order, so clocks that differ
//! need nothing more. Three things that a table adds are allowed, and two of them counted:
//!
//! - **A key may be forgotten** ([`Bucket::forgets`]), in all as often as the limiter reports an
//!   eviction. Under `OnFull::Deny` that is never.
//! - **A key may find no place** ([`Bucket::fulls`]): a denial that the oracle would not give, of a
//!   key that has nothing to lose, at most as often as the limiter counts.
//! - **An idle key is no key.** Its slot may go to another key, which no caller notices: the oracle's
//!   answer is the same with and without it.
//! - **A claim is stamped** ([`Bucket::stamps`]). A slot of two words is claimed in one step and
//!   charged in a second, perhaps by another thread. The claim has its claimant's time. A thread whose
//!   clock is behind that time sees a bucket that is full from then on, not from its own present. So a
//!   key without a state, or an idle key, may be judged by the state of a key that was claimed at the
//!   time of any call in the history. That grants no more: it makes a bucket look less full to a stale
//!   clock. If all clocks show the same time, it has no effect.

use tollgate::Tick;
use tollgate::internals::oracle::{Oracle, Verdict};

use crate::linear::Spec;
use crate::script::Op;

/// The bucket of a key.
#[derive(Clone, Debug)]
pub struct Bucket<'a, O> {
    /// Of a key never seen.
    pub fresh: &'a O,
    /// Of a key that was claimed at those times and not charged.
    pub stamps: &'a [(Tick, O)],
    /// Cells that a fresh bucket grants.
    pub burst: u64,
    /// What was charged; `None` if nothing was.
    pub state: Option<O>,
    /// How often the state may yet be forgotten.
    pub forgets: u64,
    /// How often the key may yet find no place.
    pub fulls: u64,
}

impl<O: Oracle + core::fmt::Debug> Bucket<'_, O> {
    /// The states after a request for cells.
    fn after_check(&self, n: u64, now: Tick, answer: &Verdict, charges: bool) -> Vec<Self> {
        let mut oracle = self.state.as_ref().unwrap_or(self.fresh).clone();
        if oracle.decide(now, n) == *answer {
            return vec![self.charged(oracle, n, answer, charges)];
        }
        let mut next = Vec::new();
        if self.is_idle(now) {
            for (_, stamped) in self.stamps.iter().filter(|(stamp, _)| *stamp > now) {
                let mut oracle = stamped.clone();
                if oracle.decide(now, n) == *answer {
                    next.push(self.charged(oracle, n, answer, charges));
                }
            }
        }
        if charges
            && !answer.admitted
            && answer.remaining == 0
            && self.fulls > 0
            && self.is_idle(now)
        {
            next.push(Self { fulls: self.fulls - 1, ..self.clone() });
        }
        next
    }

    fn charged(&self, oracle: O, n: u64, answer: &Verdict, charges: bool) -> Self {
        match charges && answer.admitted && n > 0 {
            true => Self { state: Some(oracle), ..self.clone() },
            false => self.clone(),
        }
    }

    fn is_idle(&self, now: Tick) -> bool {
        let Some(state) = &self.state else { return true };
        let seen = state.clone().decide(now, 0);
        seen.remaining == self.burst && seen.reset_after.is_zero()
    }

    fn after_op(&self, op: &Op, answer: Option<&Verdict>) -> Vec<Self> {
        match (*op, answer) {
            (Op::Check { n, now }, Some(answer)) => self.after_check(n, now, answer, true),
            (Op::Peek { n, now }, Some(answer)) => self.after_check(n, now, answer, false),
            (Op::Reset, None) => vec![Self { state: None, ..self.clone() }],
            _ => vec![],
        }
    }
}

impl<O: Oracle + core::fmt::Debug> Spec for Bucket<'_, O> {
    type Op = Op;
    /// `None` of a reset.
    type Answer = Option<Verdict>;

    fn after(&self, op: &Op, answer: &Option<Verdict>) -> Vec<Self> {
        let mut next = self.after_op(op, answer.as_ref());
        if self.forgets > 0 && self.state.is_some() {
            let forgotten = Self { state: None, forgets: self.forgets - 1, ..self.clone() };
            next.extend(forgotten.after_op(op, answer.as_ref()));
        }
        next
    }

    /// An oracle cannot be compared, but shows all that it holds.
    fn mark(&self) -> String {
        format!("{:?} {} {}", self.state, self.forgets, self.fulls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::at;
    use tollgate::internals::StateMachine;
    use tollgate::{Direct, Quota};

    /// The answers that a bucket of two cells may give to a request for one.
    fn answers_to_one(spec: &Bucket<'_, impl Oracle + core::fmt::Debug>) -> Vec<(bool, u64)> {
        let gate = Direct::new(Quota::per_second(1).burst(2)).expect("in range");
        let mut oracle = gate.params().oracle();
        let said: Vec<_> = (0..3).map(|_| oracle.decide(at(5), 1)).collect();
        let op = Op::Check { n: 1, now: at(5) };
        let possible = said.iter().filter(|said| !spec.after(&op, &Some(**said)).is_empty());
        possible.map(|said| (said.admitted, said.remaining)).collect()
    }

    #[test]
    fn a_bucket_gives_the_allowed_answers_and_no_others() {
        let gate = Direct::new(Quota::per_second(1).burst(2)).expect("in range");
        let fresh = gate.params().oracle();
        let mut charged = fresh.clone();
        assert!(charged.decide(at(5), 1).admitted);
        let mut stamped = fresh.clone();
        assert!(stamped.decide(at(5), 1).admitted);
        let stamps = [(at(6), stamped)];
        let spec =
            Bucket { fresh: &fresh, stamps: &[], burst: 2, state: None, forgets: 0, fulls: 0 };
        assert_eq!(answers_to_one(&spec), [(true, 1)]);
        assert_eq!(answers_to_one(&Bucket { fulls: 1, ..spec.clone() }), [(true, 1), (false, 0)]);
        let claimed = Bucket { stamps: &stamps, ..spec.clone() };
        assert_eq!(answers_to_one(&claimed), [(true, 1), (true, 0)]);
        let charged = Bucket { state: Some(charged), ..spec };
        assert_eq!(answers_to_one(&charged), [(true, 0)]);
        let busy = Bucket { fulls: 1, stamps: &stamps, ..charged.clone() };
        assert_eq!(answers_to_one(&busy), [(true, 0)], "it has a place");
        let evicted = Bucket { forgets: 1, ..charged };
        assert_eq!(answers_to_one(&evicted), [(true, 1), (true, 0)]);
    }
}
