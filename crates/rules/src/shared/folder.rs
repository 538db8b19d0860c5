//! The folder of the blocks of a rules file. Only this user may write to it. Otherwise another user could put a block
//! of its own there.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

const MODE: u32 = 0o700;

/// Creates the folder unless it is there. The error says what is wrong with it, and what to do.
pub(super) fn claim(folder: &Path) -> Result<(), String> {
    let shown = folder.display();
    match DirBuilder::new().mode(MODE).create(folder) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(format!("{shown} cannot be created: {error}")),
    }
    let found = fs::symlink_metadata(folder);
    let found = found.map_err(|error| format!("{shown} cannot be read: {error}"))?;
    let this = fs::metadata("/proc/self")
        .map_err(|error| format!("/proc/self cannot be read: {error}"))?;
    if !found.is_dir() {
        return Err(format!("{shown} is no folder: remove it, or choose another name"));
    }
    if found.uid() != this.uid() {
        let (its, own) = (found.uid(), this.uid());
        return Err(format!(
            "{shown} belongs to user {its}, and this process to user {own}: run both as one user, or choose \
             another name"
        ));
    }
    if found.mode() & 0o022 != 0 {
        return Err(format!("{shown} can be written by others: run chmod 700 {shown}"));
    }
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_a_folder_of_this_user_is_accepted() {
        let folder = std::env::temp_dir().join(format!("tollgate-folder-{}", std::process::id()));
        claim(&folder).expect("created");
        assert_eq!(fs::metadata(&folder).expect("it is there").mode() & 0o777, MODE);
        claim(&folder).expect("it is there already");
        fs::set_permissions(&folder, Permissions::from_mode(0o770)).expect("set");
        assert!(claim(&folder).expect_err("the group may write").contains("run chmod 700"));
        fs::set_permissions(&folder, Permissions::from_mode(0o700)).expect("set");
        let link = folder.join("link");
        symlink(&folder, &link).expect("linked");
        assert!(claim(&link).expect_err("a link").contains("is no folder"));
        assert!(claim(&folder.join("a/b")).expect_err("no parent").contains("cannot be created"));
        fs::remove_dir_all(&folder).expect("removed");
        // The root of the file system is the administrator's.
        if fs::metadata("/proc/self").expect("it is there").uid() != 0 {
            assert!(
                claim(Path::new("/")).expect_err("of another user").contains("belongs to user 0")
            );
        }
    }
}
