//! Nodes that each grant from their part of a quota, by a list of those that are alive.
//!
//! A beat is sent and arrives at one moment: one that is on its way for longer only makes its part end
//! sooner, which is counted from when it was sent. Its answer takes as long as it likes.

mod faults;
mod slot;
mod steps;

use core::time::Duration;

use stateright::{Model, Property};
use tollgate::{Quota, Tick};

use crate::meter::Meter;
use crate::report::NEVER_BEYOND;
use crate::share::part_status::{MEMBER_INTERVALS, PartStatus};
use crate::share::part::part;
use crate::share::membership::Heartbeat;
pub use slot::lacks;
use slot::{Ages, Node, Slot, Reply};

#[allow(unreachable_pub, reason = "a file of another crate")]
#[path = "../../../crates/redis/tests/bodies/membership.rs"]
mod membership;

const UNIT: Duration = Duration::from_micros(1);
/// Now, so that what is over has a place before it.
const NOW_UNITS: u64 = 100;

/// A quota, nodes, and what may happen to them.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "for the tests here")]
pub struct Shares {
    /// How many nodes there may be at a time, with those that are dead and still counted.
    pub nodes: usize,
    /// Cells that come back in a unit of time.
    pub rate: u8,
    /// Cells of the burst.
    pub burst: u8,
    /// Units between two beats.
    pub interval: u8,
    /// What may happen, so often in all.
    pub faults: u8,
    /// Of these kinds.
    pub kinds: &'static [Fault],
    /// What is wrong.
    pub mistake: Mistake,
}

/// What happens to clocks and servers. The death of a node, beats and answers that are late or lost,
/// and so partitions, happen as often as they may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "for the tests here")]
pub enum Fault {
    /// The server loses the list: adds nothing. A part that holds for more than two intervals, as a node's
    /// clock went back, is added for as much more.
    Forget,
    /// The server goes on with what its replica, or its disk, has: adds the part of each node that this
    /// will count no longer before its part ends, and what comes back to it in between. The same, if a
    /// clock went back as well, of a node that the server had dropped and this has not.
    FailOver,
    /// A replica takes over, and the old server goes on for whoever has not heard of it: adds the same,
    /// and what those grant that beat there.
    SplitBrain,
    /// The server's clock goes ahead by a unit: adds the part of each node that came within two intervals
    /// before it, and what comes back to it in a unit; and as a fail-over, if a node is counted no longer
    /// before its part ends.
    ServerAhead,
    /// It goes back by a unit: adds nothing.
    ServerBack,
    /// A node's clock goes back by a unit, or stands still for one: adds its part, and what comes back
    /// to it in a unit, less what it has as one of all nodes; nothing less, if it is counted no longer
    /// before its part ends.
    ClientBack,
    /// It goes ahead by a unit: adds what comes back to its part in a unit.
    ClientAhead,
}

/// What is planted, and must be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "for the tests here")]
pub enum Mistake {
    /// Nothing.
    None,
    /// A node uses its part before all others have counted it.
    NewcomersDoNotWait,
    /// One that was counted no longer for a while goes on as if it had been.
    GapUnseen,
    /// A part holds from when the answer is there.
    CountedFromReply,
    /// It is used however old it is.
    NeverLapses,
    /// The list forgets a node one interval after its beat.
    ForgottenTooSoon,
    /// Parts that grow come with the cells that they grow by.
    CellsForAChange,
    /// A node takes itself off the list, and then stops.
    LeavesFirst,
    /// No node that comes is said to add anything.
    ComingsAddNothing,
    /// No node that goes is.
    GoingsAddNothing,
    /// No fault is.
    FaultsAddNothing,
    /// What comes back to a part is all that a fault is said to add.
    PartsAddNoBurst,
    /// A part's burst is.
    PartsAddNoTime,
}

/// Where all is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    slots: Vec<Slot>,
    /// A server was deposed, and somebody beats there.
    has_deposed: bool,
    meter: Meter,
    faults: u8,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Time goes on.
    Tick,
    /// A node comes.
    Come(usize),
    /// Its beat arrives, and the answer is on its way, or lost.
    Heartbeat(usize),
    /// The answer is lost after all.
    Lose(usize),
    /// It is there.
    Land(usize),
    /// A cell is granted.
    Grant(usize),
    /// A node dies.
    Die(usize),
    /// A beat of one that died arrives.
    ArriveStray(usize),
    /// One that ended is taken off the list.
    Leave(usize),
    /// A node hears of the new server.
    Move(usize),
    /// The replica has what the server has.
    Replicate,
    /// A fault, of a node if it is of one.
    Happen(Fault, usize),
}

impl Shares {
    fn part(&self, live: u8) -> Quota {
        let quota = Quota::new(self.rate.into(), UNIT).burst(self.burst.into());
        part(quota, live.into())
    }

    /// Cells of a part's burst. The list of none has none.
    fn cells(&self, live: u8) -> u8 {
        if live == 0 {
            return 0;
        }
        u8::try_from(self.part(live).burst_cells()).expect("few")
    }

    /// Cells that come back to a part in a unit.
    fn rate(&self, live: u8) -> u8 {
        if live == 0 {
            return 0;
        }
        let part = self.part(live);
        let cells = u128::from(part.limit()) * UNIT.as_nanos();
        assert_eq!(cells % part.period().as_nanos(), 0, "whole cells in a unit");
        u8::try_from(cells / part.period().as_nanos()).expect("few")
    }

    fn interval(&self) -> Duration {
        UNIT * self.interval.into()
    }

    /// Units for which the list counts a node.
    fn counted(&self) -> i8 {
        let intervals = if self.mistake == Mistake::ForgottenTooSoon { 1 } else { MEMBER_INTERVALS };
        units(self.interval() * intervals)
    }

    /// Units for which a part holds, if its beat is sent now.
    fn holds(&self) -> i8 {
        self.left(Reply { ago: 0, live: 1, of_deposed: false })
    }

    /// For how much longer a part holds by an answer that is there now.
    fn left(&self, reply: Reply) -> i8 {
        let ago = if self.mistake == Mistake::CountedFromReply { 0 } else { reply.ago };
        let heartbeat = Heartbeat { live: reply.live.into(), member_for: Duration::MAX };
        let PartStatus::Held { until, .. } = PartStatus::of(heartbeat, at(-ago), self.interval()) else {
            unreachable!("a member for ever")
        };
        i8::try_from(until.as_nanos() / 1_000).expect("soon") - at_units(0)
    }

    /// The part that follows from a beat that is answered now.
    fn reply(&self, live: u64, member_for: u64) -> Option<u8> {
        let member_for = UNIT * u32::try_from(member_for).expect("short");
        let waits = self.mistake != Mistake::NewcomersDoNotWait;
        let heartbeat = Heartbeat { live, member_for: if waits { member_for } else { Duration::MAX } };
        match PartStatus::of(heartbeat, at(0), self.interval()) {
            PartStatus::Held { live, .. } => Some(u8::try_from(live).expect("few")),
            PartStatus::Waiting(_) => None,
        }
    }

    fn may(&self, fault: Fault) -> bool {
        self.kinds.contains(&fault)
    }

    /// Ages beyond which no list tells apart, even if its clock goes back as often as it yet may.
    fn oldest(&self, world: &World) -> Ages {
        let back = if self.may(Fault::ServerBack) { faults(world) } else { 0 };
        Ages { came: self.holds() + back, heard: self.counted() + back }
    }

    /// A node's clock goes on by so many units.
    fn go_on(&self, node: &mut Node, by: i8, faults: i8) {
        let back = if self.may(Fault::ClientBack) { faults } else { 0 };
        let holds = self.holds();
        node.left = (node.left - by).max(-back);
        if let Some(reply) = &mut node.reply {
            reply.ago = (reply.ago + by).min(holds + back);
        }
        let rate = self.rate(node.live);
        // What was full long ago may be full after a step back too.
        node.owed = match by {
            1 => node.owed.saturating_sub(rate),
            _ if node.owed > 0 => node.owed + rate,
            _ => 0,
        };
    }
}

fn units(span: Duration) -> i8 {
    i8::try_from(span.as_nanos() / UNIT.as_nanos()).expect("short")
}

fn faults(world: &World) -> i8 {
    i8::try_from(world.faults).expect("few")
}

fn at_units(units: i8) -> i8 {
    i8::try_from(NOW_UNITS).expect("small") + units
}

fn at(units: i8) -> Tick {
    Tick::from_nanos(NOW_UNITS.saturating_add_signed(units.into()) * 1_000)
}

impl Model for Shares {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            slots: vec![Slot::default(); self.nodes],
            has_deposed: false,
            meter: Meter::default(),
            faults: self.faults,
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        self.steps(world, steps);
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        self.act(&mut next, step)?;
        self.forget_the_old(&mut next);
        // Nodes are alike: which of them is which makes no difference.
        next.slots.sort_unstable();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::<Self>::always(NEVER_BEYOND, |model: &Self, world: &World| {
            world.meter.worst() <= u16::from(model.burst)
        })]
    }
}
