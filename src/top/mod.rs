//! The keys that are denied most, by name, in bounded memory.

mod sketch;
#[cfg(all(test, not(tollgate_loom)))]
mod tests;

use core::borrow::Borrow;
use core::fmt;
use core::hash::Hash;
use std::collections::HashMap;
// No decision waits for this lock: see `TopKeys`.
#[expect(clippy::disallowed_types, reason = "noting only tries, and only a reader waits")]
use std::sync::Mutex;
use std::sync::{MutexGuard, PoisonError, TryLockError};

use ahash::RandomState;
use crossbeam_utils::CachePadded;

use crate::decision::Decision;
use crate::sync::{RelaxedCounter, thread_slot};
use sketch::Sketch;

/// Sketches, each with a lock, so that as many threads can note at the same time.
const STRIPES: usize = 8;
/// Sketches that a thread tries before it drops a note.
const TRIES: usize = 2;
/// Far more than a report needs. It keeps indices within 32 bits.
const ENTRIES_MAX: usize = 1 << 30;

/// The keys that are denied most, with their names: a bounded sketch (*space-saving*) beside a
/// limiter.
///
/// A limiter keeps fingerprints, not keys. To learn which keys are denied, note the denials here,
/// with [`watch`](Self::watch) around the decision or with [`note`](Self::note). A permit costs
/// nothing. `K` is the owned form of the key: `TopKeys<String>` beside a `Limiter<str>`,
/// `TopKeys<IpAddr>` beside a `Limiter<IpAddr>`.
///
/// **Guarantee.** Of `n` notes taken, with room for `m` keys (Metwally's *space-saving*):
///
/// - a key's count is never too low. It is too high by at most the key's own `error`, which is at
///   most `n / m`: the true count is in `denied - error ..= denied`;
/// - every key that was noted more than `n / m` times is included;
/// - `noted() + dropped()` is exactly the number of calls, once they have returned.
///
/// **Cost.** A note tries the lock of one of 8 sketches, then the lock of the next one. If both are
/// taken, the note is dropped, and counted as dropped. So a note never waits for another thread; a
/// reader waits for notes in progress. The key is copied only when it enters a sketch. Measured
/// with `u64` keys and 128 entries, in addition to the 23 to 33 ns of a denial: 16 ns if the sketch
/// has the key, 73 ns if every key is new; 20 and 89 ns with two threads
/// (`benches/benches/levers/top_keys.rs`). Memory is at most 8 times the entries, each 45 to 60 bytes
/// and the key.
///
/// **Not guaranteed.**
///
/// - The counts are of the notes taken. If threads note faster than the locks allow, some notes are
///   dropped, in proportion for frequent and rare keys.
/// - A flood of keys that come once each pushes rare keys out. A large `error` then shows that the
///   remaining counts mean little.
/// - Names stay in memory until they are pushed out or [`reset`](Self::reset). If keys are personal
///   data, so is this.
/// - If the process is forked while another thread notes or reads, a reader in the child may wait for ever: make
///   it after the fork.
///
/// ```
/// use tollgate::top::TopKeys;
/// use tollgate::{Limiter, Quota};
///
/// let gate: Limiter<str> = Limiter::builder(Quota::per_hour(1)).build()?;
/// let top: TopKeys<String> = TopKeys::new(128);
/// for client in ["a", "b", "a", "a", "b", "c"] {
///     match top.watch(client, gate.check(client)) {
///         Ok(permit) => println!("{client}: go ahead, {} left", permit.remaining()),
///         Err(denied) => println!("{client}: retry after {:?}", denied.retry_after()),
///     }
/// }
/// let worst = &top.top(1)[0];
/// assert_eq!((worst.key.as_str(), worst.denied, worst.error), ("a", 2, 0));
/// assert_eq!(top.noted(), 3);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub struct TopKeys<K> {
    stripes: Box<[CachePadded<Stripe<K>>]>,
    entries: usize,
    hasher: RandomState,
}

struct Stripe<K> {
    #[expect(clippy::disallowed_types, reason = "noting only tries, and only a reader waits")]
    state: Mutex<StripeState<K>>,
    dropped: RelaxedCounter,
}

struct StripeState<K> {
    sketch: Sketch<K>,
    /// The value of `dropped` at the last reset.
    dropped_before: u64,
}

/// A key, and how often it was denied.
///
/// ```
/// let top = tollgate::top::TopKeys::new(10);
/// top.note(&7_u64);
/// let seven = &top.top(1)[0];
/// assert_eq!((seven.key, seven.at_least(), seven.denied), (7, 1, 1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopKey<K> {
    /// The key itself.
    pub key: K,
    /// Denials noted: an upper bound.
    pub denied: u64,
    /// By how much `denied` may be too high.
    pub error: u64,
}

impl<K> TopKey<K> {
    /// Denials noted: a lower bound.
    ///
    /// ```
    /// let top = tollgate::top::TopKeys::new(1);
    /// top.note(&1_u8);
    /// top.note(&2_u8); // replaces the only entry, and takes over its count
    /// assert_eq!((top.top(1)[0].denied, top.top(1)[0].at_least()), (2, 1));
    /// ```
    pub fn at_least(&self) -> u64 {
        self.denied - self.error
    }
}

impl<K> TopKeys<K> {
    /// Creates a sketch with room for `entries` keys, clamped to 1 to 2^30.
    ///
    /// Ten times the number of keys that a report shows is a good choice.
    ///
    /// ```
    /// let top: tollgate::top::TopKeys<String> = tollgate::top::TopKeys::new(128);
    /// assert!(top.top(10).is_empty());
    /// ```
    #[must_use]
    pub fn new(entries: usize) -> Self {
        let entries = entries.clamp(1, ENTRIES_MAX);
        let stripe = |_| CachePadded::new(Stripe::new(entries));
        Self { stripes: (0..STRIPES).map(stripe).collect(), entries, hasher: RandomState::new() }
    }

    /// Notes a denial of `key`. Never waits for another thread.
    ///
    /// ```
    /// let top: tollgate::top::TopKeys<String> = tollgate::top::TopKeys::new(10);
    /// top.note("somebody");
    /// assert_eq!(top.top(1)[0].key, "somebody");
    /// ```
    #[inline(never)]
    pub fn note<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: ToOwned<Owned = K> + Hash + Eq + ?Sized,
    {
        let tag = (self.hasher.hash_one(key) >> 32) as u32;
        let own = thread_slot() % STRIPES;
        for next in 0..TRIES {
            if let Some(mut state) = self.stripes[(own + next) % STRIPES].try_lock() {
                return state.sketch.note(key, tag);
            }
        }
        self.stripes[own].dropped.add_one();
    }

    /// Notes `key` if `decision` is a denial, and returns the decision.
    ///
    /// ```
    /// # use tollgate::top::TopKeys;
    /// # use tollgate::{Limiter, Quota};
    /// let gate: Limiter<u32> = Limiter::builder(Quota::per_hour(5)).build()?;
    /// let top = TopKeys::new(10);
    /// assert!(top.watch(&7, gate.check_n(&7, 5)).is_ok());
    /// assert!(top.watch(&7, gate.check_n(&7, 5)).is_err());
    /// assert_eq!(top.noted(), 1);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn watch<Q>(&self, key: &Q, decision: Decision) -> Decision
    where
        K: Borrow<Q>,
        Q: ToOwned<Owned = K> + Hash + Eq + ?Sized,
    {
        if decision.is_err() {
            self.note(key);
        }
        decision
    }

    /// Denials noted since the last [`reset`](Self::reset).
    ///
    /// ```
    /// let top = tollgate::top::TopKeys::new(10);
    /// (0..7_u32).for_each(|key| top.note(&key));
    /// assert_eq!(top.noted(), 7);
    /// ```
    pub fn noted(&self) -> u64 {
        self.stripes.iter().map(|stripe| stripe.lock().sketch.noted()).sum()
    }

    /// Denials that were not noted because other threads held the locks.
    ///
    /// ```
    /// let top = tollgate::top::TopKeys::new(10);
    /// top.note(&7_u32);
    /// assert_eq!(top.dropped(), 0); // there is only one thread
    /// ```
    pub fn dropped(&self) -> u64 {
        let dropped = |stripe: &Stripe<K>| {
            let before = stripe.lock().dropped_before;
            stripe.dropped.read().saturating_sub(before)
        };
        self.stripes.iter().map(|stripe| dropped(stripe)).sum()
    }

    /// Forgets all keys and counts.
    ///
    /// ```
    /// let top = tollgate::top::TopKeys::new(10);
    /// top.note(&7_u32);
    /// top.reset();
    /// assert_eq!((top.noted(), top.top(10).len()), (0, 0));
    /// ```
    pub fn reset(&self) {
        for stripe in &self.stripes {
            let mut state = stripe.lock();
            let sketch = core::mem::replace(&mut state.sketch, Sketch::new(self.entries));
            state.dropped_before = stripe.dropped.read();
            drop(state);
            drop(sketch);
        }
    }
}

impl<K: Clone + Eq + Hash> TopKeys<K> {
    /// The `count` keys that were denied most, most denied first; fewer if fewer are known.
    ///
    /// It copies all entries, one sketch after the other, and holds that sketch's lock meanwhile.
    /// Call it for a report or on a timer, not for every request.
    ///
    /// ```
    /// let top = tollgate::top::TopKeys::new(10);
    /// [3_u64, 1, 3, 2, 3, 2].iter().for_each(|key| top.note(key));
    /// let names: Vec<u64> = top.top(2).iter().map(|entry| entry.key).collect();
    /// assert_eq!(names, [3, 2]);
    /// ```
    pub fn top(&self, count: usize) -> Vec<TopKey<K>> {
        let mut floors = 0;
        let mut merged: HashMap<K, Merged, RandomState> = HashMap::with_hasher(self.hasher.clone());
        for stripe in &self.stripes {
            let state = stripe.lock();
            let (entries, floor) = (state.sketch.entries().to_vec(), state.sketch.floor());
            drop(state);
            floors += floor;
            for entry in entries {
                let known = merged.entry(entry.key).or_default();
                known.count += entry.count;
                known.error += entry.error;
                known.floors += floor;
            }
        }
        // A sketch that does not contain a key may have counted it up to its floor.
        let whole = |(key, known): (K, Merged)| {
            let unseen = floors - known.floors;
            TopKey { key, denied: known.count + unseen, error: known.error + unseen }
        };
        let mut top: Vec<_> = merged.into_iter().map(whole).collect();
        top.sort_unstable_by_key(|entry| (core::cmp::Reverse(entry.denied), entry.error));
        top.truncate(count);
        top
    }
}

/// The sum over the sketches that contain a key.
#[derive(Default)]
struct Merged {
    count: u64,
    error: u64,
    floors: u64,
}

impl<K> Stripe<K> {
    fn new(entries: usize) -> Self {
        let state = StripeState { sketch: Sketch::new(entries), dropped_before: 0 };
        Self { state: state.into(), dropped: RelaxedCounter::default() }
    }

    /// A key's code can panic only while the sketch is consistent, so a poisoned lock can be used.
    fn try_lock(&self) -> Option<MutexGuard<'_, StripeState<K>>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Waits for a note in progress.
    fn lock(&self) -> MutexGuard<'_, StripeState<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> fmt::Debug for TopKeys<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TopKeys").field("entries", &self.entries).finish_non_exhaustive()
    }
}
