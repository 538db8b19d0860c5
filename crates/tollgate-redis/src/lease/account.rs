//! One key: what is answered from the purse, when the bank is asked, and for how much.
//!
//! Time is an argument. Nothing here waits.

use core::time::Duration;

use tokio::sync::Notify;
use tollgate::{Stated, Tick};

use super::bank::{Grant, Want};
use super::purse::{Call, Last, Purse, Until};
use super::sizing::{self, LowWater, Pauses, Use};
use crate::places::Entry;
use crate::sync::PlainCount;
use crate::{Answer, Origin, Unavailable};

/// What is chosen for all keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// The most cells to ask for at a time.
    pub(crate) most: u64,
    pub(crate) pauses: Pauses,
    /// A refusal is doubted after so long.
    pub(crate) memory_nanos: u64,
}

/// What a request finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Met {
    /// An answer. The bank should be asked for more, by somebody for whom nobody waits.
    Answered(Answer, Ahead),
    /// The bank failed a moment ago.
    Unavailable(Unavailable),
    /// The bank is to be asked.
    Ask,
    /// The bank is being asked.
    Wait,
}

/// Whether the bank should be asked ahead of need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ahead {
    No,
    /// For so many cells at least.
    Ask(u64),
}

/// What a call is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Errand {
    pub(crate) want: Want,
    /// Cells that the asker spends at once.
    pub(crate) keep: u64,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Landing {
    Answered(Answer),
    /// The cells were too old when they came.
    Late,
    Unavailable(Unavailable),
}

/// What an end of a call adds to the counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gained {
    pub(crate) taken: u64,
    pub(crate) lapsed: u64,
}

/// What is known of one key.
#[derive(Debug)]
pub(crate) struct Account {
    key: Box<[u8]>,
    purse: Purse,
    told: Told,
    pace: Pace,
    /// Cells that are being waited for.
    waiting: PlainCount,
    /// Tells those who wait that a call has ended.
    pub(crate) landed: Notify,
}

/// How the key stood at the bank. The parts may be of different calls.
#[derive(Debug, Default)]
struct Told {
    limit: PlainCount,
    remaining: PlainCount,
    idle_at_nanos: PlainCount,
}

/// What only the owner of a call writes; the purse's call word passes it on.
#[derive(Debug, Default)]
struct Pace {
    want: PlainCount,
    pause_nanos: PlainCount,
    round_trip_nanos: PlainCount,
    lifetime_nanos: PlainCount,
    landed_at_nanos: PlainCount,
    /// What was in the purse then, and what was spent with the landing.
    held: PlainCount,
    kept: PlainCount,
    low_cells: PlainCount,
    low_ahead_nanos: PlainCount,
}

impl Entry for Account {
    fn new(key: &[u8]) -> Self {
        Self {
            key: key.into(),
            purse: Purse::default(),
            told: Told::default(),
            pace: Pace::default(),
            waiting: PlainCount::default(),
            landed: Notify::new(),
        }
    }

    fn key(&self) -> &[u8] {
        &self.key
    }

    fn is_idle(&self, now: Tick) -> bool {
        self.purse.is_idle(now)
    }

    fn unspent(&self) -> u64 {
        self.purse.unspent()
    }
}

/// Requests.
impl Account {
    /// What a request for `n` cells (1 or more, and no more than a lease has) finds.
    #[inline]
    pub(crate) fn meet(&self, n: u64, now: Tick) -> Met {
        if self.purse.spend(n, now) {
            let answer = self.admitted(Origin::Lease, now);
            return Met::Answered(answer, self.low_water(now));
        }
        self.meet_empty(n, now)
    }

    #[cold]
    fn meet_empty(&self, n: u64, now: Tick) -> Met {
        let call = self.purse.call(now);
        if let Some(until) = self.purse.refused(n, now) {
            let ahead = if call == Call::Free { Ahead::Ask(n) } else { Ahead::No };
            return Met::Answered(self.refused(n, until, now), ahead);
        }
        match call {
            Call::Free => Met::Ask,
            Call::UnderWay => Met::Wait,
            Call::Resting(until, last) => match unavailable(last) {
                Some(why) => Met::Unavailable(why),
                None => Met::Answered(self.refused(n, Until::Then(until), now), Ahead::No),
            },
        }
    }

    /// What a request finds that the bank has to be asked for each time: `None` to ask it.
    pub(crate) fn meet_direct(&self, n: u64, now: Tick) -> Option<Met> {
        if n == 0 {
            let told = self.told.limit.read() != 0;
            return told.then(|| Met::Answered(self.admitted(Origin::Memory, now), Ahead::No));
        }
        if let Some(until) = self.purse.refused(n, now) {
            return Some(Met::Answered(self.refused(n, until, now), Ahead::No));
        }
        match self.purse.call(now) {
            Call::Resting(_, last) => unavailable(last).map(Met::Unavailable),
            _ => None,
        }
    }

    /// An answer for a request that may not wait any longer.
    pub(crate) fn crowded(&self, n: u64, now: Tick, rules: &Rules) -> Answer {
        let until = now.saturating_add(Duration::from_nanos(rules.pauses.least_nanos));
        self.refused(n, Until::Then(until), now)
    }

    fn low_water(&self, now: Tick) -> Ahead {
        let cells = self.pace.low_cells.read();
        if cells == 0 {
            return Ahead::No;
        }
        let then = now.saturating_add(Duration::from_nanos(self.pace.low_ahead_nanos.read()));
        match self.purse.alive(then) < cells && self.purse.call(now) == Call::Free {
            true => Ahead::Ask(1),
            false => Ahead::No,
        }
    }

    fn stated(&self, remaining: u64, now: Tick) -> Stated {
        let idle_at = Tick::from_nanos(self.told.idle_at_nanos.read());
        Stated { limit: self.told.limit.read(), remaining, reset_after: idle_at.since(now) }
    }

    /// What is left in the purse, and was left at the bank when it was last asked.
    fn remaining(&self, now: Tick) -> u64 {
        self.purse.alive(now).saturating_add(self.told.remaining.read())
    }

    fn admitted(&self, origin: Origin, now: Tick) -> Answer {
        let remaining = self.remaining(now);
        Answer { decision: Ok(self.stated(remaining, now).permit()), origin }
    }

    fn refused(&self, n: u64, until: Until, now: Tick) -> Answer {
        let wait = match until {
            Until::Then(then) => Some(then.since(now)),
            Until::Never => None,
        };
        // Whoever is refused `n` cells does not have them.
        let remaining = self.remaining(now).min(n.saturating_sub(1));
        let decision = Err(self.stated(remaining, now).denied(wait));
        Answer { decision, origin: Origin::Memory }
    }
}

/// Calls.
impl Account {
    /// Takes the call, if nobody has it: for a request of `n` cells, which are kept for it, or
    /// ahead of need.
    pub(crate) fn begin(&self, n: u64, keep: u64, now: Tick, rules: &Rules) -> Option<Errand> {
        if !self.purse.begin(now) {
            return None;
        }
        let pace = &self.pace;
        let lifetime = pace.lifetime_nanos.read();
        let spent = pace.held.read().saturating_sub(self.purse.unspent()) + pace.kept.read();
        let landed_at = Tick::from_nanos(pace.landed_at_nanos.read());
        let waiting = self.waiting.read().saturating_add(keep);
        let used = Use { spent, over_nanos: nanos(now.since(landed_at)), waiting };
        let most = sizing::want(pace.want.read(), used, lifetime, rules.most).max(n);
        pace.want.put(most);
        let low = sizing::low_water(used, pace.round_trip_nanos.read());
        // Otherwise what is new would be asked for before the old is spent, and take its place.
        let low = LowWater { cells: low.cells.min(most / 2), ..low };
        pace.low_cells.put(low.cells);
        pace.low_ahead_nanos.put(low.ahead_nanos);
        Some(Errand { want: Want { least: n, most }, keep })
    }

    /// Ends the call that was taken: it was sent then, and the reply is there now.
    pub(crate) fn land(
        &self,
        errand: Errand,
        sent: Tick,
        now: Tick,
        reply: Result<Grant, Unavailable>,
        rules: &Rules,
    ) -> (Landing, Gained) {
        let pace = &self.pace;
        let trip = sizing::round_trip(pace.round_trip_nanos.read(), nanos(now.since(sent)));
        pace.round_trip_nanos.put(trip);
        let grant = match reply {
            Ok(grant) => grant,
            Err(why) => {
                let pause = sizing::pause(pace.pause_nanos.read(), 0, u64::MAX, rules.pauses);
                self.rest(pause, last(&why), now);
                return (Landing::Unavailable(why), Gained::default());
            }
        };
        self.hear(&grant.stated, now);
        if !grant.covers(errand.want) || grant.cells == 0 {
            self.refuse(errand.want.least, &grant, now, rules);
            return (denied(&grant), Gained { taken: grant.cells, lapsed: grant.cells });
        }
        self.take_in(errand, &grant, sent, now, rules)
    }

    fn take_in(
        &self,
        errand: Errand,
        grant: &Grant,
        sent: Tick,
        now: Tick,
        rules: &Rules,
    ) -> (Landing, Gained) {
        let pace = &self.pace;
        let end = sent.saturating_add(grant.lifetime);
        if now >= end {
            self.purse.finish(Last::Free, now);
            return (Landing::Late, Gained { taken: grant.cells, lapsed: grant.cells });
        }
        self.purse.admit(errand.want.least);
        let rest = grant.cells - errand.keep;
        let lapsed = if rest > 0 { self.purse.deposit(rest, end, now) } else { 0 };
        pace.held.put(self.purse.unspent());
        pace.kept.put(errand.keep);
        pace.landed_at_nanos.put(now.as_nanos());
        pace.lifetime_nanos.put(nanos(grant.lifetime));
        let answer = self.admitted(Origin::Server, now);
        if grant.cells < errand.want.most {
            let (last, life) = (pace.pause_nanos.read(), nanos(grant.lifetime));
            self.rest(sizing::pause(last, grant.cells, life, rules.pauses), Last::Short, now);
        } else {
            pace.pause_nanos.put(pace.pause_nanos.read() / 2);
            self.purse.finish(Last::Free, now);
        }
        (Landing::Answered(answer), Gained { taken: grant.cells, lapsed })
    }

    fn rest(&self, pause_nanos: u64, last: Last, now: Tick) {
        self.pace.pause_nanos.put(pause_nanos);
        self.purse.finish(last, now.saturating_add(Duration::from_nanos(pause_nanos)));
    }

    /// Remembers a refusal, and when to doubt it.
    fn refuse(&self, least: u64, grant: &Grant, now: Tick, rules: &Rules) {
        self.purse.refuse(least, until(grant, now));
        if least > 1 && grant.stated.remaining > 0 {
            // For fewer cells there may be a grant at once.
            return self.purse.finish(Last::Free, now);
        }
        let life = match self.pace.lifetime_nanos.read() {
            0 => u64::MAX,
            life => life,
        };
        let pause = sizing::pause(self.pace.pause_nanos.read(), 0, life, rules.pauses);
        self.pace.pause_nanos.put(pause);
        let wait = grant.retry_after.map_or(rules.memory_nanos, nanos).min(rules.memory_nanos);
        let rest = Duration::from_nanos(wait.max(pause));
        self.purse.finish(Last::Short, now.saturating_add(rest));
    }

    /// Ends a call that nobody has an answer to: whoever made it is gone.
    pub(crate) fn abandon(&self, now: Tick, rules: &Rules) {
        let pause = Duration::from_nanos(rules.pauses.least_nanos);
        self.purse.finish(Last::Failed, now.saturating_add(pause));
    }

    /// What the answer to a request is that went to the bank by itself.
    pub(crate) fn land_direct(&self, n: u64, sent: Tick, now: Tick, grant: &Grant) -> Landing {
        self.hear(&grant.stated, now);
        if grant.covers(Want { least: n, most: n }) {
            let late = n > 0 && now >= sent.saturating_add(grant.lifetime);
            return match late {
                true => Landing::Late,
                false => Landing::Answered(self.admitted(Origin::Server, now)),
            };
        }
        self.purse.refuse(n, until(grant, now));
        denied(grant)
    }

    fn hear(&self, stated: &Stated, now: Tick) {
        self.told.limit.put(stated.limit);
        self.told.remaining.put(stated.remaining);
        self.told.idle_at_nanos.put(now.saturating_add(stated.reset_after).as_nanos());
    }

    pub(crate) fn wait_for(&self, n: u64) -> Waiting<'_> {
        self.waiting.add(n);
        Waiting { account: self, n }
    }

    /// Whether a call is under way.
    pub(crate) fn is_asking(&self, now: Tick) -> bool {
        self.purse.call(now) == Call::UnderWay
    }
}

/// Somebody waits, as long as this is held.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    account: &'a Account,
    n: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.account.waiting.subtract(self.n);
    }
}

fn nanos(span: Duration) -> u64 {
    Tick::from_duration(span).as_nanos()
}

fn denied(grant: &Grant) -> Landing {
    let decision = Err(grant.stated.denied(grant.retry_after));
    Landing::Answered(Answer { decision, origin: Origin::Server })
}

fn until(grant: &Grant, now: Tick) -> Until {
    grant.retry_after.map_or(Until::Never, |wait| Until::Then(now.saturating_add(wait)))
}

fn last(why: &Unavailable) -> Last {
    match why {
        Unavailable::TimedOut => Last::TimedOut,
        Unavailable::Disconnected => Last::Disconnected,
        Unavailable::CircuitOpen => Last::CircuitOpen,
        Unavailable::Failed(_) => Last::Failed,
    }
}

fn unavailable(last: Last) -> Option<Unavailable> {
    Some(match last {
        Last::Free | Last::Short => return None,
        Last::TimedOut => Unavailable::TimedOut,
        Last::Disconnected => Unavailable::Disconnected,
        Last::CircuitOpen => Unavailable::CircuitOpen,
        Last::Failed => Unavailable::Failed("as it did for a request just before".into()),
    })
}
