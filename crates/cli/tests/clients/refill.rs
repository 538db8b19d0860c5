//! A quota that refills during the run: clients are admitted nearly all of, and never more than, what
//! burst and rate allow.

use std::time::Instant;

use crate::exact::{count, proxy, wait_until_clients_have_gone};
use crate::loads::{self, Seen, WRK_CONNECTIONS};
use crate::nginx::Nginx;

/// A pause of a client costs nothing unless it fills the bucket, which takes 2.5 seconds.
const RULES: &str = r#"rule = [{ name = "all", limits = "20/s burst 50" }]"#;
const BURST: f64 = 50.0;
const PER_SEC: f64 = 20.0;
/// One cell that is incomplete when the client stops, and two cells (100 ms) for its start and end.
const TOLERANCE: f64 = 3.0;

/// Asserts the bounds of a run of `secs` seconds. A machine that does not run the client or the proxy for
/// a tenth of a second at the beginning or at the end costs cells. So a run with too few admissions is repeated, and
/// a run with too many fails at once.
fn assert_bounds(name: &str, secs: f64, unseen: u64, load: impl Fn(&str) -> Seen) {
    let least = BURST + PER_SEC * secs - TOLERANCE;
    let mut runs = Vec::new();
    while runs.len() < 5 && runs.last().is_none_or(|last| *last < least) {
        runs.push(admitted_in_a_run(name, unseen, &load));
    }
    println!("{name}: {runs:?} admitted, at least {least:.1}");
    assert!(runs.last().is_some_and(|last| *last >= least), "{runs:?} of at least {least}");
}

/// Asserts the upper bound and the counts of a run. Returns the number of admitted requests.
fn admitted_in_a_run(name: &str, unseen: u64, load: impl Fn(&str) -> Seen) -> f64 {
    let nginx = Nginx::start(name);
    let proxy = proxy(&format!("refill-{name}"), RULES, Some(&nginx));
    let url = format!("http://{}/", proxy.listen);
    let began = Instant::now();
    let seen = load(&url);
    wait_until_clients_have_gone(&proxy);
    let most = BURST + PER_SEC * began.elapsed().as_secs_f64();
    let admitted = count(&proxy, "tollgate_decisions_total{decision=\"admitted\"}");
    let figure = f64::from(u32::try_from(admitted).expect("few"));
    assert!(figure <= most, "{admitted} of at most {most}");
    // The last requests may be in flight when the client stops.
    assert!((seen.admitted..=seen.admitted + unseen).contains(&admitted), "{admitted}, {seen:?}");
    let denied = count(&proxy, "tollgate_decisions_total{decision=\"denied\"}");
    assert!((seen.denied..=seen.denied + unseen).contains(&denied), "{denied}, {seen:?}");
    figure
}

pub(crate) fn wrk() {
    assert_bounds("wrk", 2.0, WRK_CONNECTIONS, |url| loads::wrk(url, 2));
}

/// Ten workers with at most ten requests per second each send 200 requests, so it takes 2 s or more.
pub(crate) fn hey() {
    assert_bounds("hey", 1.9, 0, |url| loads::hey(url, 200, &["-q", "10"]));
}
