//! `tollgate check`, run as a program.

use std::path::PathBuf;
use std::process::Command;

/// Exit code, standard output, standard error.
fn check(file: &str) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(["check", file])
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
fn the_example_is_explained() {
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
    for said in [
        "\n  limit    10/d (sliding-log): at most 10 in any day\n",
        "\n  key      header x-device; requests without it are refused\n",
        "\n  limit    5/7d (sliding-log): at most 5 in any 7 days\n",
        "\n  penalty  after 3 refusals within 10 minutes, refused for 1 hour\n",
        "\n  matches  path /api/search, header x-plan is \"free\"\n",
        "\n  shadow   refuses nothing, and tells what it would have refused\n",
        "at most 20 at once and 100 a second; in any second at most 120\n",
        "\nmemory in all: at most ",
    ] {
        assert!(out.contains(said), "{said}\n{out}");
    }
}

#[test]
fn mistakes_are_all_shown_with_carets() {
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
fn a_file_that_is_not_there() {
    let (code, out, err) = check("no/such/file.toml");
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.starts_with("tollgate: cannot read no/such/file.toml: "), "{err}");
}
