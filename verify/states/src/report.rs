//! Checks a model, and prints the number of states.

use core::hash::Hash;

use stateright::{Checker, Model};

/// The property that each model checks.
pub const NEVER_BEYOND: &str = "never beyond the bound";

/// The result of an exploration.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "built by this package's tests")]
pub struct Explored {
    /// Whether some state is beyond the bound.
    pub is_beyond: bool,
    /// The number of different states.
    pub states: usize,
}

/// Explores all states, or until one is beyond the bound.
pub fn explore<M>(name: &str, model: M) -> Explored
where
    M: Model + Send + Sync + 'static,
    M::State: Send + Sync + Hash + core::fmt::Debug + Clone + PartialEq + 'static,
    M::Action: Send + Sync + core::fmt::Debug + Clone + PartialEq + 'static,
{
    let checker = model.checker().threads(2).spawn_bfs().join();
    let found = checker.discovery(NEVER_BEYOND);
    let explored = Explored { is_beyond: found.is_some(), states: checker.unique_state_count() };
    let Some(path) = found else {
        assert!(checker.is_done(), "{name}: not all states were explored");
        println!("leases: {name}: {} states, all within the bound", explored.states);
        return explored;
    };
    let actions = path.into_actions();
    println!("leases: {name}: beyond the bound in {} steps: {actions:?}", actions.len());
    explored
}
