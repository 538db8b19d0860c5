//! The cost of a decision in nanoseconds, with a file of ten rules. Run it with `--release`.

use std::hint::black_box;
use std::net::IpAddr;

use tollgate::clock::QuantaClock;
use tollgate::dynamic::DynamicGcra;
use tollgate::{Clock, Limiter, Quota};
use tollgate_rules::{Request, RulesFile};

const DECISIONS: u32 = 1_000_000;
const ROUNDS: usize = 5;

/// Nanoseconds per call of `decide`, over all `requests`: the median of some rounds.
fn cost<T>(requests: &[T], decide: impl Fn(&T) -> bool) -> f64 {
    let clock = QuantaClock::new();
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begin = clock.now();
            for each in requests.iter().cycle().take(DECISIONS as usize) {
                black_box(decide(black_box(each)));
            }
            clock.now().since(begin).as_nanos() as f64 / f64::from(DECISIONS)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join("tollgate-rules-cost.toml");
    let mut text = String::new();
    for number in 0..8 {
        text += &format!(
            "[[rule]]\nname = \"{number}\"\nmatch = {{ path = \"/api/v{number}/*/items/**\" }}\n\
             limits = \"1000000/s\"\n"
        );
    }
    text += "[[rule]]\nname = \"8\"\nmatch = { path = \"/two/**\", method = \"GET\" }\n\
             limits = [\"1000000/s\", \"60000000/min\"]\n\
             [[rule]]\nname = \"9\"\nmatch = { path = \"/never\" }\nlimits = \"1/h\"\n";
    std::fs::write(&path, text)?;
    let live = RulesFile::open(&path)?.live();
    let peers: Vec<IpAddr> = (0..200).map(|n| [192, 0, 2, n].into()).collect();
    let bare: Limiter<IpAddr> = Limiter::builder(Quota::per_second(1_000_000)).build()?;
    println!("{:5.0} ns  one limiter of the core alone", cost(&peers, |ip| bare.check(ip).is_ok()));
    let changing: Limiter<IpAddr, DynamicGcra> =
        Limiter::builder(Quota::per_second(1_000_000)).algorithm(DynamicGcra::new()).build()?;
    println!(
        "{:5.0} ns  the same with a quota that can change",
        cost(&peers, |ip| changing.check(ip).is_ok())
    );
    for (what, path) in [
        ("no rule matches", "/assets/app.css"),
        ("the last but one of 10, two limits", "/two/a"),
        ("the eighth of 10, one limit", "/api/v7/7/items/9"),
        ("the first of 10, one limit", "/api/v0/7/items/9"),
        ("denied", "/never"),
    ] {
        let requests: Vec<Request<'_>> = peers
            .iter()
            .map(|peer| Request { method: "GET", path, peer: Some(*peer), ..Request::default() })
            .collect();
        let decide = |request: &Request<'_>| live.load().decide(request).is_admitted();
        println!("{:5.0} ns  {what}", cost(&requests, decide));
    }
    Ok(())
}
