//! Single checks, each of a key that was not used since the table was filled.
//!
//! In `isolated`, no check overlaps with other instructions. In `cold`, the core also
//! reads 16 MiB of other memory before each check, so that its caches and TLB contain nothing of
//! the key.

use std::borrow::Borrow;
use std::hint::black_box;

use quanta::Clock;
use tollgate_benches::keys::Draw;
use tollgate_benches::report::{note, quartiles, table};
use tollgate_benches::rounds::{Admitted, Figures};
use tollgate_benches::timer::read_alone;
use tollgate_peers::forms::Form;
use tollgate_peers::limiters::each;
use tollgate_peers::peer::{Keyed, TimeGiven, Visitor};

use crate::choice::{Choice, float};
use crate::rows::{Case, Exact, OURS, OURS_GIVEN, given_name, own_name, print_targets};

const KEYS: usize = 1_000_000;
/// The words that are read between two checks: 16 MiB, several times the private cache of a core.
const WORDS: usize = 1 << 21;
/// Words in a cache line.
const LINE: usize = 8;

pub(crate) fn run(choice: &Choice) {
    let kinds = [("isolated-1m", 512, 0), ("cold-1m", 32, WORDS)];
    let wanted: Vec<_> = kinds.into_iter().filter(|kind| choice.wants_case(kind.0)).collect();
    if wanted.is_empty() {
        return;
    }
    let mut rows = ColdRows { choice, rows: vec![], exact: Exact::default() };
    rows.floors();
    each(&mut rows);
    let ColdRows { rows, exact, .. } = rows;
    for (name, checks, words) in wanted {
        let bench = Bench { clock: Clock::new(), checks, other: vec![1; words] };
        let (figures, timer) = less_the_timer(measure(choice.options.rounds, &bench, &rows));
        table(&format!("{name}: {KEYS} keys, each check alone, the timer taken off"), &figures);
        note(&format!("The timer takes {timer:.1} ns between two readings."));
        print_targets(name, &figures, &exact, Some(2.0));
        println!();
    }
}

/// The measured calls of a round: for each, its nanoseconds and whether it was admitted.
type Body<'a> = Box<dyn Fn(&Bench, usize) -> Vec<(u64, bool)> + 'a>;

/// Rows take turns. A round counts by its median, so that an interrupt does not count.
fn measure(rounds: usize, bench: &Bench, rows: &[(String, Body<'_>)]) -> Vec<Figures> {
    let figures = |(name, _): &(String, Body<'_>)| Figures {
        name: name.clone(),
        threads: 1,
        nanos: Vec::new(),
        admitted: (name != NOTHING && name != LOAD)
            .then_some(Admitted { count: 0, of: rounds * bench.checks }),
    };
    let mut figures: Vec<Figures> = rows.iter().map(figures).collect();
    for round in 0..=rounds {
        for (row, (_, body)) in figures.iter_mut().zip(rows) {
            let timed = body(bench, round);
            if round == 0 {
                continue;
            }
            let nanos: Vec<f64> = timed.iter().map(|&(nanos, _)| float(nanos)).collect();
            row.nanos.push(quartiles(&nanos)[1]);
            let count = timed.iter().filter(|(_, admitted)| *admitted).count();
            row.admitted = row.admitted.map(|all| Admitted { count: all.count + count, ..all });
        }
    }
    figures
}

const NOTHING: &str = "nothing but the timer";
const LOAD: &str = "one load of a line not used since";

/// Subtracts the median of the timer's row from all others, and removes that row.
fn less_the_timer(mut figures: Vec<Figures>) -> (Vec<Figures>, f64) {
    let place = figures.iter().position(|row| row.name == NOTHING).expect("it is always run");
    let timer = quartiles(&figures.remove(place).nanos)[1];
    let load = figures.iter().find(|row| row.name == LOAD).expect("it is always run");
    let loaded = quartiles(&load.nanos)[1];
    assert!(
        loaded > timer,
        "the timer does not wait for a load: {loaded} ns with one, {timer} without"
    );
    for nanos in figures.iter_mut().flat_map(|row| &mut row.nanos) {
        *nanos = (*nanos - timer).max(0.1);
    }
    (figures, timer)
}

/// The timer, and memory for other reads.
struct Bench {
    clock: Clock,
    /// Measured checks of a row in a round.
    checks: usize,
    /// Read between two checks.
    other: Vec<u64>,
}

impl Bench {
    /// Replaces the contents of the core's caches.
    fn forget(&self) {
        let sum = self.other.iter().step_by(LINE).fold(0, |sum: u64, word| sum ^ word);
        black_box(sum);
    }

    /// The ranks of a round. A rank is used once in hundreds of rounds, and the order is not that of
    /// insertion. The two kinds of bench start at different ranks.
    fn ranks(&self, round: usize) -> impl Iterator<Item = usize> + use<> {
        let first = 1 + round * self.checks + if self.other.is_empty() { 0 } else { KEYS / 2 };
        (first..first + self.checks).map(|index| index * 15_485_863 % KEYS)
    }

    /// The nanoseconds of one call, which overlaps with neither reading.
    #[inline]
    fn time(&self, call: impl FnOnce() -> bool) -> (u64, bool) {
        let start = read_alone(&self.clock);
        let admitted = black_box(call());
        (self.clock.delta_as_nanos(start, read_alone(&self.clock)), admitted)
    }
}

struct ColdRows<'a> {
    choice: &'a Choice,
    rows: Vec<(String, Body<'a>)>,
    exact: Exact,
}

impl ColdRows<'_> {
    /// The floors: a reading of the timer, and the fetch of one cache line.
    fn floors(&mut self) {
        let nothing: Body<'_> = Box::new(|bench, _| {
            (0..bench.checks).map(|_| (bench.forget(), bench.time(|| true)).1).collect()
        });
        self.rows.push((NOTHING.to_owned(), nothing));
        let lines: Vec<[u64; LINE]> = vec![[1; LINE]; KEYS];
        let load: Body<'_> = Box::new(move |bench, round| {
            let one = |rank: usize| {
                bench.forget();
                black_box(&lines[0]);
                bench.time(|| black_box(&lines)[rank][0] > 0)
            };
            bench.ranks(round).map(one).collect()
        });
        self.rows.push((LOAD.to_owned(), load));
    }

    /// Adds a row. The key of a fixed rank is asked for first, so that the code, the clock and the
    /// limiter's own fields are cached, and then another key, which is not.
    fn push<P: Keyed>(&mut self, name: &str, gate: P, ask: impl Fn(&P, &P::Key) -> bool + 'static) {
        let warm = P::Key::own(0);
        let body: Body<'_> = Box::new(move |bench, round| {
            let one = |rank: usize| {
                bench.forget();
                let key = P::Key::own(rank);
                for _ in 0..3 {
                    black_box(ask(&gate, warm.borrow()));
                }
                bench.time(|| ask(&gate, key.borrow()))
            };
            bench.ranks(round).map(one).collect()
        });
        self.rows.push((name.to_owned(), body));
    }
}

impl Visitor for ColdRows<'_> {
    fn keyed<P: Keyed>(&mut self) {
        let name = own_name::<P>();
        if self.choice.options.wants(&name) {
            self.push(&name, case().filled::<P>(), P::check);
            if P::EXACT && name != OURS {
                self.exact.own.push(name);
            }
        }
    }

    fn given<P: TimeGiven>(&mut self) {
        let name = given_name::<P>();
        if self.choice.options.wants(&name) {
            let ask = |gate: &P, key: &P::Key| gate.check_at(key, black_box(1_000_000_000));
            self.push(&name, case().filled_at_zero::<P>(), ask);
            if P::EXACT && name != OURS_GIVEN {
                self.exact.given.push(name);
            }
        }
    }
}

fn case() -> Case {
    Case::admit(Draw::Uniform, KEYS, 1, 1)
}
