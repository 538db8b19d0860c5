//! The bucket that a user would write, in the maps that a user would choose, all with ahash.

use std::sync::Arc;
use std::time::Duration;

use ahash::RandomState;

use crate::bucket::{Bucket, Pace, Watch};
use crate::peer::{Keyed, TimeGiven};
use crate::plan::Plan;

/// A map, and the rate of its buckets.
#[derive(Debug)]
pub struct Timed<M> {
    map: M,
    pace: Pace,
    watch: Watch,
}

impl<M> Timed<M> {
    fn with(map: M, plan: Plan) -> Self {
        Self { map, pace: Pace::new(plan), watch: Watch::start() }
    }
}

const SWEPT: Option<&str> = Some("swept every 100 ms");

/// In a `DashMap`.
pub type InDashmap = Timed<dashmap::DashMap<u64, Bucket, RandomState>>;

impl InDashmap {
    #[inline]
    fn charge(&self, key: &u64, now_nanos: u64, n: u64) -> bool {
        if let Some(bucket) = self.map.get(key) {
            return bucket.charge(&self.pace, now_nanos, n);
        }
        self.map.entry(*key).or_default().charge(&self.pace, now_nanos, n)
    }
}

/// In a papaya map that finishes growing immediately. By default it grows with every insertion. A
/// map whose keys are complete then stays half moved: a lookup took 92 ns, and takes 9 here.
pub type InPapaya = Timed<papaya::HashMap<u64, Bucket, RandomState>>;

impl InPapaya {
    #[inline]
    fn charge(&self, key: &u64, now_nanos: u64, n: u64) -> bool {
        let map = self.map.pin();
        if let Some(bucket) = map.get(key) {
            return bucket.charge(&self.pace, now_nanos, n);
        }
        map.get_or_insert_with(*key, Bucket::default).charge(&self.pace, now_nanos, n)
    }
}

/// In scc's `HashMap`.
pub type InScc = Timed<scc::HashMap<u64, Bucket, RandomState>>;

impl InScc {
    #[inline]
    fn charge(&self, key: &u64, now_nanos: u64, n: u64) -> bool {
        let charge = |_: &u64, bucket: &Bucket| bucket.charge(&self.pace, now_nanos, n);
        self.map.read_sync(key, charge).unwrap_or_else(|| {
            self.map.entry_sync(*key).or_default().charge(&self.pace, now_nanos, n)
        })
    }
}

/// In moka's `sync::Cache`, with the number of expected keys as its capacity.
pub type InMoka = Timed<moka::sync::Cache<u64, Arc<Bucket>, RandomState>>;

impl InMoka {
    #[inline]
    fn charge(&self, key: &u64, now_nanos: u64, n: u64) -> bool {
        let bucket = match self.map.get(key) {
            Some(bucket) => bucket,
            None => self.map.get_with(*key, Arc::default),
        };
        bucket.charge(&self.pace, now_nanos, n)
    }
}

macro_rules! keyed {
    ($peer:ty, $name:literal, $exact:literal, $bounded_by:expr, { $($body:tt)* }) => {
        impl Keyed for $peer {
            const NAME: &'static str = $name;
            const EXACT: bool = $exact;
            const BOUNDED_BY: Option<&'static str> = $bounded_by;
            type Key = u64;

            $($body)*

            #[inline]
            fn check(&self, key: &u64) -> bool {
                self.charge(key, self.watch.nanos(), 1)
            }

            fn check_n(&self, key: &u64, n: u32) -> Option<bool> {
                Some(self.charge(key, self.watch.nanos(), n.into()))
            }
        }

        impl TimeGiven for $peer {
            #[inline]
            fn check_at(&self, key: &u64, now_nanos: u64) -> bool {
                self.charge(key, now_nanos, 1)
            }
        }
    };
}

keyed!(InDashmap, "bucket in dashmap", true, SWEPT, {
    fn new(plan: Plan, _keys: usize) -> Self {
        Self::with(dashmap::DashMap::with_hasher(RandomState::new()), plan)
    }

    fn sweep(&self) {
        let now = self.watch.nanos();
        self.map.retain(|_, bucket| !bucket.is_idle(now));
    }
});

// A charge between the check of a bucket and its removal is lost.
keyed!(InPapaya, "bucket in papaya", true, SWEPT, {
    fn new(plan: Plan, _keys: usize) -> Self {
        let builder = papaya::HashMap::builder().hasher(RandomState::new());
        Self::with(builder.resize_mode(papaya::ResizeMode::Blocking).build(), plan)
    }

    fn sweep(&self) {
        let now = self.watch.nanos();
        self.map.pin().retain(|_, bucket| !bucket.is_idle(now));
    }
});

keyed!(InScc, "bucket in scc", true, SWEPT, {
    fn new(plan: Plan, _keys: usize) -> Self {
        Self::with(scc::HashMap::with_hasher(RandomState::new()), plan)
    }

    fn sweep(&self) {
        let now = self.watch.nanos();
        self.map.retain_sync(|_, bucket| !bucket.is_idle(now));
    }
});

// Exact while nothing is evicted: as many keys come as are expected.
keyed!(InMoka, "bucket in moka", true, Some("capacity of the expected keys, time to idle"), {
    fn new(plan: Plan, keys: usize) -> Self {
        let cache = moka::sync::Cache::builder().max_capacity(keys as u64);
        Self::with(cache.build_with_hasher(RandomState::new()), plan)
    }

    fn bounded(plan: Plan, keys: usize) -> Self {
        let idle = Duration::from_secs(plan.window_secs());
        let cache = moka::sync::Cache::builder().max_capacity(keys as u64).time_to_idle(idle);
        Self::with(cache.build_with_hasher(RandomState::new()), plan)
    }
});
