//! A thread decides on a word that another thread changes between the read and the swap.

use core::time::Duration;
use std::fmt;

use super::ruling::{Answer, InFull, OfOneState, YesOrNo};
use super::{CompactCell, CompactWord, DirectCell, Fingerprint, Head, HeadCell};
use super::{Loaded, LostRace, MaxAhead, Request, Seen, SlotRing, StateWord};
use crate::algo::sealed::Sealed;
use crate::algo::{Algorithm, Grid, Liveness, NoRing, Ring, StateMachine, Step};
use crate::decision::{Denied, OutOfLine, Permit};
use crate::sync::AtomicU64;
use crate::time::Tick;
use crate::{Gcra, Quota, SlidingLog};

/// A machine that lets another thread act after each read.
#[derive(Clone)]
pub(crate) struct Interrupted<'a, M> {
    pub(crate) machine: M,
    /// The action of the other thread.
    pub(crate) meanwhile: &'a (dyn Fn() + Sync),
}

impl<M: fmt::Debug> fmt::Debug for Interrupted<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.machine.fmt(f)
    }
}

impl<M> Sealed for Interrupted<'_, M> {}

impl<M: StateMachine> StateMachine for Interrupted<'_, M> {
    type Oracle = M::Oracle;
    type View = M::View;
    const RINGED: bool = M::RINGED;
    const MAY_BE_COMPACT: bool = M::MAY_BE_COMPACT;

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

    fn read<R: Ring>(&self, word: u64, ring: R, now: Tick, n: u64) -> M::View {
        let view = self.machine.read(word, ring, now, n);
        (self.meanwhile)();
        view
    }

    fn step(&self, view: M::View, now: Tick, n: u64) -> Step {
        self.machine.step(view, now, n)
    }

    fn publish<R: Ring>(
        &self,
        view: M::View,
        ring: R,
        write: impl FnMut(usize, u64) -> bool,
    ) -> bool {
        self.machine.publish(view, ring, write)
    }

    fn note(&self, view: M::View, n: u64) -> u64 {
        self.machine.note(view, n)
    }

    fn permit(&self, view: M::View, now: Tick, n: u64) -> Permit {
        self.machine.permit(view, now, n)
    }

    fn denied(&self, view: M::View, now: Tick, n: u64) -> Denied {
        self.machine.denied(view, now, n)
    }

    fn instant(&self, now: Tick) -> u64 {
        self.machine.instant(now)
    }

    fn liveness(&self, word: u64, instant: u64) -> Liveness {
        self.machine.liveness(word, instant)
    }

    fn no_slot(&self, word: u64, now: Tick, skew: Duration) -> Denied {
        self.machine.no_slot(word, now, skew)
    }

    fn grid(&self) -> &Grid {
        self.machine.grid()
    }

    fn oracle(&self) -> M::Oracle {
        self.machine.oracle()
    }
}

const NOW: Tick = Tick::from_nanos(5_000_000_000);

/// Five at once, and all of them back in five seconds.
fn bucket() -> impl StateMachine<View = u64> {
    Gcra::new().params(&Quota::per_second(1).burst(5), 0).expect("in range")
}

/// The state after `n` cells of a key never seen.
fn charged(machine: &impl StateMachine, n: u64) -> u64 {
    let view = machine.read(machine.fresh(NOW), NoRing, NOW, n);
    let Step::Admit { next } = machine.step(view, NOW, n) else { panic!("{n} cells are free") };
    next
}

/// A request at `NOW`.
fn request(cells: u64) -> Request {
    Request { now: NOW, cells }
}

fn ringless(word: Head) -> Loaded<'static, Head> {
    Loaded { word, ring: SlotRing::NONE }
}

/// Answers by a first try, and after a lost race by the next ones.
fn answer<A: Answer>(
    cell: &HeadCell,
    first: Loaded<'_, Head>,
    machine: &impl StateMachine,
    request: Request,
) -> Option<A::Out> {
    match cell.try_answer::<_, A>(Seen::of(first.word), || first.ring, machine, request) {
        Ok(answer) => answer,
        Err(actual) => {
            let race = LostRace { first: first.word, actual };
            let OutOfLine(ruling) = cell.charge_again(race, first.ring, machine, request);
            ruling.map(|ruling| A::of(ruling, machine, request))
        }
    }
}

/// A head in generation 3, which another thread replaces by `theirs` as soon as it was read.
fn beside<T>(theirs: Head, decide: impl Fn(&HeadCell, Head, &(dyn Fn() + Sync)) -> T) -> (T, Head) {
    let first = Head::committed(3, bucket().fresh(NOW));
    let cell = HeadCell::new(first);
    let answer = decide(&cell, first, &|| {
        let _ = cell.swap(first, theirs);
    });
    (answer, cell.load())
}

#[test]
fn the_loser_of_a_race_is_decided_by_the_state_that_the_winner_left() {
    let theirs = Head::committed(3, charged(&bucket(), 4));
    let both = Head::committed(3, charged(&bucket(), 5));
    for (n, remaining, after) in [(1, Some(0), both), (2, None, theirs)] {
        let (decided, head) = beside(theirs, |cell, first, meanwhile| {
            let machine = Interrupted { machine: bucket(), meanwhile };
            answer::<InFull>(cell, ringless(first), &machine, request(n))
        });
        let decided = decided.expect("the key is still there");
        assert_eq!((decided.ok().map(|permit| permit.remaining()), head), (remaining, after));
        let (allowed, head) = beside(theirs, |cell, first, meanwhile| {
            let machine = Interrupted { machine: bucket(), meanwhile };
            answer::<YesOrNo>(cell, ringless(first), &machine, request(n))
        });
        assert_eq!((allowed, head), (Some(remaining.is_some()), after));
        let (allowed, head) = beside(theirs, |cell, first, meanwhile| {
            let machine = Interrupted { machine: bucket(), meanwhile };
            answer::<OfOneState<YesOrNo>>(cell, ringless(first), &machine, request(n))
        });
        assert_eq!((allowed, head), (Some(remaining.is_some()), after));
        let (charge, head) = beside(theirs, |cell, first, meanwhile| {
            let machine = Interrupted { machine: bucket(), meanwhile };
            let ruling = cell.charge(ringless(first), &machine, request(n));
            ruling.map(|ruling| ruling.is_admitted())
        });
        assert_eq!((charge, head), (Some(remaining.is_some()), after));
        // A first try that lost is no answer.
        let (admitted, head) = beside(theirs, |cell, first, meanwhile| {
            let machine = Interrupted { machine: bucket(), meanwhile };
            cell.admit(ringless(first), &machine, request(n)).is_some()
        });
        assert_eq!((admitted, head), (false, theirs));
    }
}

#[test]
fn a_word_that_changed_hands_is_charged_no_more() {
    let fresh = bucket().fresh(NOW);
    for theirs in
        [Head::committed(4, fresh), Head::provisional(3, fresh), Head::provisional(4, fresh)]
    {
        let (decided, head) = beside(theirs, |cell, first, meanwhile| {
            let machine = Interrupted { machine: bucket(), meanwhile };
            let decided = answer::<InFull>(cell, ringless(first), &machine, request(1)).is_some();
            (decided, answer::<YesOrNo>(cell, ringless(first), &machine, request(1)))
        });
        assert_eq!((decided, head), ((false, None), theirs));
    }
}

#[test]
fn the_first_try_without_a_race_is_an_answer() {
    let (cell, machine) = (HeadCell::new(Head::committed(3, bucket().fresh(NOW))), bucket());
    let decided = answer::<InFull>(&cell, ringless(cell.load()), &machine, request(3));
    assert_eq!(decided.expect("no other thread").expect("free").remaining(), 2);
    let decided = answer::<OfOneState<InFull>>(&cell, ringless(cell.load()), &machine, request(1));
    assert_eq!(decided.expect("no other thread").expect("free").remaining(), 1);
    assert_eq!(answer::<YesOrNo>(&cell, ringless(cell.load()), &machine, request(2)), Some(false));
    assert_eq!(answer::<YesOrNo>(&cell, ringless(cell.load()), &machine, request(1)), Some(true));
    assert_eq!(cell.load(), Head::committed(3, charged(&bucket(), 5)));
}

#[test]
fn cells_are_charged_ahead_up_to_a_quarter_and_one_alone_only_if_the_caller_accepts_that() {
    let hundred = Gcra::new().params(&Quota::per_second(100), 0).expect("in range");
    let first = Head::committed(3, hundred.fresh(NOW));
    for (max, or_just_one, taken) in
        [(100, false, Some(25)), (9, true, Some(9)), (1, true, Some(1)), (1, false, None)]
    {
        let cell = HeadCell::new(first);
        let max = MaxAhead { cells: max, or_just_those: or_just_one };
        let charged_ahead = cell.charge_ahead(ringless(first), &hundred, request(1), max);
        assert_eq!(charged_ahead.map(|(taken, _)| taken), taken);
        assert_eq!(cell.load().state(), charged(&hundred, taken.unwrap_or(0)));
    }
}

#[test]
fn a_revision_applies_to_the_same_life_only() {
    let fresh = bucket().fresh(NOW);
    for (word, revised) in [
        (Head::committed(3, fresh), true),
        (Head::committed(4, fresh), false),
        (Head::provisional(3, fresh), false),
    ] {
        let cell = HeadCell::new(word);
        cell.revise_in(3, |state| state + 1);
        let after = if revised { Head::committed(3, fresh + 1) } else { word };
        assert_eq!(cell.load(), after);
    }
}

/// A log of two an hour, and the words of its ring.
fn log() -> (impl StateMachine, [AtomicU64; 4]) {
    let log = SlidingLog::new().params(&Quota::per_hour(2), 0).expect("in range");
    assert_eq!(log.ring_cells(), 4);
    (log, [(); 4].map(|()| AtomicU64::new(0)))
}

#[test]
fn a_ring_that_was_read_beside_a_head_that_advanced_is_read_again() {
    let (log, words) = log();
    let ring = SlotRing::new(&words);
    let fresh = Head::committed(3, log.fresh(NOW));
    let cell = HeadCell::new(fresh);
    let theirs = || {
        if cell.load() == fresh {
            assert_eq!(
                answer::<YesOrNo>(&cell, Loaded { word: fresh, ring }, &log, request(2)),
                Some(true)
            );
        }
    };
    let machine = Interrupted { machine: log.clone(), meanwhile: &theirs };
    // A peek, and a charge of nothing, which writes nothing either.
    let seen = cell
        .peek(Loaded { word: fresh, ring }, &machine, request(0))
        .expect("the key is still there");
    assert_eq!(machine.permit(seen, NOW, 0).remaining(), 0);
    let (log, words) = self::log();
    let (ring, cell) = (SlotRing::new(&words), HeadCell::new(fresh));
    let theirs = || {
        if cell.load() == fresh {
            assert_eq!(
                answer::<YesOrNo>(&cell, Loaded { word: fresh, ring }, &log, request(2)),
                Some(true)
            );
        }
    };
    let machine = Interrupted { machine: log.clone(), meanwhile: &theirs };
    let decided = answer::<InFull>(&cell, Loaded { word: fresh, ring }, &machine, request(0))
        .expect("the key is still there");
    assert_eq!(decided.expect("nothing was asked for").remaining(), 0);
}

#[test]
fn a_denial_on_a_ring_that_changed_hands_is_no_answer() {
    let (log, words) = log();
    let ring = SlotRing::new(&words);
    let cell = HeadCell::new(Head::committed(3, log.fresh(NOW)));
    assert_eq!(
        answer::<YesOrNo>(&cell, Loaded { word: cell.load(), ring }, &log, request(2)),
        Some(true)
    );
    let full = cell.load();
    let others = Head::committed(4, log.fresh(NOW));
    let theirs = || {
        let _ = cell.swap(full, others);
    };
    let machine = Interrupted { machine: log.clone(), meanwhile: &theirs };
    assert!(answer::<InFull>(&cell, Loaded { word: full, ring }, &machine, request(1)).is_none());
    assert_eq!(cell.load(), others);
}

#[test]
fn a_compact_word_is_charged_once_or_not_at_all() {
    let mine = Fingerprint::of(7);
    let machine = Gcra::new().compact_params(&Quota::per_second(1).burst(5), 0);
    let machine = machine.expect("in range").expect("narrow");
    let free = CompactWord::committed(mine, machine.fresh(NOW));
    let cell = CompactCell::new(free);
    let admit = |word, n| cell.admit(Loaded { word, ring: SlotRing::NONE }, &machine, request(n));
    // A charge of nothing changes nothing, and one that does not fit is left to the caller.
    assert_eq!(admit(free, 0).expect("free").remaining(), 5);
    assert_eq!(cell.load(), free);
    assert_eq!(admit(free, 4).expect("free").remaining(), 1);
    let four = CompactWord::committed(mine, charged(&machine, 4));
    assert_eq!(cell.load(), four);
    assert!(admit(four, 2).is_none());
    assert!(admit(free, 1).is_none(), "it was another word by then");
    assert_eq!(cell.load(), four);
}

#[test]
fn a_refundable_charge_is_decided_by_one_try_unless_it_is_of_nothing() {
    let fresh = Head::committed(3, bucket().fresh(NOW));
    let (cell, machine) = (HeadCell::new(fresh), bucket());
    let charge = |seen, n| cell.charge_once(Seen::of(seen), &machine, request(n));
    assert!(charge(fresh, 0).is_none());
    assert_eq!(cell.load(), fresh);
    let four = charged(&machine, 4);
    assert_eq!(charge(fresh, 4).expect("no other thread"), Ok(four));
    assert_eq!(cell.load(), Head::committed(3, four));
    assert!(charge(fresh, 1).is_none(), "it was another word by then");
    assert!(charge(cell.load(), 2).expect("no other thread").is_err(), "one is left");
    assert_eq!(cell.load(), Head::committed(3, four));
}

/// The thread that takes the slot does so after the log was read, and before its first event is published.
#[test]
fn a_claim_of_a_log_that_has_changed_hands_is_no_answer() {
    let (log, words) = log();
    let ring = SlotRing::new(&words);
    let claim = Head::provisional(3, log.fresh(NOW));
    let theirs = Head::provisional(4, log.fresh(NOW));
    let cell = HeadCell::new(claim);
    let meanwhile = || {
        let _ = cell.swap(claim, theirs);
    };
    let machine = Interrupted { machine: log.clone(), meanwhile: &meanwhile };
    assert!(
        cell.commit(Loaded { word: claim, ring }, log.fresh(NOW), &machine, request(1)).is_none()
    );
    assert_eq!(cell.load(), theirs);
    assert!(cell.commit(Loaded { word: theirs, ring }, log.fresh(NOW), &log, request(1)).is_some());
}

#[test]
fn a_bucket_without_keys_is_decided_at_once_after_its_first_charge() {
    let (machine, word) = (bucket(), DirectCell::unused());
    assert_eq!(word.load(), Head::provisional(0, 0));
    let cell = DirectCell::new(&word, &[], 0);
    let at_once = |n| cell.answer_at_once::<_, YesOrNo>(&machine, NOW, n);
    assert_eq!(at_once(1), None, "it was never used");
    assert!(cell.answer::<_, YesOrNo>(&machine, NOW, 3));
    assert_eq!([2, 1].map(at_once), [Some(true), Some(false)]);
    assert_eq!(word.load(), Head::committed(0, charged(&machine, 5)));
    cell.reset();
    assert_eq!(at_once(1), None, "it is as if it were never used");
}

#[test]
fn a_log_without_keys_is_restored_with_its_ring() {
    let (log, words) = log();
    let (heads, others) = ([DirectCell::unused(), DirectCell::unused()], self::log().1);
    let [cell, copy] = [(&heads[0], &words), (&heads[1], &others)]
        .map(|(head, words)| DirectCell::new(head, words, 3));
    for n in [1, 1, 0] {
        assert!(cell.answer::<_, YesOrNo>(&log, NOW, n));
    }
    fn state<M: StateMachine>(cell: DirectCell<'_>, _: &M) -> Option<(u64, Vec<u64>)> {
        cell.state::<M>(1)
    }
    fn restore<M: StateMachine>(cell: DirectCell<'_>, _: &M, state: u64, contents: &[u64]) {
        cell.restore::<M>(state, contents);
    }
    let (word, contents) = state(cell, &log).expect("it is used");
    assert!(contents.iter().any(|content| *content > 0));
    restore(copy, &log, word, &contents);
    assert_eq!(state(copy, &log), Some((word, contents)));
    assert!(!copy.answer::<_, YesOrNo>(&log, NOW, 1));
}

#[test]
fn an_answer_says_whether_it_admits() {
    let machine = bucket();
    let decided = [5, 6].map(|n| machine.answer(machine.fresh(NOW), NOW, n));
    assert_eq!(decided.map(|answer| InFull::is_admitted(&answer)), [true, false]);
    assert_eq!(decided.map(|answer| OfOneState::<InFull>::is_admitted(&answer)), [true, false]);
    assert_eq!([true, false].map(|answer| YesOrNo::is_admitted(&answer)), [true, false]);
    let brief = [true, false].map(|answer| OfOneState::<YesOrNo>::is_admitted(&answer));
    assert_eq!(brief, [true, false]);
}

#[test]
fn only_a_committed_word_of_a_key_is_restored() {
    let (mine, state) = (Fingerprint::of(7), 12_345);
    let committed = CompactWord::committed(mine, state);
    assert_eq!(CompactWord::committed_from_bits(committed.bits()), Some(committed));
    let claim = CompactWord::provisional(mine, state);
    assert_eq!(CompactWord::committed_from_bits(claim.bits()), None);
    assert_eq!(CompactWord::committed_from_bits(state), None, "of no key");
    assert_eq!(CompactWord::committed_from_bits(CompactWord::VACANT.bits()), None);
}

#[test]
fn words_print_their_fields() {
    let head = Head::provisional(7, 5);
    let text = "Head { generation: 7, provisional: true, payload: 5 }";
    assert_eq!(format!("{head:?} {:?}", HeadCell::new(head)), format!("{text} {text}"));
    let word = CompactWord::committed(Fingerprint::of(9), 5);
    let text = "CompactWord { fingerprint: 9, provisional: false, state: 5 }";
    assert_eq!(format!("{word:?}"), text);
}
