//! Builds a limiter in a block that is found, or created.

use std::sync::Arc;

use super::header::{Header, identity};
use super::{Place, Shared, SharedError, file};
use crate::algo::{Algorithm, Rebase, StateMachine};
use crate::limiter::Limiter;
use crate::limiter::builder::{BuildError, Builder, OnFull};
use crate::limiter::hash_seeds::Seeds;
use crate::table::Source;
use crate::table::block::{Block, Pieces};
use crate::time::monotonic_clock::MonotonicClock;

/// Tries to find or create a file, while others create and remove it.
const TRIES: usize = 100;

/// Why a try failed.
enum Failure {
    Final(SharedError),
    /// Another process created the file.
    Raced,
}

impl<E: Into<SharedError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Final(error.into())
    }
}

impl<K: ?Sized, A: Algorithm<Params: Rebase>> Builder<K, A> {
    /// Checks everything, and takes the memory from a block that other processes share: it is created, or
    /// attached if it is there. See [`shared`](crate::shared).
    ///
    /// The limiter decides by a [`MonotonicClock`], and a block that is there has its own seeds of the
    /// hash. The block has no huge pages.
    ///
    /// # Errors
    ///
    /// As for [`build`](Builder::build); and the system has no memory, or the block was made by another
    /// program or with other choices. The error names the first that differs.
    ///
    /// ```
    /// use tollgate::shared::Shared;
    /// use tollgate::{FixedWindow, Limiter, Quota};
    ///
    /// let gate = Limiter::<str>::builder(Quota::per_day(100))
    ///     .algorithm(FixedWindow::anchored())
    ///     .build_shared(&Shared::anonymous())?;
    /// assert!(gate.check("192.0.2.7").is_ok());
    /// # Ok::<(), tollgate::shared::SharedError>(())
    /// ```
    pub fn build_shared(
        self,
        shared: &Shared,
    ) -> Result<Limiter<K, A, MonotonicClock>, SharedError> {
        if matches!(self.on_full, OnFull::SharedOverflow(_)) {
            return Err(SharedError::NotShared { choice: "OnFull::SharedOverflow" });
        }
        for _ in 0..TRIES {
            match self.try_build_shared(shared) {
                Ok(gate) => return Ok(gate),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Raced) => {}
            }
        }
        let error = std::io::Error::other("others create and remove it all the time");
        Err(SharedError::System { call: "open the file", error })
    }

    fn try_build_shared(&self, shared: &Shared) -> Result<Limiter<K, A, MonotonicClock>, Failure> {
        let found = match &shared.place {
            Place::Anonymous => None,
            Place::File { path, .. } => file::find(path)?,
        };
        let (clock, seeds) = match &found {
            Some(block) => {
                let (origin, seeds) = identity(block)?;
                (MonotonicClock::with_origin(origin), seeds)
            }
            None => (MonotonicClock::new(), self.seeds.unwrap_or_else(Seeds::random)),
        };
        let mut builder = self.with_clock(clock);
        builder.seeds = Some(seeds);
        builder.build_in(|shape| {
            if !shape.params.is_still() {
                return Err(SharedError::NotShared { choice: "FixedWindow::aligned" }.into());
            }
            let header = Header::of(shape, seeds).ok_or(BuildError::OutOfMemory)?;
            let block = match found {
                Some(block) => {
                    header.check(&block)?;
                    block
                }
                None => create(&shared.place, &header)?.ok_or(Failure::Raced)?,
            };
            Ok(Source::Block(Pieces::new(block)))
        })
    }
}

fn create(place: &Place, header: &Header) -> Result<Option<Arc<Block>>, SharedError> {
    match place {
        Place::Anonymous => {
            let block = Block::anonymous(header.bytes);
            let block = block.map_err(|error| SharedError::system("map memory")(error.into()))?;
            header.write(&block);
            Ok(Some(Arc::new(block)))
        }
        Place::File { path, mode } => file::create(path, *mode, header),
    }
}
