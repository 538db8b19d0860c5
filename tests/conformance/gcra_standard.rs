//! ITU-T I.371 and ATM Forum TM 4.0: GCRA(T, tau) in the standards' own parameters.
//!
//! An event may come tau early, and the next is due T later. That is the same as a bucket of `T +
//! tau` that drains evenly, and into which each event pours `T`. So with a cell for each unit of
//! time (or a common divisor of T and tau), an event costs T cells and the burst is `T + tau`.

use std::time::Duration;

use serde_json::Value;
use tollgate::{Gcra, Quota, Tick};

use crate::Replay;
use crate::gate::{Gate, gates, number, steps};

pub(crate) const VECTORS: &[(&str, Replay)] = &[
    ("gcra_T10_tau0", arrivals),
    ("gcra_T10_tau30", arrivals),
    ("mbs_T10_tau30_link1", back_to_back),
    ("mbs_T100_tau450_link10", back_to_back),
    ("mbs_T7_tau50_link2", back_to_back),
];

/// The standards leave the unit of time open.
const UNIT_NANOS: u64 = 1_000_000;

fn at(units: u64) -> Tick {
    Tick::from_nanos(units * UNIT_NANOS)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The cost of an event, and limiters with cells of one unit of time and of the largest unit that
/// divides both.
fn conforming(params: &Value) -> Vec<(u64, Box<dyn Gate>)> {
    let (t, tau) = (number(&params["T"]), number(&params["tau"]));
    let mut all = Vec::new();
    for divisor in [1, gcd(t, tau)] {
        let cost = t / divisor;
        let quota = Quota::new(cost, Duration::from_nanos(t * UNIT_NANOS));
        let quota = quota.burst((t + tau) / divisor);
        all.extend(gates(quota, Gcra::new()).map(|gate| (cost, gate)));
    }
    all
}

fn arrivals(vector: &Value) {
    for (cost, gate) in conforming(&vector["params"]) {
        for step in steps(vector) {
            let conforms = gate.check_at(cost, at(number(&step["t"]))).is_ok();
            assert_eq!(Some(conforms), step["conforming"].as_bool(), "{step}");
        }
    }
}

/// The maximum burst size: how many events conform if they come at the rate of the link.
fn back_to_back(vector: &Value) {
    let params = &vector["params"];
    let (t, tau) = (number(&params["T"]), number(&params["tau"]));
    let link = number(&params["link_interval"]);
    let expected = number(&vector["back_to_back_conforming"]);
    assert_eq!(vector["formula"], "1+floor(tau/(T-Ts))");
    assert_eq!(expected, 1 + tau / (t - link));
    for (cost, gate) in conforming(params) {
        let conform = |event: &u64| gate.check_at(cost, at(event * link)).is_ok();
        let counted = (0..10_000).take_while(conform).count();
        assert_eq!(u64::try_from(counted), Ok(expected), "{params}");
    }
}
