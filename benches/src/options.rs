//! What may be said on the command line, after `--`.

use std::path::PathBuf;

/// The choices of one run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rounds of every comparison.
    pub rounds: usize,
    /// Only rows whose name contains this text are run; targets that need others are left out.
    pub only: Option<String>,
    /// Decisions of the flood, in millions.
    pub flood_millions: u64,
    /// Where `<bench>.json` is written to, if anywhere. A relative path is taken from the
    /// directory of the package, since cargo runs a bench there.
    pub save: Option<PathBuf>,
    /// What the parent process asks its child to do.
    pub child: Option<String>,
}

impl Options {
    /// Reads the arguments of this process, and ignores those that cargo adds.
    ///
    /// # Panics
    ///
    /// If an option lacks its value, or a number is none.
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
