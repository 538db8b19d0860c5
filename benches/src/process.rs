//! Figures that the operating system reports about this process and this machine.

use std::fs;

use crate::processor::Processor;

/// The page size of Linux with the usual kernel.
const PAGE_BYTES: u64 = 4_096;

/// Resident memory of this process in bytes.
///
/// # Panics
///
/// If there is no `/proc`.
#[must_use]
pub fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm.split_ascii_whitespace().nth(1).expect("the second field is resident pages");
    pages.parse::<u64>().expect("a number of pages") * PAGE_BYTES
}

/// The maximum of [`resident_bytes`] so far, in bytes.
#[must_use]
pub fn resident_peak_bytes() -> u64 {
    status_number("/proc/self/status", "VmHWM:") * 1_024
}

/// Memory in bytes that can be allocated without swapping.
///
/// # Panics
///
/// If there is no `/proc`.
#[must_use]
pub fn available_bytes() -> u64 {
    status_number("/proc/meminfo", "MemAvailable:") * 1_024
}

/// How often the system preempted this thread.
#[must_use]
pub fn preemptions() -> u64 {
    status_number("/proc/thread-self/status", "nonvoluntary_ctxt_switches:")
}

fn status_number(path: &str, name: &str) -> u64 {
    let status = fs::read_to_string(path).expect("Linux");
    let line = status.lines().find(|line| line.starts_with(name)).expect("a known name");
    line.split_ascii_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("a number")
}

/// The load average: threads that wanted to run in the last minute.
///
/// # Panics
///
/// If there is no `/proc`.
#[must_use]
pub fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").expect("Linux");
    text.split_whitespace().next().and_then(|first| first.parse().ok()).expect("a number")
}

/// The time that all processors have spent so far, in the system's ticks.
#[derive(Clone, Copy, Debug)]
pub struct Ticks {
    all: u64,
    stolen: u64,
}

/// The time that all processors have spent so far.
///
/// # Panics
///
/// If there is no `/proc`.
#[must_use]
pub fn ticks() -> Ticks {
    Ticks::parse(&fs::read_to_string("/proc/stat").expect("Linux"))
}

impl Ticks {
    /// The first line covers all processors: user, nice, system, idle, iowait, irq, softirq, steal.
    /// The other fields are included in those.
    fn parse(stat: &str) -> Self {
        let fields = stat.lines().next().unwrap_or_default().split_whitespace().skip(1).take(8);
        let ticks: Vec<u64> = fields.filter_map(|field| field.parse().ok()).collect();
        Self { all: ticks.iter().sum(), stolen: ticks.get(7).copied().unwrap_or(0) }
    }

    /// The share of processor time between `self` and `later` that other guests of the host took,
    /// in percent.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "ticks of minutes")]
    pub fn stolen_percent(self, later: Self) -> f64 {
        let all = (later.all - self.all).max(1);
        100.0 * (later.stolen - self.stolen) as f64 / all as f64
    }
}

/// The name of the running bench, without the hyphen and the hash that cargo appends.
///
/// # Panics
///
/// If the path of this program is unknown.
#[must_use]
pub fn bench() -> String {
    let program = std::env::current_exe().expect("this program has a path");
    let name = program.file_stem().expect("a file").to_string_lossy();
    without_hash(&name).to_owned()
}

fn without_hash(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((name, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => {
            name
        }
        _ => name,
    }
}

/// The date and the time of day in UTC, to the minute.
#[must_use]
pub fn date() -> String {
    output_of("date", &["-u", "+%Y-%m-%d %H:%M"]).unwrap_or_else(|| "unknown date".to_owned())
}

/// The commit of the working directory, with a plus if a file that it tracks has changed, other than results.
#[must_use]
pub fn commit() -> String {
    let Some(commit) = output_of("git", &["rev-parse", "--short", "HEAD"]) else {
        return String::new();
    };
    let tracked = ["status", "--porcelain", "--untracked-files=no", "--", ":/"];
    let status = [&tracked[..], &[":!/benches/results", ":!/README.md"]].concat();
    let is_changed = output_of("git", &status).is_none_or(|changed| !changed.is_empty());
    if is_changed { format!("{commit}+") } else { commit }
}

/// Runs another program and returns its output, if it runs.
fn output_of(program: &str, args: &[&str]) -> Option<String> {
    let output = std::process::Command::new(program).args(args).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The machine in one line: processor, cores, compiler.
#[must_use]
pub fn machine() -> String {
    let Processor { name, is_virtual } = Processor::of_this_machine();
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZeroUsize::get);
    let compiler = output_of("rustc", &["--version"]).unwrap_or_else(|| "unknown rustc".to_owned());
    let guest = if is_virtual { " (virtual)" } else { "" };
    format!("{name}{guest}, {cores} cores, {compiler}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_distinguished_from_idle_time() {
        let before = Ticks::parse("cpu  10 0 10 70 0 0 0 10 99 99\ncpu0 1 1\n");
        let after = Ticks::parse("cpu  110 0 10 150 0 0 0 30 99 99\ncpu0 1 1\n");
        assert!((before.stolen_percent(after) - 10.0).abs() < 1e-9);
        assert!(before.stolen_percent(before).abs() < 1e-9);
    }

    #[test]
    fn the_name_of_a_bench_excludes_the_hash_of_cargo() {
        assert_eq!(without_hash("versus_mutex-65177e279cb01d81"), "versus_mutex");
        assert_eq!(without_hash("two-words"), "two-words");
    }
}
