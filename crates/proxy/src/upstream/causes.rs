//! The causes of an error.

use std::error::Error;
use std::iter::successors;

/// The causes of an error, the nearest first. The error itself is none of them.
pub(super) fn causes<'e>(
    error: &'e (dyn Error + 'static),
) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    successors(error.source(), |&cause| cause.source())
}
