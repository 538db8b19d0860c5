//! Measures the worst span that ends now, without what faults may add to it.

/// Counts cells, or units of time: a cell is then as many units as it takes to come back.
///
/// The level of a bucket that leaks at the rate is the excess of the worst span over the rate. A fault
/// raises the bound of all spans that begin before it, or while cells that were charged before it may
/// still be spent. Later spans gain nothing: the addition is then subtracted from the level.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Meter {
    level: u16,
    /// The additions of faults: the amount, and how much longer it counts.
    extras: Vec<(u16, u8)>,
}

impl Meter {
    /// Time advances by a unit, in which `rate` comes back.
    pub(crate) fn tick(&mut self, rate: u8) {
        self.level = self.level.saturating_sub(rate.into());
        for (_, left) in &mut self.extras {
            *left -= 1;
        }
        let over: u16 =
            self.extras.iter().filter(|(_, left)| *left == 0).map(|(units, _)| units).sum();
        self.level = self.level.saturating_sub(over);
        self.extras.retain(|(_, left)| *left > 0);
    }

    pub(crate) fn grant(&mut self, units: u16) {
        self.level += units;
    }

    /// A fault adds `units` to spans that begin within this time.
    pub(crate) fn allow(&mut self, units: u16, within: u8) {
        if units > 0 {
            self.extras.push((units, within.max(1)));
            self.extras.sort_unstable();
        }
    }

    /// Adds `units` to the bound of spans that began before now.
    pub(crate) fn forgive(&mut self, units: u16) {
        self.level = self.level.saturating_sub(units);
    }

    /// The excess of the worst span over the rate, without what faults have added.
    pub(crate) fn worst(&self) -> u16 {
        let extra: u16 = self.extras.iter().map(|(units, _)| units).sum();
        self.level.saturating_sub(extra)
    }
}
