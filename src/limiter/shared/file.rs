//! Files that hold a block: created whole or not at all.
//!
//! A file is made without a name, given its length and its header, and then linked to its path. The link
//! fails if another process was faster, so two processes cannot both create it, and none sees a file without a
//! header. The system removes a file without a name when its creator ends, however it ends.
//!
//! Where the file system knows only files with names (`O_TMPFILE` is refused), the file has a temporary name
//! until then. A creator that is killed leaves that name behind.
//!
//! # Guarded by
//!
//! `tests/shared_memory/creation.rs` and `kills.rs`, and `ci/check.sh shared-memory`.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use rustix::io::retry_on_intr;
#[cfg(target_os = "linux")]
use {
    rustix::fs::{AtFlags, CWD, MemfdFlags, Mode, OFlags, SealFlags},
    rustix::fs::{fcntl_add_seals, linkat, memfd_create, open},
    std::os::fd::AsRawFd,
};

use super::header::{Header, has_header, too_short};
use super::owner::check_users;
use super::{Place, SharedError};
use crate::limiter::hash_seeds::Seeds;
use crate::sync::{FileLock, LockableFile};
use crate::table::block::{Block, HEADER_BYTES};

/// How long to wait for another process that creates or attaches the block of a passed file.
const ATTACH_WAIT: Duration = Duration::from_secs(10);

/// Keeps other processes away from a passed file until this is dropped. Any other file is created whole.
pub(super) fn attach_alone(place: &Place) -> Result<Option<FileLock<'_>>, SharedError> {
    match place {
        Place::Descriptor(passed) => {
            passed.lock(ATTACH_WAIT).map(Some).map_err(SharedError::system("lock the file"))
        }
        Place::Anonymous | Place::File { .. } => Ok(None),
    }
}

/// The block at the place, if there is one.
pub(super) fn find(place: &Place) -> Result<Option<Arc<Block>>, SharedError> {
    match place {
        Place::Anonymous => Ok(None),
        Place::File { path, mode } => match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => {
                let file = LockableFile::new(file);
                check_kind(&file)?;
                check_users(&file, path, *mode)?;
                map_all(Arc::new(file)).map(Some)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(SharedError::system("open the file")(error)),
        },
        Place::Descriptor(passed) => {
            if length(passed)? == 0 {
                return Ok(None);
            }
            let block = map_all(Arc::clone(passed))?;
            Ok(Some(block).filter(|block| has_header(block)))
        }
    }
}

/// Checks that it is a regular file, and no device or pipe.
pub(super) fn check_kind(file: &File) -> Result<(), SharedError> {
    let found = file.metadata().map_err(SharedError::system("read the file's kind"))?;
    if found.is_file() { Ok(()) } else { Err(SharedError::Foreign) }
}

fn length(file: &File) -> Result<u64, SharedError> {
    Ok(file.metadata().map_err(SharedError::system("read the file's length"))?.len())
}

fn map_all(file: Arc<LockableFile>) -> Result<Arc<Block>, SharedError> {
    let found = length(&file)?;
    let bytes = usize::try_from(found).unwrap_or(usize::MAX);
    if bytes < HEADER_BYTES {
        let mut first = [0; size_of::<u64>()];
        let _ = file.read_exact_at(&mut first, 0);
        return Err(too_short(u64::from_ne_bytes(first), found));
    }
    map(file, bytes)
}

fn map(file: Arc<LockableFile>, bytes: usize) -> Result<Arc<Block>, SharedError> {
    let block = Block::of_file(file, bytes);
    let block = block.map_err(|error| SharedError::system("map the file")(error.into()))?;
    Ok(Arc::new(block))
}

/// A block that other processes cannot see yet, or that has no header for them.
pub(super) struct Begun {
    block: Arc<Block>,
    header: Header,
    name: Temporary,
}

enum Temporary {
    /// It gets no name.
    Never,
    /// It has no name, and this path leads to it.
    #[cfg(target_os = "linux")]
    None(PathBuf),
    Name(Removed),
}

impl Begun {
    pub(super) fn new(place: &Place, header: Header) -> Result<Self, SharedError> {
        let (file, name) = match place {
            Place::Anonymous => {
                let made = create_anonymous().map_err(SharedError::system("make the file"))?;
                (Arc::new(LockableFile::new(made)), Temporary::Never)
            }
            Place::File { path, .. } => {
                let created = create(path).map_err(SharedError::system("create the file"));
                let (file, name) = created?;
                (Arc::new(LockableFile::new(file)), name)
            }
            Place::Descriptor(passed) => {
                // It is never cut: another process may have mapped it. What a killed creator has left has
                // this length.
                let (found, expected) = (length(passed)?, header.bytes as u64);
                if found != 0 && found != expected {
                    return Err(SharedError::OtherLength { found, expected });
                }
                (Arc::clone(passed), Temporary::Never)
            }
        };
        set_aside(&file, header.bytes as u64, place)?;
        #[cfg(target_os = "linux")]
        never_shorten(&file);
        let block = map(file, header.bytes)?;
        Ok(Self { block, header, name })
    }

    pub(super) fn block(&self) -> Arc<Block> {
        Arc::clone(&self.block)
    }

    /// Makes the block visible. `false`: another process has created the file meanwhile.
    pub(super) fn publish(&self, place: &Place) -> Result<bool, SharedError> {
        self.header.write(&self.block);
        let Place::File { path, mode } = place else { return Ok(true) };
        let permissions = Permissions::from_mode(*mode);
        let set = self.block.file().set_permissions(permissions);
        set.map_err(SharedError::system("set the file's mode"))?;
        match self.name.give(path) {
            Ok(()) => Ok(true),
            // The name of a link to nothing is taken, and yet no file is found there.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match leads_nowhere(path)
            {
                true => Err(SharedError::system("create the file")(io::Error::other(
                    "the path is a link to a file that does not exist",
                ))),
                false => Ok(false),
            },
            Err(error) => Err(SharedError::system("give the file its name")(error)),
        }
    }
}

/// Whether the path is a symbolic link to a file that does not exist.
fn leads_nowhere(path: &Path) -> bool {
    let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    is_link && fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Memory that is set aside at once: it takes less than a millisecond.
const PIECE_BYTES: usize = 1 << 20;

/// Gives the file its length. Memory that is named gets its pages, too: a full file system is an error here,
/// and no signal later. After an error the file has the length that it had, so a block of another length can still be
/// made in it.
fn set_aside(file: &File, bytes: u64, place: &Place) -> Result<(), SharedError> {
    let before = length(file)?;
    let done = match place {
        Place::Anonymous => ftruncate(file, bytes),
        _ => ftruncate(file, bytes).and_then(|()| {
            // On some kernels, a signal makes the call undo all that it has done. So that a signal which comes again
            // and again does not stop it for ever, it is done in pieces.
            (0..bytes).step_by(PIECE_BYTES).try_for_each(|start| {
                let length = (bytes - start).min(PIECE_BYTES as u64);
                retry_on_intr(|| fallocate(file, FallocateFlags::empty(), start, length))
            })
        }),
    };
    done.map_err(|error| {
        let _ = ftruncate(file, before);
        SharedError::system("set space aside for the file")(error.into())
    })
}

impl Temporary {
    /// Gives the file its name, which no other may have.
    fn give(&self, path: &Path) -> io::Result<()> {
        match self {
            Self::Never => Ok(()),
            #[cfg(target_os = "linux")]
            Self::None(link) => Ok(linkat(CWD, link, CWD, path, AtFlags::SYMLINK_FOLLOW)?),
            Self::Name(Removed(name)) => fs::hard_link(name, path),
        }
    }
}

#[cfg(target_os = "linux")]
fn create_anonymous() -> io::Result<File> {
    Ok(memfd_create("tollgate", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?.into())
}

/// Seals the file, so that no process can shorten it: that would kill the processes that have mapped it. Only a
/// file in memory that allows seals can be sealed; any other stays as it is.
#[cfg(target_os = "linux")]
fn never_shorten(file: &File) {
    let _ = fcntl_add_seals(file, SealFlags::SHRINK);
}

/// Other systems, such as macOS, have no files in memory only.
#[cfg(not(target_os = "linux"))]
fn create_anonymous() -> io::Result<File> {
    create_removed(&std::env::temp_dir())
}

/// A file that loses its name at once.
#[cfg(any(test, not(target_os = "linux")))]
fn create_removed(folder: &Path) -> io::Result<File> {
    let (file, _removed) = create_named(&folder.join("tollgate"))?;
    Ok(file)
}

/// Creates a file beside the path, without a name if that can be had.
fn create(path: &Path) -> io::Result<(File, Temporary)> {
    #[cfg(target_os = "linux")]
    if let Some(nameless) = create_nameless(path) {
        return Ok(nameless);
    }
    create_named(path)
}

/// `None`: the file system has no files without names, or the system shows no `/proc`.
#[cfg(target_os = "linux")]
fn create_nameless(path: &Path) -> Option<(File, Temporary)> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = open(folder.unwrap_or(Path::new(".")), flags, Mode::RUSR | Mode::WUSR).ok()?;
    let link = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    link.exists().then(|| (file.into(), Temporary::None(link)))
}

fn create_named(path: &Path) -> io::Result<(File, Temporary)> {
    let name = Removed(beside(path));
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(&name.0)?;
    Ok((file, Temporary::Name(name)))
}

/// A name in the same folder that no other process or thread uses.
fn beside(path: &Path) -> PathBuf {
    let [number, ..] = Seeds::random().words();
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.{number:016x}", std::process::id()));
    path.with_file_name(name)
}

/// A name that is removed when this is dropped.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // It does not exist if it could not be created.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_file_that_loses_its_name_can_still_be_used() {
        let folder = std::env::temp_dir().join(format!("tollgate-removed-{}", std::process::id()));
        fs::create_dir(&folder).expect("a new folder");
        let file = create_removed(&folder).expect("a file");
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 0, "its name is gone");
        set_aside(&file, 8_192, &Place::Anonymous).expect("space");
        assert_eq!(length(&file).expect("a length"), 8_192);
        let blocks = || file.metadata().expect("a file").blocks();
        assert_eq!(blocks(), 0, "memory without a name gets its pages when they are used");
        let named = Place::File { path: folder.clone(), mode: 0o600 };
        set_aside(&file, 8_192, &named).expect("space");
        assert!(blocks() * 512 >= 8_192);
        fs::remove_dir(&folder).expect("empty");
    }

    #[test]
    fn a_file_gets_its_name_once_and_leaves_no_other() {
        let folder = std::env::temp_dir().join(format!("tollgate-begun-{}", std::process::id()));
        fs::create_dir(&folder).expect("a new folder");
        let path = folder.join("limits");
        type Make = fn(&Path) -> Option<(File, Temporary)>;
        let ways: [Make; 2] = [create_nameless, |path| create_named(path).ok()];
        for (way, make) in ways.into_iter().enumerate() {
            // Some file systems have no files without names.
            let Some((file, name)) = make(&path) else {
                assert_eq!(way, 0, "a file with a name can be made");
                continue;
            };
            let names = || fs::read_dir(&folder).expect("a folder").count();
            assert_eq!(names(), way, "only a file of the second way has a name at first");
            let mode = file.metadata().expect("a file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "no other user can open it");
            file.write_all_at(b"limits", 0).expect("written");
            file.read_exact_at(&mut [0; 6], 0).expect("read");
            let other = create(&path).expect("another file");
            assert!(way == 1 || names() == 0, "it has no name where that can be had");
            drop(other);
            name.give(&path).expect("linked");
            let error = name.give(&path).expect_err("the name is taken");
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            drop((file, name));
            assert_eq!(names(), 1, "way {way}");
            fs::remove_file(&path).expect("it has its name");
        }
        fs::remove_dir(&folder).expect("empty");
    }

    #[test]
    fn a_file_in_memory_can_be_sealed_and_is_closed_in_a_new_program() {
        let file = create_anonymous().expect("a file");
        file.set_len(8_192).expect("space");
        never_shorten(&file);
        assert!(file.set_len(4_096).is_err());
        let flags = rustix::io::fcntl_getfd(&file).expect("its flags");
        assert_eq!(flags, rustix::io::FdFlags::CLOEXEC);
    }
}
