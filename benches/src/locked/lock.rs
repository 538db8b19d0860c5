//! The kinds of lock.

#![allow(clippy::disallowed_types, reason = "a lock is what is measured")]

use std::fmt::Debug;

/// A lock around a value.
pub trait Lock<T>: Send + Sync + Debug {
    /// An unlocked lock around `value`.
    fn new(value: T) -> Self;

    /// Runs `act` on the value, with the lock held.
    fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R;
}

/// A kind of lock.
pub trait Kind: Debug + 'static {
    /// The lock of this kind around a value.
    type Of<T: Send + Debug>: Lock<T>;
    /// The name in tables.
    const NAME: &str;
}

/// [`std::sync::Mutex`].
#[derive(Clone, Copy, Debug)]
pub struct Std;

impl Kind for Std {
    type Of<T: Send + Debug> = std::sync::Mutex<T>;
    const NAME: &str = "std Mutex";
}

impl<T: Send + Debug> Lock<T> for std::sync::Mutex<T> {
    fn new(value: T) -> Self {
        Self::new(value)
    }

    #[inline]
    fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        act(&mut self.lock().expect("no panic"))
    }
}

/// [`parking_lot::Mutex`].
#[derive(Clone, Copy, Debug)]
pub struct ParkingLot;

impl Kind for ParkingLot {
    type Of<T: Send + Debug> = parking_lot::Mutex<T>;
    const NAME: &str = "parking_lot Mutex";
}

impl<T: Send + Debug> Lock<T> for parking_lot::Mutex<T> {
    fn new(value: T) -> Self {
        Self::new(value)
    }

    #[inline]
    fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        act(&mut self.lock())
    }
}
