//! `tollgate shm`, run as a program.
#![cfg(target_os = "linux")]

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tollgate::shared::Shared;
use tollgate::{FixedWindow, Limiter, Quota};

/// A new folder, which is removed with everything in it when this is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("shm-{name}"));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("a new folder");
        Self(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A block with a key in it.
    fn block(&self, name: &str) {
        let builder =
            Limiter::<str>::builder(Quota::per_day(100)).algorithm(FixedWindow::anchored());
        let gate =
            builder.capacity(1_000).build_shared(&Shared::file(self.at(name))).expect("created");
        assert!(gate.check("somebody").is_ok());
    }

    /// Exit code, standard output, standard error.
    fn shm(&self, words: &[&str]) -> (i32, String, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_tollgate"))
            .arg("shm")
            .args(words)
            .arg("--dir")
            .arg(&self.0)
            .output()
            .expect("the binary runs");
        let text = |bytes| String::from_utf8(bytes).expect("it writes UTF-8");
        (output.status.code().expect("no signal"), text(output.stdout), text(output.stderr))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn write(path: &Path, place: u64, word: u64) {
    let file = OpenOptions::new().write(true).open(path).expect("a file");
    file.write_all_at(&word.to_ne_bytes(), place * 8).expect("written");
}

#[test]
fn blocks_are_listed_and_other_files_are_not() {
    let folder = Folder::new("list");
    let (code, out, _) = folder.shm(&["list"]);
    assert_eq!((code, out), (0, format!("no block of limits in {}\n", folder.0.display())));
    folder.block("api");
    fs::create_dir(folder.at("tollgate-web")).expect("a folder");
    folder.block("tollgate-web/login");
    folder.block("older");
    write(&folder.at("older"), 1, 77);
    fs::write(folder.at("other"), "a file of another program").expect("written");
    let (code, out, err) = folder.shm(&["list"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let lines: Vec<Vec<&str>> = out
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect())
        .collect();
    assert_eq!(lines[0], ["name", "limiter", "algorithm", "keys / slots", "size", "state"]);
    let row =
        |name| vec![name, "Limiter, wide slots", "fixed-window", "1 / 7,296", "119.0 KiB", "good"];
    assert_eq!(lines[1], row("api"));
    assert_eq!(lines[2], ["older", "of another version"]);
    assert_eq!(lines[3], row("tollgate-web/login"));
    assert_eq!(lines.len(), 4);
}

#[test]
fn a_block_is_shown_with_its_header_and_counts() {
    let folder = Folder::new("show");
    folder.block("api");
    let (code, out, err) = folder.shm(&["show", "api"]);
    assert_eq!((code, err.as_str()), (0, ""));
    for line in [
        "  mode        0600 (its owner only)\n",
        "  limiter     Limiter, wide slots\n",
        "  algorithm   fixed-window\n",
        "  quota       100 in each window of 86400s\n",
        "  claimed     1 slots\n",
        "  no slot     0 denied, 0 admitted, 0 by the shared overflow\n",
        "    the number of the algorithm: 3\n",
    ] {
        assert!(out.contains(line), "{line}\n{out}");
    }
    assert!(!out.contains("problem"), "{out}");
    // By its path, too.
    let path = folder.at("api");
    assert_eq!(folder.shm(&["show", path.to_str().expect("UTF-8")]).1, out);
}

#[test]
fn the_fault_of_a_file_is_shown() {
    let folder = Folder::new("faults");
    folder.block("api");
    let file = OpenOptions::new().write(true).open(folder.at("api")).expect("a file");
    file.set_len(8_192).expect("cut");
    let (code, out, _) = folder.shm(&["show", "api"]);
    assert!(
        code == 1 && out.contains("problem     shared memory: the file has 8192 bytes"),
        "{out}"
    );
    assert!(out.contains("  algorithm   fixed-window\n"), "{out}");
    write(&folder.at("api"), 0, 5);
    let (code, out, _) = folder.shm(&["show", "api"]);
    assert!(code == 1 && out.contains("the file is no block of limits"), "{out}");
    let (code, _, err) = folder.shm(&["show", "none"]);
    assert!(code == 2 && err.contains("`tollgate shm list` shows what is there"), "{err}");
}

#[test]
fn only_blocks_are_removed_unless_forced() {
    let folder = Folder::new("remove");
    folder.block("api");
    let (code, out, _) = folder.shm(&["remove", "api"]);
    assert!(code == 0 && out.contains("\nProcesses that have attached a block keep it, "), "{out}");
    assert!(!folder.at("api").exists());

    fs::create_dir(folder.at("tollgate-web")).expect("a folder");
    folder.block("tollgate-web/login");
    fs::write(folder.at("tollgate-web/notes"), "of another program").expect("written");
    let (code, out, _) = folder.shm(&["remove", "tollgate-web"]);
    assert!(code == 1 && out.ends_with("nothing was removed: see --force\n"), "{out}");
    assert!(out.contains("notes: shared memory: the file is no block of limits"), "{out}");
    assert!(folder.at("tollgate-web/login").exists());
    let (code, ..) = folder.shm(&["remove", "tollgate-web", "--force"]);
    assert_eq!(code, 0);
    assert!(!folder.at("tollgate-web").exists());
}

#[test]
fn folders_without_blocks_and_of_other_programs_are_not_removed() {
    let folder = Folder::new("remove-folders");
    for (name, how) in [("other", "\"tollgate-\"\n"), ("tollgate-left", ": see --force\n")] {
        fs::create_dir(folder.at(name)).expect("a folder");
        let (code, out, _) = folder.shm(&["remove", name]);
        assert!(code == 1 && out.contains(": the folder holds no block\n"), "{out}");
        assert!(out.ends_with(how), "{out}");
    }
    fs::write(folder.at("other/notes"), "of another program").expect("written");
    for name in ["other", "."] {
        let (code, out, _) = folder.shm(&["remove", name, "--force"]);
        assert!(code == 1 && out.ends_with("\"tollgate-\"\n"), "{out}");
    }
    assert!(folder.at("other/notes").exists() && folder.at("tollgate-left").exists());
    assert_eq!(folder.shm(&["remove", "tollgate-left", "--force"]).0, 0);
    assert!(!folder.at("tollgate-left").exists());
}

#[test]
fn characters_that_a_terminal_obeys_do_not_reach_it_from_the_names_of_files() {
    let folder = Folder::new("escapes");
    folder.block("api\x1b[2K\r\nforged\u{9b}\u{202e}\u{2069}");
    let shown = "api\u{fffd}[2K\u{fffd}\u{fffd}forged\u{fffd}\u{fffd}\u{fffd}";
    let (code, out, _) = folder.shm(&["list"]);
    assert_eq!((code, out.lines().count()), (0, 2), "{out:?}");
    assert!(out.contains(&format!("\n{shown}  Limiter")), "{out:?}");

    let tollgate_folder = "tollgate-\x1b]0;web\x07";
    fs::create_dir(folder.at(tollgate_folder)).expect("a folder");
    let (_, empty, _) = folder.shm(&["show", tollgate_folder]);
    let (_, kept, _) = folder.shm(&["remove", tollgate_folder]);
    fs::write(folder.at(tollgate_folder).join("\x1b[1m"), "of another program").expect("written");
    let (_, other, _) = folder.shm(&["remove", tollgate_folder]);
    let (_, all, _) = folder.shm(&["show", "."]);
    let (_, _, absent) = folder.shm(&["show", "\x1b[1m"]);
    let (_, forced, _) = folder.shm(&["remove", tollgate_folder, "--force"]);
    for out in [empty, kept, other, all, absent, forced] {
        let is_plain = |letter: char| letter == '\n' || !letter.is_control();
        assert!(out.contains('\u{fffd}') && out.chars().all(is_plain), "{out:?}");
    }
}
