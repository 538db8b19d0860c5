//! Errors at the start, and the demonstration without options.

use std::process::Command;

use crate::support::{Proxy, ask, get, scratch};

/// Standard error of a proxy that does not start with these arguments and variables.
pub(crate) fn start_error(words: &[&str], variables: &[(&str, &str)]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(["proxy", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .args(words)
        .envs(variables.iter().copied())
        .output()
        .expect("the binary runs");
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2), "{text}");
    text
}

#[test]
fn wrong_options_and_files_are_errors_at_the_start() {
    let file = scratch("wrong.toml", "[[rule]]\nname = \"a\"\nlimits = \"5/fortnight\"\n");
    let file = file.to_str().expect("UTF-8");
    for (words, expected) in [
        (["--upstream", "ftp://example.org"], "write it like http://127.0.0.1:3000"),
        (["--upstream-http2", "--preserve-host"], "cannot be used with"),
        (["--upstream", "example.org"], "write it like http://127.0.0.1:3000"),
        (["--rules", file], "-wrong.toml:3:13"),
        (["--rules", "no/such/file.toml"], "no/such/file.toml cannot be read"),
        (["--trusted-proxies", "10.0.0.0/33"], "`10.0.0.0/33` is neither an address nor"),
        (["--response-timeout", "0"], "write seconds above 0"),
        (["--body-grace", "0"], "write seconds above 0"),
        (["--min-body-rate", "1kB"], "invalid value '1kB' for '--min-body-rate <BYTES>'"),
        (["--max-connections", "0"], "0 is not in 1..=1000000"),
        (["--max-connections-per-client", "9999999"], "9999999 is not in 0..=1000000"),
    ] {
        let stderr = start_error(&words, &[]);
        assert!(stderr.contains(expected), "{expected}: {stderr}");
    }
}

/// Standard error may be a log that others read.
#[test]
fn a_mistake_in_a_file_is_an_error_at_the_start_without_the_passwords_of_its_line() {
    let store = "store = { url = \"redis://app:s3cr3t@cache:6379\", fallbak = \"deny\" }";
    let file =
        scratch("secret.toml", &format!("[[rule]]\nname = \"a\"\nlimits = \"5/s\"\n{store}\n"));
    let file = file.to_str().expect("UTF-8");
    let stderr = start_error(&["--rules", file], &[]);
    let expected = format!(
        "tollgate: {file}:4:50: unknown key \"fallbak\": write \"fallback\"\n`tollgate check {file}` shows the lines\n"
    );
    assert_eq!(stderr, expected);
}

#[test]
fn an_address_in_use_is_an_error_at_the_start() {
    let proxy = Proxy::start("in-use", &[]);
    let listen = proxy.listen.to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(["proxy", "--listen", &listen])
        .output()
        .expect("the binary runs");
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2));
    assert!(text.starts_with(&format!("tollgate: cannot listen on {listen}")), "{text}");
}

#[test]
fn without_options_the_proxy_is_a_demonstration() {
    let proxy = Proxy::start("alone", &[]);
    let answer = get(proxy.listen, "/path?query", "");
    assert_eq!(answer.status, 200);
    assert!(answer.body.starts_with("hello from the built-in upstream\n\nGET /path?query\n"));
    assert_eq!(get(proxy.admin, "/healthz", "").body, "ok\n");
    assert_eq!(get(proxy.admin, "/", "").status, 404);
    let posted = ask(proxy.admin, "POST", "/metrics", "");
    assert_eq!((posted.status, posted.header("allow")), (405, "GET, HEAD"));
    let page = get(proxy.admin, "/metrics", "");
    assert_eq!(page.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    assert_figures(&page.body);
}

/// Each family is declared once and before its samples, and no sample appears twice.
fn assert_figures(page: &str) {
    let mut families = std::collections::HashSet::new();
    let mut samples = std::collections::HashSet::new();
    let mut family = "";
    assert!(page.ends_with('\n'));
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("name and type");
            assert!(families.insert(name) && name.starts_with("tollgate_"), "{line}");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
            family = name;
        } else if !line.starts_with("# HELP ") {
            let (sample, figure) = line.rsplit_once(' ').expect("name and value");
            assert!(sample.starts_with(family) && samples.insert(sample), "{line}");
            assert!(figure.parse::<f64>().is_ok_and(|figure| figure >= 0.0), "{line}");
        }
    }
    assert!(families.len() > 15, "{page}");
}
