//! The check of a file's owner. A file that other users may have written is attached only if the mode asked for
//! lets them write.
//!
//! In a folder such as `/dev/shm`, any user may have put a file at the path before. The mode asked for can let the group
//! write, and that is the group of this process. A user can give his own group to his file, but no group that he is not
//! in. So the file of another user is attached only if this process is in the file's group. Some folders give their own
//! group to the files in them: where all users may write to such a folder, the group says nothing of the file's creator.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::{getegid, geteuid, getgroups};

use super::SharedError;

/// The bits of a mode that let the group and all others write.
const WRITE_OF_OTHERS: u32 = WRITE_OF_GROUP | WRITE_OF_ALL;
const WRITE_OF_GROUP: u32 = 0o020;
const WRITE_OF_ALL: u32 = 0o002;

/// The bit of a folder's mode by which files in it get its group. Files of other systems than Linux always do.
const GIVES_GROUP: u32 = if cfg!(target_os = "linux") { 0o2_000 } else { 0 };

/// Checks that the mode asked for lets all users write who may have written the file.
pub(super) fn check_users(file: &File, path: &Path, mode: u32) -> Result<(), SharedError> {
    let found = file.metadata().map_err(SharedError::system("read the file's owner"))?;
    let (owner, own) = (found.uid(), geteuid().as_raw());
    if owner != own && !lets_owner_write(&found, path, mode)? {
        return Err(SharedError::OtherOwner { path: path.to_owned(), found: owner, expected: own });
    }
    let found = found.mode() & 0o777;
    if found & WRITE_OF_OTHERS & !mode != 0 {
        return Err(SharedError::OpenToOthers { path: path.to_owned(), found, expected: mode });
    }
    Ok(())
}

/// Whether the mode asked for lets the user write who owns the file, and who is another one.
fn lets_owner_write(found: &Metadata, path: &Path, mode: u32) -> Result<bool, SharedError> {
    if mode & WRITE_OF_ALL != 0 {
        return Ok(true);
    }
    Ok(mode & WRITE_OF_GROUP != 0 && is_in_group(found.gid())? && !is_given_to_all(found, path)?)
}

/// Whether this process is in the group.
fn is_in_group(group: u32) -> Result<bool, SharedError> {
    let groups =
        getgroups().map_err(|error| SharedError::system("read the groups")(error.into()))?;
    Ok(groups.into_iter().chain([getegid()]).any(|own| own.as_raw() == group))
}

/// Whether the file's folder gives its group to the files of all users.
fn is_given_to_all(found: &Metadata, path: &Path) -> Result<bool, SharedError> {
    let folder = fs::canonicalize(path).and_then(|path| fs::metadata(path.with_file_name("")));
    let folder = folder.map_err(SharedError::system("read the folder's mode"))?;
    let needed = GIVES_GROUP | WRITE_OF_ALL;
    Ok(folder.gid() == found.gid() && folder.mode() & needed == needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_that_lets_all_users_write_lets_the_owner_write_of_whatever_group() {
        let path = std::env::temp_dir();
        let found = fs::metadata(&path).expect("a folder");
        for (mode, lets) in [(0o666, true), (0o602, true), (0o600, false), (0o644, false)] {
            assert_eq!(lets_owner_write(&found, &path, mode).expect("read"), lets, "{mode:o}");
        }
    }

    #[test]
    fn a_process_is_in_its_own_groups_only() {
        assert!(is_in_group(getegid().as_raw()).expect("read"));
        let groups = getgroups().expect("read");
        let other = (1..).find(|group| groups.iter().all(|own| own.as_raw() != *group));
        let other = other.filter(|group| *group != getegid().as_raw()).unwrap_or(u32::MAX - 1);
        assert!(!is_in_group(other).expect("read"));
    }
}
