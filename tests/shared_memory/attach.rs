//! Attaching checks the block, and its errors name the choice that differs.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

use tollgate::shared::{Shared, SharedError, describe};
use tollgate::{Direct, FixedWindow, Limiter, OnFull, Quota};

use crate::{Folder, KINDS, quota, skipped};

/// The error of attaching a file that was created with other choices, or was changed since.
fn refused(path: &Path, kind: usize, cells: u64) -> String {
    let built = KINDS[kind].build(&Shared::file(path), quota(cells));
    built.expect_err("refused").to_string()
}

#[test]
fn a_choice_that_differs_is_named() {
    let folder = Folder::new();
    let _gate = KINDS[0].build(&folder.shared(), quota(10)).expect("created");
    let path = folder.path();
    assert!(refused(&path, 0, 11).contains("the quota, or an option of the algorithm: "));
    assert!(refused(&path, 1, 10).contains("the kind of limiter (0 wide slots, 1 compact slots"));
    assert!(refused(&path, 5, 10).contains("the number of the algorithm: "));
    let larger = Limiter::<u64>::builder(quota(10)).slots(KINDS[0].slots).capacity(9_000);
    let error = larger.build_shared(&folder.shared()).expect_err("refused");
    assert!(matches!(error, SharedError::Different { field: "the capacity, in buckets", .. }));
    let same = || Limiter::<u64>::builder(quota(10)).slots(KINDS[0].slots).capacity(1_000);
    let error = same().count_decisions().build_shared(&folder.shared()).expect_err("refused");
    assert!(error.to_string().contains("whether decisions are counted"), "{error}");
    let shared_overflow = same().on_full(OnFull::SharedOverflow(quota(9)));
    let error = shared_overflow.build_shared(&folder.shared()).expect_err("refused");
    assert!(error.to_string().contains("the quota of the shared overflow"), "{error}");
    let error = Direct::builder(quota(10)).build_shared(&folder.shared()).expect_err("refused");
    assert!(error.to_string().contains("the kind of limiter"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_limiter_that_is_dropped_leaves_no_memory_mapped() {
    let folder = Folder::new();
    let gate = KINDS[0].build(&folder.shared(), quota(10)).expect("created");
    let inode = fs::metadata(folder.path()).expect("a file").ino().to_string();
    // Address, rights, offset, device, inode, name. Files in memory only have numbers of their own.
    let is_it =
        |line: &&str| line.split_whitespace().nth(4) == Some(&inode) && !line.contains("/memfd:");
    let mapped = || {
        let maps = fs::read_to_string("/proc/self/maps").expect("Linux");
        maps.lines().filter(is_it).count()
    };
    assert_eq!(mapped(), 1);
    drop(gate);
    assert_eq!(mapped(), 0);
}

#[test]
fn a_file_that_is_too_short_is_named_for_what_it_is() {
    let folder = Folder::new();
    drop(KINDS[0].build(&folder.shared(), quota(10)).expect("created"));
    let file = OpenOptions::new().write(true).open(folder.path()).expect("a file");
    for length in [4_095, 0] {
        file.set_len(length).expect("cut");
        let error = refused(&folder.path(), 0, 10);
        let expected = format!("the file has {length} bytes, and should have 4096");
        assert!(error.contains(&expected), "{error}");
    }
    for foreign in [&b"7 bytes"[..], b"a note of another program"] {
        fs::write(folder.path(), foreign).expect("written");
        let error = refused(&folder.path(), 0, 10);
        assert!(error.contains("the file is no block of limits"), "{error}");
    }
}

#[test]
fn a_file_that_was_damaged_or_is_none_of_ours_is_refused() {
    let folder = Folder::new();
    let (path, word) = (folder.path(), |index: u64, value: u64| {
        let file = OpenOptions::new().write(true).open(folder.path()).expect("a file");
        file.write_all_at(&value.to_ne_bytes(), index * 8).expect("written");
    });
    let create = || {
        let _ = fs::remove_file(&path);
        drop(KINDS[0].build(&folder.shared(), quota(10)).expect("created"));
    };
    create();
    word(0, 7);
    assert!(refused(&path, 0, 10).contains("the file is no block of limits"));
    create();
    word(1, 2);
    assert!(refused(&path, 0, 10).contains("layout 2, of another version"));
    create();
    word(3, 1);
    assert!(refused(&path, 0, 10).contains("before this machine was started"));
    create();
    word(6, 1);
    assert!(refused(&path, 0, 10).contains("hashes keys differently"));
    create();
    let bytes = fs::metadata(&path).expect("a file").len();
    for length in [bytes - 4_096, bytes + 4_096, 4_095, 0] {
        create();
        let file = OpenOptions::new().write(true).open(&path).expect("a file");
        file.set_len(length).expect("a length");
        assert!(refused(&path, 0, 10).contains(&format!("the file has {length} bytes")));
    }
}

#[test]
fn files_are_private_unless_asked_otherwise() {
    let folder = Folder::new();
    let mode = || fs::metadata(folder.path()).expect("a file").permissions().mode() & 0o777;
    drop(KINDS[0].build(&folder.shared(), quota(10)).expect("created"));
    assert_eq!(mode(), 0o600);
    fs::remove_file(folder.path()).expect("removed");
    drop(KINDS[0].build(&folder.shared().mode(0o660), quota(10)).expect("created"));
    assert_eq!(mode(), 0o660);
}

/// In a folder such as `/dev/shm`, another user may have put a block at the path before.
#[test]
fn a_file_that_another_user_owns_or_may_write_is_refused() {
    let folder = Folder::new();
    let path = folder.path();
    let attach = |mode| KINDS[0].build(&folder.shared().mode(mode), quota(10)).map(drop);
    for (created, asked, text) in [
        (0o666, 0o600, "has mode 0666, and 0600 was asked for"),
        (0o620, 0o604, "has mode 0620, and 0604 was asked for"),
        (0o662, 0o660, "has mode 0662, and 0660 was asked for"),
    ] {
        attach(created).expect("created");
        attach(created).expect("attached by the same choice");
        let error = attach(asked).expect_err("another user may write it").to_string();
        assert!(error.contains(text) && error.contains(path.to_str().expect("a text")), "{error}");
        fs::remove_file(&path).expect("removed");
    }
    attach(0o644).expect("created");
    attach(0o600).expect("others may read it only");
    let own = fs::metadata(&path).expect("a file").uid();
    let other = if own == 65_534 { 65_533 } else { 65_534 };
    if let Err(error) = std::os::unix::fs::chown(&path, Some(other), None) {
        skipped(&format!("this user cannot give files to another: {error}"));
        return;
    }
    let error = attach(0o600).expect_err("of another user").to_string();
    let text = format!("belongs to user {other}, and this process to user {own}");
    assert!(error.contains(&text), "{error}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("set");
    attach(0o666).expect("all users share it");
}

/// A user who is in none of this process's groups can let his own group write his own file.
#[test]
fn a_block_that_another_user_shares_with_a_group_is_attached_only_in_that_group() {
    let folder = Folder::new();
    let path = folder.path();
    let attach = || KINDS[0].build(&folder.shared().mode(0o660), quota(10)).map(drop);
    attach().expect("created");
    let created = fs::metadata(&path).expect("a file");
    let other = if created.uid() == 65_534 { 65_533 } else { 65_534 };
    let give = |group| std::os::unix::fs::chown(&path, Some(other), Some(group));
    if let Err(error) = give(other) {
        skipped(&format!("this user cannot give files to another: {error}"));
        return;
    }
    let error = attach().expect_err("of a group that this process is not in").to_string();
    assert!(error.contains(&format!("belongs to user {other}")), "{error}");
    give(created.gid()).expect("given");
    attach().expect("its group is one of this process");
    // Such a folder gives its group to the files of any user.
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o3_777)).expect("set");
    attach().expect_err("the group is that of the folder");
    let linked = Folder::new();
    std::os::unix::fs::symlink(&path, linked.path()).expect("linked");
    let by_link = KINDS[0].build(&linked.shared().mode(0o660), quota(10));
    by_link.expect_err("the folder of the file counts, not that of the link");
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o2_770)).expect("set");
    attach().expect("only the group may write to the folder");
}

#[test]
fn a_path_that_leads_to_no_regular_file_is_refused_for_what_it_is() {
    for call in [
        refused(Path::new("/dev/null"), 0, 10),
        describe("/dev/null").expect_err("none").to_string(),
    ] {
        assert!(call.contains("the file is no block of limits"), "{call}");
    }
    let folder = Folder::new();
    std::os::unix::fs::symlink(folder.0.join("nowhere"), folder.path()).expect("linked");
    let error = refused(&folder.path(), 0, 10);
    assert!(error.contains("the path is a link to a file that does not exist"), "{error}");
    assert_eq!(folder.names(), ["limits"]);
    // A link to a block is followed.
    drop(KINDS[0].build(&Shared::file(folder.0.join("nowhere")), quota(10)).expect("created"));
    drop(KINDS[0].build(&folder.shared(), quota(10)).expect("attached"));
}

#[test]
fn an_offset_that_was_changed_stays_in_the_file_and_the_error_names_the_first_one() {
    let folder = Folder::new();
    let build = |offset| {
        let windows = FixedWindow::aligned().utc_offset_secs(offset);
        let builder = Limiter::<u64>::builder(Quota::per_day(3)).algorithm(windows);
        builder.build_shared(&folder.shared())
    };
    let winter = build(3_600).expect("created");
    winter.set_utc_offset_secs(7_200).expect("the windows follow the wall clock");
    assert!(build(3_600).is_ok());
    let error = build(7_200).expect_err("another offset").to_string();
    assert!(error.contains("when windows begin, in nanoseconds (utc_offset_secs "), "{error}");
}

#[test]
fn a_wrong_choice_and_a_missing_folder_are_errors() {
    let built = Limiter::<u64>::builder(quota(1)).capacity(0).build_shared(&Shared::anonymous());
    assert!(matches!(built, Err(SharedError::Build(_))));
    let error = KINDS[0].build(&Shared::file("/dev/shm/no/folder"), quota(1)).expect_err("none");
    assert!(error.to_string().contains("create the file: No such file or directory"), "{error}");
    let huge = Limiter::<u64>::builder(quota(1)).capacity(1 << 40);
    assert!(huge.build_shared(&Shared::anonymous()).is_err());
}
