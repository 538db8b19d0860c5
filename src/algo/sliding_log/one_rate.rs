//! Decisions of a log with one rate that does not count denials, about at least one cell and at most the limit.

use super::events::{Entry, View};
use super::{SlidingLogParams, SlidingLogView, Step, has_unwritten};
use crate::algo::Ring;
use crate::decision::NEVER;
use crate::time::Tick;

impl SlidingLogParams {
    /// Evaluates a request. The birth of `view` has not been read. `None`: several cells are denied, and how many
    /// remain takes a search.
    #[inline(always)]
    pub(super) fn evaluate_one_rate<R: Ring>(
        &self,
        view: View<R>,
        now: Tick,
        n: u64,
    ) -> Option<SlidingLogView> {
        let (view, rate) = (self.born(view), &self.rates[0]);
        let (back, known) = (rate.limit - n, view.known);
        let max = if back < known {
            let event = self.event(&view, back);
            if self.grid.within(event, view.floor, rate.back) {
                let wait = self.until_left(event, view.floor, rate.window);
                return (n == 1).then(|| self.left_as_is(&view, Step::Deny, wait, 0));
            }
            back
        } else {
            known
        };
        let noted = self.count_inside(&view, rate, max, view.ring.note());
        Some(SlidingLogView { remaining: back - noted, noted, ..self.admission(&view, now, n) })
    }

    /// Evaluates a request for its decision only. The birth of `view` has not been read.
    #[inline(always)]
    pub(super) fn evaluate_briefly<R: Ring>(
        &self,
        view: View<R>,
        now: Tick,
        n: u64,
    ) -> SlidingLogView {
        match self.admits(view, n) {
            None => self.left_as_is(&view, Step::Deny, NEVER, 0),
            Some(view) => self.admission(&view, now, n),
        }
    }

    /// An admission, without the number of cells that remain.
    #[inline(always)]
    fn admission<R: Ring>(&self, view: &View<R>, now: Tick, n: u64) -> SlidingLogView {
        let (time, ahead) = self.entered_at(view, now);
        SlidingLogView {
            step: Step::Admit { next: self.enter(view, n, time) },
            lap: view.lap,
            round: view.round,
            filled: view.filled,
            known: view.known,
            last: view.last,
            floor: view.floor,
            birth: view.birth,
            remaining: 0,
            until_idle: ahead.saturating_add(self.window_max),
            until_admitted: 0,
            noted: 0,
        }
    }

    /// The log with its birth read, if `n` cells (at most the limit, and not 0) are within its only
    /// rate; else `None`. The birth of `view` has not been read.
    ///
    /// From a life's third round on, one event decides. Before that, an event of an earlier life
    /// means that the latest one applies. If both are inside the window, which is so whenever the
    /// limit is used up, it makes no difference whose event it is.
    #[inline(always)]
    fn admits<R: Ring>(&self, view: View<R>, n: u64) -> Option<View<R>> {
        let rate = &self.rates[0];
        let inside = |event| self.grid.within(event, view.floor, rate.back);
        let back = rate.limit - n;
        if back >= view.known {
            return Some(self.born(view));
        }
        match self.found(&view, back) {
            Entry::Older { time } if !has_unwritten(view.lap) => (!inside(time)).then_some(view),
            Entry::Older { time } => {
                let (event_is_inside, latest_is_inside) = (inside(time), inside(view.last));
                if event_is_inside && latest_is_inside {
                    return None;
                }
                let view = self.born(view);
                let denied = match self.before_birth(&view, time) {
                    true => latest_is_inside,
                    false => event_is_inside,
                };
                (!denied).then_some(view)
            }
            Entry::Latest => (!inside(view.last)).then(|| self.born(view)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algo::sliding_log::{self, FIRST, SECOND, SlidingLog};
    use crate::algo::{Algorithm, StateMachine};
    use crate::quota::Quota;
    use core::cell::Cell;
    use core::time::Duration;

    /// Counts what is read of a ring.
    #[derive(Clone, Copy)]
    struct Counted<'a> {
        cells: &'a [u64],
        reads: &'a Cell<usize>,
    }

    impl Ring for Counted<'_> {
        type Cells = Self;

        fn parts(self) -> (Self, u64) {
            (self, 0)
        }

        fn of_parts(cells: Self, _: u64) -> Self {
            cells
        }

        fn cell(self, place: usize) -> u64 {
            self.reads.set(self.reads.get() + 1);
            self.cells[place]
        }
    }

    /// 4 in 10 ms, in microseconds.
    fn four() -> SlidingLogParams {
        let quota = Quota::new(4, Duration::from_millis(10));
        let params = SlidingLog::new().params(&quota, 0).expect("in range");
        assert_eq!((params.grid.ratio(), params.window_max), ((1, 1_000), 10_000));
        params
    }

    fn at(micros: u64) -> Tick {
        Tick::from_nanos(micros * 1_000)
    }

    /// A word of the round `lap`, of which the latest event was in its second place.
    fn word(params: &SlidingLogParams, lap: u64, latest: u64) -> u64 {
        params.time.set(params.lap.set(params.filled.set(0, 2), lap), latest + params.window_max)
    }

    /// An event, or the birth: times in a ring count from a window before the origin.
    fn cell(lap: u64, micros: u64) -> u64 {
        sliding_log::cell(micros + four().window_max, lap)
    }

    /// The brief step at once, which is that by `read`; and how many cells it has read.
    fn step(params: &SlidingLogParams, word: u64, cells: &[u64], now: Tick) -> (Step, usize) {
        let reads = Cell::new(0);
        let ring = Counted { cells, reads: &reads };
        let view = params.read_at_once(word, || ring, now, 1, true).expect("one rate");
        let step = params.step(view, now, 1);
        let read = reads.get();
        assert_eq!(params.step(params.read(word, ring, now, 1), now, 1), step);
        (step, read)
    }

    /// In the second round the birth is read in addition, in later ones not.
    #[test]
    fn a_denial_reads_one_event_and_an_admission_two() {
        let params = four();
        for (lap, before, births_read) in [(SECOND, FIRST, 1), (3, 0, 0), (0, 3, 0)] {
            let word = word(&params, lap, 20_400);
            let [old, oldest, next] = [20_100, 20_200, 20_250].map(|micros| cell(before, micros));
            let cells = [cell(lap, 20_300), old, oldest, next, cell(FIRST, 20_050), 0];
            assert_eq!(step(&params, word, &cells, at(30_199)), (Step::Deny, 1));

            let (step, read) = step(&params, word, &cells, at(30_200));
            assert!(matches!(step, Step::Admit { .. }) && read == 1 + births_read);
            let reads = Cell::new(read);
            let ring = Counted { cells: &cells, reads: &reads };
            let view = params.read_at_once(word, || &cells[..], at(30_200), 1, true);
            let view = view.expect("one rate");
            let written = Cell::new([None, None]);
            let all_written = params.publish(view, ring, |place, content| {
                let [earlier, _] = written.get();
                written.set([Some((place, content)), earlier]);
                true
            });
            assert!(all_written);
            assert_eq!(
                written.get(),
                [Some((1, cell(lap, 20_400))), None],
                "one event is published"
            );
            assert_eq!(reads.get(), 2 + births_read);
        }
    }

    /// As many cells as the limit, and each answer that needs no search for what remains.
    #[test]
    fn one_rate_decides_at_once_but_for_several_cells_that_are_denied() {
        let params = four();
        let word = word(&params, FIRST, 20_400);
        let cells = [cell(FIRST, 20_300), 0, 0, 0, cell(FIRST, 20_300), 2];
        let decided = |now: u64, n: u64, brief: bool| {
            let view = params.read_at_once(word, || &cells[..], at(now), n, brief)?;
            Some(params.answer(view, at(now), n).map(|permit| permit.remaining()).ok())
        };
        // Two of four are there, and later all of them.
        assert_eq!([1, 2].map(|n| decided(20_500, n, false)), [Some(Some(1)), Some(Some(0))]);
        assert_eq!([3, 4, 5, 0].map(|n| decided(20_500, n, false)), [None; 4]);
        assert_eq!(decided(30_400, 4, false), Some(Some(0)));
        assert_eq!(decided(30_400, 4, true).map(|answer| answer.is_some()), Some(true));
        assert_eq!([3, 4].map(|n| decided(20_500, n, true)), [Some(None); 2]);
        let full = self::word(&params, SECOND, 20_400);
        let cells = [cell(SECOND, 20_350), cell(FIRST, 20_300), cell(FIRST, 20_300), 0, 0, 0];
        let view = params.read_at_once(full, || &cells[..], at(20_500), 1, false);
        let view = view.expect("a single cell");
        let denied = params.answer(view, at(20_500), 1).expect_err("all four are used");
        assert_eq!((denied.remaining(), denied.limit()), (0, 4));
    }

    /// All four events were charged at once in the second round. Two of their places still hold cells
    /// of a life of the same generation, and the current life began later.
    #[test]
    fn cells_of_an_earlier_life_admit_nothing() {
        let params = four();
        let (birth, first) = (cell(FIRST, 20_350), cell(FIRST, 20_350));
        // The left-over cell may be outside the window or inside. Either way the latest event counts,
        // which is inside.
        for (left, read) in [(3_000, 2), (20_345, 1)] {
            let cells = [first, first, cell(3, left), cell(3, left), birth, 0];
            let word = word(&params, SECOND, 20_400);
            assert_eq!(step(&params, word, &cells, at(30_340)), (Step::Deny, read));
        }
        // From its third round on a life has written all of its cells, and the birth is not read.
        for (lap, before) in [(3, 0), (0, 3)] {
            let left = cell(before, 3_000);
            let cells = [cell(lap, 20_399), left, left, cell(before, 20_398), birth, 0];
            let (step, read) = step(&params, word(&params, lap, 20_400), &cells, at(30_340));
            assert!(matches!(step, Step::Admit { .. }) && read == 1);
        }
    }
}
