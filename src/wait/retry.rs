//! Limiters that cannot be charged ahead of time: the first waiter asks again when its `retry_after` is over.
//!
//! No request is [booked](super::queue): a charge is made at its turn or not at all. So a denial's
//! `retry_after` is the turn of the first waiter, and a lower bound of the turns behind it.
//!
//! Where denials are counted ([`SlidingLog::count_denials`](crate::SlidingLog::count_denials)), the first waiter
//! asks only at its turn, even if another waiter polls earlier: each denial would move the turn back.

use core::hash::Hash;
use core::time::Duration;

use super::source::{KeyProbe, PaidAhead, Target, sealed};
use crate::algo::gcra::GcraParams;
use crate::algo::{AsksAgain, StateMachine};
use crate::cell::{ChargeReceipt, Request};
use crate::decision::{Decision, Denied};
use crate::limiter::Limiter;
use crate::limiter::direct::Direct;
use crate::table::Probe;
use crate::time::{Clock, Tick};

/// The result of [`book`](sealed::LimiterOps::book).
type BookResult = Result<(ChargeReceipt, Duration), Option<Denied>>;

/// An admission has nothing to refund, and is due.
fn due(decision: Decision) -> BookResult {
    decision.map(|_| (ChargeReceipt::NOTHING, Duration::ZERO)).map_err(Some)
}

/// The most cells that fit, if a request can never be admitted.
fn never_fits(answer: &Decision) -> Option<u64> {
    answer.as_ref().err().filter(|denied| denied.is_final()).map(Denied::limit)
}

/// How long until the cells are there, or as many of them as can be at once.
fn wait_for(cells: u64, peek: impl Fn(u64) -> Decision) -> Duration {
    match peek(cells) {
        Ok(_) => Duration::ZERO,
        Err(denied) if denied.is_final() => {
            let most = peek(denied.limit().min(cells));
            most.err().and_then(|denied| denied.retry_after()).unwrap_or_default()
        }
        Err(denied) => denied.retry_after().unwrap_or_default(),
    }
}

/// The operations of a limiter by `decide` and `peek`, which accept no delay.
macro_rules! by_retry {
    ($key:ty) => {
        type Key = $key;

        fn now(&self) -> Tick {
            self.clock().now()
        }

        fn never_fits(&self, Target { probe, .. }: Target<'_>, n: u64, now: Tick) -> Option<u64> {
            never_fits(&self.peek_at_once(probe, n, now))
        }

        fn ahead_max(&self, _: Target<'_>) -> Duration {
            Duration::ZERO
        }

        fn book(&self, target: Target<'_>, n: u64, now: Tick, _: Duration) -> BookResult {
            due(sealed::LimiterOps::ask(self, target, n, now))
        }

        fn counts_denials(&self) -> bool {
            let params = self.params();
            // A bucket that starts empty stores the denial of a new key, and counts nothing.
            params.remembers_denials() && !params.starts_in_debt()
        }

        fn refund_booking(&self, _: Target<'_>, _: &PaidAhead) -> u64 {
            0
        }

        // No waiter is booked before its turn.
        fn lessen(&self, _: Target<'_>, _: &mut PaidAhead, _: u64) {}

        fn move_up(&self, _: Target<'_>, _: &mut PaidAhead, _: Tick) {}

        fn turn_behind<'p>(
            &self,
            target: Target<'p>,
            requests: impl Iterator<Item = (Option<&'p GcraParams>, u64)>,
            now: Tick,
        ) -> Duration {
            let cells = requests.map(|(_, cells)| cells).fold(0, u64::saturating_add);
            wait_for(cells, |cells| self.peek_at_once(target.probe, cells, now))
        }

        fn turn_after(&self, denied: &Denied, _: Target<'_>, _: u64, _: Tick) -> Option<Duration> {
            denied.retry_after()
        }

        fn defer(&self, _: Target<'_>, _: &mut PaidAhead, _: Tick) -> Duration {
            Duration::ZERO
        }
    };
}

impl<K: Hash + ?Sized, A: AsksAgain, C: Clock> Limiter<K, A, C> {
    fn peek_at_once(&self, probe: KeyProbe, n: u64, now: Tick) -> Decision {
        let request = Request { now, cells: n };
        self.peek_within(self.params(), probe.probe(), request, Duration::ZERO)
    }
}

impl<A: AsksAgain, C: Clock> Direct<A, C> {
    fn peek_at_once(&self, _: KeyProbe, n: u64, now: Tick) -> Decision {
        self.peek_within(n, now, Duration::ZERO)
    }
}

impl<K: Hash + ?Sized, A: AsksAgain, C: Clock> sealed::LimiterOps for Limiter<K, A, C> {
    fn probe(&self, key: &K) -> KeyProbe {
        KeyProbe::of(self.probe(key))
    }

    fn ask(&self, target: Target<'_>, n: u64, now: Tick) -> Decision {
        let request = Request { now, cells: n };
        self.decide_within(self.params(), target.probe.probe(), request, Duration::ZERO)
    }

    by_retry!(K);
}

impl<A: AsksAgain, C: Clock> sealed::LimiterOps for Direct<A, C> {
    fn probe(&self, (): &()) -> KeyProbe {
        KeyProbe::of(Probe::default())
    }

    fn ask(&self, _: Target<'_>, n: u64, now: Tick) -> Decision {
        self.decide_within(n, now, Duration::ZERO)
    }

    by_retry!(());
}

impl<K: Hash + ?Sized, A: AsksAgain, C: Clock> sealed::Sealed for Limiter<K, A, C> {
    type Key = K;
    type Ops = Self;

    fn ops(&self) -> &Self {
        self
    }
}

impl<A: AsksAgain, C: Clock> sealed::Sealed for Direct<A, C> {
    type Key = ();
    type Ops = Self;

    fn ops(&self) -> &Self {
        self
    }
}
