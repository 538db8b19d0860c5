//! The choice of comparisons.

use std::process::Command;

use tollgate_benches::options::Options;

/// The options of one run: those of all benchmarks, and those of this one.
pub(crate) struct Choice {
    pub(crate) options: Options,
    /// Also comparisons that take minutes.
    pub(crate) full: bool,
    case: Option<String>,
}

impl Choice {
    pub(crate) fn from_args() -> Self {
        let mut choice = Self { options: Options::from_args(), full: false, case: None };
        let mut args = std::env::args().skip(1);
        while let Some(name) = args.next() {
            match name.as_str() {
                "--full" => choice.full = true,
                "--case" => choice.case = Some(args.next().expect("--case needs a value")),
                _ => {}
            }
        }
        choice
    }

    /// Whether the comparison of this name is to be run.
    pub(crate) fn wants_case(&self, name: &str) -> bool {
        self.case.as_deref().is_none_or(|text| name.contains(text))
    }
}

/// Runs this program again with a task, and reads the numbers that it prints.
pub(crate) fn ask_child<const N: usize>(task: &str) -> [f64; N] {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program)
        .args(["--child", task])
        .output()
        .expect("this program can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("numbers");
    let numbers: Vec<f64> =
        text.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    numbers.try_into().expect("as many numbers as were asked for")
}

#[allow(clippy::cast_precision_loss, reason = "counts and bytes are far below 2^52")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}
