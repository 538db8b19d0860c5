//! `--suggest`: suggestions, checked against the limiter itself.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::support::{
    AZURE_CODE, ELASTIC, HACKERS, NASA, data, json, json_with, replay, scratch, unpacked,
};

/// The clients of a log, one per line, and their number.
fn clients(log: &str) -> (String, u64) {
    let text = unpacked(log);
    let text = String::from_utf8_lossy(&text);
    let clients: BTreeSet<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    let count = clients.len() as u64;
    (clients.into_iter().collect::<Vec<_>>().join("\n"), count)
}

fn keys_denied(quota: &str, log: &str) -> u64 {
    json(&["--rule", quota, &data(log)])["keys_denied"].as_u64().unwrap()
}

#[test]
fn the_suggested_burst_is_the_smallest_that_denies_few_enough_keys() {
    for (log, at_most, of_a_million) in
        [(NASA, "1%", 10_000), (HACKERS, "0%", 0), (ELASTIC, "2.5%", 25_000)]
    {
        let (list, count) = clients(log);
        let listed = scratch(&format!("listed-{log}.txt"), list.as_bytes());
        let may = count * of_a_million / 1_000_000;
        let rates = ["--rate", "1/s", "--rate", "10/min", "--rate", "20/h"];
        let words = ["--suggest", "--at-most", at_most, "--well-behaved", &listed, &data(log)];
        let report = json(&[&rates[..], &words[..]].concat());
        let suggestion = &report["suggestion"];
        assert_eq!(suggestion["well_behaved_keys"], count);
        assert_eq!(suggestion["well_behaved_keys_that_may_be_denied"], may);
        for row in suggestion["rates"].as_array().unwrap() {
            let (rate, burst) = (row["rate"].as_str().unwrap(), row["burst"].as_u64().unwrap());
            let denied = keys_denied(&format!("{rate} burst {burst}"), log);
            assert!(denied <= may, "{log} {rate} burst {burst}: {denied} of {may}");
            assert_eq!(row["keys_denied"], denied);
            assert_eq!(row["well_behaved_keys_denied"], denied);
            if burst > 1 {
                let less = keys_denied(&format!("{rate} burst {}", burst - 1), log);
                assert!(less > may, "{log} {rate} burst {burst}: {less} with one less");
            }
            let for_none = row["burst_for_none"].as_u64().unwrap();
            assert_eq!(keys_denied(&format!("{rate} burst {for_none}"), log), 0);
            assert!(keys_denied(&format!("{rate} burst {}", for_none - 1), log) > 0);
        }
    }
}

#[test]
fn the_report_shows_the_suggestion_and_its_reasons() {
    let ran = replay(&["--suggest", &data(NASA)]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let expected = "
2,328 of 2,365 keys are well-behaved; 37 left out, with more than 18 in the
  busiest minute or more than 81 in total (the 99th percentiles)
the smallest burst that denies at most 1 % of them (23 keys), what it denies,
  and the burst that denies none of them:

rate    burst  well-behaved       %  keys       %  requests       %  for none
30/h       39            20  0.86 %    35  1.48 %     1,045  3.37 %        75
1/min      30            22  0.95 %    36  1.52 %       767  2.48 %        68
2/min      23            18  0.77 %    33  1.40 %       436  1.41 %        54
5/min      15            18  0.77 %    37  1.56 %       157  0.51 %        28
10/min     10            18  0.77 %    35  1.48 %       176  0.57 %        18
20/min      8            17  0.73 %    31  1.31 %       142  0.46 %        14
30/min      7            20  0.86 %    30  1.27 %       124  0.40 %        14
1/s         6            10  0.43 %    16  0.68 %        54  0.17 %        12

suggested: 5/min burst 15, which of these admits the least to a key in any
  minute: at most 20 requests

[[rule]]
name = \"suggested\"
key = \"ip\"
limits = \"5/min burst 15\"
";
    assert!(ran.out.ends_with(expected), "{}", ran.out);
    let limiter = json(&["--rule", "5/min burst 15", &data(NASA)]);
    assert_eq!((&limiter["denied"], &limiter["keys_denied"]), (&157.into(), &37.into()));
}

#[test]
fn the_suggested_rule_is_a_valid_rules_file() {
    for (key, cost, log) in [("ip", "1", ELASTIC), ("ip+path", "1", HACKERS), ("ip", "5", NASA)] {
        let report = json(&["--suggest", "--key", key, "--cost", cost, &data(log)]);
        let suggestion = &report["suggestion"];
        let rule = suggestion["rule"].as_str().unwrap();
        let file = scratch(&format!("suggested-{key}-{cost}.toml"), rule.as_bytes());
        let check = Command::new(env!("CARGO_BIN_EXE_tollgate")).args(["check", &file]).output();
        assert!(check.unwrap().status.success(), "{rule}");
        let quota = suggestion["quota"].as_str().unwrap();
        let row = suggestion["rates"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| quota.starts_with(&format!("{} ", row["rate"].as_str().unwrap())));
        let row: &Value = row.expect("it is one of the rates");
        let enforced = json(&["--rules", &file, &data(log)]);
        assert_eq!(enforced["rules"][0]["denied"], row["denied"], "{rule}");
    }
}

/// The log has 20 addresses of one /64, with 1 to 20 requests each, all in one second.
#[test]
fn the_suggested_rule_counts_each_ipv6_address_by_itself_as_the_replay_did() {
    let client = |client: u32| {
        let line = "- - [01/Aug/1995:06:00:01 +0000] \"GET / HTTP/1.0\" 200 1\n";
        format!("2001:db8::{client} {line}").repeat(client as usize)
    };
    let log: String = (1..=20).map(client).collect();
    let words = ["--suggest", "--rate", "1/s", "--at-most", "25%"];
    for key in ["ip", "ip+path"] {
        let report = json_with(&[&words[..], &["--key", key]].concat(), log.as_bytes());
        let rule = report["suggestion"]["rule"].as_str().expect("a rule");
        assert!(rule.contains("\nipv6_prefix = 128 "), "{rule}");
        let file = scratch(&format!("suggested-ipv6-{key}.toml"), rule.as_bytes());
        let enforced = json_with(&["--rules", &file], log.as_bytes());
        assert_eq!(enforced["rules"][0]["keys"], 20, "{rule}");
        assert_eq!(enforced["rules"][0]["denied"], report["suggestion"]["rates"][0]["denied"]);
    }
    // The prefix has no effect without such an address, or without the part `ip`.
    let ipv4 = log.replace("2001:db8::", "192.0.2.");
    let by_field = ["--key", "field:host"];
    for (more, log) in [(&[][..], &ipv4), (&by_field, &log)] {
        let report = json_with(&[&words[..], more].concat(), log.as_bytes());
        let rule = report["suggestion"]["rule"].as_str().expect("a rule");
        assert!(!rule.contains("ipv6_prefix"), "{rule}");
    }
}

#[test]
fn listed_addresses_are_read_as_those_of_the_log() {
    let log = "[2001:DB8::1]:80 - - [01/Aug/1995:06:00:01 +0000] \"GET /a HTTP/1.0\" 200 1\n";
    for (key, list) in [
        ("ip", "2001:db8:0:0::1"),
        ("ip", "[2001:DB8::1]:80"),
        ("ip+path", "2001:db8:0:0::1 /a"),
        ("path+ip", "/a [2001:DB8::1]:81"),
        ("field:host", "[2001:DB8::1]:80"),
    ] {
        let list = scratch("addresses.txt", list.as_bytes());
        let words = ["--suggest", "--key", key, "--well-behaved", &list];
        assert_eq!(
            json_with(&words, log.as_bytes())["suggestion"]["well_behaved_keys"],
            1,
            "{key}"
        );
    }
}

#[test]
fn the_suggested_rule_says_that_a_request_costs_what_the_log_says() {
    for (cost, log, line) in [
        ("bytes", NASA, "# cost = { bytes = \"response\", estimate = … }"),
        ("field:bytes", NASA, "# cost = … : the number that the log has as field:bytes"),
    ] {
        let report = json(&["--suggest", "--cost", cost, &data(log)]);
        let rule = report["suggestion"]["rule"].as_str().unwrap();
        assert!(rule.contains(&format!("\nkey = \"ip\"\n{line}\nlimits = ")), "{rule}");
    }
}

#[test]
fn a_suggestion_counts_costs_in_one_bucket() {
    let words = ["--suggest", "--key", "none", "--cost", "field:ContextTokens"];
    let report = json(&[&words[..], &["--rate", "10000/s", &data(AZURE_CODE)]].concat());
    let row = &report["suggestion"]["rates"][0];
    let burst = row["burst"].as_u64().unwrap();
    let denied = |burst: u64| {
        let quota = format!("10000/s burst {burst}");
        let words = ["--rule", &quota, "--key", "none", "--cost", "field:ContextTokens"];
        json(&[&words[..], &[&data(AZURE_CODE)]].concat())["denied"].as_u64().unwrap()
    };
    assert_eq!(denied(burst), 0);
    assert!(denied(burst - 1) > 0);
}

#[test]
fn wrong_options_say_what_to_write() {
    let nobody = scratch("nobody.txt", b"nobody.example\n\n");
    let empty = scratch("empty.txt", b"\n");
    let file = data(HACKERS);
    for (words, why) in [
        (&["--suggest", "--rate", "1/s burst 5"][..], "which --suggest computes: write"),
        (&["--suggest", "--rate", "2000000000/s"], "the rate is above 1,000,000,000"),
        (&["--suggest", "--at-most", "1"], "such as 1%"),
        (&["--suggest", "--well-behaved", &nobody], "none of the keys in"),
        (&["--suggest", "--well-behaved", &empty], "write one per line"),
        (&["--suggest", "--well-behaved", "/no/such"], "cannot read /no/such"),
        (&["--rule", "1/s", "--rate", "1/s"], "--suggest"),
    ] {
        let ran = replay(&[words, &[&file]].concat());
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains(why), "{words:?}: {}", ran.err);
    }
}
