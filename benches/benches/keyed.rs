//! A bucket for every key, compared with governor's keyed limiter.

use std::hash::Hash;
use std::hint::black_box;
use std::time::Duration;

use governor::clock::{Clock as _, FakeRelativeClock};
use tollgate::clock::{CoarseClock, QuantaClock, TieredClock};
use tollgate::{Clock, Gcra, Limiter, Quota, Tick};
use tollgate_benches::floor::Words;
use tollgate_benches::keys::{self, Draw};
use tollgate_benches::options::Options;
use tollgate_benches::peer::{self, Keyed, nonzero};
use tollgate_benches::process::machine;
use tollgate_benches::report::{Bound, compared, heading, note, table, target};
use tollgate_benches::rounds::{Figures, Row, Turn, compare};

const OURS: &str = "tollgate, own clock";
const OURS_GIVEN: &str = "tollgate, time given";
const THEIRS: &str = "governor, own clock";
const THEIRS_GIVEN: &str = "governor, FakeRelativeClock";
const OURS_WAIT: &str = "tollgate, own clock, reads retry_after";
const THEIRS_WAIT: &str = "governor, own clock, reads wait_time_from";

/// The minimum cost of a decision: what it cannot do without.
const FLOOR: &str = "clock read, hash, a word of the key's own, CAS";
const FLOOR_GIVEN: &str = "hash, a word of the key's own, CAS";

/// For information: denied by the precise clock, admitted by a coarse one; and with counters.
const OURS_TIERED: &str = "tollgate TieredClock, own clock";
const OURS_COUNTED: &str = "tollgate count_decisions, own clock";

/// The time between two refreshes of the coarse clock.
const REFRESH: Duration = Duration::from_millis(1);

/// The number of decisions of one thread after which it advances governor's `FakeRelativeClock`.
const FAKE_CLOCK_TURN: usize = 1_024;

/// The parameters of a comparison.
#[derive(Clone, Copy)]
struct Case {
    draw: Draw,
    keys: usize,
    threads: usize,
    decisions: usize,
}

impl Case {
    fn title(self, what: &str) -> String {
        let Self { draw, keys, threads, .. } = self;
        format!("{what}, {keys} keys, {}, {threads} thread(s)", draw.name())
    }
}

fn main() {
    let options = Options::from_args();
    heading("keyed: beside governor");
    let case = Case { draw: Draw::Zipf, keys: 1_000, threads: 1, decisions: 50_000 };
    let figures = admit(&options, case);
    against(&figures, "keyed, 1,000 keys, zipf, 1 thread", 1.5);
    over_the_floor(&figures, "keyed, 1,000 keys, zipf, 1 thread, over the floor");
    let case = Case { draw: Draw::Uniform, keys: 100_000, threads: 2, decisions: 400_000 };
    against(&admit(&options, case), "keyed, 100,000 keys, uniform, 2 threads", 2.0);
    let case = Case { draw: Draw::Zipf, keys: 100_000, threads: 2, decisions: 400_000 };
    let figures = deny(&options, case);
    let what = "denials, 100,000 keys, zipf, 2 threads";
    target(what, &figures, [THEIRS, OURS], Bound::AtLeast(3.0));
    let what = "denials with the time to wait, 100,000 keys, zipf, 2 threads";
    target(what, &figures, [THEIRS_WAIT, OURS_WAIT], Bound::AtLeast(3.0));
    println!("\nFor information, without a target:\n");
    text(&options, Case { draw: Draw::Zipf, keys: 100_000, threads: 1, decisions: 50_000 });
    let case = Case { draw: Draw::Uniform, keys: 1_000_000, threads: 1, decisions: 50_000 };
    admit(&options, case);
    admit(&options, Case { draw: Draw::One, keys: 1, threads: 2, decisions: 400_000 });
}

/// The target of admissions beside governor.
fn against(figures: &[Figures], what: &str, least: f64) {
    let own = format!("{what}, own clock");
    target(&own, figures, [THEIRS, OURS], Bound::AtLeast(least));
    let given = format!("{what}, time given (governor reads its own clock)");
    compared(&given, figures, [THEIRS, OURS_GIVEN]);
    println!();
}

/// The targets of admissions beside their floor. Where a compare-and-swap is cheap, the instructions around
/// it are a larger part of a decision.
fn over_the_floor(figures: &[Figures], what: &str) {
    let own = format!("{what}, own clock");
    target(&own, figures, [OURS, FLOOR], Bound::AtMost(1.25));
    let most = if machine().contains("AMD") { 2.0 } else { 1.35 };
    let given = format!("{what}, time given");
    target(&given, figures, [OURS_GIVEN, FLOOR_GIVEN], Bound::AtMost(most));
}

/// Runs `decide` on the keys of a turn, at times that advance.
#[inline]
fn each<K>(turn: Turn, case: Case, sequence: &[K], decide: impl Fn(&K, u64) -> bool) -> usize {
    let mut now = turn.start_nanos();
    let mut admitted = 0;
    let (first, second) = turn.part(sequence, case.threads);
    for part in [first, second] {
        for key in part {
            now = Turn::later(now);
            admitted += usize::from(black_box(decide(key, black_box(now))));
        }
    }
    admitted
}

/// A quota whose buckets are always in debt here, and never at their limit.
fn roomy() -> (Quota, governor::Quota) {
    let (rate, burst) = black_box((10_000, 2_000_000_000_u32));
    let theirs = governor::Quota::per_second(nonzero(rate)).allow_burst(nonzero(burst));
    (Quota::per_second(rate.into()).burst(burst.into()), theirs)
}

fn limiter<K: Hash + ?Sized>(quota: Quota, keys: usize) -> Limiter<K> {
    Limiter::builder(quota).capacity(keys as u64).build().expect("in range")
}

/// The keys of a case: each once, in an order unrelated to their frequency (the first keys to
/// arrive get the best slots), and the sequence of requests.
fn sequence<K: Ord>(case: Case, key: impl Fn(usize) -> K) -> (Vec<K>, Vec<K>) {
    let mut all: Vec<K> = (0..case.keys).map(&key).collect();
    all.sort_unstable();
    (all, keys::ranks(case.draw, case.keys).into_iter().map(key).collect())
}

/// A row of our limiter with its own clock.
fn ours<'a, K: Hash + Sync>(gate: &'a Limiter<K>, case: Case, keys: &'a [K]) -> Row<'a> {
    ours_as(OURS, gate, case, keys)
}

/// The same with another name and any clock.
fn ours_as<'a, K: Hash + Sync, C: Clock + Sync>(
    name: &str,
    gate: &'a Limiter<K, Gcra, C>,
    case: Case,
    keys: &'a [K],
) -> Row<'a> {
    Row::new(name, case.threads, move |turn| {
        each(turn, case, keys, |key, _| gate.check(key).is_ok())
    })
}

/// A row of our limiter with the time given.
fn ours_given<'a, K: Hash + Sync>(gate: &'a Limiter<K>, case: Case, keys: &'a [K]) -> Row<'a> {
    Row::new(OURS_GIVEN, case.threads, move |turn| {
        each(turn, case, keys, |key, now| gate.ask(key).at(Tick::from_nanos(now)).check().is_ok())
    })
}

/// A row of governor with its own clock.
fn theirs<'a, K>(gate: &'a Keyed<K>, case: Case, keys: &'a [K]) -> Row<'a>
where
    K: Hash + Eq + Clone + Send + Sync,
{
    Row::new(THEIRS, case.threads, move |turn| {
        each(turn, case, keys, |key, _| gate.check_key(key).is_ok())
    })
}

/// A row of governor with its clock for tests, which a thread advances from time to time.
fn theirs_given<'a, K>(
    gate: &'a Keyed<K, FakeRelativeClock>,
    clock: &'a FakeRelativeClock,
    case: Case,
    keys: &'a [K],
) -> Row<'a>
where
    K: Hash + Eq + Clone + Send + Sync,
{
    Row::new(THEIRS_GIVEN, case.threads, move |turn| {
        let (first, second) = turn.part(keys, case.threads);
        let mut admitted = 0;
        for part in first.chunks(FAKE_CLOCK_TURN).chain(second.chunks(FAKE_CLOCK_TURN)) {
            clock.advance(Duration::from_nanos(16 * FAKE_CLOCK_TURN as u64));
            for key in part {
                admitted += usize::from(black_box(gate.check_key(key).is_ok()));
            }
        }
        admitted
    })
}

/// All admitted, all charged.
fn admit(options: &Options, case: Case) -> Vec<Figures> {
    let (quota, their_quota) = roomy();
    let (all, keys) = sequence(case, keys::key);
    let (own, given) = (limiter(quota, case.keys), limiter(quota, case.keys));
    let capacity = case.keys as u64;
    let clock = TieredClock::new(CoarseClock::with_upkeep(REFRESH).expect("a thread"));
    let tiered = Limiter::builder(quota).clock(clock).capacity(capacity).build().expect("in range");
    let counted = Limiter::builder(quota).count_decisions().capacity(capacity).build();
    let counted = counted.expect("in range");
    let (peer, clock) = (peer::keyed(their_quota), FakeRelativeClock::default());
    let peer_given = peer::keyed_with_time_given(their_quota, clock.clone());
    let (words, timed_words) = (Words::new(case.keys), Words::new(case.keys));
    let floor_clock = QuantaClock::new();
    for key in &all {
        assert!(own.check(key).is_ok() && given.ask(key).at(Tick::ZERO).check().is_ok());
        assert!(tiered.check(key).is_ok() && counted.check(key).is_ok());
        assert!(peer.check_key(key).is_ok() && peer_given.check_key(key).is_ok());
    }
    let rows = [
        Row::floor(FLOOR_GIVEN, case.threads, |turn| {
            let charge = |key: &u64, now| words.charge(*key, now, black_box(10_000)) > 0;
            black_box(each(turn, case, &keys, charge));
        }),
        Row::floor(FLOOR, case.threads, |turn| {
            let charge = |key: &u64, _| {
                timed_words.charge(*key, floor_clock.now().as_nanos(), black_box(10_000)) > 0
            };
            black_box(each(turn, case, &keys, charge));
        }),
        ours_given(&given, case, &keys),
        ours(&own, case, &keys),
        theirs(&peer, case, &keys),
        theirs_given(&peer_given, &clock, case, &keys),
        ours_as(OURS_TIERED, &tiered, case, &keys),
        ours_as(OURS_COUNTED, &counted, case, &keys),
    ];
    let figures = compare(options, case.decisions, &rows);
    table(&case.title("Admissions"), &figures);
    for name in [OURS_TIERED, OURS_COUNTED] {
        compared(&case.title("Admissions"), &figures, [OURS, name]);
    }
    forgotten(&[&own, &given]);
    figures
}

/// All denied: every bucket is empty for the next hour.
fn deny(options: &Options, case: Case) -> Vec<Figures> {
    let (all, keys) = sequence(case, keys::key);
    let quota = black_box(Quota::per_hour(1));
    let (own, given) = (limiter(quota, case.keys), limiter(quota, case.keys));
    let peer = peer::keyed(governor::Quota::per_hour(black_box(nonzero(1))));
    keys::ask_for_all(&all, |key| own.check(key).is_ok());
    keys::ask_for_all(&all, |key| given.ask(key).at(Tick::ZERO).check().is_ok());
    keys::ask_for_all(&all, |key| peer.check_key(key).is_ok());
    let rows = [
        ours_given(&given, case, &keys),
        ours(&own, case, &keys),
        theirs(&peer, case, &keys),
        Row::new(OURS_WAIT, case.threads, |turn| {
            each(turn, case, &keys, |key, _| match own.check(key) {
                Ok(_) => true,
                Err(denied) => black_box(denied.retry_after()).is_none(),
            })
        }),
        Row::new(THEIRS_WAIT, case.threads, |turn| {
            each(turn, case, &keys, |key, _| match peer.check_key(key) {
                Ok(()) => true,
                Err(until) => black_box(until.wait_time_from(peer.clock().now())).is_zero(),
            })
        }),
    ];
    let figures = compare(options, case.decisions, &rows);
    table(&case.title("Denials"), &figures);
    forgotten(&[&own, &given]);
    figures
}

/// Like [`admit`], with addresses as text for keys.
fn text(options: &Options, case: Case) {
    let (quota, their_quota) = roomy();
    let (all, keys) = sequence(case, keys::address);
    let (own, given) = (limiter::<String>(quota, case.keys), limiter(quota, case.keys));
    let peer = peer::keyed(their_quota);
    for key in &all {
        assert!(own.check(key).is_ok() && given.ask(key).at(Tick::ZERO).check().is_ok());
        assert!(peer.check_key(key).is_ok());
    }
    let rows =
        [ours_given(&given, case, &keys), ours(&own, case, &keys), theirs(&peer, case, &keys)];
    table(&case.title("Admissions, IPv4 text"), &compare(options, case.decisions, &rows));
    forgotten(&[&own, &given]);
}

/// Prints how many live keys were evicted, if any were.
fn forgotten<K: Hash>(gates: &[&Limiter<K>]) {
    let evicted: u64 = gates.iter().map(|gate| gate.stats().evicted).sum();
    if evicted > 0 {
        note(&format!("At the stated capacity, {evicted} claim(s) displaced a live key."));
    }
}
