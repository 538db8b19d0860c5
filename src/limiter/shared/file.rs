//! Files that hold a block: created whole or not at all.
//!
//! A file is made under a name of its own, given its length and its header, and then linked to its path.
//! The link fails if another process was faster, so two processes cannot both create it, and none sees a
//! file without a header.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, fallocate};

use super::SharedError;
use super::header::Header;
use crate::limiter::hash_seeds::Seeds;
use crate::table::block::{Block, HEADER_BYTES};

/// The block in the file, if there is one.
pub(super) fn find(path: &Path) -> Result<Option<Arc<Block>>, SharedError> {
    let file = match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(SharedError::system("open the file")(error)),
    };
    let found = file.metadata().map_err(SharedError::system("read the file's length"))?.len();
    let bytes = usize::try_from(found).unwrap_or(usize::MAX);
    if bytes < HEADER_BYTES {
        return Err(SharedError::OtherLength { found, expected: 0 });
    }
    map(&file, bytes).map(Some)
}

/// Creates the file. `None`: another process has created it meanwhile.
pub(super) fn create(
    path: &Path,
    mode: u32,
    header: &Header,
) -> Result<Option<Arc<Block>>, SharedError> {
    let unnamed = Unnamed(beside(path));
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(&unnamed.0);
    let file = file.map_err(SharedError::system("create the file"))?;
    // Pages that the system has set aside: a full file system is an error here, and no signal later.
    fallocate(&file, FallocateFlags::empty(), 0, header.bytes as u64)
        .map_err(|error| SharedError::system("set space aside for the file")(error.into()))?;
    let block = map(&file, header.bytes)?;
    header.write(&block);
    file.set_permissions(Permissions::from_mode(mode))
        .map_err(SharedError::system("set the file's mode"))?;
    match fs::hard_link(&unnamed.0, path) {
        Ok(()) => Ok(Some(block)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(SharedError::system("give the file its name")(error)),
    }
}

fn map(file: &File, bytes: usize) -> Result<Arc<Block>, SharedError> {
    let block = Block::of_file(file.as_fd(), bytes);
    let block = block.map_err(|error| SharedError::system("map the file")(error.into()))?;
    Ok(Arc::new(block))
}

/// A name in the same folder that no other process or thread uses.
fn beside(path: &Path) -> PathBuf {
    let [number, ..] = Seeds::random().words();
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.{number:016x}", std::process::id()));
    path.with_file_name(name)
}

/// A file that is removed when this is dropped.
struct Unnamed(PathBuf);

impl Drop for Unnamed {
    fn drop(&mut self) {
        // It does not exist if it could not be created.
        let _ = fs::remove_file(&self.0);
    }
}
