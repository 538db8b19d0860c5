//! A test whether two names lead to one file.

#[cfg(unix)]
use std::fs::{Metadata, metadata};

/// Whether both names lead to the same file, by whatever links.
#[cfg(unix)]
pub(crate) fn is_same_file(one: &str, other: &str) -> bool {
    let [one, other] = [one, other].map(metadata);
    one.and_then(|one| Ok(identity(&one) == identity(&other?))).unwrap_or(false)
}

/// Whether both names lead to the same file, by their paths. Hard links are not known here.
#[cfg(not(unix))]
pub(crate) fn is_same_file(one: &str, other: &str) -> bool {
    let [one, other] = [one, other].map(std::fs::canonicalize);
    one.and_then(|one| Ok(one == other?)).unwrap_or(false)
}

/// Whether standard input is read from the file of this name.
#[cfg(unix)]
pub(super) fn is_stdin(name: &str) -> bool {
    use std::os::fd::AsFd;

    let stdin = std::io::stdin().as_fd().try_clone_to_owned();
    let stdin = stdin.and_then(|stdin| std::fs::File::from(stdin).metadata());
    match (stdin, metadata(name)) {
        (Ok(stdin), Ok(other)) => stdin.is_file() && identity(&stdin) == identity(&other),
        _ => false,
    }
}

/// Whether standard input is read from the file of this name: unknown here.
#[cfg(not(unix))]
pub(super) fn is_stdin(_: &str) -> bool {
    false
}

#[cfg(unix)]
fn identity(file: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;

    (file.dev(), file.ino())
}
