//! Composites used by many threads: no limit grants too much, and no refunded cell is lost.

use std::hash::Hash;

use tollgate::algorithm::Algorithm;
use tollgate::composite::Composite;
use tollgate::limiter::SlotLayout;
use tollgate::{Clock, Direct, FixedWindow, Gcra, Limiter, ManualClock, Quota, Tick};

use crate::{Random, together};

const NOW: Tick = Tick::from_nanos(3_600_000_000_000);
const USERS: u64 = 20;
const TENANTS: u64 = 3;
/// Cells of each user, of each tenant, and of all.
const LIMITS: [u64; 3] = [50, 200, 400];

type Request = (u64, u64);

fn left<K: Hash, A: Algorithm, C: Clock>(gate: &Limiter<K, A, C>, key: &K) -> u64 {
    gate.ask(key)
        .cells(0)
        .at(NOW)
        .peek()
        .map_or_else(|denied| denied.remaining(), |permit| permit.remaining())
}

fn limiter<A: Algorithm>(
    algorithm: A,
    limit: u64,
    slots: SlotLayout,
) -> Limiter<u64, A, ManualClock> {
    let built = Limiter::builder(Quota::per_day(limit))
        .algorithm(algorithm)
        .clock(ManualClock::new())
        .capacity(2_000)
        .hash_seed(7)
        .slots(slots)
        .build();
    built.expect("in range")
}

fn exact_totals<A: Algorithm + Sync + Copy>(algorithm: A, slots: SlotLayout, threads: u64)
where
    A::Params: Sync,
{
    let users = limiter(algorithm, LIMITS[0], slots);
    let tenants = limiter(algorithm, LIMITS[1], slots);
    let all = Direct::builder(Quota::per_day(LIMITS[2])).algorithm(algorithm).build();
    let all = all.expect("in range");
    let composite = Composite::<Request>::builder()
        .keyed("user", &users, |request: &Request| &request.0)
        .keyed("tenant", &tenants, |request: &Request| &request.1)
        .shared("all", &all)
        .build()
        .expect("all limits can refund");
    let granted = together(threads, |index| {
        let mut random = Random::new(index);
        let mut granted = Vec::new();
        for _ in 0..20_000 {
            let request = (random.below(USERS), random.below(TENANTS));
            let n = 1 + random.below(3);
            if composite.ask(&request).cells(n).at(NOW).check().is_ok() {
                granted.push((request, n));
            }
        }
        granted
    });
    let sum = |of: &dyn Fn(&Request) -> bool| -> u64 {
        granted.iter().flatten().filter(|(request, _)| of(request)).map(|(_, n)| n).sum()
    };
    for user in 0..USERS {
        assert_eq!(sum(&|request| request.0 == user) + left(&users, &user), LIMITS[0], "{user}");
    }
    for tenant in 0..TENANTS {
        let spent = sum(&|request| request.1 == tenant);
        assert_eq!(spent + left(&tenants, &tenant), LIMITS[1], "{tenant}");
    }
    let left = all.ask().cells(0).at(NOW).peek().expect("nothing").remaining();
    assert_eq!(sum(&|_| true) + left, LIMITS[2], "all");
}

#[test]
fn many_threads_are_granted_exactly_the_burst_of_each_limit() {
    for threads in [2, 4] {
        for slots in [SlotLayout::Wide, SlotLayout::Compact] {
            exact_totals(Gcra::new(), slots, threads);
            exact_totals(FixedWindow::anchored(), slots, threads);
        }
    }
}
