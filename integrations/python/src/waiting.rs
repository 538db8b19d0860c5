//! Waiting for one's turn: by a thread, which releases the interpreter lock, or by a task of asyncio.
//!
//! Both poll the library's future. Between polls a thread is parked and a task sleeps, until the turn that the
//! queue told, or until the queue wakes it because its turn has become earlier.
//!
//! The queue calls wakers after it has released its lock. So a waker may wait for the interpreter lock, and a
//! thread that holds the interpreter lock may wait for the queue's.
//!
//! After a `fork`, a wait that the parent has begun is the parent's. In the child it fails, and to drop it changes
//! nothing: the queue's lock may be held for ever there, and a refund would be one of the parent's charge.

#![allow(clippy::disallowed_types, reason = "no decision takes the lock")]

use std::fmt;
use std::future::{Future, Pending, pending};
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyTimeoutError};
use pyo3::prelude::*;
use tollgate::wait::{WaitError, Waited};
use tollgate::{Clock, Tick};

use crate::options::value_error;

/// A thread that waits looks for signals (Ctrl-C) this often.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);
/// A caller that woke before its turn does not poll again at once.
const SLEEP_MIN: Duration = Duration::from_micros(50);

pub(crate) type Outcome = Result<Waited, WaitError>;

/// A caller's request: cells of a key, and the longest wait for them.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) key: Box<[u8]>,
    pub(crate) cells: u64,
    /// `None`: any.
    pub(crate) timeout: Option<Duration>,
}

/// The turn that the queue told last, by the limiter's clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turn(Arc<Mutex<Tick>>);

impl Turn {
    /// Notes a turn in `span`. Returns a sleep that never ends, because the caller sleeps itself before it polls.
    pub(crate) fn note(&self, span: Duration, clock: &impl Clock) -> Pending<()> {
        *lock(&self.0) = clock.now().saturating_add(span);
        pending()
    }

    pub(crate) fn after(&self, now: Tick) -> Duration {
        lock(&self.0).since(now)
    }
}

type Wait = Pin<Box<dyn Future<Output = Outcome> + Send>>;
type UntilTurn = Box<dyn Fn() -> Duration + Send>;

/// A caller in the queue, which it joins with its first poll. If it is dropped, it leaves the queue, and the
/// key is as if it had never come.
pub(crate) struct Waiting {
    /// The process that has begun it.
    process: u32,
    /// `None` while it is dropped.
    wait: Option<Wait>,
    /// How long it is until the turn that the queue told last.
    until_turn: UntilTurn,
}

impl Waiting {
    pub(crate) fn new(wait: Wait, until_turn: UntilTurn) -> Self {
        Self { process: std::process::id(), wait: Some(wait), until_turn }
    }

    fn is_of_this_process(&self) -> bool {
        self.process == std::process::id()
    }

    fn poll(&mut self, waker: &Waker) -> PyResult<Result<Outcome, Duration>> {
        let is_own = self.is_of_this_process();
        let Some(wait) = self.wait.as_mut().filter(|_| is_own) else {
            let why = "another process has begun this wait, and forked: wait again";
            return Err(PyRuntimeError::new_err(why));
        };
        Ok(match wait.as_mut().poll(&mut Context::from_waker(waker)) {
            Poll::Ready(outcome) => Ok(outcome),
            Poll::Pending => Err((self.until_turn)().max(SLEEP_MIN)),
        })
    }

    /// Blocks the thread until its turn, without the interpreter lock.
    pub(crate) fn block(mut self, py: Python<'_>) -> PyResult<f64> {
        let waker = Waker::from(Arc::new(Parked(thread::current())));
        loop {
            let outcome = py.detach(|| {
                let polled = self.poll(&waker)?;
                Ok::<_, PyErr>(
                    polled.inspect_err(|span| thread::park_timeout((*span).min(SIGNALS_EVERY))),
                )
            });
            match outcome? {
                Ok(outcome) => return waited_secs(outcome),
                Err(_) => py.check_signals()?,
            }
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.is_of_this_process() {
            mem::forget(self.wait.take());
        }
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").finish_non_exhaustive()
    }
}

/// The seconds that were waited. A request that never fits is a `ValueError`, one that cannot have its turn in
/// time a `TimeoutError`.
fn waited_secs(outcome: Outcome) -> PyResult<f64> {
    match outcome {
        Ok(waited) => Ok(waited.waited().as_secs_f64()),
        Err(error @ WaitError::NeverFits { .. }) => Err(value_error(error)),
        Err(error) => Err(PyTimeoutError::new_err(error.to_string())),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Unparks a thread.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Calls a function of Python.
struct Call(Py<PyAny>);

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        // It fails if the loop is closed. Then no task waits any more.
        Python::attach(|py| drop(self.0.call0(py)));
    }
}

/// One caller in the queue, for `Limiter.wait_async`.
#[pyclass(frozen, module = "tollgate")]
#[derive(Debug)]
pub(crate) struct Waiter(Mutex<Option<Waiting>>);

impl Waiter {
    pub(crate) fn new(waiting: Waiting) -> Self {
        Self(Mutex::new(Some(waiting)))
    }
}

#[pymethods]
impl Waiter {
    /// Returns the seconds to sleep, as `(False, seconds)`, or that were waited, as `(True, seconds)`. `wake` is
    /// called, by any thread, if the turn becomes earlier.
    fn poll(&self, wake: Py<PyAny>) -> PyResult<(bool, f64)> {
        // Not locked meanwhile: a poll may wake others, which runs code of Python.
        let Some(mut waiting) = lock(&self.0).take() else {
            return Err(PyRuntimeError::new_err("the wait is over: begin another"));
        };
        match waiting.poll(&Waker::from(Arc::new(Call(wake))))? {
            Ok(outcome) => Ok((true, waited_secs(outcome)?)),
            Err(span) => {
                *lock(&self.0) = Some(waiting);
                Ok((false, span.as_secs_f64()))
            }
        }
    }

    /// Leaves the queue. A wait that is over stays as it is.
    fn leave(&self) {
        let waiting = lock(&self.0).take();
        drop(waiting);
    }
}
