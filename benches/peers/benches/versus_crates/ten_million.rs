//! 10,000,000 keys, one by one: the limiters run one after the other, so that each has the memory
//! to itself. Ratios are of medians, not of measurements that are close in time.

use tollgate_benches::keys::{self, Draw};
use tollgate_benches::report::{Bound, note, of_medians, table};
use tollgate_benches::rounds::{Figures, compare};
use tollgate_peers::forms::Sequence;
use tollgate_peers::limiters::{PingoraLimits, each};
use tollgate_peers::peer::{Keyed, TimeGiven, Visitor};

use crate::choice::Choice;
use crate::ours::{BATCHED, BATCHED_HUGE, HUGE, Pages};
use crate::rows::{Case, Exact, OURS, OURS_GIVEN, Rows, best, own_name};

const NAME: &str = "10m-uniform-admit";

pub(crate) fn run(choice: &Choice) {
    if !choice.wants_case(NAME) {
        return;
    }
    if !choice.full {
        note(&format!("{NAME} takes minutes: it runs with `--full`."));
        return;
    }
    let case = Case::admit(Draw::Uniform, 10_000_000, 1, 200_000);
    let sequence = long_sequence(case);
    let mut alone = Alone { choice, case, sequence, figures: vec![], exact: Exact::default() };
    each(&mut alone);
    alone.measure(|rows| rows.huge());
    alone.measure(|rows| rows.batched(Pages::Ordinary));
    alone.measure(|rows| rows.batched(Pages::Huge));
    let Alone { figures, exact, .. } = alone;
    table(&case.title(NAME), &figures);
    print_targets(&figures, &exact);
}

/// The ratios of tollgate's rows and the best exact peer, and the sketch.
fn print_targets(figures: &[Figures], exact: &Exact) {
    let sketch = [own_name::<PingoraLimits>()];
    let rows = [
        ("own clock", OURS, None, None),
        ("time given", OURS_GIVEN, None, None),
        ("huge pages", HUGE, None, None),
        ("batch of 16", BATCHED, Some(15.0), Some(1.0)),
        ("batch of 16, huge pages", BATCHED_HUGE, Some(15.0), Some(1.0)),
    ];
    for (what, ours, exactly, roughly) in rows {
        for (peers, whose, least) in
            [(&exact.own[..], "", exactly), (&sketch[..], ", beside the sketch", roughly)]
        {
            let Some(best) = best(figures, peers) else { continue };
            let what = format!("{NAME}, {what}{whose}");
            of_medians(&what, figures, [best, ours], least.map(Bound::AtLeast));
        }
    }
    println!();
}

/// Eight sequences, so that few keys are used twice in a few rounds.
fn long_sequence(case: Case) -> Sequence {
    let drawn = keys::ranks(case.draw, case.keys);
    let turned = |turn: usize| drawn.iter().map(move |rank| (rank + turn * 1_234_567) % case.keys);
    Sequence::new(&(0..8).flat_map(turned).collect::<Vec<usize>>())
}

/// Measures one limiter at a time.
struct Alone<'a> {
    choice: &'a Choice,
    case: Case,
    sequence: Sequence,
    figures: Vec<Figures>,
    exact: Exact,
}

impl Alone<'_> {
    fn measure(&mut self, collect: impl FnOnce(&mut Rows<'_>)) {
        let mut rows = Rows::new(&self.choice.options, self.case, &self.sequence);
        collect(&mut rows);
        self.figures.extend(compare(&self.choice.options, self.case.decisions, &rows.rows));
        self.exact.own.append(&mut rows.exact.own);
        self.exact.given.append(&mut rows.exact.given);
    }
}

impl Visitor for Alone<'_> {
    fn keyed<P: Keyed>(&mut self) {
        self.measure(|rows| rows.keyed::<P>());
    }

    fn given<P: TimeGiven>(&mut self) {
        self.measure(|rows| rows.given::<P>());
    }
}
