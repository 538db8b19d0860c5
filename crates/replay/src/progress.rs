//! A progress bar on standard error, for long logs and only on a terminal.

use std::io::Read;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shorter logs finish before a reader would notice the bar.
const SHOWN_FROM_LINES: u64 = 200_000;

/// Counts bytes and lines, and draws the bar.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    lines: u64,
}

impl Progress {
    /// `bytes` is the total size on the disk; `None` if unknown.
    pub(crate) fn new(bytes: Option<u64>) -> Self {
        let bar = ProgressBar::with_draw_target(bytes, ProgressDrawTarget::hidden());
        let template = match bytes {
            Some(_) => "{bar:40} {percent:>3} %  {bytes} of {total_bytes}, {eta} left",
            None => "{spinner} {bytes} read in {elapsed}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self { bar, lines: 0 }
    }

    /// Wraps a reader so that its bytes are counted.
    pub(crate) fn watch(&self, raw: Box<dyn Read>) -> Box<dyn Read> {
        Box::new(self.bar.wrap_read(raw))
    }

    /// Counts a line. The bar appears after [`SHOWN_FROM_LINES`] lines.
    pub(crate) fn line(&mut self) {
        self.lines += 1;
        if self.lines == SHOWN_FROM_LINES {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
