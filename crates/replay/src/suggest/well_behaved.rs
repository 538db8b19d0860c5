//! The keys that are well-behaved: the keys of a list, or all keys that do not stand out.

use std::collections::HashSet;

use anyhow::{Context, Result, bail};

use super::keys::{Keys, busiest_minute, volume};
use crate::log::charge::{Key, readable};
use crate::words::thousands;

/// Keys above this percentile stand out.
const PERCENTILE: usize = 99;

/// The well-behaved keys of a log.
#[derive(Debug)]
pub(crate) struct WellBehaved {
    /// One flag per key.
    pub(super) is_well_behaved: Vec<bool>,
    pub(crate) count: u64,
    pub(crate) basis: Basis,
}

/// How the well-behaved keys are chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Basis {
    /// By a list. `not_in_log` counts its keys that have no request in the log.
    Listed { not_in_log: u64 },
    /// By the 99th percentiles: a key stands out if it used more cells in its busiest minute, or in
    /// total, than 99 of 100 keys.
    Inferred { minute_cells_max: u64, volume_cells_max: u64 },
}

impl WellBehaved {
    /// Takes all keys that do not stand out.
    pub(super) fn infer(keys: &Keys) -> Self {
        let minutes: Vec<u64> = keys.each().map(busiest_minute).collect();
        let volumes: Vec<u64> = keys.each().map(volume).collect();
        let (minute_cells_max, volume_cells_max) = (percentile(&minutes), percentile(&volumes));
        let is_well_behaved = minutes
            .iter()
            .zip(&volumes)
            .map(|(minute, volume)| *minute <= minute_cells_max && *volume <= volume_cells_max)
            .collect();
        Self::new(is_well_behaved, Basis::Inferred { minute_cells_max, volume_cells_max })
    }

    /// Takes the keys of a list.
    ///
    /// # Errors
    ///
    /// No key of the list is in the log, or in the part of it that is kept.
    pub(super) fn listed(list: &KeyList, keys: &Keys) -> Result<Self> {
        let kept = keys.kept();
        // If the log is empty, no key can be in it.
        if kept.listed == 0 && keys.requests() > 0 {
            bail!(
                "none of the keys in {} is in the log: write one key per line, as --key makes them, \
                 with spaces between the parts",
                list.file
            );
        }
        let is_well_behaved = keys.names().map(|name| list.entry(name).is_some()).collect();
        let not_in_log = (list.keys.len() as u64).saturating_sub(kept.listed);
        let well_behaved = Self::new(is_well_behaved, Basis::Listed { not_in_log });
        if well_behaved.count == 0 && kept.listed > 0 {
            bail!(
                "the keys in {} have requests only among the last {} of the log, which exceed the memory",
                list.file,
                thousands(kept.cut)
            );
        }
        Ok(well_behaved)
    }

    fn new(is_well_behaved: Vec<bool>, basis: Basis) -> Self {
        let count =
            is_well_behaved.iter().filter(|is_well_behaved| **is_well_behaved).count() as u64;
        Self { is_well_behaved, count, basis }
    }
}

/// The keys of a file, one per line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyList {
    file: String,
    keys: HashSet<String>,
}

impl KeyList {
    /// Reads the file, whose lines are values of `key`. Blank lines are ignored.
    pub(crate) fn read(file: &str, key: &Key) -> Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
        let keys: HashSet<String> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .map(|line| key.as_listed(line))
            .collect();
        if keys.is_empty() {
            bail!("there is no key in {file}: write one per line");
        }
        Ok(Self { file: file.to_owned(), keys })
    }

    /// The key of this name, as the list writes it.
    pub(super) fn entry(&self, name: &str) -> Option<&str> {
        let entry = self.keys.get(name).or_else(|| self.keys.get(&readable(name)));
        entry.map(String::as_str)
    }

    #[cfg(test)]
    pub(super) fn of(keys: &[&str]) -> Self {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        Self { file: "good.txt".to_owned(), keys }
    }
}

/// The smallest value that at most 1 in 100 values exceed.
fn percentile(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * PERCENTILE).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::keys::tests::{keys, keys_with};
    use super::*;

    #[test]
    fn a_key_that_stands_out_is_not_well_behaved() {
        let names: Vec<String> = (0..200).map(|key| format!("k{key}")).collect();
        let mut log: Vec<(&str, u64, u64)> =
            names.iter().map(|name| (name.as_str(), 0, 2)).collect();
        log.push(("k7", 1, 50)); // a busy minute
        log.extend((0..9).map(|hour| ("k8", hour * 3_600_000_000_000, 2))); // a large total
        log.sort_by_key(|(_, at, _)| *at);
        let well_behaved = WellBehaved::infer(&keys(&log));
        assert_eq!(well_behaved.count, 198);
        assert_eq!(
            well_behaved.basis,
            Basis::Inferred { minute_cells_max: 2, volume_cells_max: 2 }
        );
        assert!(!well_behaved.is_well_behaved[7] && !well_behaved.is_well_behaved[8]);
    }

    #[test]
    fn all_of_a_few_keys_are_well_behaved() {
        assert_eq!(WellBehaved::infer(&keys(&[("a", 0, 1), ("b", 0, 900)])).count, 2);
        assert_eq!(WellBehaved::infer(&keys(&[])).count, 0);
    }

    #[test]
    fn a_list_decides_alone() {
        let listed = |names: &[&str]| {
            let list = KeyList::of(names);
            let log = [("a", 0, 1), ("b\u{1f}/x", 0, 900), ("c", 0, 1)];
            WellBehaved::listed(&list, &keys_with(Some(&list), &log))
        };
        let well_behaved = listed(&["b /x", "z"]).unwrap();
        assert_eq!(well_behaved.is_well_behaved, [false, true, false]);
        assert_eq!(well_behaved.basis, Basis::Listed { not_in_log: 1 });
        let error = listed(&["y", "z"]).unwrap_err().to_string();
        assert!(error.contains("good.txt") && error.contains("one key per line"), "{error}");
    }
}
