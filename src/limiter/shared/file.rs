//! Files that hold a block: created whole or not at all.
//!
//! A file is made without a name, given its length and its header, and then linked to its path. The link
//! fails if another process was faster, so two processes cannot both create it, and none sees a file without a
//! header. The system removes a file without a name when its creator ends, however it ends.
//!
//! Where the file system knows only files with names (`O_TMPFILE` is refused), the file has a temporary name
//! until then. A creator that is killed leaves that name behind.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, fallocate};
#[cfg(target_os = "linux")]
use {
    rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open},
    std::os::fd::AsRawFd,
};

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
    let begun = Begun::new(path).map_err(SharedError::system("create the file"))?;
    let file = &begun.file;
    // Pages that the system has set aside: a full file system is an error here, and no signal later.
    fallocate(file, FallocateFlags::empty(), 0, header.bytes as u64)
        .map_err(|error| SharedError::system("set space aside for the file")(error.into()))?;
    let block = map(file, header.bytes)?;
    header.write(&block);
    file.set_permissions(Permissions::from_mode(mode))
        .map_err(SharedError::system("set the file's mode"))?;
    match begun.link(path) {
        Ok(()) => Ok(Some(block)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(SharedError::system("give the file its name")(error)),
    }
}

/// A file that does not have its name yet.
struct Begun {
    file: File,
    name: Temporary,
}

enum Temporary {
    /// It has no name, and this path leads to it.
    #[cfg(target_os = "linux")]
    None(PathBuf),
    Name(Removed),
}

impl Begun {
    fn new(path: &Path) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if let Some(nameless) = Self::nameless(path) {
            return Ok(nameless);
        }
        Self::named(path)
    }

    /// `None`: the file system has no files without names, or the system shows no `/proc`.
    #[cfg(target_os = "linux")]
    fn nameless(path: &Path) -> Option<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = open(folder.unwrap_or(Path::new(".")), flags, Mode::RUSR | Mode::WUSR).ok()?;
        let link = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        link.exists().then(|| Self { file: file.into(), name: Temporary::None(link) })
    }

    fn named(path: &Path) -> io::Result<Self> {
        let name = Removed(beside(path));
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(&name.0)?;
        Ok(Self { file, name: Temporary::Name(name) })
    }

    /// Gives it its name, which no file may have.
    fn link(&self, path: &Path) -> io::Result<()> {
        match &self.name {
            #[cfg(target_os = "linux")]
            Temporary::None(link) => Ok(linkat(CWD, link, CWD, path, AtFlags::SYMLINK_FOLLOW)?),
            Temporary::Name(Removed(name)) => fs::hard_link(name, path),
        }
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
    use super::*;

    #[test]
    fn a_file_gets_its_name_once_and_leaves_no_other() {
        let folder = std::env::temp_dir().join(format!("tollgate-begun-{}", std::process::id()));
        fs::create_dir(&folder).expect("a new folder");
        let path = folder.join("limits");
        type Make = fn(&Path) -> Option<Begun>;
        let ways: [Make; 2] = [Begun::nameless, |path| Begun::named(path).ok()];
        for (way, make) in ways.into_iter().enumerate() {
            // Some file systems have no files without names.
            let Some(begun) = make(&path) else {
                assert_eq!(way, 0, "a file with a name can be made");
                continue;
            };
            let names = || fs::read_dir(&folder).expect("a folder").count();
            assert_eq!(names(), way, "only a file of the second way has a name at first");
            begun.link(&path).expect("linked");
            let error = begun.link(&path).expect_err("the name is taken");
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            drop(begun);
            assert_eq!(names(), 1, "way {way}");
            fs::remove_file(&path).expect("it has its name");
        }
        fs::remove_dir(&folder).expect("empty");
    }
}
