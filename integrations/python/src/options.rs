//! Keyword arguments and keys: values of Python become choices of the library, or a `ValueError` that says
//! what to write instead.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use tollgate::shared::Shared;
use tollgate::{OnFull, Quota};

/// A `ValueError` with the text of an error of the library.
pub(crate) fn value_error(error: impl core::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A whole number from 0 to `max`. Any other is a `ValueError` that says to give `form`.
fn whole(value: &Bound<'_, PyAny>, name: &str, max: u64, form: &str) -> PyResult<u64> {
    match value.extract::<u64>() {
        Ok(number) if number <= max => Ok(number),
        Err(error) if !error.is_instance_of::<PyOverflowError>(value.py()) => Err(error),
        _ => Err(value_error(format!("{name} is {value}: give {form}"))),
    }
}

/// The functions by which arguments that are whole numbers are read.
macro_rules! whole_numbers {
    ($($name:ident: $number:ty, at most $max:expr, $form:expr;)*) => {$(
        pub(crate) fn $name(value: &Bound<'_, PyAny>) -> PyResult<$number> {
            let number = whole(value, stringify!($name), $max, $form)?;
            Ok(<$number>::try_from(number).expect("no more than the type holds"))
        }
    )*};
}

const BELOW_2_64: &str = "a whole number, 0 or more and below 2^64";

whole_numbers! {
    cost: u64, at most u64::MAX, BELOW_2_64;
    cells: u64, at most u64::MAX, BELOW_2_64;
    limit: u64, at most u64::MAX, BELOW_2_64;
    seconds: u64, at most u64::MAX, BELOW_2_64;
    capacity: u64, at most u64::MAX, BELOW_2_64;
    max_waiters: usize, at most u64::from(u32::MAX), "a whole number, 0 or more and below 2^32";
    mode: u32, at most 0o777, "permissions up to 0o777, such as 0o600";
}

/// The bytes of a key. A `str` is the same key as its UTF-8 bytes. A surrogate that is not part of a pair, which a
/// client can put into JSON, has no UTF-8: it is encoded as UTF-8 would encode its number.
pub(crate) fn key_bytes<'a>(key: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, [u8]>> {
    if let Ok(text) = key.cast::<PyString>() {
        return match text.to_str() {
            Ok(text) => Ok(Cow::Borrowed(text.as_bytes())),
            Err(_) => {
                let encoded = text.call_method1("encode", ("utf-8", "surrogatepass"))?;
                Ok(Cow::Owned(encoded.extract()?))
            }
        };
    }
    match key.cast::<PyBytes>() {
        Ok(bytes) => Ok(Cow::Borrowed(bytes.as_bytes())),
        Err(_) => Err(PyTypeError::new_err(format!(
            "a key is a str or bytes, not {}: use str(key)",
            key.get_type().name()?
        ))),
    }
}

/// `"evict"`, `"deny"`, `"admit"` or `{"shared": "1000/s"}`, as in a rules file.
pub(crate) fn on_full(choice: Option<&Bound<'_, PyAny>>) -> PyResult<OnFull> {
    let Some(choice) = choice else { return Ok(OnFull::default()) };
    if let Ok(quota) = choice.get_item("shared").and_then(|quota| quota.extract::<String>()) {
        return Ok(OnFull::SharedOverflow(self::quota(&quota)?));
    }
    match choice.extract::<String>().as_deref() {
        Ok("evict") => Ok(OnFull::EvictNearestIdle),
        Ok("deny") => Ok(OnFull::Deny),
        Ok("admit") => Ok(OnFull::Admit),
        _ => Err(PyValueError::new_err(format!(
            "on_full is \"evict\", \"deny\", \"admit\" or {{\"shared\": \"1000/s\"}}, not {}",
            choice.repr()?
        ))),
    }
}

pub(crate) fn quota(text: &str) -> PyResult<Quota> {
    text.parse().map_err(|error| value_error(format!("quota {text:?}: {error}")))
}

/// The file of a shared table.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) mode: u32,
}

impl File {
    pub(crate) fn new(path: Option<PathBuf>, mode: u32) -> Option<Self> {
        path.map(|path| Self { path, mode })
    }

    pub(crate) fn shared(&self) -> Shared {
        Shared::file(&self.path).mode(self.mode)
    }
}

/// A span in seconds; `None` or infinity: any.
pub(crate) fn timeout(value: &Bound<'_, PyAny>) -> PyResult<Option<Duration>> {
    let secs = match value.extract::<Option<f64>>() {
        // No float is so large.
        Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => {
            Some(if value.lt(0)? { f64::NEG_INFINITY } else { f64::INFINITY })
        }
        secs => secs?,
    };
    match secs {
        None => Ok(None),
        Some(secs) if secs.is_nan() || secs < 0.0 => {
            Err(value_error(format!("timeout is {value}: give seconds, 0 or more, or None")))
        }
        // Too long a span is any span.
        Some(secs) => Ok(Duration::try_from_secs_f64(secs).ok()),
    }
}
