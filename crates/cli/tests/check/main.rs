//! `tollgate check`, run as a program.

use std::path::PathBuf;
use std::process::Command;

/// Exit code, standard output, standard error.
fn check(file: &str) -> (i32, String, String) {
    check_with(&[file])
}

fn check_with(words: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .arg("check")
        .args(words)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("it writes UTF-8");
    (output.status.code().expect("no signal"), text(output.stdout), text(output.stderr))
}

fn scratch(name: &str, content: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).expect("a place for scratch files");
    path.to_str().expect("its name is UTF-8").to_owned()
}

#[test]
fn the_example_file_is_explained() {
    let (code, out, err) = check("rules/example.toml");
    assert_eq!((code, err.as_str()), (0, ""));
    let start = "\
rules/example.toml: 6 rules; all that match a request must admit it

posts
  matches  POST or PUT, path /api/posts/**
  key      header x-user; requests without it share one bucket
  limit    2/s (gcra): at most 2 at once and 2 a second; in any second at most 4
  limit    daily = 100/d (fixed-window-aligned): at most 100 in each day of the wall clock (UTC); \
           across the edge of two, 200
";
    assert!(out.starts_with(start), "{out}");
    for text in [
        "\n  limit    10/d (sliding-log): at most 10 in any day\n",
        "\n  key      header x-device; requests without it are denied\n",
        "\n  limit    5/7d (sliding-log): at most 5 in any 7 days\n",
        "\n  penalty  after 3 denials within 10 minutes, denied for 1 hour\n",
        "\n  matches  path /api/search, header x-plan is \"free\"\n",
        "\n  shadow   denies nothing, and reports what it would have denied\n",
        "at most 20 at once and 100 a second; in any second at most 120\n",
        "\npaths: %2F and backslashes are denied where a rule depends on how they are read; \
         parameters (;v=1) and case are ignored\n",
        "\nmemory in total: at most ",
    ] {
        assert!(out.contains(text), "{text}\n{out}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn shared_limits_are_explained_and_not_created() {
    let name = format!("check-test-{}", std::process::id());
    let text = format!("shared = \"{name}\"\n[[rule]]\nname = \"a\"\nlimits = \"5/s\"\n");
    let (code, out, err) = check(&scratch("shared.toml", &text));
    assert_eq!((code, err.as_str()), (0, ""));
    let folder = format!("/dev/shm/tollgate-{name}");
    let said = "\nshared: by all processes of this machine and user whose file has this name, in ";
    assert!(out.contains(&format!("{said}{folder}; ")), "{out}");
    assert!(!PathBuf::from(folder).exists());
    let (code, _, err) = check(&scratch("shared-wrong.toml", &text.replace("check-", "../")));
    assert!(code == 1 && err.contains("a name has 1 to 64 letters, digits"), "{err}");
}

#[test]
#[cfg(feature = "proxy")]
fn a_limit_that_no_store_can_keep_is_a_mistake() {
    let rule = |limits: &str, store: &str| {
        format!("[[rule]]\nname = \"a\"\nlimits = {limits}\nstore = {store}\n")
    };
    let url = "redis://127.0.0.1:1";
    let of_thousand = format!("{{ url = \"{url}\", nodes = 1000 }}");
    for (text, why) in [
        (
            rule("\"1/day\"", &of_thousand),
            "the part of one of 1000 nodes: quota: the rate is below ",
        ),
        (
            rule("{ quota = \"5/1500ns\", algorithm = \"fixed-window\" }", &format!("\"{url}\"")),
            "on a server a window is a whole number of microseconds: ",
        ),
    ] {
        let (code, out, err) = check(&scratch("store.toml", &text));
        assert_eq!((code, out.as_str()), (1, ""), "{err}");
        let begins = "error: rule \"a\": limit \"";
        assert!(err.starts_with(begins) && err.contains(why), "{err}");
    }
    let (code, _, err) = check(&scratch("store.toml", &rule("\"100/day\"", &of_thousand)));
    assert_eq!((code, err.as_str()), (0, ""));
}

#[test]
fn all_mistakes_are_shown_with_carets() {
    let text = "[[rule]]\nname = \"a\"\nlimits = \"5/fortnight\"\nshadow = 1\n";
    let file = scratch("mistakes.toml", text);
    let (code, out, err) = check(&file);
    assert_eq!((code, out.as_str()), (1, ""));
    let expected = format!(
        "\
error: expected a unit of time (ns, us, ms, s, min, h, d, w, y), as in \"10 per minute\"
 --> {file}:3:13
  |
3 | limits = \"5/fortnight\"
  |             ^^^^^^^^^

error: a whole number, where true or false is needed
 --> {file}:4:10
  |
4 | shadow = 1
  |          ^

{file}: 2 mistakes
"
    );
    assert_eq!(err, expected);
}

#[test]
fn a_rule_that_no_request_reaches_is_warned_about() {
    let text =
        "rule = [{ name = \"a\", action = \"exempt\" },\n{ name = \"b\", limits = \"5/s\" }]\n";
    let file = scratch("unreached.toml", text);
    let (code, out, err) = check(&file);
    assert_eq!((code, err.as_str()), (0, ""));
    let expected = format!(
        "{file}: 2 rules; all that match a request must admit it\n\n\
         warning: rule \"b\" is never reached, since \"a\" on line 1 exempts all that it matches: put it \
         before, or leave it out\n --> {file}:2:10\n\na\n  matches  every request\n  exempts  later rules do \
         not apply\n\nb\n"
    );
    assert!(out.starts_with(&expected), "{out}");
}

#[test]
fn a_file_that_is_not_utf8_has_a_mistake() {
    let file = scratch("latin.toml", "");
    std::fs::write(&file, b"# caf\xe9\n").expect("the file is ours");
    let (code, out, err) = check(&file);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.ends_with(&format!("{file}: 1 mistake\n")), "{err}");
}

#[test]
fn a_missing_file_is_an_error() {
    let (code, out, err) = check("no/such/file.toml");
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.starts_with("tollgate: no/such/file.toml cannot be read: "), "{err}");
}

#[test]
fn a_file_of_more_than_a_mebibyte_is_an_error() {
    let long = "#".repeat(1 << 20);
    let file = scratch(
        "over-a-mebibyte.toml",
        &format!("{long}\nrule = [{{ name = \"a\", limits = \"1/s\" }}]"),
    );
    let (code, out, err) = check(&file);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(
        err.ends_with(
            "over-a-mebibyte.toml cannot be read: it is longer than a mebibyte, which no rules file needs\n"
        ),
        "{err}"
    );
}

#[test]
fn a_request_is_explained_rule_by_rule() {
    let explained = |words: &[&str]| {
        let (code, out, err) = check_with(&[words, &["rules/example.toml"]].concat());
        assert_eq!((code, err.as_str()), (0, ""));
        out
    };
    let out = explained(&["--explain", "POST /login%2f", "--client", "192.0.2.7"]);
    let expected = "\
rules/example.toml: POST /login%2f

path as /login: %2F separates segments
path as /login%2f: %2F belongs to its segment
posts: does not apply, since the path is not /api/posts/**
accounts: does not apply, since the path is not /api/accounts
rewards: does not apply, since the path is not /api/rewards/*/claim
logins: answers 400, since path /login matches some of these readings only
search: is not tried, since logins denies the request
everything: is not tried, since logins denies the request
";
    assert_eq!(out, expected);
    let out = explained(&["--explain", "/api/search?q=a", "--header", "X-Plan: free"]);
    for text in [
        "posts: does not apply, since the method is not POST or PUT\n",
        "search: applies in shadow; without ip (IPv6 by /64) and cookie session, so counted with all \
         such requests\n",
    ] {
        assert!(out.contains(text), "{text}\n{out}");
    }
    let out = explained(&["--explain", "/api/x/../search"]);
    for text in [
        "path as /api/search: \"..\" is resolved\npath as /api/x/../search: \"..\" is kept\n",
        "search: does not apply, since this does not hold: header x-plan is \"free\"\n",
    ] {
        assert!(out.contains(text), "{text}\n{out}");
    }
}

#[test]
fn with_apply_first_later_rules_are_skipped() {
    let text = "apply = \"first\"\nencoded_slash = \"decode\"\nrule = [\
        { name = \"files\", match = { path = \"/files/**\" }, limits = \"9/s\" }, \
        { name = \"host\", match = { host = \"a.example\" }, limits = \"9/s\" }, \
        { name = \"all\", key = \"none\", limits = \"9/s\" }, \
        { name = \"never\", limits = \"9/s\" }]";
    let file = scratch("first.toml", text);
    let explained = |request: &str| check_with(&["--explain", request, &file]).1;
    assert_eq!(
        explained("/files%2fa").lines().skip(2).collect::<Vec<_>>(),
        [
            "path as /files/a: %2F separates segments",
            "files: applies; without ip (IPv6 by /64), so counted with all such requests",
            "host: is not tried, since files is the first",
            "all: is not tried, since files is the first",
            "never: is not tried, since files is the first",
        ]
    );
    // Under one reading of the path it is the first match, under the other it is not.
    let out = explained("http://b.example/files/../x");
    for text in [
        "files: applies by some of these readings; ",
        "host: does not apply, since the host b.example is not a.example",
        "all: applies; counted by nothing: one bucket for all",
        "never: is not tried, since all is the first",
    ] {
        assert!(out.contains(text), "{text}\n{out}");
    }
    for (wrong, text) in [
        ("a b c", "write a request like"),
        ("GET a\\ b", "write a request"),
        ("login", "\"login\" has no path: begin it with a slash"),
        ("POST a:80", "\"a:80\" has no path: begin it with a slash"),
    ] {
        let (code, _, err) = check_with(&["--explain", wrong, &file]);
        assert!(code == 2 && err.contains(text), "{err}");
    }
}
