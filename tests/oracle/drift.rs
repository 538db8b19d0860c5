//! The distance of a warm-up from its formulas once rounding has been through the ramp.
//!
//! The limiter and the formulas start alike and see the same requests. Two differences describe
//! how they part: `turn`, how much later the limiter's next turn is, and `warmth`, how much warmer
//! its key is (in seconds of the time that storing takes). Every bound is an interval, because only
//! the range of each rounding is known.
//!
//! - A charge is rounded up to a unit, so it adds less than one unit to `turn`.
//! - A warmer key pays less on the ramp. If one charge costs `slope` seconds less for each second
//!   of warmth, the charge takes `slope * warmth` from `turn`. Both keys warm up alike, so `warmth`
//!   stays (and shrinks at the end of the period, where warmth is capped).
//! - A pause starts at the beginning of the unit, less than one unit early. If both wait for
//!   nothing, `turn` is between minus one unit and zero afterwards. While idle, a key cools down
//!   towards an instant, the sum of its turn and its warmth; what that sum is off by becomes
//!   `warmth`.
//!
//! So after a pause with the differences `turn` and `warmth`, `m` charges of slopes that add up to
//! `s` leave
//!
//! ```text
//! turn - s * warmth  to  turn - s * warmth + m units
//! ```
//!
//! and the next pause turns `turn + (1 - s) * warmth + m units` into warmth. Over a whole ramp `s`
//! is `(5 + c)(c - 1) / (2 (1 + c))` for a cold factor of `c`: 2 for 3, and 6.1 for 10. Above 2 a
//! difference in warmth grows from ramp to ramp, in exact arithmetic too, so no fixed number of
//! units for each charge bounds it.

use std::ops::{Add, Mul, Sub};

use crate::warm_up::Guava;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    low: f64,
    high: f64,
}

impl Interval {
    const ZERO: Self = Self { low: 0.0, high: 0.0 };
    const ONE: Self = Self { low: 1.0, high: 1.0 };

    /// The values of a function that never falls.
    fn map(self, rising: impl Fn(f64) -> f64) -> Self {
        Self { low: rising(self.low), high: rising(self.high) }
    }

    pub(crate) fn contains(self, value: f64, tolerance: f64) -> bool {
        self.low - tolerance < value && value < self.high + tolerance
    }
}

impl Add for Interval {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { low: self.low + other.low, high: self.high + other.high }
    }
}

impl Sub for Interval {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { low: self.low - other.high, high: self.high - other.low }
    }
}

impl Mul for Interval {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let ends = [self.low, self.high].map(|a| [a * other.low, a * other.high]);
        let [[a, b], [c, d]] = ends;
        Self { low: a.min(b).min(c.min(d)), high: a.max(b).max(c.max(d)) }
    }
}

/// The differences at the last pause, and what the charges since then do to them.
pub(crate) struct Drift {
    unit: f64,
    turn: Interval,
    warmth: Interval,
    /// The sum of the slopes of the charges since the last pause.
    slopes: Interval,
    /// The sum that rounding has added to the charges since the last pause.
    rounding: Interval,
}

impl Drift {
    pub(crate) fn new(unit: f64) -> Self {
        let zero = Interval::ZERO;
        Self { unit, turn: zero, warmth: zero, slopes: zero, rounding: zero }
    }

    /// How much later than by the formulas the limiter's next turn is.
    pub(crate) fn turn(&self) -> Interval {
        self.turn + self.rounding - self.slopes * self.warmth
    }

    /// How much later than by the formulas the limiter's key is cold again.
    fn cold_at(&self) -> Interval {
        self.turn + self.rounding + (Interval::ONE - self.slopes) * self.warmth
    }

    fn restart(&mut self, turn: Interval, warmth: Interval) {
        *self = Self { turn, warmth, ..Self::new(self.unit) };
    }

    /// A request comes at `now`. A key whose next turn is before that has been idle.
    pub(crate) fn pause(&mut self, guava: &Guava, now: f64) {
        let (turn, cold_at) = (self.turn(), self.cold_at());
        if guava.next_free >= now && guava.next_free + turn.low >= now {
            return;
        }
        let next = guava.next_free.max(now);
        let after = Interval {
            low: (now - self.unit).max(guava.next_free + turn.low) - next,
            high: now.max(guava.next_free + turn.high) - next,
        };
        let warmth = guava.cold_at() - next;
        let warmer = (cold_at - after).map(|more| (warmth + more).max(0.0) - warmth.max(0.0));
        self.restart(after, warmer);
    }

    /// The request of `now` is charged. `guava` has not charged it yet.
    pub(crate) fn charge(&mut self, guava: &Guava, permits: f64, now: f64) {
        let warmth = guava.warmth(now);
        let rise = permits * guava.cool_down_interval;
        let ramp = guava.ramp();
        // The part of the ramp that the charge takes. A warmer key takes less.
        let taken = |more: f64| {
            let left = ramp - warmth - more;
            left.max(0.0) - (left - rise).max(0.0)
        };
        let steepness = guava.slope / guava.cool_down_interval.powi(2);
        let slope = Interval {
            low: steepness * taken(self.warmth.high),
            high: steepness * taken(self.warmth.low),
        };
        self.slopes = self.slopes + slope;
        self.rounding = self.rounding + Interval { low: 0.0, high: self.unit };
        let capped = |more: f64| (warmth + rise + more).min(guava.period());
        if warmth + rise + self.warmth.high > guava.period() {
            let (turn, without) = (self.turn(), capped(0.0));
            self.restart(turn, self.warmth.map(|more| capped(more) - without));
        }
    }
}
