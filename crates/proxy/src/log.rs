//! The log: lines on standard error, each with the time (UTC), a level and a message.
//!
//! Logging neither panics nor blocks. Callers put messages in a bounded queue, and a dedicated thread
//! writes them. A message is dropped and counted if the queue is full (the pipe is not read) or if the
//! write fails (the pipe is closed).

use std::fmt::{Display, Write as _};
use std::io::{self, Write};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// The capacity of the queue, in messages.
const QUEUE_MAX: usize = 1_024;
/// The most lines of one message; the rest is counted.
const LINES_MAX: usize = 12;
/// The most characters of one line; the rest is cut off.
const LINE_CHARS_MAX: usize = 500;

/// The severity of a message.
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

/// A task for the writer thread.
enum Task {
    Write(String),
    /// Reply when all earlier tasks are done.
    Flush(SyncSender<()>),
}

static QUEUE: LazyLock<Option<SyncSender<Task>>> = LazyLock::new(|| {
    let (sender, receiver) = sync_channel(QUEUE_MAX);
    let thread = std::thread::Builder::new().name("log".to_owned());
    thread.spawn(move || write_all(&receiver, stderr())).ok().map(|_| sender)
});
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Logs an event.
pub(crate) fn info(message: impl Display) {
    log(Level::Info, &message);
}

/// Logs a condition that an operator should check.
pub(crate) fn warn(message: impl Display) {
    log(Level::Warn, &message);
}

/// Logs an error of the proxy or of its configuration.
pub(crate) fn error(message: impl Display) {
    log(Level::Error, &message);
}

/// The number of dropped messages.
pub(crate) fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// Waits until all messages so far are written, but at most for `timeout`.
pub(crate) fn flush(timeout: Duration) {
    let (written, is_written) = sync_channel(1);
    if let Some(queue) = &*QUEUE
        && queue.try_send(Task::Flush(written)).is_ok()
    {
        // The wait is bounded because the pipe may not be read.
        let _ = is_written.recv_timeout(timeout);
    }
}

fn log(level: Level, message: &dyn Display) {
    let text = lines(&jiff::Timestamp::now(), level, &message.to_string());
    let queued = QUEUE.as_ref().is_some_and(|queue| queue.try_send(Task::Write(text)).is_ok());
    if !queued {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Formats a message: each line starts with the time and the level, and lines are bounded in number and
/// length.
fn lines(time: &jiff::Timestamp, level: Level, message: &str) -> String {
    let level = level.word();
    let mut text = String::new();
    let mut add = |line: &dyn Display| {
        writeln!(text, "{time:.3} {level} {line}").expect("writing to a String cannot fail");
    };
    let mut rest = message.lines();
    for line in rest.by_ref().take(LINES_MAX) {
        let is_cut = line.chars().nth(LINE_CHARS_MAX).is_some();
        let kept = line.chars().take(LINE_CHARS_MAX);
        // A message may quote a file or a server, and must not move the cursor of a terminal.
        let kept: String = kept.map(|c| if c.is_control() { ' ' } else { c }).collect();
        add(&format_args!("{kept}{}", if is_cut { " ..." } else { "" }));
    }
    match rest.count() {
        0 => {}
        more => add(&format_args!("... and {more} more lines")),
    }
    text
}

/// Runs the writer thread until the process ends.
fn write_all(tasks: &Receiver<Task>, mut out: impl Write) {
    let mut reported = 0;
    for task in tasks {
        match task {
            Task::Write(text) => {
                let dropped = dropped();
                if dropped > reported {
                    let count = dropped - reported;
                    let text = format!("messages not logged: {count}");
                    let text = lines(&jiff::Timestamp::now(), Level::Warn, &text);
                    if out.write_all(text.as_bytes()).is_ok() {
                        reported = dropped;
                    }
                }
                if out.write_all(text.as_bytes()).is_err() {
                    DROPPED.fetch_add(1, Ordering::Relaxed);
                }
            }
            Task::Flush(written) => {
                // The caller may have stopped waiting.
                let _ = written.send(());
            }
        }
    }
}

/// Standard error without its lock, so that a blocked write cannot block a thread that panics.
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
    fn a_long_message_is_cut_to_a_few_short_lines() {
        let time = "2026-03-01T12:30:00.25Z".parse().expect("a time");
        let text_lines = lines(&time, Level::Warn, "one\ntwo \u{1b}[2J");
        assert_eq!(
            text_lines,
            "2026-03-01T12:30:00.250Z WARN one\n2026-03-01T12:30:00.250Z WARN two  [2J\n"
        );
        let long = format!("{}\n{}", "ä".repeat(1 << 20), "x\n".repeat(1 << 20));
        let text_lines = lines(&time, Level::Error, &long);
        assert!(text_lines.len() < 2_000, "{}", text_lines.len());
        assert_eq!(text_lines.lines().count(), LINES_MAX + 1);
        assert!(text_lines.ends_with("ERROR ... and 1048565 more lines\n"), "{text_lines}");
    }

    #[test]
    fn a_failed_write_is_counted_and_reported_later() {
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
        assert!(text.ends_with("WARN messages not logged: 1\nkept\n"), "{text}");
    }
}
