//! A decision, as Python sees it.

use std::time::Duration;

use pyo3::prelude::*;

/// A decision. It is true if the request was admitted. Spans are seconds.
#[pyclass(frozen, module = "tollgate")]
#[derive(Debug)]
pub(crate) struct Decision(tollgate::Decision);

impl Decision {
    pub(crate) fn new(decision: tollgate::Decision) -> Self {
        Self(decision)
    }
}

#[pymethods]
impl Decision {
    fn __bool__(&self) -> bool {
        self.0.is_ok()
    }

    /// Whether the request was admitted.
    #[getter]
    fn admitted(&self) -> bool {
        self.0.is_ok()
    }

    /// The most cells that the key can spend at once.
    #[getter]
    fn limit(&self) -> u64 {
        match &self.0 {
            Ok(permit) => permit.limit(),
            Err(denied) => denied.limit(),
        }
    }

    /// The whole cells that are left.
    #[getter]
    fn remaining(&self) -> u64 {
        match &self.0 {
            Ok(permit) => permit.remaining(),
            Err(denied) => denied.remaining(),
        }
    }

    /// Seconds until the same request would be admitted: 0.0 if it was, `None` if it never can be.
    #[getter]
    fn retry_after(&self) -> Option<f64> {
        match &self.0 {
            Ok(_) => Some(0.0),
            Err(denied) => denied.retry_after().map(|wait| wait.as_secs_f64()),
        }
    }

    /// Seconds until the key is as if it had never been used.
    #[getter]
    fn reset_after(&self) -> f64 {
        let span = match &self.0 {
            Ok(permit) => permit.reset_after(),
            Err(denied) => denied.reset_after(),
        };
        span.as_secs_f64()
    }

    /// Seconds to wait before the request goes ahead, if the algorithm is "leaky-queue".
    #[getter]
    fn delay(&self) -> f64 {
        self.0.as_ref().map_or(Duration::ZERO, tollgate::Permit::delay).as_secs_f64()
    }

    fn __repr__(&self) -> String {
        let (limit, remaining) = (self.limit(), self.remaining());
        match (&self.0, self.retry_after()) {
            (Ok(_), _) => format!("<Decision admitted, {remaining} of {limit} left>"),
            (_, Some(secs)) => format!("<Decision denied, retry after {secs} s>"),
            (_, None) => {
                format!("<Decision denied, more cells than the {limit} that can ever fit>")
            }
        }
    }
}
