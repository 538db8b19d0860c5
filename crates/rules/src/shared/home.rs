//! Where the limiters of a set of rules keep their state.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use tollgate::{Clock, ManualClock};

use super::{Block, SharedName};
use crate::clock::RulesClock;
use crate::error::RulesBuildError;
use crate::rule::Rule;

/// The place where the limiters of a set of rules keep their state: this process, or a folder of blocks.
#[derive(Debug)]
pub(crate) struct Home<C> {
    pub(crate) clock: RulesClock<C>,
    shared: Option<SharedName>,
}

/// The place where one limiter keeps its state.
pub(crate) struct Place<'a, C> {
    pub(crate) clock: &'a RulesClock<C>,
    /// `None`: in this process.
    pub(crate) path: Option<PathBuf>,
}

impl<C: Clock> Home<C> {
    /// In this process.
    pub(crate) fn own(clock: Arc<C>) -> Self {
        Self { clock: RulesClock::given(clock), shared: None }
    }

    /// In the folder of a name, or without one in this process.
    pub(crate) fn of(shared: Option<&SharedName>, clock: Arc<C>) -> Result<Self, RulesBuildError> {
        let clock = RulesClock::given(clock);
        let Some(name) = shared else { return Ok(Self { clock, shared: None }) };
        Self::shared(name, clock)
    }

    #[cfg(feature = "shared-memory")]
    fn shared(name: &SharedName, clock: RulesClock<C>) -> Result<Self, RulesBuildError> {
        let failed = |why| RulesBuildError::of_folder(name.as_str(), why);
        super::folder::claim(&name.folder()).map_err(failed)?;
        let clock = clock.system(tollgate::clock::MonotonicClock::new());
        Ok(Self { clock, shared: Some(name.clone()) })
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
        Place { clock: &self.clock, path }
    }
}

impl Place<'static, ManualClock> {
    /// A place in this process, to try whether a limiter can be built.
    pub(crate) fn to_validate() -> Self {
        static CLOCK: LazyLock<RulesClock<ManualClock>> =
            LazyLock::new(|| RulesClock::given(Arc::new(ManualClock::new())));
        Self { clock: &CLOCK, path: None }
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
            _ => $builder
                .clock($place.clock.clone())
                .build()
                .map_err($crate::error::LimiterError::from),
        }
    };
}
pub(crate) use build_at;
