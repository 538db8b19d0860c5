//! The answers that a key's bucket may give.
//!
//! The specification is the algorithm's oracle, which gives every field of a decision: whether it is
//! granted, what is left, when to come back. The oracle accepts times in any order, so differing clocks
//! need no special rule. A table may deviate from it in four ways, two of which are counted:
//!
//! - **A key may be evicted** ([`Bucket::evictions`]), at most as often as the limiter reports. Under
//!   `OnFull::Deny` that is never.
//! - **A key may find no place** ([`Bucket::denied_full`]). The oracle would not give that denial. It may
//!   happen only to a key without a state to lose, at most as often as the limiter reports.
//! - **An idle key equals an absent one.** Its slot may go to another key. No caller notices that: the
//!   oracle's answer is the same.
//! - **A claim holds a time** ([`Bucket::claimed`]). A slot of two words is claimed in one step and
//!   charged in a second one, perhaps by another thread. The claim holds the claimant's time. A thread
//!   whose clock is behind that time sees a bucket that is full from the claim on, not from the thread's
//!   own present. So a key that is absent or idle may be judged by the state of a key that was claimed at
//!   the time of any call in the history. That grants no more cells: to a stale clock, the bucket looks
//!   less full. If all clocks show the same time, it has no effect.

use tollgate::Tick;
use tollgate::internals::oracle::{Oracle, Verdict};

use crate::linear::Spec;
use crate::script::Op;

/// The bucket of a key.
#[derive(Clone, Debug)]
pub struct Bucket<'a, O> {
    /// The state of a key that was never seen.
    pub fresh: &'a O,
    /// The states of a key that was claimed at these times and not charged.
    pub claimed: &'a [(Tick, O)],
    /// Cells that a fresh bucket grants.
    pub burst: u64,
    /// The state after charges; `None` if nothing was charged.
    pub state: Option<O>,
    /// How often the key may still be evicted.
    pub evictions: u64,
    /// How often the key may still find no place.
    pub denied_full: u64,
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
            for (_, claimed_state) in self.claimed.iter().filter(|(time, _)| *time > now) {
                let mut oracle = claimed_state.clone();
                if oracle.decide(now, n) == *answer {
                    next.push(self.charged(oracle, n, answer, charges));
                }
            }
        }
        if charges
            && !answer.admitted
            && answer.remaining == 0
            && self.denied_full > 0
            && self.is_idle(now)
        {
            next.push(Self { denied_full: self.denied_full - 1, ..self.clone() });
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
    /// A reset has none.
    type Answer = Option<Verdict>;

    fn after(&self, op: &Op, answer: &Option<Verdict>) -> Vec<Self> {
        let mut next = self.after_op(op, answer.as_ref());
        if self.evictions > 0 && self.state.is_some() {
            let forgotten = Self { state: None, evictions: self.evictions - 1, ..self.clone() };
            next.extend(forgotten.after_op(op, answer.as_ref()));
        }
        next
    }

    /// Oracles cannot be compared, but their debug text shows all fields.
    fn mark(&self) -> String {
        format!("{:?} {} {}", self.state, self.evictions, self.denied_full)
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
        let given: Vec<_> = (0..3).map(|_| oracle.decide(at(5), 1)).collect();
        let op = Op::Check { n: 1, now: at(5) };
        let possible = given.iter().filter(|given| !spec.after(&op, &Some(**given)).is_empty());
        possible.map(|given| (given.admitted, given.remaining)).collect()
    }

    #[test]
    fn a_bucket_gives_the_allowed_answers_and_no_others() {
        let gate = Direct::new(Quota::per_second(1).burst(2)).expect("in range");
        let fresh = gate.params().oracle();
        let mut charged = fresh.clone();
        assert!(charged.decide(at(5), 1).admitted);
        let mut claimed_state = fresh.clone();
        assert!(claimed_state.decide(at(5), 1).admitted);
        let claims = [(at(6), claimed_state)];
        let spec = Bucket {
            fresh: &fresh,
            claimed: &[],
            burst: 2,
            state: None,
            evictions: 0,
            denied_full: 0,
        };
        assert_eq!(answers_to_one(&spec), [(true, 1)]);
        assert_eq!(
            answers_to_one(&Bucket { denied_full: 1, ..spec.clone() }),
            [(true, 1), (false, 0)]
        );
        let claimed = Bucket { claimed: &claims, ..spec.clone() };
        assert_eq!(answers_to_one(&claimed), [(true, 1), (true, 0)]);
        let charged = Bucket { state: Some(charged), ..spec };
        assert_eq!(answers_to_one(&charged), [(true, 0)]);
        let busy = Bucket { denied_full: 1, claimed: &claims, ..charged.clone() };
        assert_eq!(answers_to_one(&busy), [(true, 0)], "it has a place");
        let evicted = Bucket { evictions: 1, ..charged };
        assert_eq!(answers_to_one(&evicted), [(true, 1), (true, 0)]);
    }
}
