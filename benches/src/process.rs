//! What the system says of this process and this machine.

use std::fs;

/// Bytes in a page, as on every Linux this runs on with the usual kernel.
const PAGE_BYTES: u64 = 4_096;

/// Resident memory of this process in bytes.
///
/// # Panics
///
/// Where there is no `/proc`.
#[must_use]
pub fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm.split_ascii_whitespace().nth(1).expect("the second field is resident pages");
    pages.parse::<u64>().expect("a number of pages") * PAGE_BYTES
}

/// The largest that [`resident_bytes`] has been, in bytes.
#[must_use]
pub fn resident_peak_bytes() -> u64 {
    status_number("VmHWM:") * 1_024
}

/// Memory in bytes that could be taken without swapping.
///
/// # Panics
///
/// Where there is no `/proc`.
#[must_use]
pub fn available_bytes() -> u64 {
    number_in("/proc/meminfo", "MemAvailable:") * 1_024
}

/// How often the system took the processor away from this thread's process.
#[must_use]
pub fn preemptions() -> u64 {
    status_number("nonvoluntary_ctxt_switches:")
}

fn status_number(name: &str) -> u64 {
    number_in("/proc/self/status", name)
}

fn number_in(path: &str, name: &str) -> u64 {
    let text = fs::read_to_string(path).expect("Linux");
    let line = text.lines().find(|line| line.starts_with(name)).expect("a known name");
    line.split_ascii_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("a number")
}

/// The machine in one line: processor, cores, compiler.
#[must_use]
pub fn machine() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown processor", |rest| rest.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZeroUsize::get);
    let compiler = std::process::Command::new("rustc").arg("--version").output();
    let compiler = compiler.map_or_else(
        |_| "unknown rustc".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    );
    format!("{model}, {cores} cores, {compiler}")
}
