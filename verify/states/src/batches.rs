//! Processes that count a window locally and send their counts to a server.

use core::time::Duration;

use stateright::{Model, Property};
use tollgate::Tick;

use crate::batch::counter_store::WindowCount;
use crate::batch::pending_counts::{AskOutcome, PendingCounts};
use crate::bounded_map::Entry;
use crate::report::NEVER_BEYOND;
use crate::sync;

const UNIT_NANOS: u64 = 1_000;
const NOW_UNITS: u64 = 100;

/// A limit, processes, and possible faults.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "built by this package's tests")]
pub struct Batches {
    /// The number of processes.
    pub processes: u8,
    /// Cells of a window.
    pub limit: u8,
    /// Cells that a process may have unsent.
    pub unsent: u8,
    /// The length of a window.
    pub period: u8,
    /// The number of deaths and fail-overs.
    pub faults: u8,
    /// The planted fault.
    pub planted: PlantedFault,
}

/// The planted fault, which the checker must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "built by this package's tests")]
pub enum PlantedFault {
    /// Nothing.
    None,
    /// Sent cells no longer count, although they are not answered yet.
    SentIsForgotten,
    /// Cells of a failed call are not sent again.
    FailedIsForgotten,
    /// Deaths and fail-overs add nothing to the bound.
    FaultsAddNothing,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Call {
    Sent(u8),
    /// The use of the window at that moment, and the time until its end.
    Answered(u8, u8),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Process {
    /// The last answer, and how much longer it is valid.
    used: u8,
    left: u8,
    in_flight: u8,
    unsent: u8,
    call: Option<Call>,
    /// Counts of a call that the process gave up. They are sent again, and may still arrive.
    stray: u8,
}

/// The state of everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    used: u8,
    replicated: u8,
    /// The time until the window ends.
    left: u8,
    processes: Vec<Process>,
    admitted: u8,
    /// The cells that faults have added to this window's bound.
    extra: u8,
    faults: u8,
}

/// A transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Time advances, maybe to the next window.
    Tick,
    /// A process admits a cell.
    Admit(usize),
    /// A process sends its counts.
    Send(usize),
    /// The counts arrive.
    Arrive(usize),
    /// Counts of a call that was given up arrive.
    ArriveStray(usize),
    /// The counts or their answer are lost.
    Lose(usize),
    /// The process gives the call up. Its counts may still arrive.
    GiveUp(usize),
    /// An answer arrives.
    Receive(usize),
    /// A process dies, and starts again with nothing.
    Die(usize),
    /// The replica receives what the server has.
    Replicate,
    /// The replica takes over.
    FailOver,
}

impl Batches {
    fn bound(&self) -> u8 {
        self.limit - 1 + self.processes * self.unsent
    }

    /// The largest use that matters: beyond it everything is denied. If the server may lose data,
    /// it also matters how much there is to lose.
    fn max(&self) -> u8 {
        if self.faults == 0 { self.limit } else { self.bound() + self.faults }
    }

    fn counts(&self, process: &Process) -> PendingCounts {
        let counts: PendingCounts = Entry::new(b"key");
        let window = |used: u8, left: u8| WindowCount {
            used: used.into(),
            ends_after: Duration::from_nanos(u64::from(left) * UNIT_NANOS),
        };
        counts.acknowledge(window(process.used, process.left), now());
        counts.ask(process.in_flight.into(), u64::MAX, u64::MAX, now());
        counts.take_unsent();
        counts.ask(process.unsent.into(), u64::MAX, u64::MAX, now());
        counts
    }

    fn arrive(&self, world: &mut World, cells: u8) {
        world.used = (world.used + cells).min(self.max());
    }

    fn fail(&self, process: &mut Process) {
        process.call = None;
        let again = core::mem::take(&mut process.in_flight);
        if self.planted != PlantedFault::FailedIsForgotten {
            process.unsent += again;
        }
    }

    fn tick(&self, world: &mut World) {
        for process in &mut world.processes {
            process.left = process.left.saturating_sub(1);
            if process.left == 0 {
                process.used = 0;
            }
        }
        world.left -= 1;
        if world.left == 0 {
            world.left = self.period;
            (world.used, world.replicated, world.admitted, world.extra) = (0, 0, 0, 0);
        }
    }

    fn add(&self, world: &mut World, extra: u8) {
        if self.planted != PlantedFault::FaultsAddNothing {
            world.extra = (world.extra + extra).min(self.max());
        }
    }

    fn act(&self, world: &mut World, step: Step) -> Option<()> {
        match step {
            Step::Tick => self.tick(world),
            Step::Admit(index) => {
                let counts = self.counts(&world.processes[index]);
                let found = counts.ask(1, self.limit.into(), self.unsent.into(), now());
                let AskOutcome::Admitted { .. } = found else { return None };
                world.processes[index].unsent += 1;
                world.admitted += 1;
            }
            Step::Send(index) => {
                let process = &mut world.processes[index];
                let cells = core::mem::take(&mut process.unsent);
                process.call = Some(Call::Sent(cells));
                if self.planted != PlantedFault::SentIsForgotten {
                    process.in_flight = cells;
                }
            }
            Step::Arrive(index) => {
                let Some(Call::Sent(cells)) = world.processes[index].call else { return None };
                self.arrive(world, cells);
                let answer = Call::Answered(world.used, world.left);
                world.processes[index].call = Some(answer);
            }
            Step::ArriveStray(index) => {
                let cells = core::mem::take(&mut world.processes[index].stray);
                self.arrive(world, cells);
            }
            Step::Lose(index) => self.fail(&mut world.processes[index]),
            Step::GiveUp(index) => {
                let Some(Call::Sent(cells)) = world.processes[index].call else { return None };
                self.fail(&mut world.processes[index]);
                world.processes[index].stray = cells;
            }
            Step::Receive(index) => {
                let process = &mut world.processes[index];
                let Some(Call::Answered(used, left)) = process.call else { return None };
                (process.used, process.left) = (used, left);
                (process.in_flight, process.call) = (0, None);
            }
            Step::Die(index) => {
                world.faults -= 1;
                let died = core::mem::take(&mut world.processes[index]);
                world.processes[index].stray = died.stray;
                // The new process knows nothing of the window, so it counts as one process more.
                self.add(world, self.unsent);
            }
            Step::Replicate => world.replicated = world.used,
            Step::FailOver => {
                world.faults -= 1;
                let lacks = world.used - world.replicated;
                world.used = world.replicated;
                self.add(world, lacks);
            }
        }
        Some(())
    }
}

fn now() -> Tick {
    Tick::from_nanos(NOW_UNITS * UNIT_NANOS)
}

impl Model for Batches {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            used: 0,
            replicated: 0,
            left: self.period,
            processes: vec![Process::default(); self.processes.into()],
            admitted: 0,
            extra: 0,
            faults: self.faults,
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        steps.push(Step::Tick);
        for (index, process) in world.processes.iter().enumerate() {
            steps.push(Step::Admit(index));
            match process.call {
                None if process.unsent > 0 => steps.push(Step::Send(index)),
                None => {}
                Some(Call::Sent(_)) => {
                    steps.extend([Step::Arrive(index), Step::Lose(index)]);
                    if process.stray == 0 {
                        steps.push(Step::GiveUp(index));
                    }
                }
                Some(Call::Answered(..)) => steps.extend([Step::Receive(index), Step::Lose(index)]),
            }
            if process.stray > 0 {
                steps.push(Step::ArriveStray(index));
            }
            if world.faults > 0 {
                steps.push(Step::Die(index));
            }
        }
        if world.faults > 0 {
            steps.extend([Step::Replicate, Step::FailOver]);
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        sync::plant(None);
        let mut next = world.clone();
        self.act(&mut next, step)?;
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::<Self>::always(NEVER_BEYOND, |model: &Self, world: &World| {
            world.admitted <= model.bound() + world.extra
        })]
    }
}
