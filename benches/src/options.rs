//! The options on the command line, after `--`.

use std::path::PathBuf;

/// The options of one run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rounds of every comparison.
    pub rounds: usize,
    /// Runs only rows whose name contains this text; targets that need other rows are left out.
    pub only: Option<String>,
    /// Decisions of the flood, in millions.
    pub flood_millions: u64,
    /// The directory for `<bench>.json`, if any. A relative path starts at the directory of the
    /// package, since cargo runs a bench there.
    pub save: Option<PathBuf>,
    /// The task that the parent process gives to its child.
    pub child: Option<String>,
}

impl Options {
    /// Reads the arguments of this process, and ignores those that cargo adds.
    ///
    /// # Panics
    ///
    /// If an option lacks its value, or the value is not a number.
    #[must_use]
    pub fn from_args() -> Self {
        let mut options =
            Self { rounds: 51, only: None, flood_millions: 50, save: None, child: None };
        let mut args = std::env::args().skip(1);
        while let Some(name) = args.next() {
            let mut value = || args.next().unwrap_or_else(|| panic!("{name} needs a value"));
            match name.as_str() {
                "--rounds" => options.rounds = value().parse().expect("a number of rounds"),
                "--only" => options.only = Some(value()),
                "--millions" => options.flood_millions = value().parse().expect("a number"),
                "--save" => options.save = Some(value().into()),
                "--child" => options.child = Some(value()),
                _ => {}
            }
        }
        assert!(options.rounds > 0, "a comparison has rounds");
        options
    }

    /// Whether the row of this name is to be run.
    #[must_use]
    pub fn wants(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|text| name.contains(text))
    }
}
