//! One bucket and its oracle, with the same requests.

use std::time::Duration;

use tollgate::algorithm::Algorithm;
use tollgate::internals::oracle::{Oracle, Verdict};
use tollgate::internals::{NoRing, StateMachine, Step};
use tollgate::{Direct, ManualClock, Quota, Tick};

use crate::bodies::choice::{Choice, Kind, ORIGIN_2025, with_algorithm};
use crate::bodies::grid::{horizon, ring_horizon};
use crate::bodies::moves::Last;
use crate::bodies::numbers::Numbers;
use crate::chance::Chance;
use crate::draw;
use crate::fault::{Fault, Gate};

/// Decisions of a case, unless an answer differs.
pub(crate) const STEPS: u64 = 256;

/// A case: a function of a seed and the case's number.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) kind: Kind,
    choice: Choice,
    quota: Quota,
    start: u64,
    /// Whether to use a state of 37 bits, if the algorithm and the quota have one.
    compact: bool,
    chance: Chance,
}

impl Case {
    pub(crate) fn draw(seed: u64, number: u64, only: Option<Kind>) -> Self {
        let mut chance = Chance::of_case(seed, number);
        let drawn = Kind::any_of(Kind::all(), &mut chance);
        let kind = only.unwrap_or(drawn);
        let (choice, quota) = draw::choice_with_quota(kind, &mut chance);
        let (start, compact) = (draw::start(&mut chance), chance.below(4) == 0);
        Self { kind, choice, quota, start, compact, chance }
    }

    /// Compares every answer with the oracle's, in every field; the error describes the first that
    /// differs.
    pub(crate) fn play(mut self, fault: Option<Fault>) -> Result<(), String> {
        let described = format!("{:?} of {}, compact: {}", self.choice, self.quota, self.compact);
        with_algorithm!(self.choice, algorithm => {
            let narrow = match self.compact {
                true => algorithm.compact_params(&self.quota, ORIGIN_2025).unwrap_or(None),
                false => None,
            };
            match narrow {
                Some(params) => self.compare(&mut Bare::new(params), fault),
                None => self.compare(&mut direct(algorithm, self.quota), fault),
            }
        })
        .map_err(|difference| format!("{described}\n{difference}"))
    }

    fn compare<G: Gate>(&mut self, gate: &mut G, fault: Option<Fault>) -> Result<(), String> {
        let (choice, quota) = (self.choice, self.quota);
        let (fits, starts_in_debt) = (choice.fits(&quota), gate.params().starts_in_debt());
        let mut oracle = gate.params().oracle();
        let (mut now, mut rest, mut last) = (self.start, fits, Last::default());
        let mut span = TellableRange::default();
        for step in 0..STEPS {
            let chance = &mut self.chance;
            now = draw::next_move(chance, now).apply(now, &quota, &last);
            now = now.clamp(span.min, span.max);
            let n = draw::cost(chance).cells(fits, rest);
            let expected = within_time(oracle.decide(Tick::from_nanos(now), n));
            let answer = match fault {
                None => gate.ask(n, Tick::from_nanos(now)),
                Some(fault) => fault.ask(gate, n, now, span.written.map(|(latest, _)| latest)),
            };
            let answer = within_time(answer);
            if answer != expected {
                return Err(format!(
                    "step {step}, {n} at {now} ns: {answer:?}\nthe oracle says: {expected:?}"
                ));
            }
            // A denial of any other kind, and a request of 0 cells, write no state.
            let counted = answer.admitted || choice.counts_denials() && n <= fits;
            if counted && n > 0 || starts_in_debt && span.written.is_none() {
                span.write(now, |first| ring_horizon(gate.params(), choice, &quota, first));
                (span.min, span.max) = {
                    let (min, max) = horizon(gate.params(), span.latest(now));
                    (min, max.min(span.ring_end))
                };
            }
            (rest, last) = (answer.remaining, Last::from(&answer));
        }
        Ok(())
    }
}

/// The range of instants that a state can tell apart.
struct TellableRange {
    min: u64,
    max: u64,
    /// The latest instant and the first at which a state was written.
    written: Option<(u64, u64)>,
    /// The latest instant at which the first ring entry can be told from later ones.
    ring_end: u64,
}

impl Default for TellableRange {
    fn default() -> Self {
        Self { min: 0, max: u64::MAX, written: None, ring_end: u64::MAX }
    }
}

impl TellableRange {
    fn latest(&self, now: u64) -> u64 {
        self.written.map_or(now, |(latest, _)| latest)
    }

    fn write(&mut self, now: u64, ring_end: impl Fn(u64) -> u64) {
        let (latest, first) = self.written.unwrap_or((now, u64::MAX));
        if now < first {
            self.ring_end = ring_end(now);
        }
        self.written = Some((latest.max(now), first.min(now)));
    }
}

/// Some oracles use the longest span for "never", so waits are capped one below it.
fn within_time(verdict: Verdict) -> Verdict {
    let longest = Duration::from_nanos(u64::MAX - 1);
    Verdict { retry_after: verdict.retry_after.map(|wait| wait.min(longest)), ..verdict }
}

fn direct<A: Algorithm>(algorithm: A, quota: Quota) -> Direct<A, ManualClock> {
    let clock = ManualClock::starting_at_unix_nanos(ORIGIN_2025);
    let builder = Direct::builder(quota).algorithm(algorithm).clock(clock);
    builder.build().expect("an accepted quota")
}

impl<A: Algorithm> Gate for Direct<A, ManualClock> {
    type Params = A::Params;

    fn params(&self) -> &A::Params {
        Direct::params(self)
    }

    fn ask(&mut self, n: u64, now: Tick) -> Verdict {
        Verdict::from(&Direct::ask(self).cells(n).at(now).check())
    }
}

/// A state of one word without a table: what a compact slot holds.
struct Bare<P> {
    params: P,
    word: Option<u64>,
}

impl<P: StateMachine> Bare<P> {
    fn new(params: P) -> Self {
        assert_eq!(params.ring_cells(), 0, "a compact state is one word");
        Self { params, word: None }
    }
}

impl<P: StateMachine> Gate for Bare<P> {
    type Params = P;

    fn params(&self) -> &P {
        &self.params
    }

    fn ask(&mut self, n: u64, now: Tick) -> Verdict {
        let word = self.word.unwrap_or_else(|| self.params.fresh(now));
        let seen = self.params.read(word, NoRing, now, n);
        let next = match self.params.step(seen, now, n) {
            Step::Admit { next } | Step::DenyCounted { next } if n > 0 => Some(next),
            // A key that starts in debt is stored from then on; a request of 0 cells leaves no
            // trace.
            _ => self.params.starts_in_debt().then_some(word),
        };
        self.word = next.or(self.word);
        Verdict::from(&self.params.answer(seen, now, n))
    }
}
