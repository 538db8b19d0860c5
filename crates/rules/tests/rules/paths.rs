//! How paths are read, and how a file configures it.

use std::panic::catch_unwind;
use std::sync::Arc;

use proptest::prelude::*;
use tollgate::ManualClock;
use tollgate_rules::{DenyReason, Request, Rules, RulesLimiter};

use crate::path_body::{Mistake, hold, plant};
use crate::seeds::seeds_of;

fn gate(lines: &str) -> RulesLimiter<ManualClock> {
    let text = format!(
        "{lines}\nrule = [\
         {{ name = \"files\", match = {{ path = \"/files/**\" }}, key = \"none\", limits = \"99/s\" }}, \
         {{ name = \"login\", match = {{ path = \"/login/**\" }}, key = \"none\", limits = \"99/s\" }}, \
         {{ name = \"all\", key = \"none\", limits = \"50/s\" }}]"
    );
    let rules = Rules::parse("r.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    RulesLimiter::with_clock(rules, Arc::new(ManualClock::new())).expect("memory")
}

/// The rules that charge a request, or the rule that denies it for its path.
fn charged(lines: &str, path: &str) -> String {
    let gate = gate(lines);
    let request = Request { path, ..Request::default() };
    let decision = gate.decide(&request);
    if let Some(denied) = decision.denied() {
        assert!(matches!(denied.reason(), DenyReason::UnclearPath), "{denied:?}");
        assert_eq!((denied.retry_after(), denied.remaining()), (None, 0));
        return format!("denied by {}", denied.rule().name());
    }
    // A rule was charged if fewer cells are left than its burst.
    let rules = ["files", "login", "all"];
    let charged = rules.into_iter().filter(|name| {
        let alone = gate.decide_among(&request, 0, |_, rule| rule.name() == *name);
        alone.permit().is_some_and(|its| its.remaining() < its.limit().quota().burst_cells())
    });
    charged.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_rule_that_depends_on_an_encoded_slash_denies_counts_or_passes_as_the_file_says() {
    for (path, deny, decode, keep) in [
        ("/%2flogin", "denied by login", "login all", "all"),
        ("/login%2f", "denied by login", "login all", "all"),
        ("/x%2f..%2flogin", "denied by login", "login all", "all"),
        ("/login%2Findex.html", "denied by login", "login all", "all"),
        ("/files/a%2fb", "files all", "files all", "files all"),
        ("/other/a%2fb", "all", "all", "all"),
        ("/files/..%2flogin", "denied by login", "files login all", "files all"),
        ("/login%00", "denied by login", "denied by login", "denied by login"),
        ("/login%2f%5c", "denied by files", "login all", "denied by login"),
    ] {
        assert_eq!(charged("", path), deny, "{path}");
        assert_eq!(charged("encoded_slash = \"deny\"", path), deny, "{path}");
        assert_eq!(charged("encoded_slash = \"decode\"", path), decode, "{path}");
        if !path.contains("%5c") {
            assert_eq!(charged("encoded_slash = \"keep\"", path), keep, "{path}");
        }
    }
}

#[test]
fn backslashes_parameters_and_case_are_read_as_the_file_says() {
    for (lines, path, by) in [
        ("", "/x\\..\\login", "denied by login"),
        ("backslash = \"slash\"", "/x\\..\\login", "login all"),
        ("backslash = \"keep\"", "/login%5cx", "all"),
        ("", "/login;v=1/x", "login all"),
        ("", "/x/..;/login", "login all"),
        ("path_params = \"keep\"", "/login;v=1/x", "all"),
        ("", "/LOGIN", "login all"),
        ("path_case = \"keep\"", "/LOGIN", "all"),
        ("", "//login", "login all"),
        ("", "/files/../login", "files login all"),
        ("", "/login/../x", "login all"),
        ("", "/login%252f", "all"),
    ] {
        assert_eq!(charged(lines, path), by, "{lines} {path}");
    }
}

/// Tomcat and Jetty remove parameters up to the next `/` as the client wrote it, and decode afterwards.
#[test]
fn no_separator_within_a_parameter_hides_a_path_from_its_rule() {
    let (decode, slash) = ("encoded_slash = \"decode\"", "backslash = \"slash\"");
    for (lines, path) in [
        (decode, "/login;x%2fy"),
        (decode, "/login;%2f..%2f.."),
        (decode, "/x/..;%2fy/login"),
        (slash, "/login;x\\y"),
        (slash, "/login;x%5cy"),
        (slash, "/x\\..\\login;\\..\\.."),
        ("", "/login;x%2fy"),
        ("", "/login;x\\y"),
    ] {
        assert_eq!(charged(lines, path), "login all", "{lines} {path}");
        let kept = format!("{lines}\npath_params = \"keep\"");
        assert_eq!(charged(&kept, path), "all", "{lines} {path}");
    }
    // A rule for this path alone, and a key: the number is a client's choice.
    let text = format!(
        "{decode}\n{slash}\nrule = [{{ name = \"a\", key = \"none\", limits = \"1/day\", \
         match = {{ path = \"/login\" }} }}, {{ name = \"b\", key = \"path\", limits = \"1/day\" }}]"
    );
    let gate = RulesLimiter::new(Rules::parse("r.toml", &text).expect("rules")).expect("memory");
    let admits = |path: &str| gate.decide(&Request { path, ..Request::default() }).is_admitted();
    for path in ["/login;%2f", "/a;%2f", "/a;\\"] {
        let admitted = (0..9).filter(|nth| admits(&format!("{path}{nth}")));
        assert_eq!(admitted.count(), usize::from(path.starts_with("/login")), "{path}");
    }
    assert!(admits("/a;1/b"), "no separator is within the parameter");
}

#[test]
fn with_first_each_reading_of_a_path_has_its_first_rule() {
    let first = "apply = \"first\"\n";
    for (path, by) in [
        ("/files/a", "files"),
        ("/login", "login"),
        ("/x", "all"),
        // One server reads it as a file, another as the login.
        ("/files/../login", "files login all"),
        ("/files/a;v=1", "files"),
        ("/files/..%2flogin", "denied by login"),
    ] {
        assert_eq!(charged(first, path), by, "{path}");
    }
}

#[test]
fn a_rule_in_shadow_reports_an_unclear_path() {
    let text =
        "rule = [{ name = \"a\", match = { path = \"/a\" }, limits = \"9/s\", shadow = true }]";
    let gate = RulesLimiter::new(Rules::parse("r.toml", text).expect("a rule")).expect("memory");
    let decision = gate.decide(&Request { path: "/a%2f", ..Request::default() });
    assert!(decision.is_admitted());
    assert!(matches!(decision.shadow_denials()[0].reason(), DenyReason::UnclearPath));
}

#[test]
fn no_path_evades_a_key_by_its_spelling() {
    let text = "rule = [{ name = \"a\", key = \"path\", limits = \"1/day\" }]";
    let gate = RulesLimiter::new(Rules::parse("r.toml", text).expect("a rule")).expect("memory");
    let admitted = |path| gate.decide(&Request { path, ..Request::default() }).is_admitted();
    assert!(admitted("/login/x"));
    for path in ["/login%2fx", "/LOGIN/x;v=1", "/login\\x", "/a/../login/./x", "//login//%78?y"] {
        assert!(!admitted(path), "{path}");
    }
    assert!(admitted("/login"));
}

/// Some servers end a path at `%00`, and others read on: what is on either side may be a client's choice.
#[test]
fn all_paths_with_a_nul_have_one_key() {
    let text = "rule = [{ name = \"a\", match = { path = \"/files/**\" }, key = \"path\", limits = \"1/day\" }]";
    let gate = RulesLimiter::new(Rules::parse("r.toml", text).expect("a rule")).expect("memory");
    let admitted = |path: &str| gate.decide(&Request { path, ..Request::default() }).is_admitted();
    assert!(admitted("/files/a"));
    assert!(admitted("/files/a%00"));
    for nth in 0..9 {
        assert!(!admitted(&format!("/files/a%00{nth}")), "{nth}");
        assert!(!admitted(&format!("/files/{nth}%00/../a")), "{nth}");
    }
    assert!(admitted("/files/b"));
}

/// There is a server that serves `/files/a` for each of these paths: some keep the backslash, or `%2F`, or parameters,
/// and some resolve dots before they merge slashes. The number is a client's choice.
#[test]
fn all_paths_of_which_servers_make_different_ones_have_one_key() {
    let gate = |lines: &str, matcher: &str| {
        let text = format!(
            "{lines}rule = [{{ name = \"a\", {matcher}key = \"path\", limits = \"1/day\" }}]"
        );
        RulesLimiter::new(Rules::parse("r.toml", &text).expect("a rule")).expect("memory")
    };
    let unclear = |nth: u32| {
        [
            format!("/files/{nth}%5Cy/../a"),
            format!("/files/{nth}\\y/../a"),
            format!("/files/{nth}/x\\..\\a"),
            format!("/files/{nth}%2Fy/../a"),
            format!("/files/a;%5C{nth}"),
            format!("/files/a;%2f{nth}"),
            format!("/files/{nth}//../../a"),
            format!("/files/{nth}/.;/../../a"),
            format!("/files/{nth}/;x/../../a"),
        ]
    };
    for matcher in ["", "match = { path = \"/files/**\" }, "] {
        let gate = gate("", matcher);
        let admits =
            |path: &str| gate.decide(&Request { path, ..Request::default() }).is_admitted();
        assert!(admits("/files/a") && !admits("/files/x/./../a"), "this path is not unclear");
        let unclear = (0..9).flat_map(unclear);
        assert_eq!(unclear.filter(|path| admits(path)).count(), 1, "{matcher}");
        assert!(admits("/files/b"));
    }
    // Where the file says how the upstream reads them, each has the key of the path that it is.
    let gate = gate("encoded_slash = \"decode\"\nbackslash = \"slash\"\n", "");
    let admits = |path: &str| gate.decide(&Request { path, ..Request::default() }).is_admitted();
    for (path, same) in [("/files/1/a", "/files/1%5Cy/../a"), ("/files/2/a", "/files/2%2Fy/../a")] {
        assert!(admits(path) && !admits(same), "{same}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_path_body_holds_for_any_path(path in "/([/.%?#;a\\\\A]|%2[fFeE5]|%5[cC]|%[0-9a-f]{2}|\\PC){0,24}") {
        hold(&path);
    }
}

/// By default case does not count, so the rule of `/a` applies to `/A`, however the slash is read.
#[test]
fn a_path_that_differs_by_case_as_well_as_by_an_encoded_slash_is_no_unclear_one() {
    hold("%2fa/../A");
    hold("/%2fa/../A");
}

/// The corpus of the fuzz target.
fn seed_paths() -> Vec<String> {
    let text = |data: Vec<u8>| String::from_utf8_lossy(&data).into_owned();
    seeds_of("paths").into_iter().map(text).collect()
}

#[test]
fn the_kept_corpus_passes() {
    let seeds = seed_paths();
    seeds.iter().for_each(|path| hold(path));
    assert!(seeds.len() >= 6, "{}", seeds.len());
}

/// A body that finds no mistake would pass on any input.
#[test]
fn every_planted_mistake_is_found() {
    let seeds = seed_paths();
    for mistake in [Mistake::SegmentLost, Mistake::SlashKept, Mistake::UnclearAdmitted] {
        plant(Some(mistake));
        let found = seeds.iter().any(|path| catch_unwind(|| hold(path)).is_err());
        plant(None);
        assert!(found, "{mistake:?} was not found");
    }
}

#[test]
fn mistakes_about_paths_in_a_file_are_errors() {
    let rule = "[[rule]]\nname = \"a\"\nlimits = \"5/s\"\n";
    let of_pattern = |path: &str| format!("{rule}match = {{ path = '{path}' }}");
    let said = |text: &str| Rules::parse("r.toml", text).expect_err(text).to_string();
    for (text, expected) in [
        (
            format!("encoded_slash = \"maybe\"\n{rule}"),
            "r.toml:1:18: unknown value \"maybe\": write \"deny\", \"decode\" or \"keep\"",
        ),
        (
            format!("path_case = 7\n{rule}"),
            "r.toml:1:13: a whole number, where \"ignore\" or \"keep\" is needed",
        ),
        (
            format!("{rule}encoded_slash = \"keep\""),
            "r.toml:4:1: unknown key \"encoded_slash\": it is for the whole file: write it before the \
             first rule",
        ),
        (
            of_pattern("/a/b%2Fc"),
            "r.toml:4:22: an encoded slash separates nothing in a pattern: write \"/\", or \
             encoded_slash = \"keep\" before the first rule if the upstream reads it as part of a \
             segment",
        ),
        (
            of_pattern("/a\\b"),
            "r.toml:4:20: a backslash separates nothing in a pattern: write \"/\", or backslash = \
             \"keep\" before the first rule if the upstream reads it as part of a segment",
        ),
        (
            format!("{rule}match = {{ host = \"[::1\" }}"),
            "r.toml:4:19: an IPv6 address in brackets is needed, such as \"[2001:db8::1]\"",
        ),
    ] {
        assert_eq!(said(&text), expected);
    }
    let kept =
        format!("encoded_slash = \"keep\"\nbackslash = \"keep\"\n{}", of_pattern("/a%2Fb\\c"));
    let rules = Rules::parse("r.toml", &kept).expect("the upstream keeps both");
    let fits = |path| rules.rules()[0].matches(&Request { path, ..Request::default() });
    assert!(fits("/a%2fb%5cc") && !fits("/a/b/c"));
}
