//! One key: what is answered from the purse, when the bank is asked, and for how much.
//!
//! Time is an argument. Nothing here waits.

use core::time::Duration;

use tokio::sync::Notify;
use tollgate::Tick;
use tollgate::decision::DecisionParts;

use super::bank::{Grant, Want};
use super::pace::{Need, Pace};
use super::purse::{Call, Last, Purse, Until};
use super::sizing::Pauses;
use crate::places::Entry;
use crate::sync::RelaxedCounter;
use crate::{Answer, Origin, Unavailable};

/// What is chosen for all keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// The most cells to ask for at a time.
    pub(crate) most: u64,
    pub(crate) pauses: Pauses,
    /// A denial is doubted after so long.
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

impl Errand {
    /// Cells asked for that the asker does not spend.
    fn unspoken(self) -> u64 {
        self.want.most.saturating_sub(self.keep)
    }
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
    waiting: RelaxedCounter,
    /// Tells those who wait that a call has ended.
    pub(crate) landed: Notify,
}

/// How the key stood at the bank. The parts may be of different calls.
#[derive(Debug, Default)]
struct Told {
    limit: RelaxedCounter,
    remaining: RelaxedCounter,
    idle_at_nanos: RelaxedCounter,
}

impl Entry for Account {
    fn new(key: &[u8]) -> Self {
        Self {
            key: key.into(),
            purse: Purse::default(),
            told: Told::default(),
            pace: Pace::default(),
            waiting: RelaxedCounter::default(),
            landed: Notify::new(),
        }
    }

    fn key(&self) -> &[u8] {
        &self.key
    }

    /// Who has it in hand may still put cells in: nobody then spends them.
    fn give_up(&self, now: Tick) -> bool {
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
        if let Some(until) = self.purse.denied(n, now) {
            let ahead = if call == Call::Free { Ahead::Ask(n) } else { Ahead::No };
            return Met::Answered(self.denied(n, until, now), ahead);
        }
        match call {
            Call::Free => Met::Ask,
            Call::UnderWay(calls) if self.wants_another(calls, 0, n) => Met::Ask,
            Call::UnderWay(_) | Call::Resting(1.., ..) => Met::Wait,
            Call::Resting(0, until, last) => match unavailable(last) {
                Some(why) => Met::Unavailable(why),
                None => Met::Answered(self.denied(n, Until::Then(until), now), Ahead::No),
            },
        }
    }

    /// What a request finds that the bank has to be asked for each time: `None` to ask it.
    pub(crate) fn meet_direct(&self, n: u64, now: Tick) -> Option<Met> {
        if n == 0 {
            let told = self.told.limit.read() != 0;
            return told.then(|| Met::Answered(self.admitted(Origin::Memory, now), Ahead::No));
        }
        if let Some(until) = self.purse.denied(n, now) {
            return Some(Met::Answered(self.denied(n, until, now), Ahead::No));
        }
        match self.purse.call(now) {
            Call::Resting(_, _, last) => unavailable(last).map(Met::Unavailable),
            _ => None,
        }
    }

    /// An answer for a request that may not wait any longer.
    pub(crate) fn crowded(&self, n: u64, now: Tick, rules: &Rules) -> Answer {
        let until = now.saturating_add(Duration::from_nanos(rules.pauses.least_nanos));
        self.denied(n, Until::Then(until), now)
    }

    #[inline]
    fn low_water(&self, now: Tick) -> Ahead {
        let low = self.pace.low_water();
        if low.cells == 0 {
            return Ahead::No;
        }
        let alive = self.purse.alive(now.saturating_add(Duration::from_nanos(low.ahead_nanos)));
        if alive < low.cells { self.ahead(alive, now) } else { Ahead::No }
    }

    /// Whether the bank should be asked with so many cells left.
    fn ahead(&self, alive: u64, now: Tick) -> Ahead {
        match self.purse.call(now) {
            Call::Free => Ahead::Ask(1),
            Call::UnderWay(calls) if self.wants_another(calls, alive, 0) => Ahead::Ask(1),
            Call::UnderWay(_) | Call::Resting(..) => Ahead::No,
        }
    }

    /// Whether it takes another call beside so many, with so many cells alive and `n` asked for.
    fn wants_another(&self, calls: u64, alive: u64, n: u64) -> bool {
        let waiting = self.waiting.read().saturating_add(n);
        calls < self.pace.calls_most() && self.pace.is_low(alive, waiting)
    }

    fn parts(&self, remaining: u64, now: Tick) -> DecisionParts {
        let idle_at = Tick::from_nanos(self.told.idle_at_nanos.read());
        DecisionParts { limit: self.told.limit.read(), remaining, reset_after: idle_at.since(now) }
    }

    /// What is left in the purse, and was left at the bank when it was last asked.
    fn remaining(&self, now: Tick) -> u64 {
        self.purse.alive(now).saturating_add(self.told.remaining.read())
    }

    fn admitted(&self, origin: Origin, now: Tick) -> Answer {
        let remaining = self.remaining(now);
        Answer { decision: Ok(self.parts(remaining, now).permit()), origin }
    }

    fn denied(&self, n: u64, until: Until, now: Tick) -> Answer {
        let limit = self.told.limit.read();
        let wait = match until {
            // A denial of fewer cells is remembered. More than the limit never fit.
            Until::Then(_) if limit > 0 && n > limit => None,
            Until::Then(then) => Some(then.since(now)),
            Until::Never => None,
        };
        // Whoever is denied `n` cells does not have them.
        let remaining = self.remaining(now).min(n.saturating_sub(1));
        let decision = Err(self.parts(remaining, now).denied(wait));
        Answer { decision, origin: Origin::Memory }
    }
}

/// Calls.
impl Account {
    /// Begins a call, if one may be made: for a request of `n` cells, which are kept for it, or
    /// ahead of need.
    pub(crate) fn begin(&self, n: u64, keep: u64, now: Tick, rules: &Rules) -> Option<Errand> {
        let others = self.purse.begin(self.pace.calls_most(), now)?;
        let need = Need {
            least: n,
            waiting: self.waiting.read().saturating_add(keep),
            unspent: self.purse.unspent(),
            alone: others == 0,
        };
        let most = self.pace.begin(need, now, rules);
        let errand = Errand { want: Want { least: n, most }, keep };
        self.pace.asks(errand.unspoken());
        Some(errand)
    }

    /// Ends a call that was begun: it was sent then, and the reply is there now.
    pub(crate) fn land(
        &self,
        errand: Errand,
        sent: Tick,
        now: Tick,
        reply: Result<Grant, Unavailable>,
        rules: &Rules,
    ) -> (Landing, Gained) {
        self.pace.ended(errand.unspoken(), nanos(now.since(sent)));
        let grant = match reply {
            Ok(grant) => grant,
            Err(why) => {
                self.rest(
                    last(&why),
                    0,
                    Pause { lifetime_nanos: u64::MAX, wait_nanos: 0 },
                    now,
                    rules,
                );
                return (Landing::Unavailable(why), Gained::default());
            }
        };
        self.hear(&grant.parts, now);
        if !grant.covers(errand.want) || grant.cells == 0 {
            self.deny(errand.want.least, &grant, now, rules);
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
        pace.puts_in(rest);
        let lapsed = if rest > 0 { self.purse.deposit(rest, end, now) } else { 0 };
        pace.dropped(lapsed);
        pace.landed(errand.keep, self.purse.unspent(), now);
        pace.lives(nanos(grant.lifetime));
        let answer = self.admitted(Origin::Server, now);
        if grant.cells < errand.want.most {
            let pause = Pause { lifetime_nanos: nanos(grant.lifetime), wait_nanos: 0 };
            self.rest(Last::Short, grant.cells, pause, now, rules);
        } else {
            pace.eases();
            self.purse.finish(Last::Free, now);
        }
        (Landing::Answered(answer), Gained { taken: grant.cells, lapsed })
    }

    /// Ends a call that brought so many cells, fewer than were asked for.
    fn rest(&self, last: Last, cells: u64, pause: Pause, now: Tick, rules: &Rules) {
        if let Call::Resting(..) = self.purse.call(now) {
            // Calls that were under way together find the same: one of them counts.
            return self.purse.finish(Last::Free, now);
        }
        let nanos = self.pace.pause(cells, pause.lifetime_nanos, rules).max(pause.wait_nanos);
        self.purse.finish(last, now.saturating_add(Duration::from_nanos(nanos)));
    }

    /// Remembers a denial, and when to doubt it.
    fn deny(&self, least: u64, grant: &Grant, now: Tick, rules: &Rules) {
        self.purse.deny(least, until(grant, now));
        if least > 1 && grant.parts.remaining > 0 {
            // For fewer cells there may be a grant at once.
            return self.purse.finish(Last::Free, now);
        }
        let lifetime_nanos = match self.pace.lifetime_nanos() {
            0 => u64::MAX,
            life => life,
        };
        let wait = grant.retry_after.map_or(rules.memory_nanos, nanos).min(rules.memory_nanos);
        self.rest(Last::Short, 0, Pause { lifetime_nanos, wait_nanos: wait }, now, rules);
    }

    /// Ends a call that nobody has an answer to: whoever made it is gone.
    pub(crate) fn abandon(&self, errand: Errand, now: Tick, rules: &Rules) {
        self.pace.ended(errand.unspoken(), 0);
        let pause = Duration::from_nanos(rules.pauses.least_nanos);
        self.purse.finish(Last::Failed, now.saturating_add(pause));
    }

    /// Whether a call should follow the one that is over, for those who wait.
    pub(crate) fn after_call(&self, now: Tick) -> Ahead {
        let alive = self.purse.alive(now);
        if self.waiting.read() > alive { self.ahead(alive, now) } else { Ahead::No }
    }

    /// What the answer to a request is that went to the bank by itself.
    pub(crate) fn land_direct(&self, n: u64, sent: Tick, now: Tick, grant: &Grant) -> Landing {
        self.hear(&grant.parts, now);
        if grant.covers(Want { least: n, most: n }) {
            let late = n > 0 && now >= sent.saturating_add(grant.lifetime);
            return match late {
                true => Landing::Late,
                false => Landing::Answered(self.admitted(Origin::Server, now)),
            };
        }
        self.purse.deny(n, until(grant, now));
        denied(grant)
    }

    fn hear(&self, parts: &DecisionParts, now: Tick) {
        self.told.limit.put(parts.limit);
        self.told.remaining.put(parts.remaining);
        self.told.idle_at_nanos.put(now.saturating_add(parts.reset_after).as_nanos());
    }

    pub(crate) fn wait_for(&self, n: u64) -> Waiting<'_> {
        self.waiting.add(n);
        Waiting { account: self, n }
    }

    /// Whether a call is under way.
    pub(crate) fn is_asking(&self) -> bool {
        self.purse.under_way() > 0
    }

    /// Wakes those who wait, after a call that has put so many cells in. If others are under way
    /// they wake the rest; so nobody waits whom no call will wake.
    pub(crate) fn wake(&self, cells: u64) {
        if !self.is_asking() {
            return self.landed.notify_waiters();
        }
        for _ in 0..cells.min(self.waiting.read()) {
            self.landed.notify_one();
        }
    }
}

/// How long no call is made.
#[derive(Clone, Copy, Debug)]
struct Pause {
    /// Of the key's leases: a pause is no longer than half of it.
    lifetime_nanos: u64,
    /// It is at least so long.
    wait_nanos: u64,
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
    let decision = Err(grant.parts.denied(grant.retry_after));
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
