//! The effects of faults, and what each adds to the bound.

use super::slot::{Ages, Node, Slot};
use super::{Fault, PlantedFault, Shares, World, faults};

impl Shares {
    pub(super) fn apply_fault(&self, world: &mut World, fault: Fault, index: usize) -> Option<()> {
        world.faults = world.faults.checked_sub(1)?;
        match fault {
            Fault::Forget => self.forget(world),
            Fault::FailOver => self.fail_over(world),
            Fault::SplitBrain => {
                world.has_deposed = true;
                for slot in &mut world.slots {
                    slot.at_deposed = slot.listed;
                    if let Some(node) = &mut slot.node {
                        node.asks_deposed = true;
                    }
                }
                self.fail_over(world);
            }
            Fault::ServerAhead => self.server_ahead(world),
            Fault::ServerBack => self.pass(world, -1),
            Fault::ClientBack => {
                let faults = faults(world);
                let slot = world.slots.get_mut(index)?;
                let node = slot.node.as_mut()?;
                self.advance_clock(node, -1, faults);
                let (node, listed) = (node.clone(), slot.listed);
                let beyond = self.beyond(&node, listed).min(1);
                let counted = if beyond > 0 { 0 } else { self.nodes };
                self.allow_part(world, &node, 1, counted);
            }
            Fault::ClientAhead => {
                let faults = faults(world);
                let node = world.slots.get_mut(index)?.node.as_mut()?;
                let before = node.owed;
                self.advance_clock(node, 1, faults);
                let came_back = before - node.owed;
                if self.planted != PlantedFault::FaultsAddNothing {
                    world.meter.forgive(came_back.into());
                }
            }
        }
        Some(())
    }

    /// The server's clock advances.
    fn pass(&self, world: &mut World, by: i8) {
        let oldest = self.oldest(world);
        for slot in &mut world.slots {
            for ages in [&mut slot.listed, &mut slot.copied].into_iter().flatten() {
                ages.advance_clock(by, oldest);
            }
        }
    }

    fn forget(&self, world: &mut World) {
        for index in 0..world.slots.len() {
            // With correct clocks, every old part ends before any node has a part by the new list.
            if let Some(node) = world.slots[index].node.clone() {
                let beyond = self.left_of_any(&node) - self.holds();
                self.allow_part(world, &node, beyond, 0);
            }
            let slot = &mut world.slots[index];
            (slot.listed, slot.copied) = (None, None);
        }
    }

    fn fail_over(&self, world: &mut World) {
        for index in 0..world.slots.len() {
            let slot = &world.slots[index];
            if let Some(node) = slot.node.clone() {
                let beyond = self.beyond(&node, slot.copied);
                self.allow_part(world, &node, beyond, 0);
            }
        }
        let counted = self.counted();
        for slot in &mut world.slots {
            // A node that the server had dropped counts again, if the clock goes back as well.
            let sooner = self.member_for(slot.copied)
                - self.member_for(slot.listed.filter(|ages| ages.heard < counted));
            slot.early += sooner.max(0).unsigned_abs();
            slot.listed = slot.copied;
        }
    }

    fn server_ahead(&self, world: &mut World) {
        let holds = self.holds();
        for slot in &mut world.slots {
            let is_new = slot.listed.is_some_and(|ages| ages.came < holds);
            slot.early += u8::from(is_new && slot.node.is_some());
        }
        self.pass(world, 1);
        for index in 0..world.slots.len() {
            let Slot { node, listed, .. } = &world.slots[index];
            if let (Some(node), Some(_)) = (node.clone(), listed) {
                let beyond = self.beyond(&node, *listed);
                self.allow_part(world, &node, beyond.min(1), 0);
            }
        }
    }

    /// How long a list says that a node has been a member, as far as it matters.
    fn member_for(&self, listed: Option<Ages>) -> i8 {
        listed.map_or(0, |ages| ages.came.clamp(0, self.holds()))
    }

    /// How long a node may use a part after the list has dropped it.
    fn beyond(&self, node: &Node, listed: Option<Ages>) -> i8 {
        // A node that is new to the list has its part from before.
        let listed = listed.filter(|ages| ages.came >= self.holds());
        let dropped_in = listed.map_or(0, |ages| self.counted() - ages.heard);
        (self.left_of_any(node) - dropped_in).max(0)
    }

    /// How much longer the node may use its part, or the part of the answer in flight.
    fn left_of_any(&self, node: &Node) -> i8 {
        let coming = node.reply.map_or(0, |reply| self.left(reply));
        node.left.max(coming)
    }

    /// A fault adds a node's part, and what comes back to it in `units`, to the spans that begin
    /// before that part ends, minus the part that the node has as one of `counted` nodes.
    fn allow_part(&self, world: &mut World, node: &Node, units: i8, counted: usize) {
        let left = self.left_of_any(node);
        if units <= 0 || left <= 0 || self.planted == PlantedFault::FaultsAddNothing {
            return;
        }
        let min = |live: u8| (live > 0).then_some(live);
        let coming = node.reply.and_then(|reply| min(reply.live));
        let used = min(node.live).filter(|_| node.left > 0);
        // Fewer nodes mean a larger part.
        let Some(live) = [coming, used].into_iter().flatten().min() else { return };
        let counted = u8::try_from(counted).expect("few");
        self.allow(world, [live, counted], units, left);
    }

    /// A node has a part earlier than it should.
    pub(super) fn come_early(&self, world: &mut World, live: u8, early: u8) {
        if early > 0 && self.planted != PlantedFault::FaultsAddNothing {
            let early = i8::try_from(early).expect("few");
            self.allow(world, [live, 0], early, early);
        }
    }

    fn allow(&self, world: &mut World, [live, less]: [u8; 2], units: i8, within: i8) {
        let (units, within) = (units.unsigned_abs(), within.unsigned_abs());
        let burst = self.cells(live).saturating_sub(self.cells(less));
        let back = self.rate(live).saturating_sub(self.rate(less)) * units;
        let cells = match self.planted {
            PlantedFault::PartsAddNoBurst => back,
            PlantedFault::PartsAddNoTime => burst,
            _ => burst + back,
        };
        world.meter.allow(cells.into(), within);
    }
}
