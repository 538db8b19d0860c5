//! Any algorithm, which denies in addition what would have to wait too long for its turn.
//!
//! It works on the states of the algorithm that it wraps. So a limiter can decide one request with a
//! bound on its delay, and the next without.

use core::time::Duration;

use super::sealed::Sealed;
use super::{Grid, Machine, Ring, Standing, Step};
use crate::decision::{Denied, Permit};
use crate::stated::Stated;
use crate::time::Tick;

/// The machine `M`, that admits only what has to wait for `max_delay` at most.
#[derive(Clone, Debug)]
pub(crate) struct WithinDelay<M> {
    machine: M,
    max_delay: Duration,
}

impl<M: Machine> WithinDelay<M> {
    pub(crate) fn new(machine: M, max_delay: Duration) -> Self {
        Self { machine, max_delay }
    }

    /// How much too long `n` cells would have to wait, if they would be admitted at all.
    fn excess(&self, seen: M::Seen, now: Tick, n: u64) -> Option<Duration> {
        if !matches!(self.machine.step(seen, now, n), Step::Admit { .. }) {
            return None;
        }
        let delay = self.machine.permit(seen, now, n).delay();
        delay.checked_sub(self.max_delay).filter(|excess| !excess.is_zero())
    }
}

impl<M> Sealed for WithinDelay<M> {}

impl<M: Machine> Machine for WithinDelay<M> {
    type Oracle = M::Oracle;
    type Seen = M::Seen;
    const RINGED: bool = M::RINGED;
    const MAY_BE_COMPACT: bool = M::MAY_BE_COMPACT;
    const MAY_DELAY: bool = M::MAY_DELAY;
    const OWED_BY_RING: bool = M::OWED_BY_RING;

    fn ring_cells(&self) -> usize {
        self.machine.ring_cells()
    }

    fn has_note(&self) -> bool {
        self.machine.has_note()
    }

    fn cells_to_clear(&self) -> usize {
        self.machine.cells_to_clear()
    }

    fn fresh(&self, now: Tick) -> u64 {
        self.machine.fresh(now)
    }

    fn starts_in_debt(&self) -> bool {
        self.machine.starts_in_debt()
    }

    fn look<R: Ring>(&self, word: u64, ring: R, now: Tick, n: u64) -> M::Seen {
        self.machine.look(word, ring, now, n)
    }

    fn step(&self, seen: M::Seen, now: Tick, n: u64) -> Step {
        match self.excess(seen, now, n) {
            Some(_) => Step::Refuse,
            None => self.machine.step(seen, now, n),
        }
    }

    fn publish<R: Ring>(
        &self,
        seen: M::Seen,
        ring: R,
        put: impl FnMut(usize, u64) -> bool,
    ) -> bool {
        self.machine.publish(seen, ring, put)
    }

    fn note(&self, seen: M::Seen, n: u64) -> u64 {
        self.machine.note(seen, n)
    }

    fn permit(&self, seen: M::Seen, now: Tick, n: u64) -> Permit {
        self.machine.permit(seen, now, n)
    }

    fn denied(&self, seen: M::Seen, now: Tick, n: u64) -> Denied {
        let Some(excess) = self.excess(seen, now, n) else {
            return self.machine.denied(seen, now, n);
        };
        let uncharged = self.machine.permit(seen, now, 0);
        Stated {
            limit: uncharged.limit(),
            remaining: uncharged.remaining(),
            reset_after: uncharged.reset_after(),
        }
        .denied(Some(excess))
    }

    fn instant(&self, now: Tick) -> u64 {
        self.machine.instant(now)
    }

    fn standing(&self, word: u64, instant: u64) -> Standing {
        self.machine.standing(word, instant)
    }

    fn owed<R: Ring>(&self, word: u64, ring: R, instant: u64) -> u64 {
        self.machine.owed(word, ring, instant)
    }

    fn no_place(&self, word: u64, now: Tick, skew: Duration) -> Denied {
        self.machine.no_place(word, now, skew)
    }

    fn grid(&self) -> &Grid {
        self.machine.grid()
    }

    fn skew_tolerance(&self) -> Option<Duration> {
        self.machine.skew_tolerance()
    }

    fn horizon(&self) -> Option<Duration> {
        self.machine.horizon()
    }

    fn oracle(&self) -> M::Oracle {
        self.machine.oracle()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algo::{Algorithm, NoRing};
    use crate::{LeakyQueue, Quota, WarmUp};

    /// Requests one after the other at one instant, and how each is answered.
    fn answers<M: Machine>(
        machine: M,
        max_delay_ms: u64,
        costs: &[u64],
    ) -> Vec<Result<u128, Denied>> {
        let bound = WithinDelay::new(machine, Duration::from_millis(max_delay_ms));
        let now = Tick::from_nanos(1_000_000_000);
        let mut word = bound.fresh(now);
        let mut answer = |n: &u64| {
            let seen = bound.look(word, NoRing, now, *n);
            if let Step::Admit { next } = bound.step(seen, now, *n) {
                word = next;
            }
            bound.answer(seen, now, *n).map(|permit| permit.delay().as_millis())
        };
        costs.iter().map(&mut answer).collect()
    }

    fn queue(immediate: u64) -> impl Machine {
        let quota = Quota::per_second(10).burst(6);
        LeakyQueue::new().immediate(immediate).params(&quota, 0).expect("in range")
    }

    fn delays(answers: &[Result<u128, Denied>]) -> Vec<Option<u128>> {
        answers.iter().map(|answer| answer.ok()).collect()
    }

    #[test]
    fn only_what_waits_no_longer_than_the_bound_is_admitted() {
        let ones = [1; 7].as_slice();
        let cases: [(u64, u64, &[u64], &[Option<u128>]); 6] = [
            (1, 0, ones, &[Some(0), None, None, None, None, None, None]),
            (4, 0, ones, &[Some(0), Some(0), Some(0), Some(0), None, None, None]),
            (1, 200, ones, &[Some(0), Some(100), Some(200), None, None, None, None]),
            (1, 199, ones, &[Some(0), Some(100), None, None, None, None, None]),
            (
                1,
                10_000,
                ones,
                &[Some(0), Some(100), Some(200), Some(300), Some(400), Some(500), None],
            ),
            (1, 0, &[3, 0, 1, 7], &[Some(0), Some(0), None, None]),
        ];
        for (immediate, max_delay_ms, costs, expected) in cases {
            let found = delays(&answers(queue(immediate), max_delay_ms, costs));
            assert_eq!(found, expected, "{immediate} at once, {max_delay_ms} ms, {costs:?}");
        }
    }

    #[test]
    fn a_denial_for_the_wait_tells_what_is_left_and_when_it_would_be_admitted() {
        let found = answers(queue(1), 150, &[1, 1, 1, 7]);
        let denied = found[2].expect_err("its turn is in 200 ms");
        assert_eq!((denied.limit(), denied.remaining()), (6, 4));
        assert_eq!(denied.retry_after(), Some(Duration::from_millis(50)));
        assert_eq!(denied.reset_after(), Duration::from_millis(200));
        assert_eq!(found[3].expect_err("more than fit").retry_after(), None);
    }

    #[test]
    fn a_warm_up_that_lets_requests_wait_is_bounded_too() {
        let warm_up = WarmUp::new(Duration::from_secs(10)).max_wait(Duration::from_secs(1));
        let machine = || warm_up.params(&Quota::per_second(100), 0).expect("in range");
        assert_eq!(delays(&answers(machine(), 1_000, &[1, 1])), [Some(0), Some(30)]);
        assert_eq!(delays(&answers(machine(), 29, &[1, 1])), [Some(0), None]);
    }
}
