//! A UTC offset that changes while it is in use: daylight saving.

use crate::algo::any::AnyAlgorithm;
use crate::algo::fixed_window::{FixedWindow, check_offset};
use crate::algo::{Algorithm, StateMachine};
use crate::limiter::direct::Direct;
use crate::limiter::{Limiter, WhenFull};
use crate::quota::QuotaError;

impl<K: ?Sized, A: Algorithm, C> Limiter<K, A, C> {
    fn change_utc_offset(&self, seconds: i32) -> Result<(), QuotaError> {
        change(&self.params, seconds)?;
        match &self.when_full {
            WhenFull::Share(shared) => change(&shared.0, seconds),
            WhenFull::Evict | WhenFull::Deny | WhenFull::Admit => Ok(()),
        }
    }
}

fn change(params: &impl StateMachine, seconds: i32) -> Result<(), QuotaError> {
    check_offset(seconds)?;
    match params.set_utc_offset_secs(seconds) {
        true => Ok(()),
        false => Err(QuotaError::UtcOffsetFixed),
    }
}

/// The same methods for the algorithm and for any of several.
macro_rules! with_utc_offset {
    ($($algorithm:ty),*) => {$(
        impl<K: ?Sized, C> Limiter<K, $algorithm, C> {
            /// Changes how many seconds local time is ahead of UTC, as daylight saving does, for all keys
            /// and plans. It takes effect when the present window ends.
            ///
            /// An offset that goes back makes that window longer: a local day has 25 hours. One that goes
            /// forward makes the next one shorter. Whole periods move nothing: windows of a minute go on
            /// as before, also through the hour that local time shows twice.
            ///
            /// **Not guaranteed.** If the offset goes from above the one that the limiter was built with to below it,
            /// the window in force may last up to one period longer than it should. It grants no more.
            ///
            /// A decision that is made at once, by another thread, may still use the old offset. A
            /// snapshot does not have the new offset. Restore it into a limiter that is built with the old offset,
            /// and then change the offset there.
            ///
            /// In shared memory it changes for all processes, and stays in the file. A process that starts later
            /// is built with the offset that the file was created with, and then decides by the changed one.
            ///
            /// # Errors
            ///
            /// The offset is a day or more, or this limiter has no windows that follow the wall clock.
            ///
            /// ```
            /// # use std::time::Duration;
            /// # use tollgate::{FixedWindow, Limiter, ManualClock, Quota};
            /// const HOUR: Duration = Duration::from_secs(3_600);
            /// let clock = ManualClock::new(); // at 01:00, in a winter of Berlin
            /// let gate: Limiter<str, FixedWindow, _> = Limiter::builder(Quota::per_day(1))
            ///     .algorithm(FixedWindow::aligned().utc_offset_secs(3_600))
            ///     .clock(clock.clone())
            ///     .build()?;
            /// assert_eq!(gate.check("a")?.reset_after(), 23 * HOUR);
            /// gate.set_utc_offset_secs(7_200)?;
            /// clock.advance(23 * HOUR);
            /// // Local time is 01:00 when the day begins. From then on, days begin at midnight.
            /// assert_eq!(gate.check("a")?.reset_after(), 23 * HOUR);
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            pub fn set_utc_offset_secs(&self, seconds: i32) -> Result<(), QuotaError> {
                self.change_utc_offset(seconds)
            }
        }

        impl<C> Direct<$algorithm, C> {
            /// Changes how many seconds local time is ahead of UTC: see
            /// [`Limiter::set_utc_offset_secs`](Limiter::set_utc_offset_secs).
            ///
            /// # Errors
            ///
            /// Those of that method.
            ///
            /// ```
            /// # use tollgate::{Direct, FixedWindow, Quota, QuotaError};
            /// let quota = Quota::per_day(5);
            /// let daily = Direct::builder(quota).algorithm(FixedWindow::aligned()).build()?;
            /// assert_eq!(daily.set_utc_offset_secs(-5 * 3_600), Ok(()));
            /// let anchored = Direct::builder(quota).algorithm(FixedWindow::anchored()).build()?;
            /// assert_eq!(anchored.set_utc_offset_secs(0), Err(QuotaError::UtcOffsetFixed));
            /// # Ok::<(), QuotaError>(())
            /// ```
            pub fn set_utc_offset_secs(&self, seconds: i32) -> Result<(), QuotaError> {
                change(self.params(), seconds)
            }
        }
    )*};
}

with_utc_offset!(FixedWindow, AnyAlgorithm);
