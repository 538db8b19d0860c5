//! The whole tool on a small crate.

use std::path::PathBuf;
use std::process::{Command, Output};

const CODE: &str = "\
pub fn passes(points: u32) -> bool {
    points >= 50
}

pub const fn doubled(points: u32) -> u32 {
    points * 2
}

const MAX: u32 = doubled(100);

pub fn greeting(name: &str) -> String {
    String::from(\"hello \") + name
}

pub fn steps(to: u32) -> u32 {
    let mut at = 0;
    while at < to {
        at += 1;
    }
    at
}
";

const STRONG: &str = "
#[test]
fn all_is_exact() {
    assert!(crate::passes(50) && !crate::passes(49));
    assert_eq!((crate::doubled(3), crate::MAX), (6, 200));
    assert_eq!(crate::greeting(\"you\"), \"hello you\");
    assert_eq!([0, 5].map(crate::steps), [0, 5]);
}
";

const WEAK: &str = "
#[test]
fn some_points_pass() {
    assert!(crate::passes(80) && !crate::passes(10));
    assert_eq!((crate::doubled(3), crate::MAX), (6, 200));
    assert_eq!([0, 5].map(crate::steps), [0, 5]);
}
";

struct Sample(PathBuf);

impl Sample {
    fn new(name: &str, tests: &str) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        for old in [folder.clone(), folder.with_extension("out")] {
            let _ = std::fs::remove_dir_all(old);
        }
        std::fs::create_dir_all(folder.join("src")).unwrap();
        let sample = Self(folder);
        sample.write(
            "Cargo.toml",
            "[package]\nname = \"sample\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n\
             [profile.dev]\ndebug = false\n",
        );
        sample.write("src/lib.rs", &format!("{CODE}\n#[cfg(test)]\nmod tests;\n"));
        sample.write("src/tests.rs", tests);
        let git = Command::new("git").args(["init", "--quiet"]).current_dir(&sample.0).status();
        assert!(git.unwrap().success());
        sample
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    /// Runs the tool, and tells what it printed and the code that it ended with.
    fn run(&self, more: &[&str]) -> (String, Option<i32>) {
        let out = self.0.with_extension("out");
        let Output { stdout, stderr, status } = Command::new(env!("CARGO_BIN_EXE_mutants"))
            .args(["--package", "sample", "--workspace"])
            .arg(&self.0)
            .arg("--out")
            .arg(&out)
            .args(more)
            .output()
            .unwrap();
        let text = [stdout, stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        (text, status.code())
    }

    fn outcomes(&self) -> String {
        let path = self.0.with_extension("out").join("sample/outcomes.txt");
        std::fs::read_to_string(path).unwrap()
    }
}

#[test]
fn a_strong_test_kills_all() {
    let sample = Sample::new("strong", STRONG);
    let (text, code) = sample.run(&[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("0 survived, 0 not reached; 0 open"), "{text}");
    let outcomes = sample.outcomes();
    // The compiler evaluates this function too, where no mutant is on.
    assert!(outcomes.contains("\tkilled\t"), "{outcomes}");
    assert!(outcomes.contains("replace * with + in doubled"), "{outcomes}");
    // This one never ends.
    assert!(
        outcomes.lines().any(|line| line.contains("\ttimeout\t") && line.contains("+= with *=")),
        "{outcomes}"
    );
    // Texts cannot be subtracted or multiplied.
    assert!(text.contains("not made:      2 not accepted by the compiler"), "{text}");
    assert!(!outcomes.contains("in greeting"), "{outcomes}");

    // A mutant with a known result is not tried again.
    assert_eq!(sample.run(&[]).1, Some(0));
    assert_eq!(sample.outcomes(), outcomes);
}

#[test]
fn all_tests_try_what_the_unit_tests_do_not_notice() {
    let sample = Sample::new("first", WEAK);
    std::fs::create_dir_all(sample.0.join("tests")).unwrap();
    let of_users = STRONG.replace("crate::MAX", "200").replace("crate::", "sample::");
    sample.write("tests/users.rs", &of_users);
    assert_eq!(sample.run(&["--lib"]).1, Some(1));
    let noticed = sample.outcomes().lines().count();
    let (text, code) = sample.run(&[]);
    assert_eq!(code, Some(0), "{text}");
    // Three survivors, and the one that was not reached.
    assert_eq!(sample.outcomes().lines().count(), noticed + 4, "{text}");
    // An integration test is no unit test: its results do not count for these alone.
    assert_eq!(sample.run(&["--lib"]).1, Some(1));
}

#[test]
fn a_weak_test_leaves_survivors_and_places_that_it_does_not_reach() {
    let sample = Sample::new("weak", WEAK);
    let (text, code) = sample.run(&["--file", "src/lib.rs"]);
    assert_eq!(code, Some(1), "{text}");
    let survivors = [
        "src/lib.rs: replace >= with > in passes | points >= 50",
        "src/lib.rs: replace 50 with 51 in passes | points >= 50",
        "src/lib.rs: replace 50 with 49 in passes | points >= 50",
    ];
    let not_reached = "src/lib.rs: replace greeting -> String with String::new() | \
                       String::from(\"hello \") + name";
    let (survived, missed) = text.split_once("Not reached by any test: 1").expect(&text);
    assert!(survived.contains("Survived: no test that reaches it fails: 3"), "{text}");
    assert!(survivors.iter().all(|key| survived.contains(key)), "{text}");
    assert!(missed.contains(not_reached), "{text}");

    // A list accepts them, until it names one that is not made.
    let listed = survivors.map(|key| format!("{key} # a sample\n")).concat();
    let listed = format!("{listed}{not_reached} # a sample\n");
    sample.write("known.txt", &listed);
    let known = sample.0.join("known.txt");
    let with_list = ["--known", known.to_str().unwrap()];
    let (text, code) = sample.run(&with_list);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("4 listed, 0 survived"), "{text}");
    sample.write("known.txt", &format!("{listed}src/lib.rs: delete ! in passes | !x # a sample\n"));
    let (text, code) = sample.run(&with_list);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("names a mutant that is not made: src/lib.rs: delete !"), "{text}");

    // A stronger test meets only those that are not killed yet.
    let before = sample.outcomes().lines().count();
    sample.write("src/tests.rs", STRONG);
    let (text, code) = sample.run(&["--trust-kills"]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(sample.outcomes().lines().count(), before + 4);
}

#[test]
fn tests_are_chosen_by_name() {
    let sample = Sample::new("chosen", WEAK);
    std::fs::create_dir(sample.0.join("tests")).unwrap();
    let greets = "#[test]\nfn greets() { assert_eq!(sample::greeting(\"\"), \"hello \") }\n";
    let fails = "#[test]\nfn fails() { assert_eq!(1, 2) }\n";
    for (name, text) in [("greets", greets), ("empty", ""), ("fails", fails)] {
        sample.write(&format!("tests/{name}.rs"), text);
    }
    for (chosen, not_reached, failing) in [
        (&["--lib"][..], 1, false),
        (&["--test", "greets", "--test", "empty"], 0, false),
        (&["--skip", "never"], 0, true),
        (&["--skip", "fails"], 0, false),
    ] {
        let (text, code) = sample.run(chosen);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains(&format!(" 3 survived, {not_reached} not reached")), "{text}");
        assert_eq!(text.contains("fails without a mutant: fails::fails"), failing, "{text}");
    }
}

#[test]
fn a_test_beyond_the_longest_one_is_stopped_while_it_is_recorded() {
    let slow = "#[test]\nfn slow() { std::thread::sleep(std::time::Duration::from_secs(60)) }\n";
    let sample = Sample::new("slow", &format!("{STRONG}{slow}"));
    let (text, code) = sample.run(&["--longest-test", "0.4"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("mutants: stopped slow tests: 1."), "{text}");
    assert!(text.contains("0 survived, 0 not reached; 0 open"), "{text}");
}

#[test]
fn a_part_is_tried_and_the_rest_stays_open() {
    let sample = Sample::new("part", STRONG);
    let (text, code) = sample.run(&["--for", "0"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("stopped while recording"), "{text}");
    let (text, _) = sample.run(&["--shard", "1/4"]);
    let first = sample.outcomes().lines().count();
    assert!(text.contains(&format!("sample: {first} tried")), "{text}");
    sample.run(&["--shard", "2/4", "--jobs", "2"]);
    assert!(sample.outcomes().lines().count() > first);
    let (text, _) = sample.run(&["--sample", "0"]);
    assert!(text.contains("sample: 0 tried"), "{text}");
}

#[test]
fn a_test_that_fails_without_a_mutant_is_left_out_and_fails_the_run() {
    let sample =
        Sample::new("broken", &format!("{STRONG}#[test]\nfn never() {{ assert_eq!(1, 2) }}\n"));
    let (text, code) = sample.run(&["--sample", "5"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("fails without a mutant: sample::tests::never"), "{text}");
}

#[test]
fn a_wrong_option_says_where_help_is() {
    let sample = Sample::new("wrong", STRONG);
    for wrong in
        [&["--shard", "4/4"][..], &["--jobs"], &["--jobs", "x"], &["--for", "-1"], &["all"]]
    {
        let (text, code) = sample.run(wrong);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("--help lists the options"), "{text}");
    }
}
