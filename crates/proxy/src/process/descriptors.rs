//! How many files the process may open, and how many of them are for connections.

use anyhow::{Result, ensure};

/// Kept for what is no connection of a client or to the upstream: standard streams, listeners, the
/// runtime, the rules file, connections to stores and of the administrator. At least and at most.
const RESERVE: (u64, u64) = (64, 512);
/// With fewer clients at a time a proxy is of no use.
const CLIENTS_MIN: u64 = 8;
/// Where the system sets no limit, or does not tell.
const FILES_DEFAULT: u64 = 1 << 20;

/// Connections at one time, for which there are descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionBudget {
    /// Files that may be open.
    pub(crate) files: u64,
    pub(crate) clients: u32,
    pub(crate) upstream: usize,
}

impl ConnectionBudget {
    /// Raises the limit of open files as far as the system lets it, and divides it. `clients_wanted`
    /// is the most that there may be; of the built-in upstream both ends are in this process.
    pub(crate) fn claim(clients_wanted: u32, is_upstream_built_in: bool) -> Result<Self> {
        Self::divide(raise(), clients_wanted, is_upstream_built_in)
    }

    fn divide(files: u64, clients_wanted: u32, is_upstream_built_in: bool) -> Result<Self> {
        let upstream_each = if is_upstream_built_in { 2 } else { 1 };
        let usable = files.saturating_sub((files / 4).clamp(RESERVE.0, RESERVE.1));
        // Each client may have a request under way, and that a connection of its own.
        let clients = usable / (1 + upstream_each);
        let least = RESERVE.0 + CLIENTS_MIN * (1 + upstream_each);
        ensure!(
            clients >= CLIENTS_MIN,
            "only {files} files may be open, and at least {least} are needed: raise the limit \
             (`ulimit -n`, or LimitNOFILE of systemd)"
        );
        let clients = u32::try_from(clients).unwrap_or(u32::MAX).min(clients_wanted);
        let upstream = (usable - u64::from(clients)) / upstream_each;
        Ok(Self { files, clients, upstream: usize::try_from(upstream).unwrap_or(usize::MAX) })
    }
}

/// Raises the soft limit to the hard one; what it is then.
#[cfg(unix)]
fn raise() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: before.maximum, maximum: before.maximum };
    // Where even the hard limit may not be had, the soft one stays.
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
    fn connections_never_need_more_files_than_may_be_open() {
        for files in (88..5_000).chain([20_000, 1 << 20]) {
            for (is_built_in, each) in [(false, 1), (true, 2)] {
                for wanted in [1, 100, 10_000, 1_000_000] {
                    let budget = ConnectionBudget::divide(files, wanted, is_built_in).expect("enough");
                    let needed = u64::from(budget.clients) + budget.upstream as u64 * each;
                    assert!(needed + RESERVE.0 <= files, "{budget:?}");
                    assert!(budget.clients <= wanted && budget.clients >= 1, "{budget:?}");
                    assert!(budget.upstream >= budget.clients as usize, "{budget:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_wanted_is_had_where_there_are_files_for_it() {
        let budget = ConnectionBudget::divide(1 << 20, 10_000, false).expect("enough");
        assert_eq!(budget.clients, 10_000);
        assert_eq!(ConnectionBudget::divide(200, 10_000, false).expect("enough").clients, 68);
    }

    #[test]
    fn too_few_files_are_an_error_that_says_how_many_are_needed() {
        let error = ConnectionBudget::divide(79, 1, false).expect_err("too few").to_string();
        assert!(error.contains("only 79 files") && error.contains("at least 80"), "{error}");
        assert!(ConnectionBudget::divide(80, 1, false).is_ok());
        assert!(ConnectionBudget::divide(87, 1, true).is_err() && ConnectionBudget::divide(88, 1, true).is_ok());
    }
}
