//! Bounds of figures, and whether they are met.

use serde::{Deserialize, Serialize};

use crate::saved::rounded;

/// The bound of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
}

impl Bound {
    /// By how much a figure misses the bound, in whole percent of it, rounded up; `None` if the
    /// bound is met. Infinite for a figure that should be zero.
    #[must_use]
    pub fn missed_by_percent(self, figure: f64) -> Option<f64> {
        let (met, by) = match self {
            Self::AtMost(limit) => (figure <= limit, figure / limit - 1.0),
            Self::AtLeast(limit) => (figure >= limit, 1.0 - figure / limit),
        };
        (!met).then(|| (by * 100.0).ceil())
    }

    /// As text in a table.
    #[must_use]
    pub fn sign(self) -> String {
        match self {
            Self::AtMost(limit) => format!("≤ {limit}"),
            Self::AtLeast(limit) => format!("≥ {limit}"),
        }
    }
}

/// A figure and its bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// The name of the figure.
    pub what: String,
    /// The figure; of a ratio, the median of all rounds.
    pub figure: f64,
    /// The quartiles of the rounds, if there are rounds.
    pub quartiles: Option<[f64; 2]>,
    /// The bound.
    pub bound: Bound,
    /// "met", "missed by 12 %", or "missed" if the figure should be zero.
    pub outcome: String,
    /// The rows that are compared, or other notes.
    pub note: String,
}

impl Target {
    /// Compares a figure with its bound before it is rounded.
    #[must_use]
    pub fn new(
        what: &str,
        figure: f64,
        quartiles: Option<[f64; 2]>,
        bound: Bound,
        note: &str,
    ) -> Self {
        let outcome = match bound.missed_by_percent(figure) {
            None => "met".to_owned(),
            Some(percent) if percent.is_finite() => format!("missed by {percent:.0} %"),
            Some(_) => "missed".to_owned(),
        };
        Self {
            what: what.to_owned(),
            figure: rounded(figure),
            quartiles: quartiles.map(|both| both.map(rounded)),
            bound,
            outcome,
            note: note.to_owned(),
        }
    }

    /// Whether the figure is within its bound.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.outcome == "met"
    }

    /// As an item of a list.
    #[must_use]
    pub fn markdown(&self) -> String {
        let (word, limit) = match self.bound {
            Bound::AtMost(limit) => ("at most", limit),
            Bound::AtLeast(limit) => ("at least", limit),
        };
        let Self { what, figure, outcome, note, .. } = self;
        let quartiles = self
            .quartiles
            .map_or_else(String::new, |[low, high]| format!(", quartiles {low:.2} to {high:.2}"));
        format!("- {what}: {figure:.2} ({word} {limit}): **{outcome}**; {note}{quartiles}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_met_at_its_edge() {
        assert_eq!(Bound::AtMost(2.0).missed_by_percent(2.0), None);
        assert_eq!(Bound::AtLeast(2.0).missed_by_percent(2.0), None);
        assert_eq!(Bound::AtMost(0.0).missed_by_percent(0.0), None);
    }

    #[test]
    fn a_miss_is_rounded_up() {
        assert_eq!(Bound::AtMost(2.0).missed_by_percent(2.001), Some(1.0));
        assert_eq!(Bound::AtLeast(4.0).missed_by_percent(1.86), Some(54.0));
    }

    #[test]
    fn a_target_prints_whether_it_is_met() {
        let missed = Target::new("a", 1.86, Some([1.83, 1.89]), Bound::AtLeast(4.0), "x over y");
        let line = "- a: 1.86 (at least 4): **missed by 54 %**; x over y, quartiles 1.83 to 1.89\n";
        assert_eq!(missed.markdown(), line);
        assert!(!missed.is_met());
        assert!(Target::new("a", 1.0, None, Bound::AtMost(1.2), "").is_met());
    }

    #[test]
    fn a_figure_that_should_be_zero_is_missed_without_a_percentage() {
        let target = Target::new("denied", 3.0, None, Bound::AtMost(0.0), "of 10");
        assert_eq!(target.outcome, "missed");
        assert!(!target.is_met());
    }

    #[test]
    fn a_miss_smaller_than_the_rounding_is_a_miss() {
        assert!(!Target::new("a", 2.000_000_1, None, Bound::AtMost(2.0), "").is_met());
    }
}
