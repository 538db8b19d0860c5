//! Runs curl, wrk and hey, and parses their results.

use std::process::Command;

/// Requests by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) admitted: u64,
    pub(crate) denied: u64,
}

/// Runs `count` requests by curl in HTTP/1.1, twenty at a time.
pub(crate) fn curl_http1(url: &str, count: u32) -> Seen {
    let numbered = format!("{url}?[1-{count}]");
    let words = ["--http1.1", "-Z", "--parallel-max", "20"];
    answers(&run(curl().args(words).arg(numbered)), count, "1.1")
}

/// Runs `count` requests by curl in HTTP/2, one process each, eight at a time: curl 7.88 fails on the
/// second request of a connection with prior knowledge of the version, also with nginx.
pub(crate) fn curl_http2(url: &str, count: u32) -> Seen {
    let one = |_| run(curl().args(["--http2-prior-knowledge", url]));
    let said = std::thread::scope(|scope| {
        let shares = (0..8).map(|share| (share..count).step_by(8));
        let shares = shares.map(|share| scope.spawn(move || share.map(one).collect::<String>()));
        let shares: Vec<_> = shares.collect();
        shares.into_iter().map(|share| share.join().expect("no panic")).collect::<String>()
    });
    answers(&said, count, "2")
}

fn curl() -> Command {
    let mut command = Command::new("curl");
    command.args([
        "-s",
        "--max-time",
        "60",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code} %{http_version}\n",
    ]);
    command
}

/// Parses the output of curl, and checks the number of requests and their version.
fn answers(said: &str, count: u32, version: &str) -> Seen {
    let mut seen = Seen::default();
    for line in said.lines() {
        match line.split_once(' ') {
            Some(("200", spoken)) if spoken == version => seen.admitted += 1,
            Some(("429", spoken)) if spoken == version => seen.denied += 1,
            _ => panic!("neither 200 nor 429 in HTTP/{version}: {line}"),
        }
    }
    assert_eq!(seen.admitted + seen.denied, u64::from(count));
    seen
}

/// Runs `count` requests by hey, ten at a time, with these further arguments.
pub(crate) fn hey(url: &str, count: u32, words: &[&str]) -> Seen {
    let count_text = count.to_string();
    let said = run(Command::new("hey").args(["-n", &count_text, "-c", "10"]).args(words).arg(url));
    assert!(!said.contains("Error distribution"), "{said}");
    let lines = said.lines().filter_map(|line| line.trim().strip_prefix('[')?.split_once("]\t"));
    let mut seen = Seen::default();
    for (status, rest) in lines {
        let figure = rest.split(' ').next().and_then(|word| word.parse().ok()).expect("a figure");
        match status {
            "200" => seen.admitted = figure,
            "429" => seen.denied = figure,
            _ => panic!("an answer that is neither 200 nor 429: {said}"),
        }
    }
    assert_eq!(seen.admitted + seen.denied, u64::from(count), "{said}");
    seen
}

/// Connections of [`wrk`]. That many requests may be in flight when it stops, and it misses their
/// responses.
pub(crate) const WRK_CONNECTIONS: u64 = 16;

/// Runs wrk for `secs` seconds.
pub(crate) fn wrk(url: &str, secs: u32) -> Seen {
    let (connections, span) = (format!("-c{WRK_CONNECTIONS}"), format!("-d{secs}s"));
    // By default, wrk counts an answer after two seconds as an error.
    let words = ["-t2", &connections, &span, "--timeout", "60s"];
    let said = run(Command::new("wrk").args(words).arg(url));
    assert!(!said.contains("Socket errors"), "{said}");
    let figure = |line: &str| line.trim().split(' ').next().and_then(|word| word.parse().ok());
    let all: Option<u64> =
        said.lines().find(|line| line.contains(" requests in ")).and_then(figure);
    let denied =
        said.lines().find_map(|line| line.trim().strip_prefix("Non-2xx or 3xx responses: "));
    let denied = denied.map_or(0, |text| text.parse().expect("a figure"));
    Seen { admitted: all.expect("a count") - denied, denied }
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}
