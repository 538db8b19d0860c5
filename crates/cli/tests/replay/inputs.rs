//! What `tollgate replay` reads: how a log begins, and where it comes from.

use crate::support::json_with;

const RULE: [&str; 2] = ["--rule", "1/s burst 1"];
const LINE: &str = "192.0.2.7 - - [01/Aug/1995:06:00:01 +0000] \"GET / HTTP/1.0\" 200 1\n";

#[test]
fn a_log_that_begins_with_many_blank_lines_is_replayed() {
    for blank_lines in [15, 16, 1_000] {
        let log = "\n".repeat(blank_lines) + LINE + "wrong\n";
        let report = json_with(&RULE, log.as_bytes());
        assert_eq!(report["requests"], 1, "{blank_lines}");
        assert_eq!(report["malformed"]["first"][0]["line"], blank_lines + 2);
    }
}
