//! Nodes that each grant from their part of a quota, by a list of live nodes.
//!
//! A heartbeat is sent and arrives at one moment. A heartbeat that takes longer only makes its part
//! end sooner, because that is counted from when it was sent. Its answer takes any time.

mod faults;
mod slot;
mod steps;

use core::time::Duration;

use stateright::{Model, Property};
use tollgate::{Quota, Tick};

use crate::meter::Meter;
use crate::report::NEVER_BEYOND;
use crate::share::membership::Heartbeat;
use crate::share::part::part;
use crate::share::part_status::{MEMBER_INTERVALS, PartStatus};
pub use slot::lacks;
use slot::{Ages, Node, Reply, Slot};

#[allow(unreachable_pub, reason = "a file of another crate")]
#[path = "../../../crates/redis/tests/bodies/membership.rs"]
mod membership;

const UNIT: Duration = Duration::from_micros(1);
/// The present, with room for earlier instants.
const NOW_UNITS: u64 = 100;

/// A quota, nodes, and possible faults.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "built by this package's tests")]
pub struct Shares {
    /// The largest number of nodes at a time, including dead ones that are still counted.
    pub nodes: usize,
    /// Cells that come back in a unit of time.
    pub rate: u8,
    /// Cells of the burst.
    pub burst: u8,
    /// The units between two heartbeats.
    pub interval: u8,
    /// The number of faults.
    pub faults: u8,
    /// The kinds of faults.
    pub kinds: &'static [Fault],
    /// The planted fault.
    pub planted: PlantedFault,
}

/// A fault of a clock or a server. The death of a node, late or lost heartbeats and answers, and so
/// partitions, happen any number of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "built by this package's tests")]
pub enum Fault {
    /// The server loses the list: adds nothing. If a node's clock went back, its part may be valid
    /// for more than two intervals, and is added for the excess.
    Forget,
    /// The server continues with the data of its replica or its disk: adds the part of each node
    /// that this will drop before the part ends, and what comes back to it between. If a clock went
    /// back as well, it adds the same for a node that the server had dropped and the replica has
    /// not.
    FailOver,
    /// A replica takes over, and the old server continues for nodes that have not learned of it:
    /// adds the same, and what nodes grant that send their heartbeats to the old server.
    SplitBrain,
    /// The server's clock jumps ahead by a unit: adds the part of each node that joined within two
    /// intervals before, and what comes back to it in a unit; and the same as a fail-over, if a
    /// node is dropped before its part ends.
    ServerAhead,
    /// The server's clock jumps back by a unit: adds nothing.
    ServerBack,
    /// A node's clock jumps back by a unit, or stops for one: adds its part, and what comes back to
    /// it in a unit, minus what the node has as one of all nodes. Nothing is subtracted if it is
    /// dropped before its part ends.
    ClientBack,
    /// A node's clock jumps ahead by a unit: adds what comes back to its part in a unit.
    ClientAhead,
}

/// The planted fault, which the checker must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "built by this package's tests")]
pub enum PlantedFault {
    /// Nothing.
    None,
    /// A node uses its part before all others have counted it.
    NewcomersDoNotWait,
    /// A node that was dropped for a while continues as if it had been counted.
    GapUnseen,
    /// A part is valid from when the answer arrives.
    CountedFromReply,
    /// A part is used without comparing when it ends.
    NeverEnds,
    /// The list drops a node one interval after its heartbeat.
    ForgottenTooSoon,
    /// A part that grows comes with the cells that it grows by.
    CellsForAChange,
    /// A node leaves the list first, and then stops.
    LeavesFirst,
    /// Nodes that come add nothing to the bound.
    ComingsAddNothing,
    /// Nodes that go add nothing to the bound.
    GoingsAddNothing,
    /// Faults add nothing to the bound.
    FaultsAddNothing,
    /// A fault adds only what comes back to a part, not the part's burst.
    PartsAddNoBurst,
    /// A fault adds only a part's burst, not what comes back to it.
    PartsAddNoTime,
}

/// The state of everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    slots: Vec<Slot>,
    /// A server was deposed, and some node still sends heartbeats to it.
    has_deposed: bool,
    meter: Meter,
    faults: u8,
}

/// A transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Time advances.
    Tick,
    /// A node comes.
    Come(usize),
    /// The node's heartbeat arrives. Its answer is in flight, or lost.
    Heartbeat(usize),
    /// The answer is lost.
    Lose(usize),
    /// The answer arrives.
    Receive(usize),
    /// A cell is granted.
    Grant(usize),
    /// A node dies.
    Die(usize),
    /// A heartbeat of a dead node arrives.
    ArriveStray(usize),
    /// A node that ended leaves the list.
    Leave(usize),
    /// A node learns of the new server.
    Move(usize),
    /// The replica receives what the server has.
    Replicate,
    /// A fault, of this node if it concerns one.
    Fault(Fault, usize),
}

impl Shares {
    fn part(&self, live: u8) -> Quota {
        let quota = Quota::new(self.rate.into(), UNIT).burst(self.burst.into());
        part(quota, live.into())
    }

    /// Cells of a part's burst. Zero nodes have none.
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
        let intervals =
            if self.planted == PlantedFault::ForgottenTooSoon { 1 } else { MEMBER_INTERVALS };
        units(self.interval() * intervals)
    }

    /// Units for which a part is valid, if its heartbeat is sent now.
    fn holds(&self) -> i8 {
        self.left(Reply { ago: 0, live: 1, of_deposed: false })
    }

    /// How much longer a part is valid if the answer arrives now.
    fn left(&self, reply: Reply) -> i8 {
        let ago = if self.planted == PlantedFault::CountedFromReply { 0 } else { reply.ago };
        let heartbeat = Heartbeat { live: reply.live.into(), member_for: Duration::MAX };
        let PartStatus::Held { until, .. } = PartStatus::of(heartbeat, at(-ago), self.interval())
        else {
            unreachable!("a member for ever")
        };
        i8::try_from(until.as_nanos() / 1_000).expect("soon") - at_units(0)
    }

    /// The part that follows from a heartbeat that is answered now.
    fn reply(&self, live: u64, member_for: u64) -> Option<u8> {
        let member_for = UNIT * u32::try_from(member_for).expect("short");
        let waits = self.planted != PlantedFault::NewcomersDoNotWait;
        let heartbeat =
            Heartbeat { live, member_for: if waits { member_for } else { Duration::MAX } };
        match PartStatus::of(heartbeat, at(0), self.interval()) {
            PartStatus::Held { live, .. } => Some(u8::try_from(live).expect("few")),
            PartStatus::Waiting(_) => None,
        }
    }

    fn may(&self, fault: Fault) -> bool {
        self.kinds.contains(&fault)
    }

    /// The largest ages that matter to a list, even if its clock jumps back as often as it still may.
    fn oldest(&self, world: &World) -> Ages {
        let back = if self.may(Fault::ServerBack) { faults(world) } else { 0 };
        Ages { came: self.holds() + back, heard: self.counted() + back }
    }

    /// A node's clock advances by this many units.
    fn advance_clock(&self, node: &mut Node, by: i8, faults: i8) {
        let back = if self.may(Fault::ClientBack) { faults } else { 0 };
        let holds = self.holds();
        node.left = (node.left - by).max(-back);
        if let Some(reply) = &mut node.reply {
            reply.ago = (reply.ago + by).min(holds + back);
        }
        let rate = self.rate(node.live);
        // A bucket that was full long ago may still be full after its clock jumps back.
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
        self.normalize(&mut next);
        // Nodes are alike: their order makes no difference.
        next.slots.sort_unstable();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::<Self>::always(NEVER_BEYOND, |model: &Self, world: &World| {
            world.meter.worst() <= u16::from(model.burst)
        })]
    }
}
