//! 10,000,000 keys, one by one: each limiter has the memory for itself, one after the other, so
//! that ratios are of medians and not of neighbours in time.

use tollgate_benches::keys::{self, Draw};
use tollgate_benches::report::{Bound, quartiles, table, verdict};
use tollgate_benches::rounds::{Figures, compare};
use tollgate_peers::forms::Sequence;
use tollgate_peers::limiters::{PingoraLimits, each};
use tollgate_peers::peer::{Keyed, TimeGiven, Visit};

use crate::choice::Choice;
use crate::rows::{Case, Exact, OURS, OURS_GIVEN, Rows, best, own_name};

const NAME: &str = "10m-uniform-admit";

pub(crate) fn run(choice: &Choice) {
    if !choice.wants_case(NAME) {
        return;
    }
    if !choice.full {
        println!("- {NAME} takes minutes: it runs with `--full`.\n");
        return;
    }
    let case = Case::admit(Draw::Uniform, 10_000_000, 1, 400_000);
    let sequence = long_sequence(case);
    let mut alone = Alone { choice, case, sequence, figures: vec![], exact: Exact::default() };
    each(&mut alone);
    // Rows of other calls of ours go here, each by `alone.measure`.
    let Alone { figures, exact, .. } = alone;
    table(&case.title(NAME), &figures);
    judge(&figures, &exact);
}

/// How tollgate's rows stand to the best exact peer, and to the sketch. Bounds of further rows
/// of ours belong here.
fn judge(figures: &[Figures], exact: &Exact) {
    let sketch = [own_name::<PingoraLimits>()];
    for ours in [OURS, OURS_GIVEN] {
        against(figures, &exact.own, ours, None);
        against(figures, &sketch, ours, None);
    }
    println!();
}

/// Prints the ratio of medians of the best of some rows over one of ours. Silent where either
/// was not run.
fn against(figures: &[Figures], names: &[String], ours: &str, bound: Option<Bound>) {
    let (Some(best), Some(ours)) =
        (best(figures, names), figures.iter().find(|row| row.name == ours))
    else {
        return;
    };
    let ratio = quartiles(&best.nanos)[1] / quartiles(&ours.nanos)[1];
    let note = format!("{:?} over {:?}, of medians", best.name, ours.name);
    match bound {
        Some(bound) => verdict(NAME, ratio, bound, &note),
        None => println!("- {NAME}: {ratio:.2}; {note}"),
    }
}

/// Eight sequences, so that hardly any key is asked for twice in few rounds.
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

impl Visit for Alone<'_> {
    fn keyed<P: Keyed>(&mut self) {
        self.measure(|rows| rows.keyed::<P>());
    }

    fn given<P: TimeGiven>(&mut self) {
        self.measure(|rows| rows.given::<P>());
    }
}
