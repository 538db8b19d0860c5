//! What was granted in the worst span that ends now, and what faults have added to its bound.

/// Counts in units of time, of which a cell is as many as it takes to come back; or in cells.
///
/// A bucket that leaks at the rate holds the excess of the worst span over the rate. A fault adds
/// to the bound of all spans that begin before it, or while cells may still be spent that were
/// charged before it. Later spans gain nothing from it: by then its addition is subtracted from the
/// level.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Meter {
    level: u16,
    /// How much, and for how much longer.
    extras: Vec<(u16, u8)>,
}

impl Meter {
    /// Time advances by a unit, in which this much comes back.
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

    /// A fault adds this much to spans that begin within this time.
    pub(crate) fn allow(&mut self, units: u16, within: u8) {
        if units > 0 {
            self.extras.push((units, within.max(1)));
            self.extras.sort_unstable();
        }
    }

    /// This much is added to spans that began before.
    pub(crate) fn forgive(&mut self, units: u16) {
        self.level = self.level.saturating_sub(units);
    }

    /// The excess of the worst span over the rate, without what faults have added.
    pub(crate) fn worst(&self) -> u16 {
        let extra: u16 = self.extras.iter().map(|it| it.0).sum();
        self.level.saturating_sub(extra)
    }
}
