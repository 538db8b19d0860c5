//! Processes that take leases of a bucket on a server, or call it for each request.

use stateright::{Model, Property};
use tollgate::Tick;

use crate::lease::lease_cell::LeaseCell;
use crate::meter::Meter;
use crate::report::NEVER_BEYOND;
use crate::sync;

#[allow(unreachable_pub, reason = "a file of another crate")]
#[path = "../../../crates/redis/tests/bodies/bucket.rs"]
mod bucket;
use bucket::Bucket;

/// A unit of time in a lease cell.
const UNIT_NANOS: u64 = 1 << 16;
/// The present, with room for earlier instants.
const NOW_UNITS: u64 = 100;

/// A quota, processes, and possible faults.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "built by this package's tests")]
pub struct Leases {
    /// The number of processes.
    pub processes: usize,
    /// The time in which a cell comes back.
    pub cell: u8,
    /// Cells of the burst.
    pub burst: u8,
    /// The lifetime of leases. 0: there are no leases, and each cell is a call.
    pub lifetime: u8,
    /// The number of faults.
    pub faults: u8,
    /// The kinds of faults.
    pub kinds: &'static [Fault],
    /// The planted fault.
    pub planted: PlantedFault,
}

/// A fault of a clock or a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "built by this package's tests")]
pub enum Fault {
    /// The server continues with the data of its replica or its disk: adds what that lacks.
    FailOver,
    /// A replica takes over, and the old server continues for processes that have not learned of
    /// it: adds what the replica lacks, and what the old server still grants.
    SplitBrain,
    /// The server's clock jumps ahead by a unit: adds a unit's cells.
    ServerAhead,
    /// The server's clock jumps back by a unit: adds nothing.
    ServerBack,
    /// A process's clock jumps back by a unit, or stops for one: adds a unit's cells.
    ClientBack,
    /// A process's clock jumps ahead by a unit: adds nothing.
    ClientAhead,
}

/// The planted fault, which the checker must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "built by this package's tests")]
pub enum PlantedFault {
    /// Nothing.
    None,
    /// Expired cells are spent (in the lease cell that ships).
    NeverExpires,
    /// The lifetime of a lease counts from the arrival of the reply.
    CountedFromReply,
    /// A cell of an expired reply is spent.
    LateIsSpent,
    /// A reply that arrives twice, as after a repeated request, counts twice.
    CountedAgain,
    /// The bucket's burst is not lowered by what comes back in a lifetime.
    BurstNotLowered,
    /// A process that starts again keeps the leases of the one that died, and so does another
    /// process.
    LeasesInherited,
    /// Faults add nothing to the bound.
    FaultsAddNothing,
}

/// A call of a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Call {
    /// Sent this long ago by the process's clock, for up to this many cells.
    Asked { ago: i8, max: u8 },
    /// The answer is in flight.
    Answered { ago: i8, cells: u8 },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Process {
    /// The time until expiry by the process's clock, and the cells. Expired leases only if they
    /// matter.
    leases: Vec<(u8, u8)>,
    call: Option<Call>,
    /// A request that no one waits for any longer, and that may still arrive.
    stray: Option<u8>,
    /// The process calls the server that was deposed.
    at_deposed: bool,
}

/// The state of everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// The time until the server's bucket is full.
    owed: u8,
    /// The same for its replica, or its disk.
    replicated: u8,
    deposed: Option<u8>,
    processes: Vec<Process>,
    meter: Meter,
    faults: u8,
}

/// A transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Time advances.
    Tick,
    /// A process calls for up to this many cells.
    Ask(usize, u8),
    /// A request arrives.
    Arrive(usize),
    /// A request that was given up arrives.
    ArriveStray(usize),
    /// The request or the reply is lost.
    Lose(usize),
    /// The process gives the call up. Its request may still arrive.
    GiveUp(usize),
    /// A reply arrives.
    Receive(usize),
    /// A cell is spent.
    Spend(usize),
    /// A process dies, and starts again with nothing.
    Die(usize),
    /// A process learns of the new server.
    Move(usize),
    /// The replica receives what the server has.
    Replicate,
    /// A fault, of this process if it concerns one.
    Fault(Fault, usize),
}

impl Leases {
    fn bucket(&self) -> Bucket {
        let lease = if self.planted == PlantedFault::BurstNotLowered { 0 } else { self.lifetime };
        let period_nanos = u64::from(self.cell) * 1_000;
        let bucket = Bucket::new(1, period_nanos, self.burst.into(), lease.into());
        assert_eq!((bucket.parts, bucket.cell), (1, self.cell.into()), "units are microseconds");
        bucket
    }

    /// The cells that a bucket with this debt grants, and its debt afterwards.
    fn take(&self, owed: u8, max: u8) -> (u8, u8) {
        let (cells, owed) = self.bucket().take(owed.into(), 1, max.into());
        (u8::try_from(cells).expect("few"), u8::try_from(owed).expect("small"))
    }

    fn units(&self, cells: u8) -> u16 {
        u16::from(self.cell) * u16::from(cells)
    }

    /// How long cells may be spent that were charged until now.
    fn out_for(&self) -> u8 {
        self.lifetime + self.faults
    }

    fn allow(&self, world: &mut World, units: u16) {
        if self.planted != PlantedFault::FaultsAddNothing {
            world.meter.allow(units, self.out_for());
        }
    }

    /// A request for cells arrives at the server that the process knows.
    fn arrive(&self, world: &mut World, at_deposed: bool, max: u8) -> u8 {
        let cells = match world.deposed.filter(|_| at_deposed) {
            Some(owed) => {
                let (cells, owed) = self.take(owed, max);
                world.deposed = Some(owed);
                self.allow(world, self.units(cells));
                cells
            }
            None => {
                let (cells, owed) = self.take(world.owed, max);
                world.owed = owed;
                cells
            }
        };
        if self.lifetime == 0 {
            // The cell counts as granted now, whether or not the answer arrives.
            world.meter.grant(self.units(cells));
        }
        cells
    }

    /// A reply arrives: its cells are deposited if they may still be spent.
    fn receive(&self, process: &mut Process, meter: &mut Meter, ago: i8, cells: u8) {
        let ago = if self.planted == PlantedFault::CountedFromReply { 0 } else { ago };
        let left = i16::from(self.lifetime) - i16::from(ago);
        if left <= 0 {
            if self.planted == PlantedFault::LateIsSpent && cells > 0 {
                meter.grant(self.units(1));
            }
            return;
        }
        let lease_cell = self.lease_cell(process);
        lease_cell.deposit(cells.into(), at(u8::try_from(left).expect("short")), at(0));
        process.leases = self.held(&lease_cell);
    }

    fn lease_cell(&self, process: &Process) -> LeaseCell {
        let lease_cell = LeaseCell::default();
        for &(left, cells) in &process.leases {
            lease_cell.deposit(cells.into(), at(left), at(0));
        }
        lease_cell
    }

    /// The leases that a cell holds, with their expiry: later ones first.
    fn held(&self, lease_cell: &LeaseCell) -> Vec<(u8, u8)> {
        let alive = |left: u8| u8::try_from(lease_cell.spendable(at(left))).expect("few");
        let last = self.lifetime + self.faults + 1;
        let mut held: Vec<_> =
            (0..last).rev().map(|left| (left + 1, alive(left) - alive(left + 1))).collect();
        if self.planted == PlantedFault::NeverExpires {
            held.push((0, u8::try_from(lease_cell.unspent()).expect("few") - alive(0)));
        }
        held.retain(|(_, cells)| *cells > 0);
        held
    }

    /// A process's clock advances by this many units.
    fn advance_clock(&self, process: &mut Process, by: i8) {
        for (left, _) in &mut process.leases {
            *left = left.saturating_add_signed(-by);
        }
        if self.planted != PlantedFault::NeverExpires {
            process.leases.retain(|(left, _)| *left > 0);
        }
        if let Some(Call::Asked { ago, .. } | Call::Answered { ago, .. }) = &mut process.call {
            // Ages beyond a lifetime make no difference.
            let oldest = i8::try_from(self.out_for()).expect("short");
            *ago = (*ago + by).min(oldest);
        }
    }

    fn apply_fault(&self, world: &mut World, fault: Fault, index: usize) -> Option<()> {
        world.faults = world.faults.checked_sub(1)?;
        match fault {
            Fault::FailOver | Fault::SplitBrain => {
                let lacks = world.owed.saturating_sub(world.replicated);
                if fault == Fault::SplitBrain {
                    world.deposed = Some(world.owed);
                    world.processes.iter_mut().for_each(|process| process.at_deposed = true);
                }
                world.owed = world.replicated;
                self.allow(world, lacks.into());
            }
            Fault::ServerAhead => {
                let gained = world.owed.min(1);
                world.owed -= gained;
                world.replicated = world.replicated.saturating_sub(1);
                self.allow(world, gained.into());
            }
            Fault::ServerBack => {
                // A bucket that was full long ago may count as full now. A key owes the burst at most.
                let max = u8::try_from(self.bucket().capacity).expect("small");
                for owed in [&mut world.owed, &mut world.replicated] {
                    *owed = (*owed + u8::from(*owed > 0)).min(max);
                }
            }
            Fault::ClientBack => {
                self.advance_clock(world.processes.get_mut(index)?, -1);
                self.allow(world, 1);
            }
            Fault::ClientAhead => self.advance_clock(world.processes.get_mut(index)?, 1),
        }
        Some(())
    }

    fn tick(&self, world: &mut World) {
        world.owed = world.owed.saturating_sub(1);
        world.replicated = world.replicated.saturating_sub(1);
        world.deposed = world.deposed.map(|owed| owed.saturating_sub(1));
        world.meter.tick(1);
        for process in &mut world.processes {
            self.advance_clock(process, 1);
        }
    }

    fn spend(&self, world: &mut World, index: usize) -> Option<()> {
        let lease_cell = self.lease_cell(&world.processes[index]);
        if !lease_cell.spend(1, at(0)) {
            return None;
        }
        world.processes[index].leases = self.held(&lease_cell);
        world.meter.grant(self.units(1));
        Some(())
    }

    /// Applies a step of a process, or of its messages.
    fn act(&self, world: &mut World, step: Step) -> Option<()> {
        match step {
            Step::Ask(index, max) => {
                world.processes[index].call = Some(Call::Asked { ago: 0, max });
            }
            Step::Arrive(index) => {
                let process = &world.processes[index];
                let Some(Call::Asked { ago, max }) = process.call else { return None };
                let cells = self.arrive(world, process.at_deposed, max);
                let answer = Call::Answered { ago, cells };
                // A process without leases was granted the cell when the request arrived.
                world.processes[index].call = (self.lifetime > 0 && cells > 0).then_some(answer);
            }
            Step::ArriveStray(index) => {
                let max = world.processes[index].stray.take()?;
                let at_deposed = world.processes[index].at_deposed;
                self.arrive(world, at_deposed, max);
            }
            Step::Lose(index) => world.processes[index].call = None,
            Step::GiveUp(index) => {
                let Some(Call::Asked { max, .. }) = world.processes[index].call else {
                    return None;
                };
                world.processes[index].call = None;
                world.processes[index].stray = Some(max);
            }
            Step::Receive(index) => {
                let World { processes, meter, .. } = world;
                let Some(Call::Answered { ago, cells }) = processes[index].call else {
                    return None;
                };
                self.receive(&mut processes[index], meter, ago, cells);
                if self.planted != PlantedFault::CountedAgain {
                    processes[index].call = None;
                }
            }
            Step::Spend(index) => self.spend(world, index)?,
            Step::Die(index) => {
                let died = core::mem::take(&mut world.processes[index]);
                world.processes[index].stray = died.stray;
                world.processes[index].at_deposed = died.at_deposed;
                if self.planted == PlantedFault::LeasesInherited {
                    for process in &mut world.processes {
                        process.leases.clone_from(&died.leases);
                    }
                }
            }
            Step::Move(index) => world.processes[index].at_deposed = false,
            Step::Tick => self.tick(world),
            Step::Replicate => world.replicated = world.owed,
            Step::Fault(fault, index) => self.apply_fault(world, fault, index)?,
        }
        Some(())
    }
}

fn at(units: u8) -> Tick {
    Tick::from_nanos((NOW_UNITS + u64::from(units)) * UNIT_NANOS)
}

impl Model for Leases {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            owed: 0,
            replicated: 0,
            deposed: None,
            processes: vec![Process::default(); self.processes],
            meter: Meter::default(),
            faults: self.faults,
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        steps.push(Step::Tick);
        if world.faults > 0 {
            steps.push(Step::Replicate);
        }
        for (index, process) in world.processes.iter().enumerate() {
            match process.call {
                None if self.lifetime == 0 => steps.push(Step::Ask(index, 1)),
                None => steps.extend([1, self.burst].map(|max| Step::Ask(index, max))),
                Some(Call::Asked { .. }) => {
                    steps.extend([Step::Arrive(index), Step::Lose(index), Step::GiveUp(index)]);
                }
                Some(Call::Answered { .. }) => {
                    steps.extend([Step::Receive(index), Step::Lose(index)])
                }
            }
            if process.stray.is_some() {
                steps.push(Step::ArriveStray(index));
            }
            if !process.leases.is_empty() {
                steps.extend([Step::Spend(index), Step::Die(index)]);
            }
            if process.at_deposed {
                steps.push(Step::Move(index));
            }
        }
        if world.faults > 0 {
            for fault in self.kinds {
                let of_process = matches!(fault, Fault::ClientBack | Fault::ClientAhead);
                let last = if of_process { self.processes } else { 1 };
                steps.extend((0..last).map(|index| Step::Fault(*fault, index)));
            }
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let never_expires = self.planted == PlantedFault::NeverExpires;
        sync::plant(never_expires.then_some(sync::PlantedFault::EndUnchecked));
        let mut next = world.clone();
        self.act(&mut next, step)?;
        // Processes are alike: their order makes no difference.
        next.processes.sort_unstable_by(|one, other| key(one).cmp(&key(other)));
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::<Self>::always(NEVER_BEYOND, |model: &Self, world: &World| {
            world.meter.worst() <= model.units(model.burst)
        })]
    }
}

type Key<'a> = (&'a [(u8, u8)], Option<(bool, i8, u8)>, Option<u8>, bool);

fn key(process: &Process) -> Key<'_> {
    let call = process.call.as_ref().map(|call| match *call {
        Call::Asked { ago, max } => (false, ago, max),
        Call::Answered { ago, cells } => (true, ago, cells),
    });
    (&process.leases, call, process.stray, process.at_deposed)
}
