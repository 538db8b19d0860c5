//! Machines that leave a method to the default of the trait.

use super::*;
use crate::algo::{Algorithm, Rebase};
use crate::time::ManualClock;
use crate::{Gcra, LeakyQueue, Quota, SlidingLog};

const NOW: Tick = Tick::from_nanos(7_000_000_000);

/// Three in three seconds.
fn quota() -> Quota {
    Quota::per_second(1).burst(3)
}

fn charged<M: StateMachine>(machine: &M, n: u64) -> u64 {
    let view = machine.read(machine.fresh(NOW), NoRing, NOW, n);
    let Step::Admit { next } = machine.step(view, NOW, n) else { panic!("{n} are free") };
    next
}

#[test]
fn a_machine_that_follows_no_wall_clock_decides_at_the_callers_instant() {
    let machine = Gcra::new().params(&quota(), 0).expect("in range");
    let clock = ManualClock::starting_at_unix_nanos(9_000_000_000);
    clock.set_unix_nanos(1);
    assert!(machine.is_still() && machine.still_at(|| NOW, &clock).is_none());
    assert_eq!(machine.as_built_at(NOW, &clock), Some(NOW));
    assert!(!machine.set_utc_offset_secs(3_600), "it has no local time");
    assert_eq!((machine.wall_ahead_nanos(), machine.wall_shift_nanos()), (0, 0));
}

/// In units of 2.5 microseconds.
#[test]
fn a_debt_is_lost_with_a_live_state_until_it_is_idle() {
    let machine = Gcra::new().params(&quota(), 0).expect("in range");
    let word = charged(&machine, 2);
    let at = |secs| {
        let instant = machine.instant(NOW.saturating_add(Duration::from_secs(secs)));
        (machine.owed(word, NoRing, instant), machine.idle_in(word, instant))
    };
    assert_eq!([0, 1, 2, 3].map(at), [(800_000, 800_000), (400_000, 400_000), (0, 0), (0, 0)]);
}

#[test]
fn an_algorithm_without_leases_leases_nothing() {
    let queue = LeakyQueue::new().params(&quota(), 0).expect("in range");
    let log = SlidingLog::new().params(&Quota::per_minute(3), 0).expect("in range");
    assert_eq!((queue.lease_cells(), log.lease_cells()), (0, 0));
    let (waits, logged) = (charged(&queue, 2), charged(&log, 1));
    assert_eq!(queue.lease_life(waits, NOW), Duration::ZERO);
    // A permit for such a cell is that of a request for nothing: without delay, and with what is left.
    let permit = queue.permit_ahead(waits, NOW, 1);
    assert_eq!((permit.remaining(), permit.delay()), (1, Duration::ZERO));
    let nothing = log.permit(log.read(logged, NoRing, NOW, 0), NOW, 0);
    assert_eq!(log.permit_ahead(logged, NOW, 1), nothing);
    assert_eq!((nothing.remaining(), nothing.reset_after()), (2, Duration::from_secs(60)));
}
