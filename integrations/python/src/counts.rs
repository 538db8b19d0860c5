//! Counts in windows of one length, for the storage of the package `limits`.
//!
//! A window of a key opens with its first cell. The table is one of `FixedWindow::anchored` whose limit is the
//! largest that there is, so that it counts what is beyond the caller's limit too, as that package does.

use std::path::PathBuf;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tollgate::clock::MonotonicClock;
use tollgate::{Decision, FixedWindow, Limiter, OnFull, Quota};

use crate::options::{self, File, key_bytes, value_error};

/// The largest count, so that a window of a second has no more than 10^9 cells, which quotas have at most.
const COUNT_MAX: u64 = (1 << 29) - 1;
/// The count that is reported for a key whose window is full, or that finds no slot: above every limit.
const COUNT_BEYOND: u64 = COUNT_MAX + 1;
/// A quota has at least one cell in so many seconds: 366 days.
const CELL_SECS_MAX: u64 = 366 * 24 * 3_600;

#[derive(Debug)]
enum Table {
    Own(Limiter<[u8], FixedWindow>),
    Shared(Limiter<[u8], FixedWindow, MonotonicClock>),
}

/// Evaluates an expression in which `$table` is the limiter, whatever its clock.
macro_rules! by_clock {
    ($counts:expr, $table:ident => $result:expr) => {
        match &$counts.table {
            Table::Own($table) => $result,
            Table::Shared($table) => $result,
        }
    };
}

/// Counts by key, each for as many seconds as the table says.
#[pyclass(frozen, module = "tollgate")]
#[derive(Debug)]
pub(crate) struct WindowCounts {
    table: Table,
    period: Duration,
}

fn left(decision: &Decision) -> u64 {
    decision.as_ref().map_or_else(tollgate::Denied::remaining, tollgate::Permit::remaining)
}

#[pymethods]
impl WindowCounts {
    #[new]
    #[pyo3(signature = (seconds, *, capacity = 100_000, on_full = None, shared = None, mode = 0o600))]
    fn new(
        #[pyo3(from_py_with = options::seconds)] seconds: u64,
        #[pyo3(from_py_with = options::capacity)] capacity: u64,
        on_full: Option<&Bound<'_, PyAny>>,
        shared: Option<PathBuf>,
        #[pyo3(from_py_with = options::mode)] mode: u32,
    ) -> PyResult<Self> {
        let on_full = options::on_full(on_full)?;
        if let OnFull::SharedOverflow(_) = on_full {
            return Err(PyValueError::new_err(
                "on_full is \"evict\", \"deny\" or \"admit\" here: a storage has no quota of its own",
            ));
        }
        let period = Duration::from_secs(seconds);
        let begun = Limiter::<[u8]>::builder(Quota::new(COUNT_MAX, period))
            .algorithm(FixedWindow::anchored())
            .capacity(capacity)
            .on_full(on_full);
        let table = match File::new(shared, mode) {
            None => Table::Own(begun.build().map_err(value_error)?),
            Some(file) => Table::Shared(begun.build_shared(&file.shared()).map_err(value_error)?),
        };
        Ok(Self { table, period })
    }

    /// Counts cells, whatever any limit, and returns the new count. A count that would be above 2^29 - 1 stays
    /// there until its window ends, and 2^29 is returned.
    fn add(
        &self,
        key: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = options::cells)] cells: u64,
    ) -> PyResult<u64> {
        let key = &*key_bytes(key)?;
        by_clock!(self, table => match table.check_n(key, cells) {
            Ok(permit) => Ok(permit.limit() - permit.remaining()),
            Err(_) => {
                let _ = table.ask(key).cells(cells).charge();
                Ok(COUNT_BEYOND)
            }
        })
    }

    /// Counts cells if the count is then at most `limit`.
    fn add_within(
        &self,
        key: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = options::cells)] cells: u64,
        #[pyo3(from_py_with = options::limit)] limit: u64,
    ) -> PyResult<bool> {
        let key = &*key_bytes(key)?;
        if cells == 0 || limit == 0 {
            return Ok(cells == 0);
        }
        // A count never reaches a limit above the largest count.
        let limit = limit.min(COUNT_MAX);
        // Cells that a quota needs in addition to be one. They are charged and refunded.
        let more = self.period.as_secs().div_ceil(CELL_SECS_MAX).saturating_sub(limit);
        by_clock!(self, table => {
            let plan = table.plan(Quota::new(limit + more, self.period)).map_err(value_error)?;
            let ask = table.ask(key).cells(cells.saturating_add(more)).plan(&plan);
            Ok(match more {
                0 => ask.allow(),
                _ => ask.reserve().map(|reserved| reserved.settle(cells)).is_ok(),
            })
        })
    }

    /// The count, and the seconds until the window ends; 0 and 0 without a window.
    fn get(&self, key: &Bound<'_, PyAny>) -> PyResult<(u64, f64)> {
        let key = &*key_bytes(key)?;
        let decision = by_clock!(self, table => table.ask(key).cells(0).peek());
        let reset_after = match &decision {
            Ok(permit) => permit.reset_after(),
            Err(denied) => denied.reset_after(),
        };
        Ok((COUNT_MAX - left(&decision), reset_after.as_secs_f64()))
    }

    /// Whether the key has a count, or would find a slot for one without an eviction.
    fn finds_slot(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = &*key_bytes(key)?;
        Ok(by_clock!(self, table => table.ask(key).finds_slot()))
    }

    /// Forgets the key.
    fn clear(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let key = &*key_bytes(key)?;
        by_clock!(self, table => table.reset(key));
        Ok(())
    }

    /// About how many keys have a count.
    fn live_keys(&self) -> usize {
        by_clock!(self, table => table.len())
    }
}
