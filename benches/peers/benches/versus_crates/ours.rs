//! Rows of what only tollgate has: batches, huge pages, leases.

use std::hint::black_box;
use std::time::Duration;

use tollgate::clock::{CoarseClock, QuantaClock};
use tollgate::{Clock, Gcra, Limiter, Tick};
use tollgate_benches::rounds::{Row, Turn};
use tollgate_peers::forms::mixed;
use tollgate_peers::limiters::quota;

use crate::rows::{Case, Rows};

/// Keys that are asked for in one call.
const BATCH: usize = 16;
/// Cells that a lease takes. They come back in 0.1 s, a hundred times as long as a coarse clock stands
/// still.
const LEASE: u64 = 1_024;
const REFRESH: Duration = Duration::from_millis(1);

pub(crate) const HUGE: &str = "tollgate huge pages, own clock";
pub(crate) const BATCHED: &str = "tollgate batch of 16, own clock";
pub(crate) const BATCHED_HUGE: &str = "tollgate batch of 16 huge pages, own clock";
pub(crate) const LEASES: &str = "tollgate leases of 1024, own clock";
pub(crate) const LEASES_COARSE: &str = "tollgate leases of 1024, coarse clock";
pub(crate) const LEASES_GIVEN: &str = "tollgate leases of 1024, time given";

/// Whether the system is asked for huge pages.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Pages {
    Ordinary,
    Huge,
}

impl Rows<'_> {
    /// One by one, on huge pages.
    pub(crate) fn huge(&mut self) {
        if !self.options.wants(HUGE) {
            return;
        }
        let (gate, threads, keys) =
            (filled(self.case, Pages::Huge), self.case.threads, self.keys());
        self.rows.push(Row::new(HUGE, threads, move |turn| {
            let (first, second) = turn.part(keys, threads);
            let check = |key| usize::from(black_box(gate.check(key).is_ok()));
            first.iter().chain(second).map(check).sum()
        }));
    }

    /// Sixteen in a call, which reads the clock once.
    pub(crate) fn batched(&mut self, pages: Pages) {
        let name = if pages == Pages::Huge { BATCHED_HUGE } else { BATCHED };
        if !self.options.wants(name) {
            return;
        }
        let (gate, threads, keys) = (filled(self.case, pages), self.case.threads, self.keys());
        self.rows.push(Row::new(name, threads, move |turn| {
            let (first, second) = turn.part(keys, threads);
            let mut admitted = 0;
            for batch in first.chunks(BATCH).chain(second.chunks(BATCH)) {
                gate.ask_each(batch, |key| key).check(|_, decision| {
                    admitted += usize::from(black_box(decision.is_ok()));
                });
            }
            admitted
        }));
    }

    /// A lease for each thread, made anew in each turn: own clock, coarse clock, time given.
    pub(crate) fn leases(&mut self, key: u64) {
        let clock = CoarseClock::with_upkeep(REFRESH).expect("a thread");
        let own = with_leases(self.case, QuantaClock::new());
        let coarse = with_leases(self.case, clock);
        let given = with_leases(self.case, QuantaClock::new());
        let threads = self.case.threads;
        self.lease(LEASES, Row::new(LEASES, threads, move |turn| asked(turn, &own, key)));
        self.lease(
            LEASES_COARSE,
            Row::new(LEASES_COARSE, threads, move |turn| asked(turn, &coarse, key)),
        );
        self.lease(
            LEASES_GIVEN,
            Row::new(LEASES_GIVEN, threads, move |turn| {
                let mut lease = given.lease(&key);
                let (mut now, mut admitted) = (turn.start_nanos(), 0);
                for _ in 0..turn.decisions {
                    now = Turn::later(now);
                    let at = Tick::from_nanos(black_box(now));
                    admitted += usize::from(black_box(lease.ask().at(at).check().is_ok()));
                }
                // Read from the lease's own clock, not from the limiter's.
                lease.refund_at(Tick::from_nanos(now));
                admitted
            }),
        );
    }

    fn lease(&mut self, name: &str, row: Row<'static>) {
        if self.options.wants(name) {
            self.rows.push(row);
        }
    }
}

fn asked<C: Clock>(turn: Turn, gate: &Limiter<u64, Gcra, C>, key: u64) -> usize {
    let mut lease = gate.lease(&key);
    (0..turn.decisions).map(|_| usize::from(black_box(lease.check().is_ok()))).sum()
}

fn with_leases<C: Clock>(case: Case, clock: C) -> Limiter<u64, Gcra, C> {
    let builder = Limiter::builder(quota(case.plan)).algorithm(Gcra::new().leases(LEASE));
    builder.clock(clock).capacity(case.keys as u64).build().expect("in range")
}

/// A limiter in which every key has asked.
fn filled(case: Case, pages: Pages) -> Limiter<u64> {
    let builder = Limiter::builder(quota(case.plan)).capacity(case.keys as u64);
    let builder = if pages == Pages::Huge { builder.huge_pages() } else { builder };
    let gate = builder.build().expect("in range");
    for rank in mixed(case.keys) {
        let key = tollgate_benches::keys::key(rank);
        for _ in 0..case.before {
            assert!(gate.check(&key).is_ok(), "its first cells");
        }
    }
    gate
}
