//! The states that textbook limiters keep for a key.

use std::collections::VecDeque;
use std::time::Duration;

use tollgate::algorithm::Algorithm;
use tollgate::internals::{NoRing, StateMachine, Step};
use tollgate::{Gcra, Quota, Tick};

use super::{Answer, FullAnswer, Locked};

/// At most `limit` cells in a period.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    limit: usize,
    period_nanos: u64,
}

/// The time of each granted cell of the window. Expired ones are removed from the front; the length
/// is the count.
#[derive(Debug)]
pub struct Log(VecDeque<u64>);

impl Locked for Log {
    type Rule = Rate;

    fn rule(limit: usize, period_nanos: u64) -> Rate {
        Rate { limit, period_nanos }
    }

    fn new(rule: &Rate) -> Self {
        Self(VecDeque::with_capacity(rule.limit))
    }

    #[inline]
    fn check(&mut self, rule: &Rate, now_nanos: u64) -> bool {
        while self.0.front().is_some_and(|&at| at + rule.period_nanos <= now_nanos) {
            self.0.pop_front();
        }
        let admitted = self.0.len() < rule.limit;
        if admitted {
            self.0.push_back(now_nanos);
        }
        admitted
    }
}

/// The number of sub-windows of [`SubWindowCounts`].
const SUB_WINDOWS: usize = 6;

/// Six counts in a ring, and their sum. A decision divides only when it begins a sub-window.
#[derive(Debug, Default)]
pub struct SubWindowCounts {
    counts: [u32; SUB_WINDOWS],
    sum: u32,
    place: usize,
    end_nanos: u64,
}

/// The limit, and the length of a sub-window.
#[derive(Clone, Copy, Debug)]
pub struct SubWindowRate {
    limit: u32,
    length_nanos: u64,
}

impl Locked for SubWindowCounts {
    type Rule = SubWindowRate;

    fn rule(limit: usize, period_nanos: u64) -> SubWindowRate {
        let limit = u32::try_from(limit).expect("a small limit");
        SubWindowRate { limit, length_nanos: period_nanos / SUB_WINDOWS as u64 }
    }

    fn new(_: &SubWindowRate) -> Self {
        Self::default()
    }

    #[inline]
    fn check(&mut self, rule: &SubWindowRate, now_nanos: u64) -> bool {
        if now_nanos >= self.end_nanos {
            self.move_on(rule, now_nanos);
        }
        let admitted = self.sum < rule.limit;
        if admitted {
            self.counts[self.place] += 1;
            self.sum += 1;
        }
        admitted
    }
}

impl SubWindowCounts {
    fn move_on(&mut self, rule: &SubWindowRate, now_nanos: u64) {
        let passed = (now_nanos - self.end_nanos) / rule.length_nanos + 1;
        for _ in 0..passed.min(SUB_WINDOWS as u64) {
            self.place = if self.place == SUB_WINDOWS - 1 { 0 } else { self.place + 1 };
            self.sum -= std::mem::take(&mut self.counts[self.place]);
        }
        self.end_nanos += passed * rule.length_nanos;
    }
}

/// A count that starts again with the first event after the end of the window.
#[derive(Debug, Default)]
pub struct WindowCount {
    count: usize,
    end_nanos: u64,
}

impl Locked for WindowCount {
    type Rule = Rate;

    fn rule(limit: usize, period_nanos: u64) -> Rate {
        Rate { limit, period_nanos }
    }

    fn new(_: &Rate) -> Self {
        Self::default()
    }

    #[inline]
    fn check(&mut self, rule: &Rate, now_nanos: u64) -> bool {
        if now_nanos >= self.end_nanos {
            *self = Self { count: 0, end_nanos: now_nanos + rule.period_nanos };
        }
        let admitted = self.count < rule.limit;
        self.count += usize::from(admitted);
        admitted
    }
}

/// The theoretical arrival time (TAT) of GCRA, in nanoseconds.
#[derive(Debug, Default)]
pub struct Arrival {
    tat_nanos: u64,
}

/// The cost of a cell, and the size of the bucket.
#[derive(Clone, Copy, Debug)]
pub struct ArrivalRate {
    cell_nanos: u64,
    capacity_nanos: u64,
}

impl ArrivalRate {
    /// The arrival time after one more cell, if there is room.
    #[inline]
    pub(super) fn after(&self, tat_nanos: u64, now_nanos: u64) -> Option<u64> {
        let next = tat_nanos.max(now_nanos) + self.cell_nanos;
        (next - now_nanos <= self.capacity_nanos).then_some(next)
    }
}

impl Locked for Arrival {
    type Rule = ArrivalRate;

    /// A cell costs a whole number of nanoseconds.
    fn rule(limit: usize, period_nanos: u64) -> ArrivalRate {
        let cell_nanos = period_nanos / limit as u64;
        ArrivalRate { cell_nanos, capacity_nanos: cell_nanos * limit as u64 }
    }

    fn new(_: &ArrivalRate) -> Self {
        Self::default()
    }

    #[inline]
    fn check(&mut self, rule: &ArrivalRate, now_nanos: u64) -> bool {
        self.charge(rule, now_nanos).0
    }
}

impl FullAnswer for Arrival {
    /// The arrival time after the decision.
    type View = u64;

    #[inline]
    fn charge(&mut self, rule: &ArrivalRate, now_nanos: u64) -> (bool, u64) {
        let next = rule.after(self.tat_nanos, now_nanos);
        self.tat_nanos = next.unwrap_or(self.tat_nanos);
        (next.is_some(), self.tat_nanos)
    }

    #[inline]
    fn answer(rule: &ArrivalRate, (admitted, tat_nanos): (bool, u64), now_nanos: u64) -> Answer {
        let debt = tat_nanos.saturating_sub(now_nanos);
        let remaining = rule.capacity_nanos.saturating_sub(debt) / rule.cell_nanos;
        let wait = (debt + rule.cell_nanos).saturating_sub(rule.capacity_nanos);
        Answer { admitted, remaining, retry_after_nanos: if admitted { 0 } else { wait } }
    }
}

/// The state word of tollgate's own GCRA, advanced by tollgate's own step: only the cell differs.
#[derive(Debug)]
pub struct OurStep(u64);

impl Locked for OurStep {
    type Rule = <Gcra as Algorithm>::Params;

    fn rule(limit: usize, period_nanos: u64) -> Self::Rule {
        let quota = Quota::new(limit as u64, Duration::from_nanos(period_nanos));
        Gcra::new().params(&quota.burst(limit as u64), 0).expect("in range")
    }

    fn new(rule: &Self::Rule) -> Self {
        Self(rule.fresh(Tick::ZERO))
    }

    #[inline]
    fn check(&mut self, rule: &Self::Rule, now_nanos: u64) -> bool {
        self.charge(rule, now_nanos).0
    }
}

impl FullAnswer for OurStep {
    type View = <<Gcra as Algorithm>::Params as StateMachine>::View;

    #[inline]
    fn charge(&mut self, rule: &Self::Rule, now_nanos: u64) -> (bool, Self::View) {
        let now = Tick::from_nanos(now_nanos);
        let seen = rule.read(self.0, NoRing, now, 1);
        match rule.step(seen, now, 1) {
            Step::Admit { next } => {
                self.0 = next;
                (true, seen)
            }
            Step::Deny | Step::DenyCounted { .. } => (false, seen),
        }
    }

    #[inline]
    fn answer(rule: &Self::Rule, (admitted, seen): (bool, Self::View), now_nanos: u64) -> Answer {
        let now = Tick::from_nanos(now_nanos);
        let decision =
            if admitted { Ok(rule.permit(seen, now, 1)) } else { Err(rule.denied(seen, now, 1)) };
        decision.into()
    }
}

impl From<tollgate::Decision> for Answer {
    /// # Panics
    ///
    /// If the wait is longer than 584 years, or infinite.
    #[inline]
    fn from(decision: tollgate::Decision) -> Self {
        match decision {
            Ok(permit) => {
                Self { admitted: true, remaining: permit.remaining(), retry_after_nanos: 0 }
            }
            Err(denied) => {
                let wait = denied.retry_after().expect("one cell is within every limit");
                let retry_after_nanos = u64::try_from(wait.as_nanos()).expect("below 584 years");
                Self { admitted: false, remaining: denied.remaining(), retry_after_nanos }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers to a key that asks at these times.
    fn asked<L: Locked, const N: usize>(limit: usize, period: u64, at: [u64; N]) -> [bool; N] {
        let rule = L::rule(limit, period);
        let mut state = L::new(&rule);
        at.map(|now| state.check(&rule, now))
    }

    #[test]
    fn the_log_is_exact() {
        let at = [0, 50, 99, 100, 149, 150, 300];
        let admitted = [true, true, false, true, false, true, true];
        assert_eq!(asked::<Log, _>(2, 100, at), admitted);
    }

    #[test]
    fn sub_windows_expire_one_by_one() {
        let at = [5, 15, 59, 60, 69, 70, 1_000, 1_001, 1_002];
        let admitted = [true, true, false, true, false, true, true, true, false];
        assert_eq!(asked::<SubWindowCounts, _>(2, 60, at), admitted);
    }

    #[test]
    fn a_window_opens_with_the_first_event_after_the_last_one() {
        let at = [30, 50, 129, 130, 200, 229, 230];
        let admitted = [true, true, false, true, true, false, true];
        assert_eq!(asked::<WindowCount, _>(2, 100, at), admitted);
    }

    #[test]
    fn cells_are_restored_one_by_one() {
        let at = [1_000, 1_000, 1_049, 1_050, 1_050, 1_200, 1_200, 1_200];
        let admitted = [true, true, false, true, false, true, true, false];
        assert_eq!(asked::<Arrival, _>(2, 100, at), admitted);
        assert_eq!(asked::<OurStep, _>(2, 100, at), admitted);
    }

    #[test]
    fn both_states_return_the_same_answer() {
        let (rule, our_rule) = (Arrival::rule(3, 3_000), OurStep::rule(3, 3_000));
        let (mut state, mut ours) = (Arrival::new(&rule), OurStep::new(&our_rule));
        for (now, expected) in [
            (500, (true, 2, 0)),
            (700, (true, 1, 0)),
            (900, (true, 0, 0)),
            (1_000, (false, 0, 500)),
        ] {
            let answer = state.charge(&rule, now);
            let our_answer = ours.charge(&our_rule, now);
            let answered = Arrival::answer(&rule, answer, now);
            assert_eq!(answered, OurStep::answer(&our_rule, our_answer, now));
            assert_eq!(
                (answered.admitted, answered.remaining, answered.retry_after_nanos),
                expected
            );
        }
    }
}
