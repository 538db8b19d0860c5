//! Makes `README.md` and plots of the results in a directory, and the table of the front page.
//!
//! ```sh
//! cargo run --release -p tollgate-benches --bin report -- benches/results
//! cargo run --release -p tollgate-benches --bin report -- benches/results --check
//! cargo run --release -p tollgate-benches --bin report -- target/bench-results --no-readme
//! ```

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tollgate_benches::publish;

const USAGE: &str = "usage: report DIR [--check] [--no-readme]";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("report: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let (mut dir, mut check, mut with_readme) = (None, false, true);
    for arg in std::env::args().skip(1) {
        match arg.as_str() {
            "--check" => check = true,
            "--no-readme" => with_readme = false,
            name if name.starts_with('-') || dir.is_some() => return Err(USAGE.to_owned()),
            name => dir = Some(PathBuf::from(name)),
        }
    }
    let dir = dir.ok_or(USAGE)?;
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let files = publish::generate(&dir, with_readme.then_some(readme.as_path()))?;
    if !check {
        publish::write(&dir, &files)?;
        println!("{} files made of the results in {}", files.len(), dir.display());
        return Ok(());
    }
    let wrong = publish::check(&dir, &files)?;
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("\nreport: ") + "\nreport: run it without --check"),
    }
}
