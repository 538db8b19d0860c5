//! Rows of keyed limiters, and the comparison of ours with the best of the others.

use std::borrow::Borrow;
use std::hint::black_box;

use tollgate_benches::keys::{self, Draw};
use tollgate_benches::options::Options;
use tollgate_benches::report::{Bound, compared, fastest, target};
use tollgate_benches::rounds::{Figures, Row, Turn};
use tollgate_peers::forms::{Form, Sequence, mixed};
use tollgate_peers::peer::{Keyed, TimeGiven, Visitor};
use tollgate_peers::plan::Plan;

/// Eight limiters of so many keys fit a core's caches.
const FEW_KEYS: usize = 1_000;

pub(crate) const OURS: &str = "tollgate, own clock";
pub(crate) const OURS_GIVEN: &str = "tollgate, time given";

/// The parameters of a comparison.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) draw: Draw,
    pub(crate) keys: usize,
    pub(crate) threads: usize,
    pub(crate) decisions: usize,
    pub(crate) plan: Plan,
    /// Cells taken from every key beforehand.
    pub(crate) before: usize,
}

impl Case {
    /// All admitted, all charged.
    pub(crate) fn admit(draw: Draw, keys: usize, threads: usize, decisions: usize) -> Self {
        Self { draw, keys, threads, decisions, plan: Plan::roomy(), before: 1 }
    }

    /// All denied: every bucket is empty for the next hour.
    pub(crate) fn deny(draw: Draw, keys: usize, threads: usize, decisions: usize) -> Self {
        Self { draw, keys, threads, decisions, plan: Plan::hourly(2), before: 2 }
    }

    pub(crate) fn title(self, what: &str) -> String {
        let Self { draw, keys, threads, .. } = self;
        format!("{what}, {keys} keys, {}, {threads} thread(s)", draw.name())
    }

    pub(crate) fn sequence(self) -> Sequence {
        Sequence::new(&keys::ranks(self.draw, self.keys))
    }

    /// How many limiters take turns. Each has another seed, which decides where the few keys lie that most requests
    /// are for: the same program took 22.7 ns or 24.7 for 1,000 keys by zipf.
    fn fills(self) -> usize {
        if self.keys <= FEW_KEYS { 8 } else { 1 }
    }

    /// A limiter in which every key has asked, with its own clock.
    pub(crate) fn filled<P: Keyed>(self) -> P {
        let gate = P::new(self.plan, self.keys);
        self.fill::<P>(|key| gate.check(key));
        gate
    }

    /// A limiter in which every key has asked at the time zero.
    pub(crate) fn filled_at_zero<P: TimeGiven>(self) -> P {
        let gate = P::new(self.plan, self.keys);
        self.fill::<P>(|key| gate.check_at(key, 0));
        gate
    }

    fn fill<P: Keyed>(self, ask: impl Fn(&P::Key) -> bool) {
        for rank in mixed(self.keys) {
            let key = P::Key::own(rank);
            for _ in 0..self.before {
                let granted = ask(key.borrow());
                assert!(granted || !P::EXACT, "{}: its first cells", P::NAME);
            }
        }
    }
}

/// The name of a row with the peer's own clock.
pub(crate) fn own_name<P: Keyed>() -> String {
    format!("{}, own clock", P::NAME)
}

/// The name of a row with the time given.
pub(crate) fn given_name<P: Keyed>() -> String {
    format!("{}, time given", P::NAME)
}

/// The names of the peers' rows that are meant to be exact.
#[derive(Default)]
pub(crate) struct Exact {
    pub(crate) own: Vec<String>,
    pub(crate) given: Vec<String>,
}

/// Adds a row for every limiter that is wanted, and fills the limiter.
pub(crate) struct Rows<'a> {
    pub(crate) options: &'a Options,
    pub(crate) case: Case,
    pub(crate) sequence: &'a Sequence,
    pub(crate) rows: Vec<Row<'a>>,
    pub(crate) exact: Exact,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(options: &'a Options, case: Case, sequence: &'a Sequence) -> Self {
        Self { options, case, sequence, rows: Vec::new(), exact: Exact::default() }
    }

    /// The keys as numbers.
    pub(crate) fn keys(&self) -> &'a [u64] {
        u64::of(self.sequence)
    }
}

impl Visitor for Rows<'_> {
    fn keyed<P: Keyed>(&mut self) {
        let name = own_name::<P>();
        if !self.options.wants(&name) {
            return;
        }
        let (threads, keys) = (self.case.threads, P::Key::of(self.sequence));
        let gates: Vec<P> = (0..self.case.fills()).map(|_| self.case.filled()).collect();
        self.rows.push(Row::new(&name, threads, move |turn| {
            let gate = &gates[turn.round % gates.len()];
            each(turn, threads, keys, |key| gate.check(key.borrow()))
        }));
        if P::EXACT && name != OURS {
            self.exact.own.push(name);
        }
    }

    fn given<P: TimeGiven>(&mut self) {
        let name = given_name::<P>();
        if !self.options.wants(&name) {
            return;
        }
        let (threads, keys) = (self.case.threads, P::Key::of(self.sequence));
        let gates: Vec<P> = (0..self.case.fills()).map(|_| self.case.filled_at_zero()).collect();
        self.rows.push(Row::new(&name, threads, move |turn| {
            let (gate, mut now) = (&gates[turn.round % gates.len()], turn.start_nanos());
            each(turn, threads, keys, |key| {
                now = Turn::later(now);
                gate.check_at(key.borrow(), black_box(now))
            })
        }));
        if P::EXACT && name != OURS_GIVEN {
            self.exact.given.push(name);
        }
    }
}

const ALONE: &str = "a loop, 1 thread";
const BESIDE: &str = "a loop, 2 threads";

/// Rows that show whether the machine had two processors for two threads: each thread counts on its
/// own, about as long as a decision takes.
pub(crate) fn loops<'a>() -> [Row<'a>; 2] {
    let spin = |turn: Turn| {
        for step in 0..turn.decisions * 256 {
            black_box(step);
        }
    };
    [Row::floor(ALONE, 1, spin), Row::floor(BESIDE, 2, spin)]
}

/// Prints the result of [`loops`].
pub(crate) fn side_by_side(figures: &[Figures]) {
    let what = "two threads at once (1 is side by side, 2 one after the other)";
    compared(what, figures, [BESIDE, ALONE]);
}

/// Runs `decide` on the keys of a turn.
#[inline]
fn each<K>(
    turn: Turn,
    threads: usize,
    sequence: &[K],
    mut decide: impl FnMut(&K) -> bool,
) -> usize {
    let mut admitted = 0;
    let (first, second) = turn.part(sequence, threads);
    for part in [first, second] {
        for key in part {
            admitted += usize::from(black_box(decide(key)));
        }
    }
    admitted
}

/// The fastest of the rows with these names.
pub(crate) fn best<'f>(figures: &'f [Figures], names: &[String]) -> Option<&'f str> {
    fastest(figures, |name| names.iter().any(|one| one == name))
}

/// Rows of limiters that users would take instead, by their own clock: governor, and a bucket under a lock.
const USUAL: [&str; 4] = [
    "governor, own clock",
    "governor, ahash, own clock",
    "parking_lot Mutex, own clock",
    "64 parking_lot maps, own clock",
];

/// Prints the ratio of the faster of governor and the lock over ours, with the required ratio if there is
/// one, and for information the ratios of the best exact peer.
pub(crate) fn print_targets(what: &str, figures: &[Figures], exact: &Exact, least: Option<f64>) {
    let usual = format!("{what}, beside governor and the lock");
    beside_best(&usual, figures, &USUAL.map(str::to_owned), OURS, least);
    let own = format!("{what}, own clock");
    beside_best(&own, figures, &exact.own, OURS, None);
    let given = format!("{what}, time given (the peer reads its own clock)");
    beside_best(&given, figures, &exact.own, OURS_GIVEN, None);
    let both = format!("{what}, time given to both");
    beside_best(&both, figures, &exact.given, OURS_GIVEN, None);
}

/// Prints the ratio of the fastest of some rows over one of ours, with the required ratio if there
/// is one.
pub(crate) fn beside_best(
    what: &str,
    figures: &[Figures],
    theirs: &[String],
    ours: &str,
    least: Option<f64>,
) {
    let Some(best) = best(figures, theirs) else { return };
    match least {
        Some(least) => target(what, figures, [best, ours], Bound::AtLeast(least)),
        None => compared(what, figures, [best, ours]),
    }
}
