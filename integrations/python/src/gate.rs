//! The kinds of limiter behind one Python class.

use std::sync::Arc;

use pyo3::prelude::*;
use tollgate::clock::MonotonicClock;
use tollgate::stats::Stats;
use tollgate::{AnyAlgorithm, Clock, Gcra, Limiter, OnFull, Quota};

use crate::options::{File, value_error};
use crate::queue::ProcessQueue;
use crate::waiting::{Request, Turn, Waiting};

type Queue<A> = ProcessQueue<Limiter<[u8], A>>;
type SharedQueue<A> = ProcessQueue<Limiter<[u8], A, MonotonicClock>>;

/// The options of a limiter.
#[derive(Debug)]
pub(crate) struct Choices {
    pub(crate) quota: Quota,
    pub(crate) algorithm: AnyAlgorithm,
    pub(crate) capacity: u64,
    pub(crate) on_full: OnFull,
    pub(crate) file: Option<File>,
    pub(crate) max_waiters: usize,
}

/// A limiter and the queue of its waiters. A token bucket is a kind of its own, since only its waiters are
/// charged ahead of their turn.
#[derive(Debug)]
pub(crate) enum Gate {
    Gcra(Queue<Gcra>),
    Any(Queue<AnyAlgorithm>),
    SharedGcra(SharedQueue<Gcra>),
    SharedAny(SharedQueue<AnyAlgorithm>),
}

/// Evaluates an expression in which `$queue` is the queue, whatever its type.
macro_rules! by_kind {
    ($gate:expr, $queue:ident => $result:expr) => {
        match $gate {
            Gate::Gcra($queue) => $result,
            Gate::Any($queue) => $result,
            Gate::SharedGcra($queue) => $result,
            Gate::SharedAny($queue) => $result,
        }
    };
}

impl Gate {
    pub(crate) fn build(choices: &Choices) -> PyResult<Self> {
        let Choices { quota, algorithm, capacity, on_full, file, max_waiters } = choices;
        let begun = || Limiter::<[u8]>::builder(*quota).capacity(*capacity).on_full(*on_full);
        macro_rules! queue {
            ($built:expr) => {
                ProcessQueue::new($built.map_err(value_error)?, *max_waiters)
            };
        }
        Ok(match (algorithm, file.as_ref().map(File::shared)) {
            (AnyAlgorithm::Gcra(gcra), None) => {
                Self::Gcra(queue!(begun().algorithm(*gcra).build()))
            }
            (AnyAlgorithm::Gcra(gcra), Some(shared)) => {
                Self::SharedGcra(queue!(begun().algorithm(*gcra).build_shared(&shared)))
            }
            (any, None) => Self::Any(queue!(begun().algorithm(*any).build())),
            (any, Some(shared)) => {
                Self::SharedAny(queue!(begun().algorithm(*any).build_shared(&shared)))
            }
        })
    }

    pub(crate) fn check(&self, key: &[u8], cells: u64) -> tollgate::Decision {
        by_kind!(self, queue => queue.limiter().ask(key).cells(cells).check())
    }

    pub(crate) fn allow(&self, key: &[u8], cells: u64) -> bool {
        by_kind!(self, queue => queue.limiter().ask(key).cells(cells).allow())
    }

    pub(crate) fn peek(&self, key: &[u8], cells: u64) -> tollgate::Decision {
        by_kind!(self, queue => queue.limiter().ask(key).cells(cells).peek())
    }

    pub(crate) fn finds_slot(&self, key: &[u8]) -> bool {
        by_kind!(self, queue => queue.limiter().ask(key).finds_slot())
    }

    pub(crate) fn reset(&self, key: &[u8]) {
        by_kind!(self, queue => {
            queue.limiter().reset(key);
            queue.of_this_process().wake_all();
        });
    }

    pub(crate) fn live_keys(&self) -> usize {
        by_kind!(self, queue => queue.limiter().len())
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        by_kind!(self, queue => queue.limiter().memory_bytes())
    }

    pub(crate) fn stats(&self) -> Stats {
        by_kind!(self, queue => queue.limiter().stats())
    }

    /// Prepares a wait, whose time begins with the first poll.
    pub(crate) fn wait(&self, request: Request) -> Waiting {
        let Request { key, cells, timeout } = request;
        let turn = Turn::default();
        let told = turn.clone();
        by_kind!(self, queue => {
            let (queue, limiter) = (queue.of_this_process(), Arc::clone(queue.limiter()));
            let until_turn = Box::new(move || told.after(limiter.clock().now()));
            let future = Box::pin(async move {
                let ask = queue.ask(&*key).cells(cells);
                let ask = match timeout {
                    Some(timeout) => ask.max_delay(timeout),
                    None => ask,
                };
                ask.wait_async(|span| turn.note(span, queue.limiter().clock())).await
            });
            Waiting::new(future, until_turn)
        })
    }
}
