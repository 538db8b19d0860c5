//! Quotas by a value of the request: `plan`.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Limiter, ManualClock, Quota};
use tollgate_rules::{Request, Rules, RulesFile, RulesLimiter};

const TEXT: &str = r#"
[[rule]]
name = "api"
key = "header:x-user"
plan = { by = "header:x-plan", gold = "50/s burst 100", silver = "5/s burst 10", default = "1/min burst 2" }
"#;

fn gate(text: &str) -> (RulesLimiter<ManualClock>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let rules = Rules::parse("r.toml", text).unwrap_or_else(|error| panic!("{error}"));
    (RulesLimiter::with_clock(rules, Arc::clone(&clock)).expect("there is memory"), clock)
}

/// How many of `asked` requests are admitted, and the name of the limit that decided the last.
fn admitted<C: tollgate::Clock>(
    gate: &RulesLimiter<C>,
    user: &str,
    plan: &str,
    asked: usize,
) -> (usize, String) {
    let headers = [("x-user", user), ("x-plan", plan)];
    let (mut count, mut name) = (0, String::new());
    for _ in 0..asked {
        let decision = gate.decide(&Request { headers: &headers, ..Request::default() });
        count += usize::from(decision.is_admitted());
        let limit = decision.permit().map(|permit| permit.limit());
        let limit = limit.or_else(|| decision.denied().and_then(|denied| denied.limit()));
        name = limit.expect("a limit decides").name().to_owned();
    }
    (count, name)
}

#[test]
fn each_key_has_the_quota_of_its_plan() {
    let (gate, clock) = gate(TEXT);
    let of = |user, plan| admitted(&gate, user, plan, 200);
    assert_eq!(of("a", "gold"), (100, "gold".to_owned()));
    assert_eq!(of("b", "silver"), (10, "silver".to_owned()));
    for (user, plan) in [("c", "default"), ("d", "bronze"), ("e", ""), ("f", "Gold"), ("g", "by")] {
        assert_eq!(of(user, plan), (2, "default".to_owned()), "{plan}");
    }
    clock.advance(Duration::from_secs(1));
    assert_eq!((of("a", "gold").0, of("b", "silver").0, of("c", "").0), (50, 5, 0));
    clock.advance(Duration::from_secs(59));
    assert_eq!((of("a", "gold").0, of("b", "silver").0, of("c", "").0), (100, 10, 1));
}

#[test]
fn plans_admit_what_limiters_of_their_own_do_or_a_thousandth_less() {
    let (gate, clock) = gate(TEXT);
    let own = |quota: &str| -> Limiter<str, tollgate::Gcra, Arc<ManualClock>> {
        let quota: Quota = quota.parse().expect("a quota");
        Limiter::builder(quota).clock(Arc::clone(&clock)).build().expect("in range")
    };
    let plans = [("gold", own("50/s burst 100")), ("silver", own("5/s burst 10"))];
    let (mut by_plan, mut by_own, mut random) = ([0_u32; 2], [0_u32; 2], 0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..40_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // 80 requests a second of gold, and 20 of silver.
        clock.advance(Duration::from_micros((random >> 54) * 20));
        let index = usize::from((random >> 40) % 5 == 0);
        let (plan, own) = &plans[index];
        by_plan[index] += u32::from(admitted(&gate, plan, plan, 1).0 == 1);
        by_own[index] += u32::from(own.check(plan).is_ok());
    }
    for (ours, own) in by_plan.into_iter().zip(by_own) {
        assert!((1_500..32_000).contains(&own), "{own}: both answers are given");
        assert!(ours <= own + 1 && own - ours.min(own) <= own / 1_000 + 1, "{ours} of {own}");
    }
}

#[test]
fn a_plan_is_chosen_by_a_cookie_or_the_query_too() {
    for (by, path, cookie) in
        [("query:plan", "/?a=1&plan=big%20one", ""), ("cookie:plan", "/", "a=1; plan=\"big one\"")]
    {
        let text = format!(
            "rule = [{{ name = \"a\", key = \"none\",
                plan = {{ by = \"{by}\", \"big one\" = \"9/h\", default = \"1/h\" }} }}]"
        );
        let (gate, _) = gate(&text);
        let headers = [("cookie", cookie)];
        let big = Request { path, headers: &headers, ..Request::default() };
        assert!((0..9).all(|_| gate.decide(&big).is_admitted()), "{by}");
        assert!(!gate.decide(&big).is_admitted());
        assert!(
            !gate.decide(&Request::default()).is_admitted(),
            "the key owes more than the default"
        );
    }
}

#[test]
fn windows_of_one_period_have_plans_too() {
    let text = r#"rule = [{ name = "a", key = "header:x-user", algorithm = "fixed-window",
        plan = { by = "header:x-plan", gold = "5/h", default = "2/h" } }]"#;
    let (gate, clock) = gate(text);
    assert_eq!((admitted(&gate, "a", "gold", 9).0, admitted(&gate, "b", "", 9).0), (5, 2));
    clock.advance(Duration::from_secs(3_600));
    assert_eq!((admitted(&gate, "a", "gold", 9).0, admitted(&gate, "b", "", 9).0), (5, 2));
}

#[test]
fn a_plan_stands_beside_other_rules_and_requests_in_flight() {
    let text = r#"rule = [
        { name = "plans", key = "none", concurrency = 5,
          plan = { by = "header:x-plan", gold = "9/h burst 30", default = "3/h" } },
        { name = "all", key = "none", limits = "4/h" },
    ]"#;
    let (gate, _) = gate(text);
    // Denied by the default plan, the other rule is charged nothing.
    assert_eq!(admitted(&gate, "", "", 50).0, 3);
    assert_eq!(admitted(&gate, "", "gold", 50), (1, "4/h".to_owned()));
    let stats: Vec<_> = gate.stats().map(|its| (its.admitted, its.limits.len())).collect();
    assert_eq!(stats, [(4, 1), (4, 1)]);
    assert_eq!(gate.stats().next().expect("a rule").limits[0].limit.name(), "default");
}

#[test]
fn the_header_of_a_plan_is_required_and_the_rule_explained() {
    let rules = Rules::parse("r.toml", TEXT).expect("no mistakes");
    assert_eq!(rules.required_headers(), ["x-plan", "x-user"]);
    let explained = rules.rules()[0].explain();
    for line in [
        "plan     the limit named like the header x-plan, or else default\n",
        "limit    gold = 50/s burst 100 (gcra): ",
        "limit    default = 1/min burst 2 (gcra): ",
    ] {
        assert!(explained.contains(line), "{explained}");
    }
}

#[test]
fn keys_keep_their_state_when_plans_change() {
    let path = std::env::temp_dir().join(format!("tollgate-plans-{}.toml", std::process::id()));
    let write = |plan: &str| {
        let text = format!("rule = [{{ name = \"a\", key = \"header:x-user\", {plan} }}]");
        std::fs::write(&path, text).expect("a file");
    };
    write(r#"plan = { by = "header:x-plan", gold = "9/h", default = "5/h" }"#);
    let mut file = RulesFile::open(&path).expect("rules");
    let live = file.live();
    let of = |user: &str, plan: &str| admitted(&live.load(), user, plan, 20).0;
    assert_eq!((of("a", "gold"), of("b", "")), (9, 5));
    // The order and what chooses the plan make no difference.
    write(r#"plan = { default = "5/h", by = "cookie:p", gold = "9/h" }, match = { path = "/**" }"#);
    let summary = file.poll().expect("no mistakes").expect("a change");
    assert_eq!((summary.kept, summary.inherited, summary.new, summary.dropped), (1, 0, 0, 0));
    assert_eq!((of("a", ""), of("b", "")), (0, 0));
    // Slower plans, and another one.
    write(r#"plan = { by = "header:x-plan", gold = "9/h", tin = "8/h", default = "4/h" }"#);
    let summary = file.poll().expect("no mistakes").expect("a change");
    assert_eq!((summary.kept, summary.inherited, summary.new, summary.dropped), (0, 1, 0, 0));
    assert_eq!((of("a", "gold"), of("b", ""), of("c", "tin")), (0, 0, 8));
    // Far too fast for the limiter.
    write(r#"plan = { by = "header:x-plan", gold = "1000000/s", default = "4/h" }"#);
    let summary = file.poll().expect("no mistakes").expect("a change");
    let warnings: Vec<String> = summary.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "rule \"a\", limit \"plan\" starts afresh, since the limiter of the old plans cannot keep the new ones"
        ]
    );
    assert_eq!((summary.new, summary.dropped, of("b", "")), (1, 1, 4));
    write(r#"limits = "7/h""#);
    let summary = file.poll().expect("no mistakes").expect("a change");
    let warnings: Vec<String> = summary.warnings.iter().map(ToString::to_string).collect();
    let afresh = "rule \"a\", limit \"7/h\" starts afresh, since the rule had \"plan\" before";
    assert_eq!(warnings, [afresh]);
    assert_eq!(of("b", ""), 7);
    std::fs::remove_file(&path).expect("the file");
}
