//! Builds the store limits of a rule.

use std::fmt::Write;
use std::ops::RangeInclusive;
use std::time::Duration;

use tollgate::Quota;
use tollgate_redis::{
    Algorithm, Fallback, Health, Leased, RedisLimiter, RedisLimiterError, Remote, Store,
    WithFallback,
};
use tollgate_rules::{Rule, RuleLimit};

use super::limits::{RuleLimits, StoreLimit};
use crate::log;

/// A lease of fewer cells saves almost no calls.
const CELLS_WORTH_A_LEASE: u32 = 10;
/// Leases withhold at most one part in this many of a burst.
const BURST_PARTS: u64 = 10;
/// A shorter lease expires before it arrives.
const LIFETIME_MIN: Duration = Duration::from_millis(10);
const LIFETIME_DEFAULT: Duration = Duration::from_millis(50);
/// A longer lease withholds cells from other processes, so only slow calls have one.
const LIFETIME_MAX: Duration = Duration::from_secs(1);
/// The longest name of a limit on a server, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// The shortest connect timeout, independent of the deadline of calls.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(50);
const CLUSTER: &str = "redis+cluster://";

/// The server; or, for `redis+cluster://a:6379,b:6379`, the cluster of these nodes.
pub(crate) fn store(at: &tollgate_rules::Store) -> Result<Store, String> {
    let mut builder = match at.url().strip_prefix(CLUSTER) {
        None => Store::builder(at.url()),
        Some(nodes) => Store::cluster(nodes.split(',').map(|node| format!("redis://{node}"))),
    };
    if let Some(deadline) = at.deadline() {
        // A call with a long deadline may wait as long for the connection.
        builder = builder.deadline(deadline).connect_timeout(deadline.max(CONNECT_TIMEOUT));
    }
    if let Some(prefix) = at.prefix() {
        builder = builder.prefix(prefix);
    }
    let name = at.to_string();
    let builder = builder.on_change(move |health| match health {
        Health::Up => log::info(format_args!("store {name} is up again")),
        down => log::warn(format_args!("store {name} is down: {down}")),
    });
    builder.build().map_err(|error| format!("store {at}: {error}"))
}

/// Builds all limits of a rule.
pub(super) fn rule(
    rule: &Rule,
    at: &tollgate_rules::Store,
    store: &Store,
) -> Result<RuleLimits, String> {
    let ids = rule.limit_ids();
    let mut store_limits = Vec::with_capacity(ids.len());
    let (mut cost_min, mut cost_max) = (0, u64::MAX);
    for (limit, id) in rule.limits().iter().zip(&ids) {
        let (built, costs) = store_limit(rule, limit, id, at, store)
            .map_err(|why| format!("limit \"{}\" in store {at}: {why}", limit.name()))?;
        store_limits.push(built);
        (cost_min, cost_max) = (cost_min.max(*costs.start()), cost_max.min(*costs.end()));
    }
    Ok(RuleLimits {
        store_limits,
        key: rule.key().clone(),
        costs: cost_min..=cost_max,
        limits: rule.limits().to_vec(),
        capacity: rule.capacity(),
        store: at.clone(),
    })
}

/// A limit in a store, and the largest costs of a request for which it is built like that.
fn store_limit(
    rule: &Rule,
    limit: &RuleLimit,
    id: &str,
    at: &tollgate_rules::Store,
    store: &Store,
) -> Result<(StoreLimit, RangeInclusive<u64>), String> {
    let algorithm: Algorithm = limit.algorithm_name().parse().map_err(text)?;
    let nodes = u32::try_from(at.nodes()).unwrap_or(u32::MAX);
    // Windows of a counter are longer by the lifetime of leases, so its keys would start afresh whenever
    // the quota or the deadline changes that lifetime.
    let asks_always = at.asks_always() || matches!(algorithm, Algorithm::SlidingCounter { .. });
    let builder = RedisLimiter::builder(store, name(rule, id), limit.quota()).algorithm(algorithm);
    let wished = match asks_always {
        true => None,
        false => lifetime(&limit.quota(), nodes, store.deadline()),
    };
    // A request for more than this is denied by every algorithm.
    let at_once = limit.at_once();
    let cost = rule.cost_max().min(at_once);
    let mut cost_min = 0;
    let limiter = match wished.map(|lifetime| builder.clone().leases(lifetime).build()) {
        // A request may need the cells that leases withhold.
        Some(Ok(leasing)) if leasing.max_at_once() < cost => {
            cost_min = leasing.max_at_once() + 1;
            builder.build()
        }
        None | Some(Err(RedisLimiterError::NoRoomForLeases | RedisLimiterError::LeaseOfLog)) => {
            builder.build()
        }
        Some(built) => built,
    };
    let limiter = limiter.map_err(text)?;
    let most = limiter.max_at_once();
    if cost > most {
        let cost = rule.cost_max();
        return Err(format!(
            "a request may cost {cost} cells, and {most} at most are counted at once: \
             lower the cost or its max"
        ));
    }
    let costs = cost_min..=if most < at_once { most } else { u64::MAX };
    let fallback = match at.fallback() {
        tollgate_rules::Fallback::Local => Fallback::local(&limiter, nodes, rule.capacity())
            .map_err(|why| match nodes {
                1 => why.to_string(),
                _ => format!("the part of one of {nodes} nodes: {why}"),
            })?,
        tollgate_rules::Fallback::Deny => Fallback::Deny,
        tollgate_rules::Fallback::Admit => Fallback::Admit,
    };
    if limiter.lease_lifetime().is_zero() {
        return Ok((StoreLimit::PerRequest(WithFallback::new(limiter, fallback)), costs));
    }
    let leased = Leased::builder(limiter).capacity(rule.capacity()).build().map_err(text)?;
    Ok((StoreLimit::Leased(WithFallback::new(leased, fallback)), costs))
}

fn text(error: impl std::error::Error) -> String {
    error.to_string()
}

/// The lifetime of leases: long enough for each process to receive about ten cells, and twice as long as a
/// call may take, but not longer than a tenth of the burst takes to refill, because leases withhold that
/// much. `None` if leases are not worthwhile, or would end while a call may still bring them. All processes
/// with the same rules choose the same lifetime.
fn lifetime(quota: &Quota, nodes: u32, deadline: Duration) -> Option<Duration> {
    let worth = time_of(quota, CELLS_WORTH_A_LEASE)?;
    let wished = time_of(quota, CELLS_WORTH_A_LEASE.saturating_mul(nodes)).unwrap_or(Duration::MAX);
    let withheld_max = u32::try_from(quota.burst_cells() / BURST_PARTS).unwrap_or(u32::MAX);
    let room = time_of(quota, withheld_max).unwrap_or(Duration::MAX);
    let calls = deadline.saturating_mul(2);
    let lifetime = wished.max(LIFETIME_DEFAULT).min(LIFETIME_MAX).max(calls).min(room);
    (lifetime >= worth.max(deadline).max(LIFETIME_MIN)).then_some(lifetime)
}

/// How long the quota takes to restore this number of cells; `None` on overflow.
fn time_of(quota: &Quota, cells: u32) -> Option<Duration> {
    let nanos = quota.period().as_nanos().checked_mul(cells.into())?;
    let nanos = nanos.checked_div(quota.limit().into())?;
    u64::try_from(nanos).ok().map(Duration::from_nanos)
}

/// The name of a limit on the server: the name of its rule, and the id of the limit. So a limit keeps its state when
/// its quota changes, and when the rule gets another limit.
fn name(rule: &Rule, id: &str) -> String {
    let mut name = escaped(rule.name()) + "/" + &escaped(id);
    if name.len() <= NAME_BYTES_MAX {
        return name;
    }
    // The name is ASCII, so any length is a character boundary.
    let hash = format!("~{:016x}", fnv1a(name.as_bytes()));
    name.truncate(NAME_BYTES_MAX - hash.len());
    name + &hash
}

/// Escapes all bytes except letters, digits and a few others as `%XX`; braces and separators above all.
fn escaped(name: &str) -> String {
    let mut escaped = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b' ' => {
                escaped.push(char::from(byte));
            }
            _ => write!(escaped, "%{byte:02X}").expect("writing to a String cannot fail"),
        }
    }
    escaped
}

/// A hash that is the same in every process.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use tollgate_rules::Rules;

    use super::*;

    #[test]
    fn a_rule_has_leases_only_if_possible_and_wanted() {
        let is_ahead = |limits: &str, more: &str| {
            let url = "redis+cluster://127.0.0.1:1,127.0.0.1:2";
            let text = format!(
                "[[rule]]\nname = \"a\"\nlimits = {limits}\nstore = {{ url = \"{url}\"{more} }}\n"
            );
            let rules = Rules::parse("rules.toml", &text).expect("rules");
            let asked = &rules.rules()[0];
            let at = asked.store().expect("it has one");
            let store = store(at).expect("nodes of a cluster");
            let built = super::rule(asked, at, &store).expect("it can be kept");
            matches!(built.store_limits[0], StoreLimit::Leased(_))
        };
        assert!(is_ahead("\"100/s\"", ""));
        assert!(!is_ahead("\"100/s\"", ", ask = \"always\""));
        assert!(!is_ahead("\"20/day\"", ""));
        assert!(!is_ahead(
            "[{ name = \"b\", quota = \"100/s\", algorithm = \"sliding-log\" }]",
            ""
        ));
        assert!(!is_ahead(
            "[{ name = \"b\", quota = \"1000/s\", algorithm = \"sliding-counter\" }]",
            ""
        ));
        // The quota is shared by a million processes.
        assert!(is_ahead("\"100/s\"", ", nodes = 1_000_000"));
        // Leases of 100 ms withhold ten cells.
        assert!(is_ahead("\"100/s\"\ncost = 90", ""));
        assert!(!is_ahead("\"100/s\"\ncost = 91", ""));
        assert!(!is_ahead("\"100/s\"\ncost = { header = \"x-cost\", max = 1000 }", ""));
        let window = "{ quota = \"100/s\", algorithm = \"fixed-window\" }\ncost = 100";
        assert!(is_ahead(window, ""), "leases withhold nothing of a fixed window");
    }

    #[test]
    fn deadline_and_prefix_come_from_the_rules_file() {
        let built = |more: &str| {
            let text = format!(
                "[[rule]]\nname = \"a\"\nlimits = \"5/s\"\n\
                 store = {{ url = \"redis://127.0.0.1:1\"{more} }}\n"
            );
            let rules = Rules::parse("rules.toml", &text).expect("rules");
            store(rules.rules()[0].store().expect("it has one")).expect("a store")
        };
        let key = |store: &Store| {
            let limiter = RedisLimiter::builder(store, "a", Quota::per_second(5)).build();
            String::from_utf8(limiter.expect("a limiter").redis_key("k")).expect("text")
        };
        let plain = built("");
        assert_eq!(
            (plain.deadline(), &*key(&plain)),
            (Duration::from_millis(10), "{tollgate:a:bucket:k}")
        );
        let chosen = built(", deadline = \"250ms\", prefix = \"shop\"");
        assert_eq!(
            (chosen.deadline(), &*key(&chosen)),
            (Duration::from_millis(250), "{shop:a:bucket:k}")
        );
    }

    #[test]
    fn the_lifetime_of_leases_follows_the_quota() {
        let chosen = |text: &str, nodes| {
            let quota: Quota = text.parse().expect("a quota");
            let deadline = Duration::from_millis(10);
            lifetime(&quota, nodes, deadline).map(|lifetime| lifetime.as_millis())
        };
        assert_eq!(chosen("1000/s", 1), Some(50));
        assert_eq!(chosen("100/s", 1), Some(100));
        assert_eq!(chosen("100/s burst 500", 4), Some(400));
        assert_eq!(chosen("100/s burst 500", 4_000_000_000), Some(500), "a tenth of the burst");
        assert_eq!(chosen("1000/s burst 300", 9), Some(30));
        assert_eq!(chosen("10/s burst 500", 9), Some(1_000), "the maximum");
        // Ten cells are more than a tenth of the burst, or take longer than the longest lease.
        assert_eq!(chosen("100/s burst 99", 1), None);
        assert_eq!(chosen("100/s burst 20", 1), None);
        assert_eq!(chosen("20/day", 2), None);
        // A tenth of the burst refills sooner than an answer arrives.
        assert_eq!(chosen("1000000/s burst 1000", 1), None);
    }

    #[test]
    fn no_lease_ends_while_a_call_may_still_bring_it() {
        let chosen = |text: &str, deadline_ms| {
            let quota: Quota = text.parse().expect("a quota");
            let chosen = lifetime(&quota, 1, Duration::from_millis(deadline_ms));
            chosen.map(|lifetime| lifetime.as_millis())
        };
        assert_eq!(chosen("1000/s", 25), Some(50));
        assert_eq!(chosen("1000/s", 40), Some(80), "twice the deadline");
        assert_eq!(chosen("1000/s", 100), Some(100), "a tenth of the burst");
        assert_eq!(chosen("1000/s", 101), None);
        assert_eq!(chosen("1000/s burst 60", 100), None);
        assert_eq!(chosen("10/s burst 500", 2_000), Some(4_000), "calls are slow");
        // Ten cells take two seconds.
        assert_eq!(chosen("5/s burst 100", 999), None, "more than two deadlines");
        assert_eq!(chosen("5/s burst 100", 1_000), Some(2_000), "two deadlines");
    }

    #[test]
    fn the_rules_file_bounds_a_sliding_log_as_its_store_does() {
        let parse = |limit: u64| {
            let text = format!(
                "[[rule]]\nname = \"a\"\nalgorithm = \"sliding-log\"\nlimits = \"{limit}/h\"\n\
                 store = \"redis://127.0.0.1:1\"\n"
            );
            Rules::parse("rules.toml", &text)
        };
        let most = parse(Algorithm::MAX_LOG_LIMIT).expect("a store keeps as many");
        let at = most.rules()[0].store().expect("it has one");
        assert!(rule(&most.rules()[0], at, &store(at).expect("a store")).is_ok());
        assert!(parse(Algorithm::MAX_LOG_LIMIT + 1).is_err());
    }

    #[test]
    fn a_cost_that_a_store_never_grants_is_rejected() {
        let built = |cost: &str, limits: &str| {
            let text = format!(
                "[[rule]]\nname = \"a\"\ncost = {cost}\nlimits = {limits}\n\
                 store = \"redis://127.0.0.1:1\"\n"
            );
            let rules = Rules::parse("rules.toml", &text).expect("rules");
            let asked = &rules.rules()[0];
            let at = asked.store().expect("it has one");
            rule(asked, at, &store(at).expect("a store")).map(drop)
        };
        let log = "{ name = \"b\", quota = \"5000/h\", algorithm = \"sliding-log\" }";
        assert_eq!(Algorithm::MAX_LOG_CELLS_PER_CALL, 1_000);
        assert_eq!(built("1_000", log), Ok(()));
        let error = built("1_001", log).expect_err("it is always denied");
        let why = "a request may cost 1001 cells, and 1000 at most are counted at once: \
                   lower the cost or its max";
        assert!(error.ends_with(why), "{error}");
        let by_header = "{ header = \"x-cost\", max = 9_000 }";
        let error = built(by_header, log).expect_err("as much");
        assert!(error.contains("may cost 9000 cells"), "{error}");
        // A request beyond the limit is denied by every algorithm.
        assert_eq!(built(by_header, &log.replace("5000", "1000")), Ok(()));
        // The other algorithms have no such bound.
        for algorithm in ["gcra", "fixed-window", "sliding-counter"] {
            let limits = log.replace("sliding-log", algorithm);
            assert_eq!(built("5_000", &limits), Ok(()), "{algorithm}");
        }
    }

    #[test]
    fn names_are_plain_ascii_and_distinct_for_distinct_rules() {
        let long = "x".repeat(80);
        let text = format!(
            r#"rule = [
                {{ name = "one", limits = "1/s" }},
                {{ name = "two", limits = ["2/s", {{ name = "day", quota = "9/d" }}] }},
                {{ name = "two/day", limits = "2/s" }},
                {{ name = "{{drei}}:Straße", limits = "3/s" }},
                {{ name = "{long}a", limits = "3/s" }},
                {{ name = "{long}b", limits = "3/s" }},
            ]"#
        );
        let rules = Rules::parse("rules.toml", &text).expect("rules");
        let names: Vec<String> = rules.rules().iter().flat_map(names).collect();
        let plain = [
            "one/per-s",
            "two/per-s",
            "two/day",
            "two%2Fday/per-s",
            "%7Bdrei%7D%3AStra%C3%9Fe/per-s",
        ];
        assert_eq!(names[..5], plain);
        assert!(names[5..].iter().all(|name| name.len() == NAME_BYTES_MAX));
        assert_ne!(names[5], names[6]);
    }

    fn names(rule: &Rule) -> Vec<String> {
        rule.limit_ids().iter().map(|id| name(rule, id)).collect()
    }

    /// A key that has spent the nine of a day gets no nine more in that day.
    #[test]
    fn a_limit_keeps_its_name_on_the_server_when_a_quota_or_another_limit_changes() {
        let names = |limits: &str| {
            let text = format!(
                "[[rule]]\nname = \"a\"\nlimits = {limits}\nstore = \"redis://127.0.0.1:1\"\n"
            );
            names(&Rules::parse("rules.toml", &text).expect("rules").rules()[0])
        };
        let both = names("[\"2/s\", \"9/d\"]");
        assert_eq!(both, names("[\"2/s\", \"10/d burst 3\"]"));
        assert_eq!(both[1..], names("\"9/d\""));
        assert_eq!(both[..1], names("\"3/s\""));
        let named = |quota: &str| names(&format!("{{ name = \"x\", quota = \"{quota}\" }}"));
        assert_eq!(named("2/s"), named("9/d"));
        let alike = names("[\"2/s\", \"9/s\"]");
        assert_ne!(alike[0], alike[1]);
        // No given name is that of a period.
        assert_ne!(names("{ name = \"per-s\", quota = \"2/s\" }"), names("\"2/s\""));
    }
}
