//! Models of the atomic protocols; see `tests/`.
