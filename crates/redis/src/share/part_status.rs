//! The time for which a node may use its part: arithmetic, with time as an argument.

use core::time::Duration;

use tollgate::Tick;

use super::membership::Heartbeat;

/// Intervals for which a heartbeat's answer is valid, counted from when the heartbeat was sent; and
/// for which a node must have been a member.
const PART_INTERVALS: u32 = 2;
/// Intervals for which a member is counted after a heartbeat.
pub(crate) const MEMBER_INTERVALS: u32 = 3;

/// The result of a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartStatus {
    /// A part of the quota divided by this many nodes, usable until then.
    Held { live: u64, until: Tick },
    /// No new part for this long. An old part stays valid until its own end.
    Waiting(Duration),
}

impl PartStatus {
    /// The status after a heartbeat that was sent at this time.
    pub(crate) fn of(heartbeat: Heartbeat, sent: Tick, interval: Duration) -> Self {
        let valid_for = interval * PART_INTERVALS;
        match heartbeat.member_for >= valid_for {
            true => {
                Self::Held { live: heartbeat.live.max(1), until: sent.saturating_add(valid_for) }
            }
            false => Self::Waiting(valid_for - heartbeat.member_for),
        }
    }

    /// When to send the next heartbeat: early enough to use a part as soon as possible.
    pub(crate) fn pause(self, interval: Duration) -> Duration {
        match self {
            Self::Held { .. } => interval,
            Self::Waiting(wait) => wait.clamp(interval / 10, interval),
        }
    }
}

/// Whether a part that may be used until `until` may be used now.
#[inline]
pub(crate) fn is_valid(until: Tick, now: Tick) -> bool {
    now < until
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_nanos(100);

    fn status(live: u64, member_for: u64) -> PartStatus {
        let heartbeat = Heartbeat { live, member_for: Duration::from_nanos(member_for) };
        PartStatus::of(heartbeat, Tick::from_nanos(1_000), INTERVAL)
    }

    #[test]
    fn a_newcomer_waits_and_a_member_has_its_part() {
        assert_eq!(status(3, 0), PartStatus::Waiting(INTERVAL * 2));
        assert_eq!(status(3, 199), PartStatus::Waiting(Duration::from_nanos(1)));
        let until = Tick::from_nanos(1_200);
        assert_eq!(status(3, 200), PartStatus::Held { live: 3, until });
        assert_eq!(status(0, 200), PartStatus::Held { live: 1, until });
        assert!(is_valid(until, Tick::from_nanos(1_199)) && !is_valid(until, until));
    }

    #[test]
    fn a_waiting_node_sends_its_heartbeat_when_due() {
        assert_eq!(status(3, 200).pause(INTERVAL), INTERVAL);
        assert_eq!(status(3, 0).pause(INTERVAL), INTERVAL);
        assert_eq!(status(3, 150).pause(INTERVAL), Duration::from_nanos(50));
        assert_eq!(status(3, 199).pause(INTERVAL), Duration::from_nanos(10));
    }
}
