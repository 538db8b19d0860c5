//! The memory of a limiter's words: a block that is found, or begun and made visible when it is complete.

use std::sync::Arc;

use super::file::Begun;
use super::header::{Form, Header, identity};
use super::{Place, Shared, SharedError, file};
use crate::limiter::hash_seeds::Seeds;
use crate::table::Source;
use crate::table::block::{Block, Pieces};
use crate::time::Clock;
use crate::time::monotonic_clock::MonotonicClock;

/// Tries to find or create a file, while others create and remove it.
const TRIES: usize = 100;

/// The block of a limiter that is being built.
pub(crate) struct Site<'a> {
    place: &'a Place,
    found: Option<Arc<Block>>,
    begun: Option<Begun>,
    clock: MonotonicClock,
    seeds: Seeds,
}

/// Builds a limiter in a block that is found, or created. `build` asks the site for the limiter's memory, once.
pub(crate) fn build_at<G>(
    shared: &Shared,
    seeds: Option<Seeds>,
    build: impl Fn(&mut Site<'_>) -> Result<G, SharedError>,
) -> Result<G, SharedError> {
    let _alone = file::attach_alone(&shared.place)?;
    for _ in 0..TRIES {
        let mut site = Site::find(&shared.place, seeds)?;
        let gate = build(&mut site)?;
        let is_visible = site.begun.as_ref().map_or(Ok(true), |begun| begun.publish(site.place))?;
        if is_visible {
            return Ok(gate);
        }
    }
    let error = std::io::Error::other("others create and remove it all the time");
    Err(SharedError::System { call: "open the file", error })
}

impl<'a> Site<'a> {
    fn find(place: &'a Place, seeds: Option<Seeds>) -> Result<Self, SharedError> {
        let found = file::find(place)?;
        let (clock, seeds) = match &found {
            Some(block) => {
                let (origin, seeds) = identity(block)?;
                (MonotonicClock::with_origin(origin), seeds)
            }
            None => (MonotonicClock::new(), seeds.unwrap_or_else(Seeds::random)),
        };
        Ok(Self { place, found, begun: None, clock, seeds })
    }

    /// The clock of all processes that use the block.
    pub(crate) fn clock(&self) -> MonotonicClock {
        self.clock
    }

    /// The seeds of the hash in the block.
    pub(crate) fn seeds(&self) -> Seeds {
        self.seeds
    }

    /// The memory of a limiter of this form.
    pub(crate) fn source(&mut self, form: Form) -> Result<Source, SharedError> {
        let header = Header::new(form, self.clock.unix_origin_nanos(), self.seeds)?;
        if let Some(block) = self.found.take() {
            header.check(&block)?;
            return Ok(Source::Block(Pieces::new(block, false)));
        }
        let begun = self.begun.insert(Begun::new(self.place, header)?);
        Ok(Source::Block(Pieces::new(begun.block(), true)))
    }
}
