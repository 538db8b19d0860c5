//! Quotas by a value of the request: `plan` in a rule.

use crate::support::{Proxy, get};

#[test]
fn each_key_has_the_quota_of_its_plan_and_responses_name_it() {
    let rules = r#"rule = [{ name = "api", key = "header:x-user", capacity = 100,
        plan = { by = "header:x-plan", gold = "5/h", default = "2/h" } }]"#;
    let proxy = Proxy::with_rules("plans", rules);
    let ask = |user: &str, plan: &str| {
        get(proxy.listen, "/", &format!("x-user: {user}\r\nx-plan: {plan}\r\n"))
    };
    let admitted = |user, plan| (0..9).filter(|_| ask(user, plan).status == 200).count();
    let first = ask("ada", "gold");
    assert_eq!(first.header("ratelimit-policy"), "\"api/gold\";q=5;w=3600");
    assert_eq!(first.header("ratelimit"), "\"api/gold\";r=4;t=720");
    assert_eq!((admitted("ada", "gold"), admitted("bob", "tin")), (4, 2));
    let denied = ask("bob", "");
    assert_eq!(
        (denied.status, denied.header("ratelimit-policy")),
        (429, "\"api/default\";q=2;w=3600")
    );
    // The plans have one table, and in one as small as this the number is exact.
    let name = "tollgate_rule_live_keys{rule=\"api\",limit=\"default\"}";
    assert_eq!(proxy.metric(name).to_bits(), 2_f64.to_bits(), "ada and bob");
}

#[test]
fn a_ban_names_the_plan_of_the_banned_key() {
    let rules = r#"rule = [{ name = "api", key = "header:x-user", penalty = "1 h",
        plan = { by = "header:x-plan", gold = "5/h", default = "2/h" } }]"#;
    let proxy = Proxy::with_rules("banned-plans", rules);
    for (user, plan, policy) in
        [("ada", "gold", "\"api/gold\";q=5;w=3600"), ("bob", "tin", "\"api/default\";q=2;w=3600")]
    {
        let ask = || get(proxy.listen, "/", &format!("x-user: {user}\r\nx-plan: {plan}\r\n"));
        let statuses: Vec<_> = (0..9).map(|_| ask()).skip_while(|its| its.status == 200).collect();
        assert!(statuses.len() > 2, "some denials by the ban");
        for denied in statuses {
            assert_eq!((denied.status, denied.header("ratelimit-policy")), (429, policy));
        }
    }
}
