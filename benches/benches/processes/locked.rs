//! Maps of keys in shared memory, each under a mutex that processes share: the usual way to share a limit.
//!
//! A map is an array of places, at most a quarter full, with linear probing, so that a key is found in the
//! first cache line. A mutex is robust: if its owner is killed, the next one takes it over.

use std::cell::UnsafeCell;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use ahash::RandomState;
use tollgate_benches::locked::{Arrival, Locked};

/// A mutex on lines of its own.
#[repr(C, align(128))]
struct Mutex(UnsafeCell<libc::pthread_mutex_t>);

/// Zero: vacant. Otherwise the complement of the key.
#[repr(C)]
struct Place {
    key: u64,
    state: Arrival,
}

/// Maps in a file that processes map.
pub(crate) struct LockedMaps {
    first: NonNull<u8>,
    maps: usize,
    /// Places of one map, a power of two.
    places: usize,
    hasher: RandomState,
    rule: <Arrival as Locked>::Rule,
}

// SAFETY: places are used under their map's mutex only.
unsafe impl Sync for LockedMaps {}

impl LockedMaps {
    /// The maps in a file, which begins as zeros: a power of two of them, with room for so many keys in all.
    pub(crate) fn new(file: &File, maps: usize, keys: usize, limit: (u32, u32)) -> Self {
        // Hashes do not spread few keys evenly.
        let places = (4 * keys / maps).next_power_of_two().max(64);
        let bytes = maps * (size_of::<Mutex>() + places * size_of::<Place>());
        file.set_len(bytes as u64).expect("room in memory");
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let shared = libc::MAP_SHARED | libc::MAP_POPULATE;
        let fd = file.as_raw_fd();
        // SAFETY: the system chooses an address that is not in use.
        let first = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, shared, fd, 0) };
        assert_ne!(first, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        let (cells, seconds) = limit;
        let rule = Arrival::rule(cells as usize, u64::from(seconds) * 1_000_000_000);
        let hasher = RandomState::with_seeds(1, 2, 3, 4);
        Self { first: NonNull::new(first.cast()).expect("mapped"), maps, places, hasher, rule }
    }

    /// Makes the mutexes, before other processes use them.
    pub(crate) fn prepare(&self) {
        // SAFETY: all zeros are a value that `init` overwrites; the mutexes are used by no one yet.
        unsafe {
            let mut kind: libc::pthread_mutexattr_t = std::mem::zeroed();
            assert_eq!(libc::pthread_mutexattr_init(&raw mut kind), 0);
            let shared = libc::PTHREAD_PROCESS_SHARED;
            assert_eq!(libc::pthread_mutexattr_setpshared(&raw mut kind, shared), 0);
            let robust = libc::PTHREAD_MUTEX_ROBUST;
            assert_eq!(libc::pthread_mutexattr_setrobust(&raw mut kind, robust), 0);
            for map in 0..self.maps {
                assert_eq!(libc::pthread_mutex_init(self.mutex(map), &raw const kind), 0);
            }
        }
    }

    fn mutex(&self, map: usize) -> *mut libc::pthread_mutex_t {
        assert!(map < self.maps);
        // SAFETY: the mutexes are at the beginning of the mapping.
        unsafe { (*self.first.cast::<Mutex>().add(map).as_ptr()).0.get() }
    }

    /// The places of a map, whose mutex this thread holds.
    #[allow(clippy::mut_from_ref, reason = "the mutex is held")]
    unsafe fn places(&self, map: usize) -> &mut [Place] {
        // SAFETY: the places follow the mutexes, map by map. The caller holds the mutex. Zeros are valid.
        unsafe {
            let first = self.first.cast::<Mutex>().add(self.maps).cast::<Place>();
            std::slice::from_raw_parts_mut(first.add(map * self.places).as_ptr(), self.places)
        }
    }

    #[inline]
    pub(crate) fn check(&self, key: u64, now_nanos: u64) -> bool {
        let hash = usize::try_from(self.hasher.hash_one(key)).expect("64 bits");
        // The upper bits choose the map, the lower ones the place.
        let map = (hash >> 32) & (self.maps - 1);
        let mutex = self.mutex(map);
        // SAFETY: made by `prepare`; unlocked below by this thread.
        match unsafe { libc::pthread_mutex_lock(mutex) } {
            0 => {}
            // SAFETY: this thread holds it, after a process that has ended.
            libc::EOWNERDEAD => assert_eq!(unsafe { libc::pthread_mutex_consistent(mutex) }, 0),
            error => panic!("the mutex cannot be locked: {error}"),
        }
        // SAFETY: the mutex is held.
        let places = unsafe { self.places(map) };
        let admitted = Self::charge(places, hash, key, &self.rule, now_nanos);
        // SAFETY: this thread holds it.
        assert_eq!(unsafe { libc::pthread_mutex_unlock(mutex) }, 0);
        admitted
    }

    #[inline]
    fn charge(
        places: &mut [Place],
        hash: usize,
        key: u64,
        rule: &<Arrival as Locked>::Rule,
        now_nanos: u64,
    ) -> bool {
        let mask = places.len() - 1;
        for step in 0..places.len() {
            let place = &mut places[(hash + step) & mask];
            if place.key == 0 {
                place.key = !key;
            }
            if place.key == !key {
                return place.state.check(rule, now_nanos);
            }
        }
        false
    }
}
