//! The rules that decide requests: those of a file, which are followed, or built-in ones.

mod follow;
mod gate;
mod metrics;
mod mistakes;
mod pace;
mod request_view;

pub(crate) use self::follow::{RulesFollower, follow};
pub(crate) use self::gate::RulesGate;
pub(crate) use self::metrics::write;
pub(crate) use self::pace::PaceSlot;
