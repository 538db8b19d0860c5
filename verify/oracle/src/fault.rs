//! Planted faults: the answers of a limiter that makes them.

use std::str::FromStr;
use std::time::Duration;

use tollgate::Tick;
use tollgate::internals::StateMachine;
use tollgate::internals::oracle::Verdict;

/// A limiter that is compared with an oracle.
pub(crate) trait Gate {
    type Params: StateMachine;

    fn params(&self) -> &Self::Params;

    fn ask(&mut self, n: u64, now: Tick) -> Verdict;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The upper bits of a cost are lost.
    CostCut,
    /// The uppermost bit of an instant is lost.
    TimeWraps,
    /// Instants are in microseconds.
    TimeRounded,
    /// A clock that is behind counts as the latest.
    TimeNeverBack,
    /// A denial charges the remaining cells.
    DenialCharges,
    /// A request that fits exactly is denied.
    LastCellKept,
    /// A denied request may come back a nanosecond too early.
    WaitTooShort,
}

impl Fault {
    pub(crate) const ALL: [Self; 7] = [
        Self::CostCut,
        Self::TimeWraps,
        Self::TimeRounded,
        Self::TimeNeverBack,
        Self::DenialCharges,
        Self::LastCellKept,
        Self::WaitTooShort,
    ];

    /// `latest`: the latest instant at which anything was charged.
    pub(crate) fn ask<G: Gate>(
        self,
        gate: &mut G,
        n: u64,
        now: u64,
        latest: Option<u64>,
    ) -> Verdict {
        let tick = Tick::from_nanos;
        match self {
            Self::CostCut => gate.ask(n & 0xff, tick(now)),
            Self::TimeWraps => gate.ask(n, tick(now & (u64::MAX >> 1))),
            Self::TimeRounded => gate.ask(n, tick(now / 1_000 * 1_000)),
            Self::TimeNeverBack => gate.ask(n, tick(latest.map_or(now, |latest| latest.max(now)))),
            Self::DenialCharges => {
                let answer = gate.ask(n, tick(now));
                if !answer.admitted && answer.remaining > 0 {
                    let _ = gate.ask(answer.remaining, tick(now));
                }
                answer
            }
            Self::LastCellKept => {
                let rest = gate.ask(0, tick(now)).remaining;
                if n > 0 && n == rest { gate.ask(n + 1, tick(now)) } else { gate.ask(n, tick(now)) }
            }
            Self::WaitTooShort => {
                let answer = gate.ask(n, tick(now));
                let sooner = |wait: Duration| wait.saturating_sub(Duration::from_nanos(1));
                Verdict { retry_after: answer.retry_after.map(sooner), ..answer }
            }
        }
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let named = |fault: &Self| format!("{fault:?}") == name;
        let unknown = || format!("no fault is named {name}: {:?} are", Self::ALL);
        Self::ALL.into_iter().find(named).ok_or_else(unknown)
    }
}
