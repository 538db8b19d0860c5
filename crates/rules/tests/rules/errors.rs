//! Every error: its place and its message.

use tollgate::AnyAlgorithm;
use tollgate_rules::{Request, Rules, RulesLimiter};

/// A correct rule, except that the fourth line of the file is `line`.
fn with(line: &str) -> String {
    let mut text = "[[rule]]\nname = \"a\"\n\n".to_owned();
    text += line;
    if !line.contains("limits") {
        text += "\nlimits = \"5/s\"";
    }
    text
}

/// The text that replaces `{KEY PARTS}` in errors.txt.
const KEY_PARTS: &str = "\"ip\", \"header:NAME\", \"cookie:NAME\", \"query:NAME\", \"path\", \"method\", \"host\" or \"none\"";

#[test]
fn the_documents_list_every_part_of_a_key() {
    let text = include_str!("../../../../docs/rules.md");
    let row = text.lines().find(|line| line.starts_with("| `key` |")).expect("a row");
    for part in KEY_PARTS.split('"').skip(1).step_by(2) {
        assert!(row.contains(&format!("`\"{part}\"`")), "docs/rules.md: {part}");
    }
}

/// The text that replaces `{ALGORITHMS}` in errors.txt.
fn algorithms() -> String {
    let names: Vec<String> = AnyAlgorithm::NAMES.iter().map(|name| format!("\"{name}\"")).collect();
    let (last, others) = names.split_last().expect("names");
    format!("{} or {last}", others.join(", "))
}

fn said(text: &str) -> String {
    Rules::parse("r.toml", text).expect_err(text).to_string()
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(said(text), expected, "{text}");
}

#[test]
fn each_mistake_in_one_line_has_its_place_and_message() {
    let cases: Vec<(&str, &str)> = include_str!("errors.txt")
        .split("\n\n")
        .map(|case| case.trim())
        .map(|case| case.split_at(case.find("\nr.toml:").expect("what is said of it")))
        .collect();
    assert!(cases.len() > 50);
    for (line, expected) in cases {
        let expected = expected.trim().replace("{KEY PARTS}", KEY_PARTS);
        check(&with(line), &expected.replace("{ALGORITHMS}", &algorithms()));
    }
}

/// As many cells as a limit admits at once may pass, and so may a request that a header says costs more.
#[test]
fn a_cost_that_a_limit_admits_at_once_is_no_mistake() {
    for cost in [
        "5",
        "{ header = \"x-cost\", max = 9, default = 5 }",
        "{ header = \"x-cost\", max = 9 }",
        "{ bytes = \"request\", max = 9, default = 5 }",
        "{ bytes = \"request\", max = 5 }",
        "{ bytes = \"request\", max = 9, default = 6 }",
        "{ response_header = \"x-tokens\", estimate = 5, max = 5 }",
        "{ bytes = \"response\", estimate = { header = \"x-max\", max = 9, default = 5 } }",
    ] {
        let text = with(&format!("cost = {cost}"));
        assert_eq!(Rules::parse("r.toml", &text).err(), None, "{cost}");
    }
}

#[test]
fn each_mistake_of_a_whole_file_has_its_place_and_message() {
    for (text, expected) in [
        ("", "r.toml:1:1: the file has no rules: begin each with a line [[rule]]"),
        ("rule = []", "r.toml:1:8: a file has 1 to 2048 rules; this one has 0"),
        (
            "[rule]\nname = \"a\"",
            "r.toml:1:1: a table, where a list of rules is needed: begin each with a line [[rule]]",
        ),
        (
            "rule = [7]",
            "r.toml:1:9: a whole number, where a rule is needed: begin each with a line [[rule]]",
        ),
        (
            "\n[[rule]]",
            "r.toml:2:1: the rule has no name: write, for example, name = \"logins\"\n\
             r.toml:2:1: the rule has no limits: write, for example, limits = \"100/s\"",
        ),
        (
            "apply = \"any\"\n[[rules]]\nname = \"a\"\nlimits = \"5/s\"",
            "r.toml:1:1: the file has no rules: begin each with a line [[rule]]\n\
             r.toml:1:10: unknown value \"any\": write \"all\" or \"first\"\n\
             r.toml:2:3: unknown key \"rules\": write each rule under a heading [[rule]]",
        ),
        (
            "[[rule]]\nname = \"a\"\nlimits = \"5/s\"\n[[rule]]\nname = \"a\"\nlimits = \"5/s\"",
            "r.toml:5:9: the rule on line 2 has this name: give each its own",
        ),
        (
            "[[rule]]\nname = \"a\"\nlimits = [\"5/s\", { quota = \"1/s\", algorithm = \"leaky-queue\" }]\n\
             store = \"redis://a\"\npenalty = \"1 h\"\non_full = \"deny\"",
            "r.toml:4:9: a store cannot count by \"leaky-queue\": write \"gcra\", \"fixed-window\", \
             \"fixed-window-aligned\", \"sliding-counter\" or \"sliding-log\"\n\
             r.toml:5:11: bans are kept in this process: leave out the store, or the penalty\n\
             r.toml:6:11: a store keeps as many keys as it has memory for: leave this out",
        ),
        (
            "rule = [{ name = \"a\", bytes = \"1MB/s\", penalty = \"1 h\" }]",
            "r.toml:1:50: the rule denies nothing that a ban could follow: add \"limits\" or \"concurrency\", or \
             leave this out",
        ),
        // Columns count characters, not bytes, and lines end with either line end.
        (
            "rule = [{ name = \"ü\", limits = \"5/s\", \"käy\" = 1 }]",
            "r.toml:1:39: unknown key \"käy\": write \"key\"",
        ),
        (
            "[[rule]]\r\nname = \"a\"\r\nlimits = \"5/s\"\r\nkey = \"x\"",
            &format!("r.toml:4:8: unknown key \"x\": write {KEY_PARTS}, or a list of them"),
        ),
    ] {
        check(text, expected);
    }
}

#[test]
fn each_mistake_of_a_plan_has_its_place_and_message() {
    for (plan, expected) in [
        (
            "7",
            "r.toml:1:30: a whole number, where a table is needed, as in plan = { by = \"header:x-plan\", gold = \
             \"500/s\", default = \"5/s\" }",
        ),
        (
            "{}",
            "r.toml:1:30: the plan is chosen by nothing: write, for example, by = \"header:x-plan\"\n\
             r.toml:1:30: the plan has no default, for requests without one of its values: write, for example, \
             default = \"5/s\"",
        ),
        (
            "{ by = \"ip\", gold = \"5/x\", silver = 7, default = \"1/s\" }",
            "r.toml:1:38: a plan cannot be chosen by \"ip\": write \"header:NAME\", \"cookie:NAME\" or \
             \"query:NAME\"\n\
             r.toml:1:53: expected a unit of time (ns, us, ms, s, min, h, d, w, y), as in \"10 per minute\"\n\
             r.toml:1:66: a whole number, where a quota such as \"100/s burst 20\" is needed",
        ),
        (
            "{ by = \"header:x plan\", \"\" = \"5/s\", default = \"1/s\" }",
            "r.toml:1:38: a plan cannot be chosen by \"header:x plan\": write \"header:NAME\", \"cookie:NAME\" or \
             \"query:NAME\"\n\
             r.toml:1:54: the value of a plan has 1 to 100 bytes, and no control characters",
        ),
        (
            "{ by = \"cookie:x\", 'a;b' = \"5/s\", '\"gold\"' = \"5/s\", \" a\" = \"5/s\", default = \"1/s\" }",
            "r.toml:1:49: no cookie has this value: write it without \";\", and without quotes or spaces around it\n\
             r.toml:1:64: no cookie has this value: write it without \";\", and without quotes or spaces around it\n\
             r.toml:1:82: no cookie has this value: write it without \";\", and without quotes or spaces around it",
        ),
        (
            "{ by = \"header:x\", \"a;b\" = \"5/s\", '\"gold\"' = \"5/s\", \"a \" = \"5/s\", default = \"1/s\" }",
            "r.toml:1:82: no header has this value: write it without spaces around it",
        ),
        (
            "{ by = \"header:x\", default = \"1/s\" }",
            "r.toml:1:30: a plan has 1 to 32 values beside the default; this one has 0",
        ),
        (
            "{ by = \"header:x\", gold = \"5/s\", default = \"1/s\" }, algorithm = \"sliding-log\"",
            "r.toml:1:30: \"sliding-log\" keeps one quota for all keys: write \"gcra\", \"fixed-window\" or \
             \"fixed-window-aligned\"",
        ),
        (
            "{ by = \"header:x\", a = \"5/min\", default = \"1/h\" }, algorithm = \"fixed-window-aligned\"",
            "r.toml:1:73: fixed-window-aligned keeps plans of one period: write this as so many in the period of the \
             fastest",
        ),
        (
            "{ by = \"header:x\", a = \"1000000/s\", b = \"0/s\", default = \"1/h\" }",
            "r.toml:1:71: the limit is 0: a quota needs at least 1 cell per period (to deny everything, do not ask a \
             limiter)",
        ),
        (
            "{ by = \"header:x\", a = \"1000000/s\", default = \"1/366d burst 140\" }",
            "r.toml:1:77: gcra cannot keep this beside the fastest plan: write a rule of its own for these keys",
        ),
        (
            "{ by = \"header:x\", a = \"5/s\", default = \"1/s\" }, store = \"redis://a\"",
            "r.toml:1:30: a store keeps one quota for all keys: leave out the store, or the plan",
        ),
    ] {
        check(&format!("rule = [{{ name = \"a\", plan = {plan} }}]"), expected);
    }
}

/// A cost that only some plans admit keeps the others out.
#[test]
fn a_cost_that_no_plan_admits_at_once_is_a_mistake() {
    let of = |cost| {
        let plan = "plan = { by = \"header:x-plan\", gold = \"9/s\", default = \"5/s\" }";
        format!("rule = [{{ name = \"a\", {plan}, cost = {cost} }}]")
    };
    assert_eq!(Rules::parse("r.toml", &of(9)).err(), None);
    let expected = "r.toml:1:94: more than the 9 cells that a limit admits at once, so no request could pass: lower \
                    this, or raise the limit or its burst";
    check(&of(10), expected);
}

#[test]
fn text_that_is_not_toml_is_an_error_with_its_place() {
    let text = "[[rule]]\nname = a\nlimits = \"5/s\nkey = 'ip'";
    let error = Rules::parse("r.toml", text).unwrap_err();
    let places: Vec<_> = error.errors().iter().map(|its| (its.line(), its.column())).collect();
    assert_eq!(places, [(2, 8), (3, 14)], "{error}");
    assert!(error.errors().iter().all(|its| its.message().starts_with("not TOML: ")), "{error}");
}

#[test]
fn mistakes_in_several_rules_are_reported_at_once() {
    let text = "\
[[rule]]
name = \"posts\"
match = { path = \"posts\", method = \"post\" }
limits = [\"2/sec\", \"10 per fortnight\"]

[[rule]]
name = \"posts\"
key = \"user\"
limits = \"1/s burst 0\"
";
    let error = Rules::parse("rules.toml", text).unwrap_err();
    let places: Vec<_> = error.errors().iter().map(|its| (its.line(), its.column())).collect();
    assert_eq!(places, [(3, 19), (3, 37), (4, 28), (7, 9), (8, 8), (9, 21)]);
    let shown = error.with_source();
    let third = "
error: expected a unit of time (ns, us, ms, s, min, h, d, w, y), as in \"10 per minute\"
 --> rules.toml:4:28
  |
4 | limits = [\"2/sec\", \"10 per fortnight\"]
  |                            ^^^^^^^^^
";
    assert!(shown.contains(third), "{shown}");
    assert_eq!(shown.matches("error: ").count(), 6);
}

#[test]
fn carets_are_under_the_mistake_whatever_characters_come_before() {
    let text = "rule = [{ name = \"日本\u{1b}\", limits = \"5/s\" }]\n";
    let shown = Rules::parse("r.toml", text).unwrap_err().with_source();
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    check(
        "apply = \"\\u001b[2J\\n\"\n[[rule]]\nname = \"a\"\nlimits = \"5/s\"",
        "r.toml:1:9: unknown value \"\\u{1b}[2J\\n\": write \"all\" or \"first\"",
    );
    let text = "rule = [{ name = \"日本\",\tlimits = \"5/s\", shadow = 1 }]\n";
    let shown = Rules::parse("r.toml", text).unwrap_err().with_source();
    let expected = "
1 | rule = [{ name = \"日本\", limits = \"5/s\", shadow = 1 }]
  |                                                 ^
";
    assert!(shown.contains(expected), "{shown}");
}

#[test]
fn files_of_2048_rules_rules_of_8_limits_and_keys_of_16_parts_parse_and_larger_ones_do_not() {
    let file = |count: usize| -> String {
        (0..count).map(|nth| format!("[[rule]]\nname = \"r{nth}\"\nlimits = \"5/s\"\n")).collect()
    };
    assert_eq!(Rules::parse("r.toml", &file(2_048)).map(|rules| rules.rules().len()), Ok(2_048));
    let more = said(&file(2_049));
    assert!(more.contains("a file has 1 to 2048 rules; this one has 2049"), "{more}");

    let limits = |count: usize| {
        let limits: Vec<String> = (1..=count).map(|nth| format!("\"{nth}/s\"")).collect();
        with(&format!("limits = [{}]", limits.join(", ")))
    };
    assert!(Rules::parse("r.toml", &limits(8)).is_ok());
    let more = said(&limits(9));
    assert!(more.contains("a rule has 1 to 8 limits; this one has 9"), "{more}");

    let key = |count: usize| {
        let parts: Vec<String> = (0..count).map(|nth| format!("\"header:x-{nth}\"")).collect();
        with(&format!("key = [{}]", parts.join(", ")))
    };
    assert!(Rules::parse("r.toml", &key(16)).is_ok());
    let more = said(&key(17));
    assert!(more.contains("a key has 1 to 16 parts; this one has 17"), "{more}");
}

#[test]
fn of_very_many_mistakes_the_first_100_are_kept_and_the_others_counted() {
    let of = |text: &str| {
        let error = Rules::parse("r.toml", text).expect_err("mistakes");
        let shown = (error.to_string().len(), error.with_source().len());
        assert!(shown.0 < 70_000 && shown.1 < 120_000, "{shown:?}");
        let lines: Vec<usize> = error.errors().iter().map(|its| its.line()).collect();
        (lines, error.left_out(), error.to_string())
    };
    // One mistake in each of 20,000 lines, and one in the first line for the missing rules.
    let lines: String = (0..20_000).map(|nth| format!("key{nth} = {}\n", "x".repeat(9))).collect();
    let (places, left_out, _) = of(&lines.replace("xxxxxxxxx", "1"));
    assert_eq!((places, left_out), ([&[1], &(1..100).collect::<Vec<_>>()[..]].concat(), 19_901));
    // A mebibyte that is no TOML at all.
    let (places, left_out, _) = of(&lines);
    assert_eq!((places.len(), left_out), (100, 19_900));
    // A list of a mebibyte, and an entry as long.
    let networks: Vec<String> = (0..50_000).map(|nth| format!("\"{nth}.0.0.1/8\"")).collect();
    let (_, left_out, text) = of(&with(&format!("match = {{ ip = [{}] }}", networks.join(", "))));
    assert!(left_out > 40_000 && text.ends_with(&format!("\nand {left_out} more mistakes")));
    of(&with(&format!(
        "match = {{ ip = \"{}\", {} = 1 }}",
        "1".repeat(500_000),
        "y".repeat(500_000)
    )));
}

#[test]
fn rules_that_no_request_reaches_are_warned_about_with_their_place() {
    let text = "\
apply = \"first\"

[[rule]]
name = \"api\"
match = { path = \"/api/**\" }
limits = \"9/s\"

[[rule]]
name = \"posts\"
match = { path = \"/api/posts\", method = \"POST\" }
limits = \"5/s\"

[[rule]]
name = \"bad\"
match = { ip = \"192.0.2.0/24\" }
action = \"deny\"

[[rule]]
name = \"worse\"
match = { ip = \"192.0.2.7\" }
action = \"exempt\"

[[rule]]
name = \"none\"
match = { path = \"/b\", not = { path = \"/**\" } }
limits = \"5/s\"
";
    let rules = Rules::parse("r.toml", text).expect("no mistakes");
    let warnings: Vec<String> = rules.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "9:8: rule \"posts\" is never reached, since \"api\" on line 4 goes first for all that it \
             matches, by every reading of the path: put it before, or leave it out",
            "19:8: rule \"worse\" is never reached, since \"bad\" on line 14 denies all that it matches: put \
             it before, or leave it out",
            "24:8: rule \"none\" is never reached, since its \"not\" excludes all that it matches, by every \
             reading of the path: leave it out",
        ]
    );
    let all = text.replace("\"first\"", "\"all\"");
    let rules = Rules::parse("r.toml", &all).expect("no mistakes");
    let names: Vec<_> = rules.warnings().iter().map(|its| its.rule()).collect();
    assert_eq!(names, ["worse", "none"]);
    let example = include_str!("../../../../rules/example.toml");
    assert_eq!(Rules::parse("r.toml", example).expect("no mistakes").warnings(), []);
}

/// A server may read `post` as another method than `POST`, so a rule does not exempt it as `POST`. By each reading that a
/// rule matches, its `not` excludes the request, too.
#[test]
fn a_warning_of_a_rule_that_some_spellings_still_reach_says_so() {
    let of_methods = |first: &str, exception: &str| {
        let text = format!(
            "rule = [{{ name = \"open\", match = {{ {first} }}, action = \"exempt\" }}, {{ name = \"posts\", \
             match = {{ path = \"/a\", method = \"POST\"{exception} }}, limits = \"5/s\" }}]"
        );
        let rules = Rules::parse("r.toml", &text).expect("no mistakes");
        rules.warnings().iter().map(|its| its.message().to_owned()).collect::<Vec<_>>()
    };
    let covered = |readings: &str| {
        vec![format!(
            "rule \"posts\" is never reached, since \"open\" on line 1 exempts all that it matches, by every \
             reading of {readings}: put it before, or leave it out"
        )]
    };
    assert_eq!(of_methods("method = \"POST\"", ""), covered("the method"));
    assert_eq!(
        of_methods("path = \"/a\", method = \"POST\"", ""),
        covered("the path and the method")
    );
    let excluded = |readings: &str| {
        vec![format!(
            "rule \"posts\" is never reached, since its \"not\" excludes all that it matches{readings}: leave it out"
        )]
    };
    let by_path = "{ path = \"/a\" }";
    let by_method = "{ method = \"POST\" }";
    let by_both = "{ path = \"/a\", method = \"POST\" }";
    let by_another = "{ method = \"GET\" }";
    let by_client = "{ ip = \"10.0.0.0/8\" }";
    let of_path = ", by every reading of the path";
    for (exceptions, readings) in [
        (vec![by_method], ""),
        (vec![by_path, by_method], ""),
        (vec![by_path, by_another], of_path),
        (vec![by_both, by_path], of_path),
        (vec![by_another, by_both], of_path),
        (vec![by_path, by_client], ""),
    ] {
        let not = format!(", not = [{}], ip = \"10.0.0.0/8\"", exceptions.join(", "));
        assert_eq!(of_methods("method = \"GET\"", &not), excluded(readings), "{not}");
    }
}

/// A rule matches `post` by one reading if its `not` excludes `POST`.
#[test]
fn a_warning_of_a_rule_after_one_that_excludes_a_method_says_so() {
    let text = "rule = [{ name = \"open\", match = { not = { method = \"POST\" } }, action = \"exempt\" },
                        { name = \"rest\", match = { not = { method = \"POST\" } }, action = \"deny\" }]";
    let rules = Rules::parse("r.toml", text).expect("no mistakes");
    assert_eq!(
        rules.warnings()[0].message(),
        "rule \"rest\" is never reached, since \"open\" on line 1 exempts all that it matches, by every reading of \
         the method: put it before, or leave it out"
    );
    let gate = RulesLimiter::new(rules).expect("memory");
    let is_denied =
        |method| gate.decide(&Request { method, ..Request::default() }).denied().is_some();
    assert_eq!(["PUT", "put", "POST", "post"].map(is_denied), [false, false, false, true]);
}

/// No exception holds for a path with too many readings: a rule that limits or denies answers 400, and one that exempts
/// does not apply.
#[test]
fn a_rule_that_excludes_its_own_path_still_denies_a_path_with_too_many_readings() {
    let matcher = "match = { path = \"/a/b\", not = { path = \"/a/**\" } }";
    for (does, readings) in [
        ("limits = \"5/s\"", ", by every reading of the path"),
        ("action = \"deny\"", ", by every reading of the path"),
        ("action = \"exempt\"", ""),
    ] {
        let text = format!("rule = [{{ name = \"a\", {matcher}, {does} }}]");
        let rules = Rules::parse("r.toml", &text).expect("no mistakes");
        let expected = format!(
            "rule \"a\" is never reached, since its \"not\" excludes all that it matches{readings}: leave it out"
        );
        assert_eq!(rules.warnings()[0].message(), expected);
        let gate = RulesLimiter::new(rules).expect("memory");
        let odd = Request { path: "/x%2Fy%5Cz", ..Request::default() };
        assert_eq!(gate.decide(&odd).is_admitted(), readings.is_empty(), "{does}");
        assert!(gate.decide(&Request { path: "/a/b", ..Request::default() }).is_admitted());
    }
}

#[test]
fn a_rule_whose_only_path_is_an_exception_denies_a_path_with_too_many_readings() {
    for (matcher, does, is_admitted) in [
        ("{ not = { path = \"/**\" } }", "limits = \"5/s\"", false),
        ("{ not = { path = \"/**\" } }", "action = \"deny\"", false),
        ("{ not = { path = \"/**\" } }", "action = \"exempt\"", true),
        ("{ not = [{ method = \"GET\" }, { path = \"/a\" }] }", "limits = \"5/s\"", true),
    ] {
        let text = format!("rule = [{{ name = \"a\", match = {matcher}, {does} }}]");
        let gate = RulesLimiter::new(Rules::parse("r.toml", &text).expect("no mistakes"));
        let gate = gate.expect("memory");
        let odd = Request { path: "/x%2Fy%5Cz", method: "GET", ..Request::default() };
        assert_eq!(gate.decide(&odd).is_admitted(), is_admitted, "{matcher} {does}");
        let plain = Request { path: "/a", ..odd };
        assert!(gate.decide(&plain).is_admitted(), "{matcher} {does}");
    }
}

#[test]
fn a_byte_order_mark_takes_no_column() {
    for (text, line, column) in
        [("apply = 7", 1, 9), ("", 1, 1), ("x", 1, 2), ("[[rule]]\nname = 7", 2, 8)]
    {
        let [plain, marked] = [text.to_owned(), format!("\u{feff}{text}")]
            .map(|text| Rules::parse("r.toml", &text).expect_err("a mistake"));
        assert_eq!(marked.errors(), plain.errors(), "{text}");
        assert_eq!(marked.with_source(), plain.with_source(), "{text}");
        let places = plain.errors().iter().map(|error| (error.line(), error.column()));
        assert!(places.into_iter().any(|place| place == (line, column)), "{plain}");
    }
}
