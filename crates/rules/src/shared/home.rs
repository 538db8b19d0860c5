//! The place of the state of a set of rules' limiters.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use tollgate::{Clock, ManualClock};

use super::Block;
use crate::clock::RulesClock;
use crate::error::RulesBuildError;
use crate::rule::{Rule, SharedName};

/// The place where the limiters of a set of rules keep their state: this process, or a folder of blocks.
#[derive(Debug)]
pub(crate) struct Home<C> {
    pub(crate) clock: RulesClock<C>,
    shared: Option<SharedName>,
    /// The seed of the hashes, if it is given.
    pub(crate) hash_seed: Option<u64>,
}

/// The place where one limiter keeps its state.
pub(crate) struct Place<'a, C> {
    pub(crate) clock: &'a RulesClock<C>,
    /// `None`: in this process.
    pub(crate) path: Option<PathBuf>,
    pub(crate) hash_seed: Option<u64>,
}

impl<C: Clock> Home<C> {
    /// In this process.
    pub(crate) fn own(clock: Arc<C>, hash_seed: Option<u64>) -> Self {
        Self { clock: RulesClock::given(clock), shared: None, hash_seed }
    }

    /// In the folder of a name, or without one in this process.
    pub(crate) fn of(shared: Option<&SharedName>, clock: Arc<C>) -> Result<Self, RulesBuildError> {
        match shared {
            Some(name) => Self::shared(name, RulesClock::given(clock)),
            None => Ok(Self::own(clock, None)),
        }
    }

    #[cfg(feature = "shared-memory")]
    fn shared(name: &SharedName, clock: RulesClock<C>) -> Result<Self, RulesBuildError> {
        let failed = |why| RulesBuildError::of_folder(name.as_str(), why);
        super::folder::claim(&name.folder()).map_err(failed)?;
        let clock = clock.system(tollgate::clock::MonotonicClock::new());
        Ok(Self { clock, shared: Some(name.clone()), hash_seed: None })
    }

    #[cfg(not(feature = "shared-memory"))]
    fn shared(name: &SharedName, _: RulesClock<C>) -> Result<Self, RulesBuildError> {
        let why = super::unavailable().unwrap_or_default().to_owned();
        Err(RulesBuildError::of_folder(name.as_str(), why))
    }

    /// The name by which other processes share the state.
    pub(crate) fn name(&self) -> Option<&SharedName> {
        self.shared.as_ref()
    }

    /// The place of a limiter of a rule.
    pub(crate) fn place(&self, rule: &Rule, block: Block<'_>) -> Place<'_, C> {
        let path = self.shared.as_ref().map(|name| name.folder().join(block.file_name(rule)));
        Place { clock: &self.clock, path, hash_seed: self.hash_seed }
    }
}

impl Place<'static, ManualClock> {
    /// A place in this process, to try whether a limiter can be built.
    pub(crate) fn to_validate() -> Self {
        static CLOCK: LazyLock<RulesClock<ManualClock>> =
            LazyLock::new(|| RulesClock::given(Arc::new(ManualClock::new())));
        Self { clock: &CLOCK, path: None, hash_seed: None }
    }
}

/// Builds a limiter of the library at a [`Place`].
macro_rules! build_at {
    ($builder:expr, $place:expr) => {
        match &$place.path {
            #[cfg(feature = "shared-memory")]
            Some(path) => $builder
                .build_shared(&tollgate::shared::Shared::file(path))
                .map(|gate| gate.map_clock(|system| $place.clock.system(system)))
                .map_err(|error| $crate::error::LimiterError::shared(path, &error)),
            _ => {
                let builder = $builder.clock($place.clock.clone());
                let builder = match $place.hash_seed {
                    Some(seed) => builder.hash_seed(seed),
                    None => builder,
                };
                builder.build().map_err($crate::error::LimiterError::from)
            }
        }
    };
}
pub(crate) use build_at;
