//! No figure is typed: the pages and plots in the repository are what the saved results make.

use std::path::Path;

use tollgate_benches::publish;

#[test]
fn pages_and_plots_are_what_the_results_make() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (dir, readme) = (package.join("results"), package.join("../README.md"));
    let files = publish::generate(&dir, Some(&readme)).expect("results, and marks in the README");
    let wrong = publish::check(&dir, &files).expect("a directory");
    assert!(
        wrong.is_empty(),
        "{}\nrun: cargo run --release -p tollgate-benches --bin report -- benches/results",
        wrong.join("\n")
    );
}
