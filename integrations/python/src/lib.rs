//! The extension module of the Python package `tollgate`.
//!
//! | file | what Python sees |
//! |---|---|
//! | `limiter.rs` | `Limiter`, over the kinds of limiter in `gate.rs` |
//! | `decision.rs` | `Decision` |
//! | `waiting.rs` | `Waiter`, one caller in the queue (`queue.rs`), for a thread or for asyncio |
//! | `counts.rs` | `WindowCounts`, what the storage for the package `limits` counts with |
//! | `options.rs` | the keyword arguments that choose a table |
//!
//! The interpreter lock is held while a decision is made, which takes tens of nanoseconds. It is
//! released while a thread waits. The module asks for the lock (`gil_used`), since a fork is safe by it
//! (`queue.rs`): a free-threaded interpreter switches it on when it imports the module.

mod counts;
mod decision;
mod gate;
mod limiter;
mod options;
mod queue;
mod waiting;

use pyo3::pymodule;

/// The module, `tollgate._tollgate`.
#[pymodule(gil_used = true)]
mod _tollgate {
    #[pymodule_export]
    use super::counts::WindowCounts;
    #[pymodule_export]
    use super::decision::Decision;
    #[pymodule_export]
    use super::limiter::Limiter;
    #[pymodule_export]
    use super::waiting::Waiter;
}
