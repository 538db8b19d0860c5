//! The class `Limiter`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use pyo3::prelude::*;
use tollgate::Quota;

use crate::decision::Decision;
use crate::gate::{Choices, Gate};
use crate::options::{self, File, key_bytes, value_error};
use crate::waiting::{Request, Waiter, Waiting};

/// A limiter that gives every key a bucket of its own, in fixed memory.
#[pyclass(frozen, subclass, module = "tollgate")]
#[derive(Debug)]
pub(crate) struct Limiter {
    gate: Gate,
    quota: Quota,
    algorithm: String,
}

impl Limiter {
    fn waiting(&self, key: &[u8], cells: u64, timeout: Option<Duration>) -> Waiting {
        self.gate.wait(Request { key: key.into(), cells, timeout })
    }
}

#[pymethods]
impl Limiter {
    #[new]
    #[pyo3(signature = (quota, *, algorithm = "gcra", capacity = 100_000, on_full = None, shared = None,
                        mode = 0o600, max_waiters = 1_024))]
    fn new(
        quota: &str,
        algorithm: &str,
        #[pyo3(from_py_with = options::capacity)] capacity: u64,
        on_full: Option<&Bound<'_, PyAny>>,
        shared: Option<PathBuf>,
        #[pyo3(from_py_with = options::mode)] mode: u32,
        #[pyo3(from_py_with = options::max_waiters)] max_waiters: usize,
    ) -> PyResult<Self> {
        let quota = options::quota(quota)?;
        let choices = Choices {
            quota,
            algorithm: algorithm.parse().map_err(value_error)?,
            capacity,
            on_full: options::on_full(on_full)?,
            file: File::new(shared, mode),
            max_waiters,
        };
        Ok(Self { gate: Gate::build(&choices)?, quota, algorithm: algorithm.to_owned() })
    }

    /// Charges the cells to the key if they are there, all or none.
    #[pyo3(signature = (key, cost = 1))]
    fn check(
        &self,
        key: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = options::cost)] cost: u64,
    ) -> PyResult<Decision> {
        Ok(Decision::new(self.gate.check(&key_bytes(key)?, cost)))
    }

    /// The same, answered by True or False.
    #[pyo3(signature = (key, cost = 1))]
    fn allow(
        &self,
        key: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = options::cost)] cost: u64,
    ) -> PyResult<bool> {
        Ok(self.gate.allow(&key_bytes(key)?, cost))
    }

    /// Answers as `check` would, and charges nothing.
    #[pyo3(signature = (key, cost = 1))]
    fn peek(
        &self,
        key: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = options::cost)] cost: u64,
    ) -> PyResult<Decision> {
        Ok(Decision::new(self.gate.peek(&key_bytes(key)?, cost)))
    }

    /// Whether the key has a slot, or would find one without an eviction.
    fn finds_slot(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.gate.finds_slot(&key_bytes(key)?))
    }

    /// Forgets what was charged to the key.
    fn reset(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        self.gate.reset(&key_bytes(key)?);
        Ok(())
    }

    /// Blocks until the cells have been charged, first come, first served, and returns the seconds that it
    /// took. Other threads of the interpreter run meanwhile.
    #[pyo3(signature = (key, cost = 1, timeout = None))]
    fn wait(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = options::cost)] cost: u64,
        #[pyo3(from_py_with = options::timeout)] timeout: Option<Duration>,
    ) -> PyResult<f64> {
        self.waiting(&key_bytes(key)?, cost, timeout).block(py)
    }

    /// A caller in the queue, for `wait_async`.
    #[pyo3(signature = (key, cost = 1, timeout = None))]
    fn _waiter(
        &self,
        key: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = options::cost)] cost: u64,
        #[pyo3(from_py_with = options::timeout)] timeout: Option<Duration>,
    ) -> PyResult<Waiter> {
        Ok(Waiter::new(self.waiting(&key_bytes(key)?, cost, timeout)))
    }

    /// About how many keys owe anything now.
    fn live_keys(&self) -> usize {
        self.gate.live_keys()
    }

    /// Counts of keys that found no slot, by their outcome, and of claimed slots.
    fn stats(&self) -> BTreeMap<&'static str, u64> {
        let stats = self.gate.stats();
        BTreeMap::from([
            ("claimed", stats.claimed),
            ("evicted", stats.evicted),
            ("denied_full", stats.denied_full),
            ("admitted_full", stats.admitted_full),
            ("overflowed", stats.overflowed),
        ])
    }

    /// The bytes that the table takes.
    #[getter]
    fn memory_bytes(&self) -> usize {
        self.gate.memory_bytes()
    }

    /// The quota as a text.
    #[getter]
    fn quota(&self) -> String {
        self.quota.to_string()
    }

    /// The cells of the quota in one period.
    #[getter]
    fn limit(&self) -> u64 {
        self.quota.limit()
    }

    /// The period of the quota in seconds.
    #[getter]
    fn period(&self) -> f64 {
        self.quota.period().as_secs_f64()
    }

    #[getter]
    fn algorithm(&self) -> &str {
        &self.algorithm
    }

    fn __repr__(&self) -> String {
        format!("Limiter(\"{}\", algorithm=\"{}\")", self.quota, self.algorithm)
    }
}
