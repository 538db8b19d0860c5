//! The places of a file, and the mutants of each.

use std::collections::BTreeMap;
use std::ops::Range;

/// One change of the code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutant {
    /// The change and the function: `replace + with - in Grid::ceil`.
    pub what: String,
    /// The line it is in, counted from 1.
    pub line: usize,
    /// The text that takes the place's: code of the shape that the place asks for.
    pub text: String,
    /// The file, what is done, and the text of the line. Lines move, so the key has no number; of mutants
    /// that would have the same key, later ones have a count at its end.
    pub key: String,
}

/// How a place is written with its switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// An expression with a value.
    Value,
    /// A statement with its semicolon.
    Statement,
    /// The beginning of a function's body. The mutants are what the function returns.
    Entry,
    /// The end of a pattern without a guard: the arm is left out while the mutant is on.
    Arm,
}

/// A place in a file and its mutants, whose numbers follow one another.
#[derive(Debug, Clone)]
pub struct Place {
    /// The bytes of the file that the place takes. Empty where something is inserted.
    pub span: Range<usize>,
    /// How it is written.
    pub shape: Shape,
    /// The function that it is in, by its bytes.
    pub function: Range<usize>,
    /// The changes, one or more.
    pub mutants: Vec<Mutant>,
}

/// Why code was left as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// The compiler evaluates it: constants, statics, lengths of arrays.
    Constant,
    /// A number in a pattern.
    Pattern,
    /// A number in a type or in its parameters.
    Type,
    /// Within a macro's call. A call that cannot be read as expressions counts once.
    Macro,
    /// A macro's definition: each counts once.
    MacroDefinition,
    /// Not compiled in this configuration, only for tests, or dependent on a planted fault of the models.
    Configuration,
    /// `&&` that chains `let`s.
    LetChain,
    /// A fence between accesses of memory. Models check it.
    Fence,
    /// A function whose type has no value that is known to be another one.
    ReturnType,
    /// A mutant that the compiler does not accept.
    NotCompiled,
}

impl LeftOut {
    /// The reason, for the report.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Constant => "evaluated by the compiler",
            Self::Pattern => "numbers in patterns",
            Self::Type => "numbers in types",
            Self::Macro => "within calls of macros",
            Self::MacroDefinition => "definitions of macros",
            Self::Configuration => "for tests or models only, or of another configuration",
            Self::LetChain => "&& that chains lets",
            Self::Fence => "fences, which models check",
            Self::ReturnType => "functions without another value to return",
            Self::NotCompiled => "not accepted by the compiler",
        }
    }
}

/// The places of one file.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// In order of their beginning; of two that begin together, the larger comes first.
    pub places: Vec<Place>,
    /// How many mutants were not made, by reason.
    pub left_out: BTreeMap<LeftOut, usize>,
}

/// A file of the crate with its places, and the number of its first mutant.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// Relative to the workspace.
    pub path: String,
    /// As it is in the repository.
    pub source: String,
    /// The places of the file.
    pub places: Vec<Place>,
    /// The number of its first mutant. Mutants are numbered from 1 through all files.
    pub first: u32,
}

impl SourceFile {
    /// The places, each with the number of its first mutant.
    pub fn numbered(&self) -> impl Iterator<Item = (u32, &Place)> {
        self.places.iter().scan(self.first, |next, place| {
            let first = *next;
            *next += place.mutants.len() as u32;
            Some((first, place))
        })
    }

    /// How many mutants it has.
    pub fn count(&self) -> u32 {
        self.places.iter().map(|place| place.mutants.len() as u32).sum()
    }
}
