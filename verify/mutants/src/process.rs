//! Runs a program to its end or to its time limit. It has a process group of its own, which is killed as a
//! whole, since tests start processes too. Its memory is limited: a mutant may ask for any amount.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Kilobytes of address space that a test may have. The tests of large tables map some gigabytes.
const MEMORY_KB: u32 = 16 << 20;

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With 0.
    Well,
    /// With another number, or by a signal.
    Badly,
    /// It was killed when its time was up.
    TooLate,
}

/// The command that runs a program with the limit of memory.
pub fn limited(program: &Path) -> Command {
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(format!("ulimit -v {MEMORY_KB}; ulimit -c 0; exec \"$0\" \"$@\""))
        .arg(program);
    command
}

/// Runs a command, whose output goes to a file, and measures it.
pub fn run(command: &mut Command, output: &Path, limit: Duration) -> io::Result<(Ended, Duration)> {
    let file = File::create(output)?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
    let began = Instant::now();
    let mut child = command.spawn()?;
    let status = wait(&mut child, began, limit)?;
    // Processes that the tests left running end too, whether the tests passed or not.
    kill_group(child.id());
    let ended = match status {
        None => {
            child.wait()?;
            Ended::TooLate
        }
        Some(status) if status.success() => Ended::Well,
        Some(_) => Ended::Badly,
    };
    Ok((ended, began.elapsed()))
}

fn wait(child: &mut Child, began: Instant, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_micros(500);
    while began.elapsed() < limit {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        sleep(pause);
        pause = (pause * 5 / 4).min(Duration::from_millis(20));
    }
    child.try_wait()
}

fn kill_group(id: u32) {
    let kill = format!("kill -KILL -{id} 2>/dev/null");
    let _ = Command::new("sh").arg("-c").arg(kill).stdin(Stdio::null()).status();
}

/// Seconds of processor time that the ended children of this process took. Linux only; elsewhere 0.
pub fn children_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may hold spaces. After it, fields 16 and 17 are the 14th and 15th.
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let ticks = rest.split_whitespace().skip(13).take(2);
    ticks.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}
