//! The rules that decide requests: those of a file, which are followed, or built-in ones.

mod figures;
mod follow;
mod gate;
mod request_view;

pub(crate) use self::figures::write;
pub(crate) use self::follow::{RulesFollower, follow};
pub(crate) use self::gate::RulesGate;
