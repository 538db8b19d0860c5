//! Makes the page and the plots of each processor's results, and the table of the README; or prints all
//! tables of a bench; or prints the name of the folder for this processor's results.
//!
//! ```sh
//! cargo run --release -p tollgate-benches --bin report -- benches/results
//! cargo run --release -p tollgate-benches --bin report -- benches/results --check
//! cargo run --release -p tollgate-benches --bin report -- benches/results --tables amd-epyc-zen-4/keyed
//! cargo run --release -p tollgate-benches --bin report -- target/bench-results --no-readme
//! cargo run --release -p tollgate-benches --bin report -- --processor
//! ```

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tollgate_benches::processor::Processor;
use tollgate_benches::publish;

const USAGE: &str =
    "usage: report DIR [--check] [--no-readme] [--tables PROCESSOR[/BENCH]], or report --processor";

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
    let (mut dir, mut check, mut with_readme, mut tables) = (None, false, true, None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--check" => check = true,
            "--no-readme" => with_readme = false,
            "--processor" => {
                println!("{}", Processor::of_this_machine().folder());
                return Ok(());
            }
            "--tables" => tables = Some(args.next().ok_or(USAGE)?),
            name if name.starts_with('-') || dir.is_some() => return Err(USAGE.to_owned()),
            name => dir = Some(PathBuf::from(name)),
        }
    }
    let dir = dir.ok_or(USAGE)?;
    if let Some(name) = tables {
        print!("{}", publish::tables(&dir, &name)?);
        return Ok(());
    }
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
