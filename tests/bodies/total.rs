//! A step is total, and never on the caller's side.

use std::time::Duration;

use tollgate::internals::{PAYLOAD_BITS, Ring, Standing, StateMachine, Step};
use tollgate::{Denied, Tick};

use super::choice::Cost;
use super::grid::nanos;
use super::mistake::{Mistake, planted};

/// Bits of a cell that hold what an algorithm has put there; the table keeps the rest.
const CONTENT_BITS: u32 = 54;

/// What a ring holds before the first step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cells<'a> {
    /// Nothing: so whatever the word says, it says of its own latest instant.
    Empty,
    /// Anything, over and over; the note, too.
    Any(&'a [u64]),
}

/// A word and its ring, kept as the cell of a limiter keeps them.
#[derive(Clone)]
struct State {
    word: u64,
    ring: Vec<u64>,
    has_note: bool,
}

/// A ring as a step reads it. Its note is a word like any other, with no bit kept back.
#[derive(Clone, Copy)]
struct Read<'a>(&'a State);

impl Ring for Read<'_> {
    fn cell(self, place: usize) -> u64 {
        assert!(place < self.0.places(), "reads beyond the cells, or the note as a cell");
        self.0.ring[place] & (u64::MAX >> (u64::BITS - CONTENT_BITS))
    }

    fn note(self) -> u64 {
        if self.0.has_note { self.0.ring[self.0.places()] } else { 0 }
    }
}

impl State {
    fn new<P: StateMachine>(params: &P, word: u64, cells: Cells<'_>) -> Self {
        let mut ring = vec![0; params.ring_cells()];
        assert!(P::RINGED || ring.is_empty(), "a ring that is not announced");
        if let Cells::Any(words @ [_, ..]) = cells {
            ring.iter_mut().zip(words.iter().cycle()).for_each(|(cell, word)| *cell = *word);
        }
        Self { word, ring, has_note: params.has_note() }
    }

    fn places(&self) -> usize {
        self.ring.len() - usize::from(self.has_note)
    }

    fn read<P: StateMachine>(&self, params: &P, now: Tick, n: u64) -> P::View {
        let seen = params.read(self.word, Read(self), now, n);
        self.a_glance_does_the_same(params, seen, now, n);
        seen
    }

    /// Who asks for yes or no is told, and leaves, what everybody is told and leaves.
    fn a_glance_does_the_same<P: StateMachine>(
        &self,
        params: &P,
        seen: P::View,
        now: Tick,
        n: u64,
    ) {
        let glanced = params.read_brief(self.word, Read(self), now, n);
        let step = params.step(glanced, now, n);
        assert_eq!(step, params.step(seen, now, n));
        if step == Step::Deny {
            return;
        }
        let published = |seen| {
            let mut puts = Vec::new();
            let kept_on = |place, content| {
                puts.push((place, content));
                true
            };
            assert!(params.publish(seen, Read(self), kept_on));
            puts
        };
        assert_eq!(published(glanced), published(seen));
    }

    fn admits<P: StateMachine>(&self, params: &P, now: Tick, n: u64) -> bool {
        matches!(params.step(self.read(params, now, n), now, n), Step::Admit { .. })
    }

    /// Moves on to `next`: first the cells, then the word, then the note.
    fn move_on<P: StateMachine>(&mut self, params: &P, seen: P::View, n: u64, next: u64) {
        assert_eq!(next >> PAYLOAD_BITS, 0, "no bit above the payload");
        let mut puts = Vec::new();
        let kept_on = |place, content| {
            puts.push((place, content));
            true
        };
        assert!(params.publish(seen, Read(self), kept_on), "nothing moved the word meanwhile");
        for (place, content) in puts {
            assert!(place < self.places(), "puts beyond the cells, or into the note");
            assert_eq!(content >> CONTENT_BITS, 0, "no bit above the content");
            self.ring[place] = content;
        }
        // Who lost the race for the word before stops at the first put.
        let mut denied = 0;
        let stops = params.publish(seen, Read(self), |_, _| {
            denied += 1;
            false
        });
        assert!(stops == (denied == 0) && denied <= 1, "went on after the word had moved");
        if !planted(Mistake::ChargeLost) {
            self.word = next;
        }
        if self.has_note {
            let note = self.places();
            self.ring[note] = params.note(seen, n);
        }
    }

    /// What the state holds against its key; nothing, where it is idle.
    fn debt<P: StateMachine>(&self, params: &P, now: Tick) -> u64 {
        match params.standing(self.word, params.instant(now)) {
            Standing::Idle { .. } => 0,
            Standing::Live { debt } => {
                assert!(debt > 0, "what is live has something to lose");
                debt
            }
        }
    }
}

/// Asks again and again at one instant, which may grant `most` and no more.
///
/// Waiting is tried out only up to `latest`. Of a ring full of anything less can be asked, for
/// its cells contradict its word and each other: no panic, no bit too many, and a wait that is
/// enough.
pub(crate) fn steps_are_total<P: StateMachine>(
    params: &P,
    (word, cells): (u64, Cells<'_>),
    (now, fits, most): (Tick, u64, u64),
    latest: u64,
    asked: &[Cost],
) {
    let mut state = State::new(params, word, cells);
    let sound = matches!(cells, Cells::Empty);
    let (mut granted, mut rest) = (0_u64, fits);
    let _ = state.debt(params, now);
    assert_eq!(params.no_place(word, now, Duration::ZERO).remaining(), 0);
    for cost in asked {
        let n = cost.cells(fits, rest);
        let seen = state.read(params, now, n);
        let before = state.clone();
        match (params.step(seen, now, n), params.answer(seen, now, n)) {
            (Step::Admit { next }, Ok(permit)) => {
                granted = granted.saturating_add(n);
                state.move_on(params, seen, n, next);
                assert_eq!(permit.limit(), fits);
                assert!(permit.remaining() <= fits);
                assert!(permit.delay() <= permit.reset_after(), "a turn after all has drained");
                rest = permit.remaining();
                if sound {
                    is_charged(params, (&before, &state), now, n);
                }
            }
            (Step::DenyCounted { next }, Err(denied)) => {
                assert!(n <= fits, "what can never fit does not count");
                state.move_on(params, seen, n, next);
                if sound {
                    is_charged(params, (&before, &state), now, n);
                    assert!(!before.admits(params, now, n + 1), "less was denied than admitted");
                    denial_is_right(params, &state, (now, n, fits), latest, &denied);
                }
                rest = denied.remaining();
            }
            (Step::Deny, Err(denied)) => {
                if sound {
                    denial_is_right(params, &state, (now, n, fits), latest, &denied);
                } else if is_steady(params, &state, now, &denied) {
                    wait_is_enough(params, &state, (now, n), latest, &denied);
                }
                rest = denied.remaining();
            }
            (step, answer) => panic!("{step:?} was told as {answer:?}"),
        }
        // A ring of anything may come to hold less by a charge, once.
        assert!(!sound || granted <= most, "{granted} of {most} at one instant");
    }
}

/// Whether times of anything are the same times when the wait is over: none has come round.
fn is_steady<P: StateMachine>(params: &P, state: &State, now: Tick, denied: &Denied) -> bool {
    let soon = |wait| params.skew_tolerance().is_none_or(|tolerance| wait <= tolerance);
    let live = state.debt(params, now) > 0;
    live && params.grid().ring().is_none() && denied.retry_after().is_none_or(soon)
}

/// A state with more in it never stands for less.
fn is_charged<P: StateMachine>(params: &P, (before, after): (&State, &State), now: Tick, n: u64) {
    let (was, is) = (before.debt(params, now), after.debt(params, now));
    // A log's debt is until when, not how much.
    let more = if params.has_note() { is >= was && is > 0 } else { is > was };
    assert!(if n > 0 { more } else { is == was }, "moved back: {was} to {is} by {n}");
}

/// What holds of every denial, seen from the state that it left.
fn denial_is_right<P: StateMachine>(
    params: &P,
    state: &State,
    (now, n, fits): (Tick, u64, u64),
    latest: u64,
    denied: &Denied,
) {
    assert_eq!(denied.limit(), fits);
    assert!(denied.remaining() < n, "what is left was denied");
    let Some(wait) = denied.retry_after() else {
        assert!(n > fits, "what fits comes back some day");
        return;
    };
    assert!(n <= fits && !wait.is_zero());
    assert!(wait <= denied.reset_after(), "a bucket as new admits what fits");
    let Some(then) = wait_is_enough(params, state, (now, n), latest, denied) else { return };
    assert!(!state.admits(params, Tick::from_nanos(then - 1), n), "{wait:?} is too much");
}

/// When the wait is over, which has been tried, if it can be.
fn wait_is_enough<P: StateMachine>(
    params: &P,
    state: &State,
    (now, n): (Tick, u64),
    latest: u64,
    denied: &Denied,
) -> Option<u64> {
    let wait = denied.retry_after()?;
    let wait = wait - Duration::from_nanos(planted(Mistake::WaitTooShort).into());
    // What lies beyond the last tick cannot be tried. Windows of the wall clock stand still
    // once its time is beyond it, which is less than a period earlier.
    let then = now.as_nanos().checked_add(nanos(wait)).filter(|then| *then < latest)?;
    assert!(state.admits(params, Tick::from_nanos(then), n), "{wait:?} is not enough");
    Some(then)
}
