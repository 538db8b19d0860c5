//! The steps of nodes and of their heartbeats.

use super::membership::{Member, heartbeat, leave};
use super::slot::{Ages, Node, Reply, Slot, lacks};
use super::{Fault, NOW_UNITS, PlantedFault, Shares, Step, World, at, at_units, faults};
use crate::share::part_status::is_valid;

impl Shares {
    pub(super) fn steps(&self, world: &World, steps: &mut Vec<Step>) {
        steps.push(Step::Tick);
        let replicates = self.may(Fault::FailOver) || self.may(Fault::SplitBrain);
        if world.faults > 0 && replicates {
            steps.push(Step::Replicate);
        }
        let free = |slot: &Slot| {
            slot.node.is_none()
                && [slot.listed, slot.copied, slot.at_deposed].iter().all(Option::is_none)
        };
        steps.extend(world.slots.iter().position(free).map(Step::Come));
        for (index, slot) in world.slots.iter().enumerate() {
            let leaves_first = self.planted == PlantedFault::LeavesFirst && slot.node.is_some();
            if slot.listed.is_some() && (slot.node.is_none() || leaves_first) {
                steps.push(Step::Leave(index));
            }
            let Some(node) = &slot.node else {
                if slot.stray {
                    steps.push(Step::ArriveStray(index));
                }
                continue;
            };
            steps.push(Step::Die(index));
            match node.reply {
                None => steps.push(Step::Heartbeat(index)),
                Some(_) => steps.extend([Step::Receive(index), Step::Lose(index)]),
            }
            if self.may_grant(node) {
                steps.push(Step::Grant(index));
            }
            if node.asks_deposed {
                steps.push(Step::Move(index));
            }
        }
        if world.faults > 0 {
            for &fault in self.kinds {
                let of_node = matches!(fault, Fault::ClientBack | Fault::ClientAhead);
                let last = if of_node { self.nodes } else { 1 };
                steps.extend((0..last).map(|index| Step::Fault(fault, index)));
            }
        }
    }

    fn may_grant(&self, node: &Node) -> bool {
        let has_part = node.live > 0
            && (is_valid(at(node.left), at(0)) || self.planted == PlantedFault::NeverEnds);
        has_part && node.owed < self.cells(node.live)
    }

    pub(super) fn act(&self, world: &mut World, step: Step) -> Option<()> {
        match step {
            Step::Tick => self.tick(world),
            Step::Come(index) => {
                let node = Node { asks_deposed: world.has_deposed, ..Node::default() };
                world.slots[index].node = Some(node);
                world.slots[index].stray = false;
            }
            Step::Heartbeat(index) => self.heartbeat(world, index)?,
            Step::Lose(index) => world.slots[index].node.as_mut()?.reply = None,
            Step::Receive(index) => self.receive(world, index)?,
            Step::Grant(index) => {
                let node = world.slots[index].node.as_mut()?;
                node.owed += 1;
                // The cells granted from a part of the deposed server are exactly those that the fault adds.
                if !node.is_of_deposed || self.planted == PlantedFault::FaultsAddNothing {
                    world.meter.grant(1);
                }
            }
            Step::Die(index) => {
                world.slots[index].node = None;
                world.slots[index].early = 0;
                world.slots[index].stray = true;
            }
            Step::ArriveStray(index) => {
                world.slots[index].stray = false;
                self.arrive(world, index, false);
            }
            Step::Leave(index) => self.leave(world, index),
            Step::Move(index) => world.slots[index].node.as_mut()?.asks_deposed = false,
            Step::Replicate => {
                world.slots.iter_mut().for_each(|slot| slot.copied = slot.listed);
            }
            Step::Fault(fault, index) => self.apply_fault(world, fault, index)?,
        }
        Some(())
    }

    /// A heartbeat arrives at a server. Returns how many nodes are alive, and how long this one is
    /// a member.
    fn arrive(&self, world: &mut World, index: usize, at_deposed: bool) -> (u64, u64) {
        let lifetime = u64::try_from(self.counted()).expect("some time");
        let mut members = members(world, at_deposed);
        let was_listed = members[index].is_some_and(|it| it.heard + lifetime > NOW_UNITS);
        let answer = heartbeat(&mut members, index, NOW_UNITS, lifetime);
        write_list(world, &members, at_deposed);
        if !was_listed && !at_deposed {
            // A jump of the clock before this moment does not make the part come early.
            world.slots[index].early = 0;
        }
        answer
    }

    fn heartbeat(&self, world: &mut World, index: usize) -> Option<()> {
        let node = world.slots[index].node.as_ref()?;
        let (of_deposed, had_part) = (node.asks_deposed, node.live > 0);
        let (live, member_for) = self.arrive(world, index, of_deposed);
        let gap_unseen = self.planted == PlantedFault::GapUnseen && had_part;
        let live = self.reply(live, if gap_unseen { u8::MAX.into() } else { member_for });
        world.slots[index].node.as_mut()?.reply =
            live.map(|live| Reply { ago: 0, live, of_deposed });
        Some(())
    }

    /// An answer that gives a part arrives.
    fn receive(&self, world: &mut World, index: usize) -> Option<()> {
        let slot = &mut world.slots[index];
        let node = slot.node.as_mut()?;
        let reply = node.reply.take()?;
        let (old, new) = (self.cells(node.live), self.cells(reply.live));
        let owed = if reply.live == node.live { node.owed } else { lacks(node.owed, old, new) };
        let (had, has) = (old.saturating_sub(node.owed), new.saturating_sub(owed));
        let moves = node.is_of_deposed && !reply.of_deposed;
        let comes = node.left <= 0 || moves;
        let for_a_change = self.planted == PlantedFault::CellsForAChange && reply.live != node.live;
        node.owed = if for_a_change { 0 } else { owed };
        (node.live, node.left) = (reply.live, self.left(reply));
        node.is_of_deposed = reply.of_deposed;
        if node.left <= 0 {
            // The part ended before its answer arrived.
            return Some(());
        }
        let early = core::mem::take(&mut slot.early);
        if comes && self.planted != PlantedFault::ComingsAddNothing {
            // The node comes, returns, or moves over: earlier spans see all that it has.
            world.meter.forgive(has.into());
        } else if !comes && self.planted != PlantedFault::GoingsAddNothing {
            // Other nodes went: a node that had spent nothing has a larger part at once.
            world.meter.forgive(has.saturating_sub(had).into());
        }
        self.come_early(world, reply.live, early);
        Some(())
    }

    fn leave(&self, world: &mut World, index: usize) {
        let mut members = members(world, false);
        leave(&mut members, index);
        write_list(world, &members, false);
    }

    fn tick(&self, world: &mut World) {
        world.meter.tick(self.rate);
        let (oldest, faults) = (self.oldest(world), faults(world));
        for slot in &mut world.slots {
            let lists = [&mut slot.listed, &mut slot.copied, &mut slot.at_deposed];
            lists.into_iter().flatten().for_each(|ages| ages.advance_clock(1, oldest));
            if let Some(node) = &mut slot.node {
                self.advance_clock(node, 1, faults);
            }
        }
    }

    /// Sets values that no longer make a difference to one value, so that equal states are equal.
    pub(super) fn normalize(&self, world: &mut World) {
        let oldest = self.oldest(world);
        world.has_deposed &=
            world.slots.iter().any(|slot| slot.node.as_ref().is_some_and(|node| node.asks_deposed));
        let replicates = self.may(Fault::FailOver) || self.may(Fault::SplitBrain);
        for slot in &mut world.slots {
            if world.faults == 0 || !replicates {
                slot.copied = None;
            }
            if !world.has_deposed {
                slot.at_deposed = None;
            }
            for list in [&mut slot.listed, &mut slot.copied, &mut slot.at_deposed] {
                *list = list.filter(|ages| ages.heard < oldest.heard);
            }
        }
    }
}

fn list(slot: &mut Slot, at_deposed: bool) -> &mut Option<Ages> {
    if at_deposed { &mut slot.at_deposed } else { &mut slot.listed }
}

fn members(world: &mut World, at_deposed: bool) -> Vec<Option<Member>> {
    let when = |age: i8| u64::try_from(at_units(-age)).expect("after the beginning");
    let member = |ages: Ages| Member { came: when(ages.came), heard: when(ages.heard) };
    world.slots.iter_mut().map(|slot| list(slot, at_deposed).map(member)).collect()
}

fn write_list(world: &mut World, members: &[Option<Member>], at_deposed: bool) {
    let age = |when: u64| at_units(0) - i8::try_from(when).expect("small");
    for (slot, member) in world.slots.iter_mut().zip(members) {
        *list(slot, at_deposed) =
            member.map(|it| Ages { came: age(it.came), heard: age(it.heard) });
    }
}
