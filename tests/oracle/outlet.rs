//! A queue seen from its outlet: when admitted requests leave.

use proptest::prelude::*;
use tollgate::internals::StateMachine;
use tollgate::internals::oracle::Verdict;
use tollgate::{Direct, LeakyQueue, ManualClock, Tick};

use crate::bodies::choice::Choice;
use crate::bodies::grid::{horizon, units_in_cell};
use crate::choice::{Last, cases, moves, quotas, starts};
use crate::meter::comes_back_at_the_right_time;

proptest! {
    #![proptest_config(cases(20_000))]

    /// Against a plain list of turns, in units of the grid: each turn is the arrival, or one cell
    /// after the turn before it if that is later. Clocks may go back.
    #[test]
    fn turns_keep_their_distance_and_the_queue_its_bound(
        (_, quota) in quotas(Just(Choice::Queue(LeakyQueue::new()))),
        start in starts(),
        arrivals in prop::collection::vec(moves(), 1..80),
    ) {
        let gate = Direct::builder(quota)
            .algorithm(LeakyQueue::new())
            .clock(ManualClock::new())
            .build()
            .expect("accepted");
        let cell = u128::from(units_in_cell(gate.params(), &quota));
        let (units, per_nanos) = gate.params().grid().ratio();
        let unit = |nanos: u128| nanos * u128::from(units) / u128::from(per_nanos);
        let burst = u128::from(quota.burst_cells());
        let mut turns: Vec<u128> = Vec::new();
        let (mut now, mut last, mut written) = (start, Last::default(), None);
        for towards in arrivals {
            now = towards.apply(now, &quota, &last);
            if let Some(written) = written {
                let (least, most) = horizon(gate.params(), written);
                now = now.clamp(least, most);
            }
            let answer = Verdict::from(&gate.ask().at(Tick::from_nanos(now)).check());
            let arrival = unit(now.into());
            let free = turns.last().map_or(arrival, |turn| arrival.max(turn + cell));
            if answer.admitted {
                let turn = unit(u128::from(now) + answer.delay.as_nanos());
                prop_assert_eq!(turn, free, "the turn of a request at {}", now);
                if let Some(before) = turns.last() {
                    prop_assert!(turn >= before + cell, "a turn too near the one before it");
                }
                turns.push(turn);
                let waiting = turns.iter().filter(|turn| **turn + cell > arrival).count();
                prop_assert!(waiting as u128 <= burst, "{} in a queue for {}", waiting, burst);
                prop_assert!(answer.delay.as_nanos() <= quota.period().as_nanos() * (burst - 1)
                    / u128::from(quota.limit()) + 1, "waits for more than the queue holds");
                written = Some(written.unwrap_or(0).max(now));
            } else {
                prop_assert!(free + cell > arrival + burst * cell, "denied with room left");
                comes_back_at_the_right_time(&gate, &answer, now, 1)?;
            }
            last = Last {
                retry_after: answer.retry_after.unwrap_or_default(),
                reset_after: answer.reset_after,
            };
        }
    }
}
