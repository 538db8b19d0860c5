use core::time::Duration;

use super::*;
use crate::algo::{StateMachine, Step};

const NOW: Tick = Tick::from_nanos(77_000_000_123);

/// Everything that a machine reports of itself.
fn said(machine: &impl StateMachine, now: Tick) -> impl PartialEq + core::fmt::Debug {
    (
        (machine.ring_cells(), machine.has_note(), machine.cells_to_clear()),
        (machine.fresh(now), machine.starts_in_debt(), machine.instant(now)),
        (machine.skew_tolerance(), machine.horizon(), machine.lease_cells()),
        (machine.liveness(machine.fresh(now), 5), machine.grid().ratio()),
    )
}

/// The cells that two charges, one after the other, publish to the ring, and whether both
/// succeeded.
fn published(machine: &impl StateMachine) -> (bool, [(usize, u64); 4]) {
    let (mut ring, mut puts, mut count) = ([0; 16], [(0, 0); 4], 0);
    let mut word = machine.fresh(NOW);
    let mut all_were = true;
    for now in [NOW, NOW.saturating_add(Duration::from_secs(20))] {
        let view = machine.read(word, &ring[..], now, 1);
        let Step::Admit { next } = machine.step(view, now, 1) else { break };
        let begun = count;
        all_were &= machine.publish(view, &ring[..], |place, content| {
            puts[count] = (place, content);
            count += 1;
            true
        });
        puts[begun..count].iter().for_each(|(place, content)| ring[*place] = *content);
        word = next;
    }
    (all_were, puts)
}

fn is_as<A: Algorithm + Into<AnyAlgorithm> + Copy>(algorithm: A, quota: &Quota) {
    let (one, any) = (algorithm.params(quota, 0), algorithm.into().params(quota, 0));
    let (one, any) = (one.expect("in range"), any.expect("in range"));
    assert_eq!(format!("{:?}", said(&any, NOW)), format!("{:?}", said(&one, NOW)));
    assert_eq!(published(&any), published(&one));
}

#[test]
fn any_algorithm_reports_and_publishes_what_the_algorithm_itself_does() {
    let quota = Quota::per_minute(2);
    each_named!(algorithm => is_as(algorithm, &quota));
    is_as(Gcra::new(), &Quota::per_second(1_000_000_000));
    is_as(WarmUp::new(Duration::from_secs(9)), &quota);
}

#[test]
fn a_bucket_that_starts_empty_does_so_as_any_algorithm() {
    let (empty, quota) = (Gcra::start_empty(), Quota::per_minute(2));
    let (one, any) = (empty.params(&quota, 0), AnyAlgorithm::from(empty).params(&quota, 0));
    let (one, any) = (one.expect("in range"), any.expect("in range"));
    assert!(any.starts_in_debt() && one.cells_to_clear() == 0);
    assert_eq!((any.fresh(NOW), any.cells_to_clear()), (one.fresh(NOW), 0));
}
