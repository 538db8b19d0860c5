//! The cases of the benchmark: limiters, keys, and answers.

use tollgate_benches::keys::Draw;

/// A limiter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Ours in shared memory.
    Shared,
    /// Ours, in each process's own memory: no quota is shared.
    Private,
    /// The same by the clock of shared memory.
    PrivateMonotonic,
    /// So many maps in shared memory, each under a mutex.
    Locked(usize),
    Redis,
}

pub(crate) const KINDS: [Kind; 6] = [
    Kind::Shared,
    Kind::PrivateMonotonic,
    Kind::Private,
    Kind::Locked(1),
    Kind::Locked(64),
    Kind::Redis,
];

const WORDS: [&str; 6] = ["shared", "monotonic", "private", "mutex", "mutexes", "redis"];

impl Kind {
    /// Its name in a task.
    pub(crate) fn word(self) -> &'static str {
        let place = KINDS.iter().position(|kind| *kind == self).expect("one of them");
        WORDS[place]
    }

    pub(crate) fn of(word: &str) -> Self {
        KINDS[WORDS.iter().position(|known| *known == word).expect("a limiter")]
    }

    /// Its name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Shared => "tollgate in shared memory",
            Self::PrivateMonotonic => "tollgate, nothing shared, the same clock",
            Self::Private => "tollgate, nothing shared, its default clock",
            Self::Locked(1) => "a map under a shared pthread mutex",
            Self::Locked(_) => "64 maps under shared pthread mutexes",
            Self::Redis => "Redis on loopback, a script a call",
        }
    }

    /// Decisions of a process in a turn: about ten milliseconds.
    pub(crate) fn decisions(self) -> usize {
        match self {
            Self::Redis => 400,
            _ => 100_000,
        }
    }

    /// Whether the processes share a quota.
    pub(crate) fn is_shared(self) -> bool {
        !matches!(self, Self::Private | Self::PrivateMonotonic)
    }
}

/// The keys, and the answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Case {
    pub(crate) is_hot: bool,
    pub(crate) is_admitted: bool,
}

impl Case {
    pub(crate) fn word(self) -> String {
        format!("{}{}", u8::from(self.is_hot), u8::from(self.is_admitted))
    }

    pub(crate) fn of(word: &str) -> Self {
        Self { is_hot: word.starts_with('1'), is_admitted: word.ends_with('1') }
    }

    pub(crate) fn title(self) -> String {
        let answer = if self.is_admitted { "admitted" } else { "denied" };
        let keys = if self.is_hot { "one key" } else { "1,000 keys, zipf 0.99" };
        format!("{keys}, {answer}")
    }

    pub(crate) fn keys(self) -> usize {
        if self.is_hot { 1 } else { 1_000 }
    }

    pub(crate) fn draw(self) -> Draw {
        if self.is_hot { Draw::One } else { Draw::Zipf }
    }

    /// Cells, and the seconds of their period. A bucket is always in debt and never full, or it is full for
    /// the next hour.
    pub(crate) fn limit(self) -> (u32, u32) {
        if self.is_admitted { (2_000_000_000, 200_000) } else { (1, 3_600) }
    }
}
