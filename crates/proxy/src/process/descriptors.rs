//! Divides the open files of the process between connections and everything else.

use anyhow::{Result, ensure};

/// The smallest and largest reserve of files that are not connections of clients or to the upstream:
/// standard streams, listeners, the runtime, the rules file, stores, and `/metrics`.
const RESERVE: (u64, u64) = (64, 512);
/// A proxy with room for fewer clients does not start.
const CLIENTS_MIN: u64 = 8;
/// The assumed limit if the system sets or reports none.
const FILES_DEFAULT: u64 = 1 << 20;

/// The connections at one time that fit the limit of open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionBudget {
    /// The limit of open files.
    pub(crate) files: u64,
    pub(crate) clients: u32,
    pub(crate) upstream: usize,
}

impl ConnectionBudget {
    /// Raises the limit of open files as far as possible, and divides it. At most `clients_wanted` are for
    /// clients. Both ends of a connection to the built-in upstream are in this process.
    pub(crate) fn claim(clients_wanted: u32, is_upstream_built_in: bool) -> Result<Self> {
        Self::divide(raise(), clients_wanted, is_upstream_built_in)
    }

    fn divide(files: u64, clients_wanted: u32, is_upstream_built_in: bool) -> Result<Self> {
        ensure!(clients_wanted > 0, "max_connections is 0, so no client could connect");
        let upstream_each = if is_upstream_built_in { 2 } else { 1 };
        let usable = files.saturating_sub((files / 4).clamp(RESERVE.0, RESERVE.1));
        // Each connection has a request in flight, with one connection to the upstream. HTTP/2 connections may have
        // more. Those of one address are bounded; beyond that, requests wait for a connection to the upstream.
        let clients = usable / (1 + upstream_each);
        let min = RESERVE.0 + CLIENTS_MIN * (1 + upstream_each);
        ensure!(
            clients >= CLIENTS_MIN,
            "only {files} files may be open, and at least {min} are needed: raise the limit (`ulimit \
             -n`, or LimitNOFILE of systemd)"
        );
        let clients = u32::try_from(clients).unwrap_or(u32::MAX).min(clients_wanted);
        let upstream = (usable - u64::from(clients)) / upstream_each;
        Ok(Self { files, clients, upstream: usize::try_from(upstream).unwrap_or(usize::MAX) })
    }
}

/// Raises the soft limit to the hard limit, and returns the result.
#[cfg(unix)]
fn raise() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: before.maximum, maximum: before.maximum };
    // If this fails, the soft limit stays as it is.
    let _ = setrlimit(Resource::Nofile, raised);
    getrlimit(Resource::Nofile).current.unwrap_or(FILES_DEFAULT).min(FILES_DEFAULT)
}

#[cfg(not(unix))]
fn raise() -> u64 {
    FILES_DEFAULT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_never_need_more_files_than_the_limit() {
        for files in (88..5_000).chain([20_000, 1 << 20]) {
            for (is_built_in, each) in [(false, 1), (true, 2)] {
                for wanted in [1, 100, 10_000, 1_000_000] {
                    let budget =
                        ConnectionBudget::divide(files, wanted, is_built_in).expect("enough");
                    let needed = u64::from(budget.clients) + budget.upstream as u64 * each;
                    assert!(needed + RESERVE.0 <= files, "{budget:?}");
                    assert!(budget.clients <= wanted && budget.clients >= 1, "{budget:?}");
                    assert!(budget.upstream >= budget.clients as usize, "{budget:?}");
                }
            }
        }
    }

    #[test]
    fn the_wanted_number_of_clients_is_given_if_there_are_files() {
        let budget = ConnectionBudget::divide(1 << 20, 10_000, false).expect("enough");
        assert_eq!(budget.clients, 10_000);
        assert_eq!(ConnectionBudget::divide(200, 10_000, false).expect("enough").clients, 68);
    }

    #[test]
    fn no_clients_at_all_are_an_error() {
        let error = ConnectionBudget::divide(1 << 20, 0, false).expect_err("none").to_string();
        assert!(error.contains("max_connections"), "{error}");
    }

    #[test]
    fn too_few_files_are_an_error_with_the_number_needed() {
        let error = ConnectionBudget::divide(79, 1, false).expect_err("too few").to_string();
        assert!(error.contains("only 79 files") && error.contains("at least 80"), "{error}");
        assert!(ConnectionBudget::divide(80, 1, false).is_ok());
        assert!(
            ConnectionBudget::divide(87, 1, true).is_err()
                && ConnectionBudget::divide(88, 1, true).is_ok()
        );
    }
}
