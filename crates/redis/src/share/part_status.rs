//! Until when a node may use its part: arithmetic, with time as an argument.

use core::time::Duration;

use tollgate::Tick;

use super::membership::Heartbeat;

/// Intervals for which a beat's answer holds, counted from when the beat was sent; and for which a
/// node must have been on the roll.
const HOLDS: u32 = 2;
/// Intervals for which the roll counts a member.
pub(crate) const COUNTED: u32 = 3;

/// What follows from a beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// A part of so many, until then.
    Part { live: u64, until: Tick },
    /// No new part, before so long. An old one holds as long as it would have.
    New(Duration),
}

impl Standing {
    /// What follows from a beat that was sent then.
    pub(crate) fn of(beat: Heartbeat, sent: Tick, interval: Duration) -> Self {
        let holds = interval * HOLDS;
        match beat.member_for >= holds {
            true => Self::Part { live: beat.live.max(1), until: sent.saturating_add(holds) },
            false => Self::New(holds - beat.member_for),
        }
    }

    /// When to beat again: in time to use a part as soon as may be.
    pub(crate) fn pause(self, interval: Duration) -> Duration {
        match self {
            Self::Part { .. } => interval,
            Self::New(wait) => wait.clamp(interval / 10, interval),
        }
    }
}

/// Whether a part that may be used until then may be used now.
#[inline]
pub(crate) fn holds(until: Tick, now: Tick) -> bool {
    now < until
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_nanos(100);

    fn standing(live: u64, member_for: u64) -> Standing {
        let beat = Heartbeat { live, member_for: Duration::from_nanos(member_for) };
        Standing::of(beat, Tick::from_nanos(1_000), INTERVAL)
    }

    #[test]
    fn a_newcomer_waits_and_a_member_has_its_part() {
        assert_eq!(standing(3, 0), Standing::New(INTERVAL * 2));
        assert_eq!(standing(3, 199), Standing::New(Duration::from_nanos(1)));
        let until = Tick::from_nanos(1_200);
        assert_eq!(standing(3, 200), Standing::Part { live: 3, until });
        assert_eq!(standing(0, 200), Standing::Part { live: 1, until });
        assert!(holds(until, Tick::from_nanos(1_199)) && !holds(until, until));
    }

    #[test]
    fn who_waits_beats_when_the_time_has_come() {
        assert_eq!(standing(3, 200).pause(INTERVAL), INTERVAL);
        assert_eq!(standing(3, 0).pause(INTERVAL), INTERVAL);
        assert_eq!(standing(3, 150).pause(INTERVAL), Duration::from_nanos(50));
        assert_eq!(standing(3, 199).pause(INTERVAL), Duration::from_nanos(10));
    }
}
