//! The state of one key. It decides which requests its cells answer, when the source is called, and for how many
//! cells.
//!
//! Time is an argument, and no function waits.
//!
//! # Guarded by
//!
//! `verify/states/src/leases.rs`, run by `ci/check.sh states`: every order of calls, replies and failures. The words
//! that threads share are modelled in `loom-tests/tests/lease_cell.rs`, run by `ci/check.sh loom`.

mod unleased;

use core::time::Duration;

use tokio::sync::Notify;
use tollgate::Tick;
use tollgate::decision::DecisionParts;

use super::lease_cell::{CallEnd, CallState, LeaseCell, Until};
use super::lease_source::{Grant, LeaseRequest};
use super::pace::{Demand, Pace};
use super::sizing::PauseBounds;
use crate::answer::{Answer, Origin};
use crate::bounded_map::Entry;
use crate::sync::RelaxedCounter;
use crate::unavailable::Unavailable;

/// Settings for all keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// The largest number of cells to ask for in one call.
    pub(super) max_lease: u64,
    pub(super) pauses: PauseBounds,
    /// A denial is asked for again after this time.
    pub(super) memory_nanos: u64,
}

/// The outcome of one attempt to answer a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// An answer, and whether more cells should be fetched in the background.
    Answered(Answer, Prefetch),
    /// The source failed a moment ago.
    Unavailable(Unavailable),
    /// The source must be called.
    Ask,
    /// A call is in flight: wait for it.
    Wait,
}

/// Whether more cells should be fetched ahead of need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prefetch {
    No,
    /// Fetch at least this many cells.
    Cells(u64),
}

/// A call in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingCall {
    pub(super) want: LeaseRequest,
    /// Cells that the caller spends when the call ends.
    pub(super) reserved: u64,
}

impl PendingCall {
    /// Cells asked for beyond those that the caller spends.
    fn unreserved(self) -> u64 {
        self.want.max.saturating_sub(self.reserved)
    }
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Completion {
    Answered(Answer),
    /// The cells had expired when they arrived.
    Late,
    Unavailable(Unavailable),
}

/// The additions of a call to the statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CellCounts {
    pub(super) taken: u64,
    pub(super) lapsed: u64,
}

/// The state of one key.
#[derive(Debug)]
pub(super) struct KeyState {
    key: Box<[u8]>,
    lease_cell: LeaseCell,
    last_reply: LastReply,
    pace: Pace,
    /// Cells that requests wait for.
    waiting: RelaxedCounter,
    /// Until then, a request that the remembered denial covers begins no call.
    recheck_at_nanos: RelaxedCounter,
    /// Wakes requests that wait for a call to end.
    pub(super) call_ended: Notify,
}

/// The key's state in the last reply. The parts may come from different replies.
#[derive(Debug, Default)]
struct LastReply {
    limit: RelaxedCounter,
    remaining: RelaxedCounter,
    idle_at_nanos: RelaxedCounter,
}

impl Entry for KeyState {
    fn new(key: &[u8]) -> Self {
        Self {
            key: key.into(),
            lease_cell: LeaseCell::default(),
            last_reply: LastReply::default(),
            pace: Pace::default(),
            waiting: RelaxedCounter::default(),
            recheck_at_nanos: RelaxedCounter::default(),
            call_ended: Notify::new(),
        }
    }

    fn key(&self) -> &[u8] {
        &self.key
    }

    /// A thread that still holds the entry may deposit cells. They are then lost, which breaks no
    /// bound.
    fn retire(&self, now: Tick) -> bool {
        self.lease_cell.is_idle(now)
    }

    fn unspent(&self) -> u64 {
        self.lease_cell.unspent()
    }
}

/// Requests.
impl KeyState {
    /// Tries to answer a request for `n` cells: 1 or more, and no more than a lease has.
    #[inline]
    pub(super) fn try_answer(&self, n: u64, now: Tick) -> Attempt {
        if self.lease_cell.spend(n, now) {
            let answer = self.admitted(Origin::Lease, now);
            return Attempt::Answered(answer, self.low_water(now));
        }
        self.try_without_cells(n, now)
    }

    #[cold]
    fn try_without_cells(&self, n: u64, now: Tick) -> Attempt {
        let state = self.lease_cell.call_state(now);
        if let Some(until) = self.denied_until(n, now) {
            let is_due = now >= Tick::from_nanos(self.recheck_at_nanos.read());
            let prefetch = match state {
                CallState::Free if is_due => Prefetch::Cells(n),
                _ => Prefetch::No,
            };
            return Attempt::Answered(self.denied(n, until, now), prefetch);
        }
        match state {
            CallState::Free => Attempt::Ask,
            CallState::InFlight(calls) if self.wants_another(calls, 0, n) => Attempt::Ask,
            CallState::InFlight(_) | CallState::Paused(1.., ..) => Attempt::Wait,
            CallState::Paused(0, until, end) => match unavailable(end) {
                Some(why) => Attempt::Unavailable(why),
                None => Attempt::Answered(self.denied(n, Until::Then(until), now), Prefetch::No),
            },
        }
    }

    /// Until when `n` cells are denied. More cells than the limit never fit, whether or not that many were denied.
    fn denied_until(&self, n: u64, now: Tick) -> Option<Until> {
        let limit = self.last_reply.limit.read();
        if limit > 0 && n > limit { Some(Until::Never) } else { self.lease_cell.denied(n, now) }
    }

    /// A denial for a request that has waited long enough.
    pub(super) fn denied_under_load(&self, n: u64, now: Tick, settings: &Settings) -> Answer {
        let until = now.saturating_add(Duration::from_nanos(settings.pauses.min_nanos));
        self.denied(n, Until::Then(until), now)
    }

    #[inline]
    fn low_water(&self, now: Tick) -> Prefetch {
        let low = self.pace.low_water();
        if low.cells == 0 {
            return Prefetch::No;
        }
        let alive =
            self.lease_cell.spendable(now.saturating_add(Duration::from_nanos(low.ahead_nanos)));
        if alive < low.cells { self.prefetch(alive, now) } else { Prefetch::No }
    }

    /// Whether cells should be fetched while this many can be spent.
    fn prefetch(&self, alive: u64, now: Tick) -> Prefetch {
        match self.lease_cell.call_state(now) {
            CallState::Free => Prefetch::Cells(1),
            CallState::InFlight(calls) if self.wants_another(calls, alive, 0) => Prefetch::Cells(1),
            CallState::InFlight(_) | CallState::Paused(..) => Prefetch::No,
        }
    }

    /// Whether another call is needed beside `calls`, with this many cells spendable and `n` asked
    /// for.
    fn wants_another(&self, calls: u64, alive: u64, n: u64) -> bool {
        let waiting = self.waiting.read().saturating_add(n);
        calls < self.pace.max_calls() && self.pace.is_low(alive, waiting)
    }

    fn parts(&self, remaining: u64, now: Tick) -> DecisionParts {
        let idle_at = Tick::from_nanos(self.last_reply.idle_at_nanos.read());
        DecisionParts {
            limit: self.last_reply.limit.read(),
            remaining,
            reset_after: idle_at.since(now),
        }
    }

    /// The cells held here, plus those that the source had in its last reply.
    fn remaining(&self, now: Tick) -> u64 {
        self.lease_cell.spendable(now).saturating_add(self.last_reply.remaining.read())
    }

    fn admitted(&self, origin: Origin, now: Tick) -> Answer {
        let remaining = self.remaining(now);
        Answer { decision: Ok(self.parts(remaining, now).permit()), origin }
    }

    fn denied(&self, n: u64, until: Until, now: Tick) -> Answer {
        let limit = self.last_reply.limit.read();
        let wait = match until {
            // The remembered denial may be of fewer cells. More cells than the limit never fit.
            Until::Then(_) if limit > 0 && n > limit => None,
            Until::Then(then) => Some(then.since(now)),
            Until::Never => None,
        };
        // A request for `n` cells was denied, so fewer than `n` remain.
        let remaining = self.remaining(now).min(n.saturating_sub(1));
        let decision = Err(self.parts(remaining, now).denied(wait));
        Answer { decision, origin: Origin::Memory }
    }
}

/// Calls.
impl KeyState {
    /// Begins a call, if allowed: for a request of `n` cells, which are reserved for it, or ahead
    /// of need.
    pub(super) fn begin(
        &self,
        n: u64,
        reserved: u64,
        now: Tick,
        settings: &Settings,
    ) -> Option<PendingCall> {
        let others = self.lease_cell.begin_call(self.pace.max_calls(), now)?;
        let demand = Demand {
            min: n,
            waiting: self.waiting.read().saturating_add(reserved),
            unspent: self.lease_cell.unspent(),
            alone: others == 0,
        };
        let max = self.pace.size_call(demand, now, settings);
        let pending_call = PendingCall { want: LeaseRequest { min: n, max }, reserved };
        self.pace.call_sent(pending_call.unreserved());
        Some(pending_call)
    }

    /// Ends a call that was sent at `sent` and whose reply arrived now.
    pub(super) fn complete(
        &self,
        pending_call: PendingCall,
        sent: Tick,
        now: Tick,
        reply: Result<Grant, Unavailable>,
        settings: &Settings,
    ) -> (Completion, CellCounts) {
        self.pace.call_ended(pending_call.unreserved(), nanos(now.since(sent)));
        let grant = match reply {
            Ok(grant) => grant,
            Err(why) => {
                self.begin_pause(
                    end(&why),
                    0,
                    Pause { lifetime_nanos: u64::MAX, wait_nanos: 0 },
                    now,
                    settings,
                );
                return (Completion::Unavailable(why), CellCounts::default());
            }
        };
        self.record_reply(&grant.parts, now);
        if !grant.covers(pending_call.want) || grant.cells == 0 {
            self.deny(pending_call.want.min, &grant, now, settings);
            return (denied(&grant), CellCounts { taken: grant.cells, lapsed: grant.cells });
        }
        self.accept_grant(pending_call, &grant, sent, now, settings)
    }

    fn accept_grant(
        &self,
        pending_call: PendingCall,
        grant: &Grant,
        sent: Tick,
        now: Tick,
        settings: &Settings,
    ) -> (Completion, CellCounts) {
        let pace = &self.pace;
        let end = sent.saturating_add(grant.lifetime);
        if now >= end {
            self.lease_cell.finish_call(CallEnd::Free, now);
            return (Completion::Late, CellCounts { taken: grant.cells, lapsed: grant.cells });
        }
        self.lease_cell.admit(pending_call.want.min);
        let surplus = grant.cells - pending_call.reserved;
        pace.deposited(surplus);
        let lapsed = if surplus > 0 { self.lease_cell.deposit(surplus, end, now) } else { 0 };
        pace.dropped(lapsed);
        pace.call_completed(pending_call.reserved, self.lease_cell.unspent(), now);
        pace.set_lifetime(nanos(grant.lifetime));
        let answer = self.admitted(Origin::Server, now);
        if grant.cells < pending_call.want.max {
            let pause = Pause { lifetime_nanos: nanos(grant.lifetime), wait_nanos: 0 };
            self.begin_pause(CallEnd::Short, grant.cells, pause, now, settings);
        } else {
            pace.shorten_pause();
            self.lease_cell.finish_call(CallEnd::Free, now);
        }
        (Completion::Answered(answer), CellCounts { taken: grant.cells, lapsed })
    }

    /// Ends a call that brought `cells`, fewer than were asked for, and begins a pause.
    fn begin_pause(&self, end: CallEnd, cells: u64, pause: Pause, now: Tick, settings: &Settings) {
        if let CallState::Paused(..) = self.lease_cell.call_state(now) {
            // Calls that were in flight together find the same shortage: one of them counts.
            return self.lease_cell.finish_call(CallEnd::Free, now);
        }
        let nanos = self.pace.pause(cells, pause.lifetime_nanos, settings).max(pause.wait_nanos);
        self.lease_cell.finish_call(end, now.saturating_add(Duration::from_nanos(nanos)));
    }

    /// Remembers a denial of `n` cells, and when to ask again. Returns after how many nanoseconds that is.
    fn remember(&self, n: u64, grant: &Grant, now: Tick, settings: &Settings) -> u64 {
        self.lease_cell.deny(n, until(grant, now));
        let wait =
            grant.retry_after.map_or(settings.memory_nanos, nanos).min(settings.memory_nanos);
        // The source may grant fewer cells sooner, so only requests as large as this one wait for so long.
        if n > 1 {
            self.recheck_after(wait, now);
        }
        wait
    }

    fn recheck_after(&self, nanos: u64, now: Tick) {
        self.recheck_at_nanos.set(now.saturating_add(Duration::from_nanos(nanos)).as_nanos());
    }

    /// Ends a call whose request was denied, and begins a pause if the source is short.
    fn deny(&self, min: u64, grant: &Grant, now: Tick, settings: &Settings) {
        let wait = self.remember(min, grant, now, settings);
        let is_large = min > 1;
        if is_large && grant.parts.remaining > 0 {
            return self.lease_cell.finish_call(CallEnd::Free, now);
        }
        let lifetime_nanos = match self.pace.lifetime_nanos() {
            0 => u64::MAX,
            life => life,
        };
        let wait_nanos = if is_large { 0 } else { wait };
        let pause = Pause { lifetime_nanos, wait_nanos };
        self.begin_pause(CallEnd::Short, 0, pause, now, settings);
    }

    /// Ends a call without a reply: its task is gone.
    pub(super) fn abandon(&self, pending_call: PendingCall, now: Tick, settings: &Settings) {
        self.pace.call_ended(pending_call.unreserved(), 0);
        let pause = Duration::from_nanos(settings.pauses.min_nanos);
        self.lease_cell.finish_call(CallEnd::Failed, now.saturating_add(pause));
    }

    /// Whether another call should follow the one that ended, for requests that still wait.
    pub(super) fn prefetch_after_call(&self, now: Tick) -> Prefetch {
        let alive = self.lease_cell.spendable(now);
        if self.waiting.read() > alive { self.prefetch(alive, now) } else { Prefetch::No }
    }

    fn record_reply(&self, parts: &DecisionParts, now: Tick) {
        self.last_reply.limit.set(parts.limit);
        self.last_reply.remaining.set(parts.remaining);
        self.last_reply.idle_at_nanos.set(now.saturating_add(parts.reset_after).as_nanos());
    }

    pub(super) fn waiting_for(&self, n: u64) -> Waiting<'_> {
        self.waiting.add(n);
        Waiting { key_state: self, n }
    }

    /// Whether a call is in flight.
    pub(super) fn is_asking(&self) -> bool {
        self.lease_cell.in_flight() > 0
    }

    /// Wakes waiting requests after a call that deposited `cells`. If other calls are in flight,
    /// they wake the rest, so no request waits without a call that will wake it.
    pub(super) fn wake(&self, cells: u64) {
        if !self.is_asking() {
            return self.call_ended.notify_waiters();
        }
        for _ in 0..cells.min(self.waiting.read()) {
            self.call_ended.notify_one();
        }
    }
}

/// How long no call begins.
#[derive(Clone, Copy, Debug)]
struct Pause {
    /// The lifetime of the key's leases. The pause is at most half of it.
    lifetime_nanos: u64,
    /// The pause is at least this long.
    wait_nanos: u64,
}

/// A request is waiting while this guard exists.
#[derive(Debug)]
pub(super) struct Waiting<'a> {
    key_state: &'a KeyState,
    n: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.key_state.waiting.subtract(self.n);
    }
}

fn nanos(span: Duration) -> u64 {
    Tick::from_duration(span).as_nanos()
}

fn denied(grant: &Grant) -> Completion {
    let decision = Err(grant.parts.denied(grant.retry_after));
    Completion::Answered(Answer { decision, origin: Origin::Server })
}

fn until(grant: &Grant, now: Tick) -> Until {
    grant.retry_after.map_or(Until::Never, |wait| Until::Then(now.saturating_add(wait)))
}

fn end(why: &Unavailable) -> CallEnd {
    match why {
        Unavailable::TimedOut => CallEnd::TimedOut,
        Unavailable::Disconnected => CallEnd::Disconnected,
        Unavailable::CircuitOpen => CallEnd::CircuitOpen,
        Unavailable::Failed(_) => CallEnd::Failed,
    }
}

fn unavailable(end: CallEnd) -> Option<Unavailable> {
    Some(match end {
        CallEnd::Free | CallEnd::Short => return None,
        CallEnd::TimedOut => Unavailable::TimedOut,
        CallEnd::Disconnected => Unavailable::Disconnected,
        CallEnd::CircuitOpen => Unavailable::CircuitOpen,
        CallEnd::Failed => Unavailable::Failed("the call of an earlier request failed".into()),
    })
}
