//! Changes of the file: what state they keep, and what a file with mistakes does.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tollgate::ManualClock;
use tollgate_rules::{LiveRules, ReloadError, Request, RulesFile};

struct Fixture {
    file: RulesFile<ManualClock>,
    live: Arc<LiveRules<ManualClock>>,
    clock: Arc<ManualClock>,
    path: PathBuf,
}

impl Fixture {
    fn new(name: &str, text: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, text).expect("a place for scratch files");
        let clock = Arc::new(ManualClock::new());
        let file = RulesFile::open_with_clock(&path, Arc::clone(&clock)).expect("a good file");
        Self { live: file.live(), file, clock, path }
    }

    /// Writes the file and returns how many limits were kept, inherited, new and dropped.
    fn change(&mut self, text: &str) -> [usize; 4] {
        std::fs::write(&self.path, text).expect("the file is ours");
        let summary = self.file.poll().expect("a good file").expect("it has changed");
        [summary.kept, summary.inherited, summary.new, summary.dropped]
    }

    /// How many of `requests` requests are admitted.
    fn admitted(&self, requests: usize) -> usize {
        let ask = |_: &usize| self.live.load().decide(&Request::default()).is_admitted();
        (0..requests).filter(ask).count()
    }
}

const FIVE: &str = "rule = [{ name = \"a\", key = \"none\", limits = \"5 per week\" }]";

#[test]
fn an_unrelated_edit_keeps_the_spent_cells() {
    let mut rules = Fixture::new("unrelated.toml", FIVE);
    assert_eq!(rules.admitted(3), 3);
    assert_eq!(rules.change(&format!("# a comment\n{FIVE}")), [1, 0, 0, 0]);
    assert_eq!(
        rules.change(
            "rule = [
                { name = \"b\", match = { path = \"/b\" }, limits = \"1/s\" },
                { name = \"a\", key = \"none\", limits = [\"100/s\", \"5 per 7 days\"], shadow = false },
            ]"
        ),
        [1, 0, 2, 0]
    );
    assert_eq!(rules.admitted(9), 2);
    assert_eq!(rules.change(FIVE), [1, 0, 0, 2]);
    assert_eq!(rules.admitted(9), 0);
    rules.clock.advance(Duration::from_secs(7 * 24 * 3_600));
    assert_eq!(rules.admitted(9), 5);
    assert_eq!((rules.live.reloads(), rules.live.failures()), (3, 0));
}

#[test]
fn a_limit_that_counts_differently_starts_afresh() {
    for (other, became) in [
        ("rule = [{ name = \"b\", key = \"none\", limits = \"5 per week\" }]", [0, 0, 1, 1]),
        ("rule = [{ name = \"a\", key = \"ip\", limits = \"5 per week\" }]", [0, 0, 1, 1]),
        (
            "rule = [{ name = \"a\", key = \"none\", capacity = 9, limits = \"5 per week\" }]",
            [0, 0, 1, 1],
        ),
        (
            "rule = [{ name = \"a\", key = \"none\", algorithm = \"sliding-log\", limits = \"5 per week\" }]",
            [0, 0, 1, 1],
        ),
    ] {
        let mut rules = Fixture::new("otherwise.toml", FIVE);
        assert_eq!(rules.admitted(9), 5);
        assert_eq!(rules.change(other), became, "{other}");
        assert!(rules.admitted(9) >= 5, "{other}");
    }
}

#[test]
fn a_new_quota_keeps_the_spent_cells_unless_it_is_too_far() {
    for (limits, left) in [
        ("\"6 per week\"", 3),
        ("\"9 per week\"", 6),
        ("\"5 per day\"", 2),
        ("\"2 per week\"", 0),
        ("{ name = \"weekly\", quota = \"100 per week\" }", 97),
    ] {
        let mut rules = Fixture::new("inherits.toml", FIVE);
        assert_eq!(rules.admitted(3), 3);
        let text = format!("rule = [{{ name = \"a\", key = \"none\", limits = {limits} }}]");
        assert_eq!(rules.change(&text), [0, 1, 0, 0], "{limits}");
        assert_eq!(rules.admitted(200), left, "{limits}");
    }
    // This quota is too far from the old one, so the limit starts afresh.
    let mut rules = Fixture::new("inherits.toml", FIVE);
    assert_eq!(rules.admitted(3), 3);
    let text = "rule = [{ name = \"a\", key = \"none\", limits = \"1000000000/s burst 1\" }]";
    assert_eq!(rules.change(text), [0, 0, 1, 1]);
    assert_eq!(rules.admitted(9), 1);
}

#[test]
fn limits_that_swap_places_keep_their_own_state() {
    let mut rules = Fixture::new(
        "places.toml",
        "rule = [{ name = \"a\", key = \"none\", limits = [\"5/week\", \"9/day\"] }]",
    );
    assert_eq!(rules.admitted(9), 5);
    let swapped = "rule = [{ name = \"a\", key = \"none\", limits = [\"9/day\", \"5/week\"] }]";
    assert_eq!(rules.change(swapped), [2, 0, 0, 0]);
    assert_eq!(rules.admitted(9), 0);
    let one_changed = "rule = [{ name = \"a\", key = \"none\", limits = [\"8/day\", \"5/week\"] }]";
    assert_eq!(rules.change(one_changed), [1, 1, 0, 0]);
    assert_eq!(rules.admitted(9), 0);
}

#[test]
fn bans_outlive_a_reload() {
    let text = "rule = [{ name = \"a\", key = \"none\", limits = \"1/s\", penalty = \"1 h\" }]";
    let mut rules = Fixture::new("bans.toml", text);
    assert_eq!(rules.admitted(2), 1);
    rules.change(&format!("\n{text}"));
    rules.clock.advance(Duration::from_secs(60));
    assert_eq!(rules.admitted(2), 0);
    rules.change(&text.replace("1 h", "2 h"));
    assert_eq!(rules.admitted(2), 1);
}

#[test]
fn a_file_with_mistakes_leaves_the_old_rules_in_force() {
    let mut rules = Fixture::new("wrong.toml", FIVE);
    assert_eq!(rules.admitted(3), 3);
    for (number, wrong) in ["", "rule = 7", "[[rule", "\u{feff}x"].into_iter().enumerate() {
        std::fs::write(&rules.path, wrong).unwrap();
        assert!(matches!(rules.file.poll(), Err(ReloadError::Rules(_))), "{wrong}");
        assert!(matches!(rules.file.poll(), Ok(None)), "it is reported once");
        assert_eq!(rules.live.failures(), number as u64 + 1);
    }
    std::fs::write(&rules.path, b"\xff\xfe").unwrap();
    assert!(matches!(rules.file.poll(), Err(ReloadError::Rules(_))));
    assert!(matches!(rules.file.poll(), Ok(None)), "it is reported once");
    std::fs::remove_file(&rules.path).unwrap();
    assert!(matches!(rules.file.reload(), Err(ReloadError::Unreadable { .. })));
    assert_eq!(rules.live.failures(), 6);
    std::fs::write(&rules.path, " ".repeat((1 << 20) + 1)).unwrap();
    assert!(rules.file.reload().unwrap_err().to_string().contains("longer than a mebibyte"));

    assert_eq!(rules.admitted(1), 1);
    std::fs::write(&rules.path, FIVE).unwrap();
    assert_eq!(rules.file.poll().unwrap().expect("it has no mistakes").kept, 1);
    assert_eq!(rules.admitted(9), 1);
    assert_eq!(rules.live.reloads(), 1);
}

/// The reason may pass, such as a lack of memory for what the caller builds by the rules.
#[test]
fn rules_that_the_caller_rejects_are_tried_again_until_they_are_accepted() {
    let mut rules = Fixture::new("rejected.toml", FIVE);
    std::fs::write(&rules.path, FIVE.replace('5', "6")).unwrap();
    for _ in 0..2 {
        let rejected = rules.file.poll_if(|_| Err("no memory".to_owned()));
        assert!(matches!(rejected, Err(ReloadError::Rejected(_))), "{rejected:?}");
    }
    assert_eq!((rules.live.failures(), rules.live.reloads()), (2, 0));
    assert!(rules.file.poll_if(|_| Ok(())).expect("it is accepted").is_some());
    let again = rules.file.poll_if(|_| Err("too late".to_owned()));
    assert_eq!(again.expect("it has not changed"), None);
    assert_eq!(rules.admitted(9), 6);
}

#[test]
fn requests_are_decided_while_rules_change() {
    let mut rules = Fixture::new("meanwhile.toml", FIVE);
    let live = rules.file.live();
    let admitted = std::thread::scope(|scope| {
        let deciders: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let ask = |_: &usize| live.load().decide(&Request::default()).is_admitted();
                    (0..50_000).filter(ask).count()
                })
            })
            .collect();
        for number in 0..50 {
            rules.change(&format!("# {number}\n{FIVE}"));
        }
        deciders.into_iter().map(|thread| thread.join().expect("no panic")).sum::<usize>()
    });
    assert_eq!(admitted, 5);
}

#[test]
fn limits_with_new_quotas_keep_state_by_name() {
    let text = |first: &str, second: &str| {
        format!("rule = [{{ name = \"a\", key = \"none\", limits = [{first}, {second}] }}]")
    };
    let few = |cells: u8| format!("{{ name = \"few\", quota = \"{cells} per week\" }}");
    let many = |cells: u8| format!("{{ name = \"many\", quota = \"{cells} per week\" }}");
    let mut rules = Fixture::new("names.toml", &text(&few(5), &many(90)));
    assert_eq!(rules.admitted(9), 5);
    assert_eq!(rules.change(&text(&many(91), &few(7))), [0, 2, 0, 0]);
    assert_eq!(rules.admitted(9), 2, "five of seven were used");
}

#[test]
fn a_file_of_a_mebibyte_is_read_and_a_longer_one_is_not() {
    let mut text = format!("{FIVE}\n#");
    text.extend(std::iter::repeat_n('x', (1 << 20) - text.len()));
    let mut rules = Fixture::new("mebibyte.toml", &text);
    text.push('x');
    std::fs::write(&rules.path, text).expect("the file is ours");
    assert!(matches!(rules.file.reload(), Err(ReloadError::Unreadable { .. })));
    // The mebibyte ends within a character.
    std::fs::write(&rules.path, "é".repeat((1 << 19) + 1)).expect("the file is ours");
    let said = rules.file.reload().expect_err("it is too long").to_string();
    assert!(said.ends_with("it is longer than a mebibyte, which no rules file needs"), "{said}");
}

#[test]
fn a_file_that_is_not_utf8_has_a_mistake_at_the_first_wrong_byte() {
    let mut rules = Fixture::new("latin.toml", FIVE);
    std::fs::write(&rules.path, b"# \xc3\xa9\n# \xc3\xa9t\xe9 x\xe9\n").expect("the file is ours");
    let Err(ReloadError::Rules(wrong)) = rules.file.reload() else { panic!("it is Latin-1") };
    let shown = wrong.with_source();
    let expected = "error: this is not UTF-8: save the file in that encoding\n --> ";
    assert!(shown.starts_with(expected), "{shown}");
    let expected = ":2:5\n  |\n2 | # \u{e9}t\u{fffd} x\u{fffd}\n  |     ^\n";
    assert!(shown.ends_with(expected), "{shown}");
}

#[test]
fn a_smaller_quota_leaves_a_key_the_rest_of_its_cells() {
    let rule = |limits: &str| {
        format!("rule = [{{ name = \"a\", key = \"none\", limits = \"{limits}\" }}]")
    };
    let mut rules = Fixture::new("shrinks.toml", &rule("1000/h"));
    assert_eq!(rules.admitted(5), 5);
    rules.change(&rule("10/h"));
    assert_eq!(rules.admitted(100), 5, "5 of 10 were used");
    rules.change(&rule("1000/h"));
    assert_eq!(rules.admitted(2_000), 990, "10 of 1000 were used");
    // All 1000 are used, and 10 an hour are restored.
    rules.change(&rule("10/h"));
    rules.clock.advance(Duration::from_secs(99 * 3_600));
    assert_eq!(rules.admitted(9), 0);
    rules.clock.advance(Duration::from_secs(3_600));
    assert_eq!(rules.admitted(99), 10);
}

#[test]
fn a_quota_that_changes_200_times_in_a_second_grants_what_the_larger_one_does() {
    let rule = |limits: &str| {
        format!("rule = [{{ name = \"a\", key = \"none\", limits = \"{limits}\" }}]")
    };
    let mut rules = Fixture::new("to-and-fro.toml", &rule("100/h"));
    let mut granted = rules.admitted(100);
    for number in 0..200 {
        rules.clock.advance(Duration::from_millis(5));
        rules.change(&rule(["10/h", "100/h"][number % 2]));
        granted += rules.admitted(100);
    }
    assert_eq!(granted, 100);
}

#[test]
fn a_rule_that_stops_to_limit_forgets_its_keys_without_a_warning() {
    let mut rules = Fixture::new("actions.toml", FIVE);
    assert_eq!(rules.admitted(9), 5);
    assert_eq!(rules.change("rule = [{ name = \"a\", action = \"exempt\" }]"), [0, 0, 0, 1]);
    assert_eq!(rules.admitted(9), 9);
    assert_eq!(rules.change("rule = [{ name = \"a\", action = \"deny\" }]"), [0, 0, 0, 0]);
    assert_eq!(rules.admitted(9), 0);
    std::fs::write(&rules.path, FIVE).expect("the file is ours");
    let summary = rules.file.poll().expect("a good file").expect("it has changed");
    assert_eq!((summary.new, summary.warnings), (1, vec![]));
    assert_eq!(rules.admitted(9), 5);
}

/// Another read of a pipe would wait for a writer, and nothing would be reloaded any more.
#[cfg(unix)]
#[test]
fn a_pipe_in_the_place_of_the_file_is_an_error() {
    // A run that failed may have left the pipe.
    let _ = std::fs::remove_file(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("pipe.toml"));
    let mut rules = Fixture::new("pipe.toml", FIVE);
    std::fs::remove_file(&rules.path).expect("it is there");
    let made = std::process::Command::new("mkfifo").arg(&rules.path).status();
    assert!(made.expect("there is mkfifo").success());
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let [polled, reloaded] = [rules.file.poll().map(drop), rules.file.reload().map(drop)];
        std::fs::remove_file(&rules.path).expect("it is there");
        let changed = rules.change(&FIVE.replace('5', "6"));
        done.send(([polled, reloaded].map(|outcome| outcome.unwrap_err().to_string()), changed))
    });
    let patience = Duration::from_secs(60);
    let (errors, changed) = is_done.recv_timeout(patience).expect("the pipe is not waited for");
    for error in errors {
        assert!(
            error.ends_with("pipe.toml cannot be read: it is a pipe, which is read once"),
            "{error}"
        );
    }
    assert_eq!(changed, [0, 1, 0, 0]);
}

#[test]
fn a_warning_names_the_line_by_which_a_key_counts_differently() {
    let file = |settings: &str, key: &str, prefix: &str| {
        format!("{settings}\nrule = [{{ name = \"a\", key = {key}, limits = \"5/h\"{prefix} }}]")
    };
    let both = "[\"ip\", \"path\"]";
    for (changed, what) in [
        (file("path_case = \"keep\"", both, ""), "path_case"),
        (file("path_params = \"keep\"", both, ""), "path_params"),
        (file("encoded_slash = \"decode\"", both, ""), "encoded_slash"),
        (file("backslash = \"keep\"", both, ""), "backslash"),
        (file("", both, ", ipv6_prefix = 56"), "ipv6_prefix"),
        (file("", "[\"ip\", \"host\"]", ", ipv6_prefix = 56"), "key"),
        (file("path_case = \"keep\"", "\"path\"", ""), "key"),
    ] {
        let mut rules = Fixture::new("key-lines.toml", &file("", both, ""));
        std::fs::write(&rules.path, &changed).expect("the file is ours");
        let warnings = rules.file.reload().expect("a good file").warnings;
        let said: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        let expected =
            format!("rule \"a\": all limits and bans start afresh, since \"{what}\" changed");
        assert_eq!(said, [expected], "{changed}");
    }
}
