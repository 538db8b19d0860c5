//! What was granted in the worst span that ends now, and what faults have added to its bound.

/// In units of time: a cell is as many as it takes to come back. Or in cells.
///
/// A bucket that leaks at the rate holds what the worst span has beyond it. A fault adds to the bound
/// of all spans that begin before it, or while cells may still be spent that were charged before it.
/// Later ones have nothing of it: by then its part is taken off the level.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Meter {
    level: u16,
    /// How much, and for how much longer.
    extras: Vec<(u16, u8)>,
}

impl Meter {
    /// Time goes on by a unit, in which so much comes back.
    pub(crate) fn tick(&mut self, rate: u8) {
        self.level = self.level.saturating_sub(rate.into());
        for (_, left) in &mut self.extras {
            *left -= 1;
        }
        let over: u16 = self.extras.iter().filter(|(_, left)| *left == 0).map(|it| it.0).sum();
        self.level = self.level.saturating_sub(over);
        self.extras.retain(|(_, left)| *left > 0);
    }

    pub(crate) fn grant(&mut self, units: u16) {
        self.level += units;
    }

    /// A fault adds so much, to spans that begin within so long.
    pub(crate) fn allow(&mut self, units: u16, within: u8) {
        if units > 0 {
            self.extras.push((units, within.max(1)));
            self.extras.sort_unstable();
        }
    }

    /// So much is added to spans that began before.
    pub(crate) fn forgive(&mut self, units: u16) {
        self.level = self.level.saturating_sub(units);
    }

    /// What the worst span has beyond the rate, without what faults have added.
    pub(crate) fn worst(&self) -> u16 {
        let extra: u16 = self.extras.iter().map(|it| it.0).sum();
        self.level.saturating_sub(extra)
    }
}
