//! Limits that processes share. Two limiters of one process attach the same blocks as two processes would.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use tollgate_rules::{
    ReloadError, ReloadSummary, ReloadWarning, Request, Rules, RulesFile, RulesLimiter,
};

/// A name that no other test has. Its folder is removed when this is dropped.
pub(crate) struct Name(String);

impl Name {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self(format!("rules-test-{}-{number}", std::process::id()))
    }

    pub(crate) fn folder(&self) -> PathBuf {
        PathBuf::from(format!("/dev/shm/tollgate-{}", self.0))
    }

    /// The names of the blocks, without their hashes.
    fn blocks(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder()).expect("a folder");
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
            name.rsplit_once('.').expect("a hash").0.to_owned()
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    pub(crate) fn text(&self, rest: &str) -> String {
        format!("shared = \"{}\"\nrule = [{{ name = \"a\", key = \"none\", {rest} }}]", self.0)
    }

    pub(crate) fn build(&self, rest: &str) -> RulesLimiter {
        RulesLimiter::new(Rules::parse("r.toml", &self.text(rest)).expect("rules")).expect("shared")
    }

    /// A file with these rules.
    pub(crate) fn file(&self, number: u32, rest: &str) -> (PathBuf, RulesFile) {
        let path = std::env::temp_dir().join(format!("{}-{number}.toml", self.0));
        std::fs::write(&path, self.text(rest)).expect("written");
        let file = RulesFile::open(&path).expect("shared");
        (path, file)
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.folder());
    }
}

pub(crate) fn admits(gate: &RulesLimiter, cells: u64) -> bool {
    gate.decide_n(&Request::default(), cells).is_admitted()
}

/// How many requests in a row are admitted, up to 99.
pub(crate) fn left(gate: &RulesLimiter) -> usize {
    (0..99).take_while(|_| admits(gate, 1)).count()
}

#[test]
fn every_algorithm_and_all_plans_are_shared() {
    for limits in [
        "limits = \"9/d\"",
        "limits = \"9/d\", algorithm = \"fixed-window\"",
        "limits = \"9/y\", algorithm = \"fixed-window-aligned\"",
        "limits = \"9/d\", algorithm = \"sub-windows\"",
        "limits = \"9/d\", algorithm = \"sliding-counter\"",
        "limits = \"9/d\", algorithm = \"sliding-log\"",
        "limits = \"9/d\", algorithm = \"leaky-queue\"",
        "limits = \"9/d\", capacity = 1_000_000",
        "limits = [\"9/d\", \"20/d\", \"99/w\"]",
        "plan = { by = \"header:x-plan\", gold = \"20/d\", default = \"9/d\" }",
        "plan = { by = \"header:x-plan\", gold = \"20/d\", default = \"9/d\" }, algorithm = \"fixed-window\"",
    ] {
        let name = Name::new();
        let (one, other) = (name.build(limits), name.build(limits));
        assert!(admits(&one, 4) && admits(&other, 3), "{limits}");
        assert!(!admits(&one, 3), "{limits}");
        assert_eq!(left(&other), 2, "{limits}");
        // A process that starts later sees it, too; one with another name does not.
        assert_eq!(left(&name.build(limits)), 0, "{limits}");
        assert_eq!(left(&Name::new().build(limits)), 9, "{limits}");
    }
}

#[test]
fn bans_are_shared() {
    let name = Name::new();
    let rule = "limits = \"2/s\", penalty = { after = 2, ban = \"1 h\" }";
    let (one, other) = (name.build(rule), name.build(rule));
    assert_eq!(name.blocks(), ["a.ban", "a.gcra", "a.strikes"]);
    assert!(admits(&one, 2));
    assert!(!admits(&one, 2) && !admits(&other, 2));
    // Two cells are restored, and the key is banned in both.
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    assert!(!admits(&one, 1) && !admits(&other, 1));
}

#[test]
fn any_change_of_a_penalty_lifts_its_bans() {
    let rule = |penalty: &str| format!("limits = \"100/s burst 2\", penalty = {{ {penalty} }}");
    let before = "after = 2, ban = \"1 h\"";
    for after in [
        "after = 3, ban = \"1 h\"",
        "after = 2, ban = \"1 h\", within = \"5 min\"",
        "after = 2, ban = \"2 h\", within = \"1 h\"",
    ] {
        let name = Name::new();
        let (path, mut file) = name.file(0, &rule(before));
        (0..2).for_each(|_| assert!(!admits(&file.live().load(), 3)));
        assert!(!admits(&file.live().load(), 1), "it is banned");
        std::fs::write(&path, name.text(&rule(after))).expect("written");
        let warnings = file.reload().expect("reloaded").warnings;
        assert!(matches!(warnings[..], [ReloadWarning::BansLifted { .. }]), "{warnings:?}");
        assert!(admits(&file.live().load(), 1), "{after}");
        std::fs::remove_file(path).expect("removed");
    }
}

#[test]
fn requests_in_flight_are_shared_and_their_limit_follows_the_file() {
    let name = Name::new();
    let rule = |limit: u64| format!("concurrency = {{ limit = {limit}, max_hold = \"1 h\" }}");
    let (one, (path, mut other)) = (name.build(&rule(2)), name.file(0, &rule(2)));
    let decide = |gate: &RulesLimiter| gate.decide(&Request::default()).take_held();
    let (first, second) = (decide(&one), decide(&other.live().load()));
    assert!(!first.is_empty() && !second.is_empty());
    assert!(!admits(&one, 1) && !admits(&other.live().load(), 1));
    std::fs::write(&path, name.text(&rule(3))).expect("written");
    assert_eq!(other.reload().expect("reloaded").kept, 1);
    assert!(admits(&one, 1), "the other process has raised the limit");
    drop(first);
    drop(second);
    std::fs::remove_file(path).expect("removed");
}

#[test]
fn bandwidth_is_shared() {
    let name = Name::new();
    let rule = "bytes = \"1kB/s burst 10MB\"";
    let (one, other) = (name.build(rule), name.build(rule));
    let paces = |gate: &RulesLimiter| gate.decide(&Request::default()).take_paces();
    let (one, other) = (paces(&one), paces(&other));
    let charge = |pace: &tollgate_rules::BytePace, cells| {
        pace.limiter().ask(pace.key()).cells(cells).check().is_ok()
    };
    assert!(charge(&one[0], 6_000_000));
    assert!(!charge(&other[0], 6_000_000) && charge(&other[0], 3_000_000));
}

#[test]
fn the_quota_of_gcra_changes_in_place_for_all() {
    let name = Name::new();
    let (path, mut one) = name.file(0, "limits = \"9/d\"");
    let (other_path, mut other) = name.file(1, "limits = \"9/d\"");
    assert!(admits(&one.live().load(), 4));
    std::fs::write(&path, name.text("limits = \"20/d\"")).expect("written");
    let summary = one.reload().expect("reloaded");
    assert_eq!((summary.inherited, summary.new, summary.dropped), (1, 0, 0));
    // The other has not reloaded, and has the new quota already: 20, less the four that are spent.
    assert_eq!(left(&other.live().load()), 16);
    std::fs::write(&other_path, name.text("limits = \"20/d\"")).expect("written");
    let summary = other.reload().expect("reloaded");
    assert_eq!((summary.kept, summary.inherited), (1, 0), "it is in force already");
    assert_eq!(left(&other.live().load()), 0);
    // One that starts with the file sees all of it.
    assert_eq!(left(&name.build("limits = \"20/d\"")), 0);
    assert_eq!(name.blocks(), ["a.gcra"]);
    for path in [path, other_path] {
        std::fs::remove_file(path).expect("removed");
    }
}

#[test]
fn a_quota_that_is_too_far_gets_a_block_of_its_own_in_every_process() {
    let name = Name::new();
    let (path, mut one) = name.file(0, "limits = { name = \"x\", quota = \"9/365d\" }");
    let other = "limits = { name = \"x\", quota = \"50/min burst 50\" }";
    std::fs::write(&path, name.text(other)).expect("written");
    let summary = one.reload().expect("reloaded");
    assert!(matches!(summary.warnings[..], [ReloadWarning::StartsAfresh { .. }]), "{summary:?}");
    assert_eq!(name.blocks(), ["a.gcra", "a.gcra"]);
    assert!(admits(&one.live().load(), 30));
    let started = name.build(other);
    assert!(!admits(&started, 30) && admits(&started, 15));
    assert_eq!(name.blocks(), ["a.gcra", "a.gcra"]);
    std::fs::remove_file(path).expect("removed");
}

/// The block of the last quota but one is still there, without what keys have spent in the block of the last one.
#[test]
fn a_limit_that_returns_to_an_older_block_is_reported_as_one_that_starts_afresh() {
    let limit = |quota: &str| format!("limits = {{ name = \"x\", quota = \"{quota}\" }}");
    // The third quota is near to that of the first block, or too far from it as well.
    for (quota, left_then) in [("20/365d", 18), ("60/min burst 60", 60), ("9/365d", 7)] {
        let name = Name::new();
        let (path, mut file) = name.file(0, &limit("9/365d"));
        assert!(admits(&file.live().load(), 2));
        let mut reload = |quota: &str| {
            std::fs::write(&path, name.text(&limit(quota))).expect("written");
            file.reload().expect("reloaded")
        };
        reload("50/min burst 50");
        let summary = reload(quota);
        assert!(
            matches!(summary.warnings[..], [ReloadWarning::StartsAfresh { .. }]),
            "{summary:?}"
        );
        let ReloadSummary { kept, inherited, new, dropped, .. } = summary;
        assert_eq!([kept, inherited, new, dropped], [0, 0, 1, 1], "{quota}");
        assert_eq!(left(&file.live().load()), left_then, "{quota}");
        // From here on it is in one block.
        let again = name.text(&limit(quota)) + "\n# the same";
        std::fs::write(&path, again).expect("written");
        let summary = file.reload().expect("reloaded");
        assert_eq!((summary.kept, summary.warnings), (1, vec![]), "{quota}");
        std::fs::remove_file(path).expect("removed");
    }
}

/// Limits without a name are known by their place among those of one period.
#[test]
fn a_limit_that_gets_the_block_of_another_one_is_reported_as_one_that_starts_afresh() {
    let named = |name: &str, quota: &str| format!("{{ name = \"{name}\", quota = \"{quota}\" }}");
    let (ten, two) = (named("ten", "10/d burst 10"), named("two", "2/d burst 90"));
    let unnamed = "limits = [\"10/d burst 10\", \"2/d burst 90\"]";
    for (before, after, warned) in [
        (unnamed, "limits = \"2/d burst 90\"", &["2/d burst 90"][..]),
        (
            unnamed,
            "limits = [\"2/d burst 90\", \"10/d burst 10\"]",
            &["2/d burst 90", "10/d burst 10"],
        ),
        ("limits = \"2/d burst 90\"", unnamed, &["2/d burst 90"]),
        (
            "limits = [\"2/d burst 90\", \"99/w\"]",
            "limits = [\"10/d burst 10\", \"2/d burst 90\"]",
            &["2/d burst 90"],
        ),
        (unnamed, "limits = \"10/d burst 10\"", &[]),
        (unnamed, "limits = [\"11/d burst 10\", \"2/d burst 90\"]", &[]),
        (&format!("limits = [{ten}, {two}]"), &format!("limits = [{two}, {ten}]"), &[]),
        (&format!("limits = [{ten}, {two}]"), &format!("limits = {two}"), &[]),
    ] {
        let name = Name::new();
        let (path, mut file) = name.file(0, before);
        assert!(admits(&file.live().load(), 9));
        std::fs::write(&path, name.text(after)).expect("written");
        let summary = file.reload().expect("reloaded");
        let why = "another block counts it, since its name or its place among the limits of its period changed: name it";
        let expected: Vec<String> = warned
            .iter()
            .map(|limit| format!("rule \"a\", limit \"{limit}\" starts afresh, since {why}"))
            .collect();
        let warnings: Vec<String> = summary.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(warnings, expected, "{before} -> {after}");
        assert_eq!(summary.new, warned.len(), "{before} -> {after}");
        std::fs::remove_file(path).expect("removed");
    }
}

/// The renumbered limit continues an old one, so it takes the place of none that is gone.
#[test]
fn a_limit_in_the_place_of_a_lost_one_is_reported_beside_a_renumbered_one() {
    let name = Name::new();
    let (path, mut file) = name.file(0, "limits = [\"2/d burst 90\", \"99/w\"]");
    assert!(admits(&file.live().load(), 9));
    let after = "limits = [\"10/d burst 10\", \"2/d burst 90\", \"99/h\"]";
    std::fs::write(&path, name.text(after)).expect("written");
    let warnings = file.reload().expect("reloaded").warnings;
    let texts: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(
        texts[0].contains("limit \"2/d burst 90\"") && texts[0].contains("name it"),
        "{texts:?}"
    );
    assert!(texts[1].contains("limit \"99/h\""), "{texts:?}");
    std::fs::remove_file(path).expect("removed");
}

#[test]
fn a_window_of_another_quota_is_another_block_and_the_old_one_stays() {
    let name = Name::new();
    let window = |quota: &str| format!("limits = \"{quota}\", algorithm = \"fixed-window\"");
    let (path, mut one) = name.file(0, &window("9/d"));
    let other = name.build(&window("9/d"));
    assert!(admits(&one.live().load(), 4));
    std::fs::write(&path, name.text(&window("5/d"))).expect("written");
    let summary = one.reload().expect("reloaded");
    assert_eq!((summary.new, summary.dropped), (1, 1));
    assert!(matches!(summary.warnings[..], [ReloadWarning::StartsAfresh { .. }]), "{summary:?}");
    assert_eq!(left(&one.live().load()), 5);
    // The process that has not reloaded keeps what it had.
    assert_eq!(left(&other), 5);
    assert_eq!(name.blocks(), ["a.fixed-window", "a.fixed-window"]);
    // Back to the old quota: its block is still there.
    std::fs::write(&path, name.text(&window("9/d"))).expect("written");
    one.reload().expect("reloaded");
    assert_eq!(left(&one.live().load()), 0);
    std::fs::remove_file(path).expect("removed");
}

#[test]
fn sharing_begins_and_ends_with_a_reload() {
    let name = Name::new();
    let (path, mut file) = name.file(0, "limits = \"9/d\"");
    let alone = "rule = [{ name = \"a\", key = \"none\", limits = \"9/d\" }]";
    assert!(admits(&file.live().load(), 4));
    std::fs::write(&path, alone).expect("written");
    let warnings = file.reload().expect("reloaded").warnings;
    let all_afresh = "rule \"a\": all limits and bans start afresh, since \"shared\" changed";
    assert_eq!(warnings.iter().map(ToString::to_string).collect::<Vec<_>>(), [all_afresh]);
    assert_eq!(left(&file.live().load()), 9);
    std::fs::write(&path, name.text("limits = \"9/d\"")).expect("written");
    file.reload().expect("reloaded");
    assert_eq!(left(&file.live().load()), 5, "the block has kept what was spent");
    std::fs::remove_file(path).expect("removed");
}

#[test]
fn a_change_of_the_name_is_reported_for_rules_that_lose_state_by_it() {
    let (one, other) = (Name::new(), Name::new());
    let text = |name: &Name| {
        name.text(
            "limits = \"9/d\" }, { name = \"b\", action = \"exempt\" }, \
                   { name = \"c\", limits = \"9/d\", store = \"redis://127.0.0.1\"",
        )
    };
    let path = std::env::temp_dir().join(format!("{}-moves.toml", one.0));
    std::fs::write(&path, text(&one)).expect("written");
    let mut file = RulesFile::open(&path).expect("shared");
    std::fs::write(&path, text(&other)).expect("written");
    let warnings = file.reload().expect("reloaded").warnings;
    let of_a = "rule \"a\": all limits and bans start afresh, since \"shared\" changed";
    assert_eq!(warnings.iter().map(ToString::to_string).collect::<Vec<_>>(), [of_a]);
    std::fs::remove_file(path).expect("removed");
}

#[test]
fn another_clock_and_a_check_share_nothing() {
    let name = Name::new();
    let rules = Rules::parse("r.toml", &name.text("limits = \"9/d\"")).expect("rules");
    assert_eq!(rules.shared(), Some(&*name.0));
    let clock = std::sync::Arc::new(tollgate::ManualClock::new());
    RulesLimiter::with_clock(rules.clone(), clock).expect("memory");
    RulesLimiter::new(rules.without_sharing()).expect("memory");
    assert!(!name.folder().exists());
}

#[test]
fn a_block_that_cannot_be_attached_is_named_with_its_rule() {
    let name = Name::new();
    drop(name.build("limits = \"9/d\""));
    let file = std::fs::read_dir(name.folder()).expect("a folder").next().expect("a block");
    let path = file.expect("an entry").path();
    std::fs::write(&path, [7; 5_000]).expect("written");
    let rules = Rules::parse("r.toml", &name.text("limits = \"9/d\"")).expect("rules");
    let error = RulesLimiter::new(rules).expect_err("foreign").to_string();
    let start = format!("rule \"a\", limit \"9/d\": {}: shared memory: ", path.display());
    assert!(error.starts_with(&start) && error.contains("is no block of limits"), "{error}");
    std::fs::remove_dir_all(name.folder()).expect("removed");
    std::fs::write(name.folder(), "").expect("written");
    let rules = Rules::parse("r.toml", &name.text("limits = \"9/d\"")).expect("rules");
    let error = RulesLimiter::new(rules).expect_err("no folder").to_string();
    std::fs::remove_file(name.folder()).expect("removed");
    assert!(error.starts_with(&format!("shared = \"{}\": /dev/shm/tollgate-", name.0)), "{error}");
    assert!(error.ends_with("is no folder: remove it, or choose another name"), "{error}");
}

#[test]
fn a_file_whose_limits_cannot_be_shared_is_tried_again_until_they_can() {
    let (old, new) = (Name::new(), Name::new());
    let (path, mut file) = old.file(0, "limits = \"9/d\"");
    std::fs::write(new.folder(), "").expect("written");
    std::fs::write(&path, new.text("limits = \"5/d\"")).expect("written");
    for _ in 0..2 {
        assert!(matches!(file.poll(), Err(ReloadError::Build(_))));
    }
    assert_eq!((left(&file.live().load()), file.live().failures()), (9, 2));
    std::fs::remove_file(new.folder()).expect("removed");
    assert!(file.poll().expect("shared").is_some());
    assert_eq!((left(&file.live().load()), file.poll().expect("shared")), (5, None));

    // A file that is gone or has mistakes by then is reported once.
    let taken = Name::new();
    std::fs::write(taken.folder(), "").expect("written");
    for mistake in [Some("rule = 7"), None] {
        std::fs::write(&path, taken.text("limits = \"5/d\"")).expect("written");
        assert!(matches!(file.poll(), Err(ReloadError::Build(_))));
        match mistake {
            Some(text) => std::fs::write(&path, text).expect("written"),
            None => std::fs::remove_file(&path).expect("removed"),
        }
        assert!(file.poll().is_err() && matches!(file.poll(), Ok(None)), "{mistake:?}");
    }
    std::fs::remove_file(taken.folder()).expect("removed");
}

#[test]
fn what_cannot_be_shared_is_a_mistake_of_the_file() {
    let mistakes = |text: &str| Rules::parse("r.toml", text).expect_err("a mistake").to_string();
    for (name, said) in [
        ("7", "r.toml:1:10: a whole number, where a name such as \"api\" is needed"),
        ("\".api\"", "does not begin with \".\""),
        ("\"a/b\"", "a name has 1 to 64 letters"),
        ("\"\"", "a name has 1 to 64 letters"),
    ] {
        let error =
            mistakes(&format!("shared = {name}\nrule = [{{ name = \"a\", limits = \"1/s\" }}]"));
        assert!(error.contains(said), "{error}");
    }
    let long = "x".repeat(65);
    assert!(
        Rules::parse(
            "r.toml",
            &format!("shared = \"{long}\"\n[[rule]]\nname = \"a\"\nlimits = \"1/s\"")
        )
        .is_err()
    );
    let name = Name::new();
    let unheld = mistakes(&name.text("concurrency = 5"));
    assert!(
        unheld.contains("write concurrency = { limit = …, max_hold = \"10 min\" }"),
        "{unheld}"
    );
    let within = mistakes("[[rule]]\nname = \"a\"\nlimits = \"1/s\"\nshared = \"x\"");
    assert!(within.contains("it is for the whole file"), "{within}");
}
