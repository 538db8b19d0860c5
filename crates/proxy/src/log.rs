//! The log: lines on standard error, each with the time (UTC), a level and a message.
//!
//! Logging neither panics nor blocks. Callers put lines in a bounded queue, and a thread of its own
//! writes them. A line is dropped and counted if the queue is full, which happens if the pipe is not
//! read, or if it cannot be written, which happens if the pipe is closed.

use std::fmt::{Display, Write as _};
use std::io::{self, Write};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Messages that may wait to be written.
const QUEUE_MAX: usize = 1_024;
/// Lines of one message; the rest is counted.
const LINES_MAX: usize = 12;
/// Characters of one line; the rest is cut off.
const LINE_CHARS_MAX: usize = 500;

/// How much a line matters.
#[derive(Clone, Copy, Debug)]
enum Level {
    Info,
    Warn,
    Error,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Self::Info => "INFO",
            Self::Warn => "WARN",
            Self::Error => "ERROR",
        }
    }
}

/// A task of the writing thread.
enum Task {
    Write(String),
    /// Answer, since all before it is written.
    Flush(SyncSender<()>),
}

static QUEUE: LazyLock<Option<SyncSender<Task>>> = LazyLock::new(|| {
    let (sender, receiver) = sync_channel(QUEUE_MAX);
    let thread = std::thread::Builder::new().name("log".to_owned());
    thread.spawn(move || write_all(&receiver, stderr())).ok().map(|_| sender)
});
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Logs what an operator may want to know.
pub(crate) fn info(message: impl Display) {
    log(Level::Info, &message);
}

/// Logs what an operator should look at.
pub(crate) fn warn(message: impl Display) {
    log(Level::Warn, &message);
}

/// Logs a mistake of the proxy's own.
pub(crate) fn error(message: impl Display) {
    log(Level::Error, &message);
}

/// How many messages were not written.
pub(crate) fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// Waits until what was logged so far is written, but no longer than `patience`.
pub(crate) fn flush(patience: Duration) {
    let (written, is_written) = sync_channel(1);
    if let Some(queue) = &*QUEUE
        && queue.try_send(Task::Flush(written)).is_ok()
    {
        // Nobody may read the pipe.
        let _ = is_written.recv_timeout(patience);
    }
}

fn log(level: Level, message: &dyn Display) {
    let text = lines(&jiff::Timestamp::now(), level, &message.to_string());
    let queued = QUEUE.as_ref().is_some_and(|queue| queue.try_send(Task::Write(text)).is_ok());
    if !queued {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

/// A message as it is written: each of its lines begins with the time and the level, none is long,
/// and there are only a few.
fn lines(time: &jiff::Timestamp, level: Level, message: &str) -> String {
    let level = level.word();
    let mut text = String::new();
    let mut add = |line: &dyn Display| {
        writeln!(text, "{time:.3} {level} {line}").expect("a string takes everything");
    };
    let mut rest = message.lines();
    for line in rest.by_ref().take(LINES_MAX) {
        let is_cut = line.chars().nth(LINE_CHARS_MAX).is_some();
        let kept = line.chars().take(LINE_CHARS_MAX);
        // A message may repeat what a file or a server says, which is not to move the cursor.
        let kept: String = kept.map(|c| if c.is_control() { ' ' } else { c }).collect();
        add(&format_args!("{kept}{}", if is_cut { " ..." } else { "" }));
    }
    match rest.count() {
        0 => {}
        more => add(&format_args!("... and {more} more lines")),
    }
    text
}

/// Writes until the process ends.
fn write_all(tasks: &Receiver<Task>, mut out: impl Write) {
    let mut told = 0;
    for task in tasks {
        match task {
            Task::Write(text) => {
                let dropped = dropped();
                if dropped > told {
                    let count = dropped - told;
                    let text = format!("messages that were not logged: {count}");
                    let text = lines(&jiff::Timestamp::now(), Level::Warn, &text);
                    if out.write_all(text.as_bytes()).is_ok() {
                        told = dropped;
                    }
                }
                if out.write_all(text.as_bytes()).is_err() {
                    DROPPED.fetch_add(1, Ordering::Relaxed);
                }
            }
            Task::Flush(written) => {
                // The thread that asked may have stopped waiting.
                let _ = written.send(());
            }
        }
    }
}

/// Standard error without its lock: a thread that waits in a write must not stop one that panics.
#[cfg(unix)]
fn stderr() -> Box<dyn Write> {
    use std::os::fd::AsFd;

    match io::stderr().as_fd().try_clone_to_owned() {
        Ok(descriptor) => Box::new(std::fs::File::from(descriptor)),
        Err(_) => Box::new(io::stderr()),
    }
}

#[cfg(not(unix))]
fn stderr() -> Box<dyn Write> {
    Box::new(io::stderr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_a_few_short_lines_of_time_level_and_text() {
        let time = "2026-03-01T12:30:00.25Z".parse().expect("a time");
        let said = lines(&time, Level::Warn, "one\ntwo \u{1b}[2J");
        assert_eq!(
            said,
            "2026-03-01T12:30:00.250Z WARN one\n2026-03-01T12:30:00.250Z WARN two  [2J\n"
        );
        let long = format!("{}\n{}", "ä".repeat(1 << 20), "x\n".repeat(1 << 20));
        let said = lines(&time, Level::Error, &long);
        assert!(said.len() < 2_000, "{}", said.len());
        assert_eq!(said.lines().count(), LINES_MAX + 1);
        assert!(said.ends_with("ERROR ... and 1048565 more lines\n"), "{said}");
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_told_later() {
        /// Fails at the first call.
        #[derive(Default)]
        struct Broken(Vec<u8>, bool);

        impl Write for Broken {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                if !std::mem::replace(&mut self.1, true) {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                self.0.write(bytes)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        let mut out = Broken::default();
        let (sender, receiver) = sync_channel(2);
        for text in ["lost\n", "kept\n"] {
            sender.send(Task::Write(text.to_owned())).expect("room");
        }
        drop(sender);
        write_all(&receiver, &mut out);
        let text = String::from_utf8(out.0).expect("UTF-8");
        assert!(text.ends_with("WARN messages that were not logged: 1\nkept\n"), "{text}");
    }
}
