//! Planted faults: mistakes that a model or a test must catch.
//!
//! The models in `loom-tests/` and the histories in `verify/shuttle/` plant one each, and fail unless
//! they notice it. In a library that ships, [`planted`] is the constant `false`.

/// A mistake that loom's models or shuttle's histories must catch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(any(tollgate_loom, tollgate_shuttle)),
    allow(unreachable_pub, reason = "public to the models")
)]
#[allow(clippy::exhaustive_enums, reason = "for the models only")]
pub enum Fault {
    /// A thread commits a claim without a scan of the other candidates.
    RescanSkipped,
    /// The scan is not ordered after the claim.
    FenceLeftOut,
    /// A slot changes hands without a new generation.
    GenerationKept,
    /// All claims of a key in compact slots have the same nonce.
    NonceKept,
    /// A thread commits a claim that it first saw in the scan itself.
    ClaimJustSeen,
    /// A thread advances a head before what only the head records is in the ring.
    PublishLeftOut,
    /// A thread writes to the ring for a head that may have advanced.
    PublishUnchecked,
    /// A denial, or a peek, by a ring does not load the head again.
    RecheckSkipped,
    /// A refund goes to the key that has the slot by then.
    LifeUnchecked,
    /// A thread that has lost a race writes the state it computed before.
    RevisionStale,
    /// A request that has expired refunds its cells.
    ExpiredRefunds,
    /// A local lease is spent after it has expired.
    LeaseNeverExpires,
    /// A thread's lease of a hot key is spent after it has expired.
    HotKeyLeaseNeverExpires,
    /// A thread's lease of a hot key is spent by any key.
    HotKeyLeaseUncompared,
    /// All threads have the same leases of hot keys.
    ThreadsTakenForOne,
    /// A reader takes the words of a quota for one version without a check.
    TornQuota,
    /// A reader of the clock takes words of two lines for one line.
    TornLine,
    /// A thread corrects the clock by a sample that is older than the line in force.
    SampleStale,
    /// A thread that closes a window of samples reads it, and empties it afterwards.
    WindowTakenByStore,
    /// A thread that may make a step does not check again whether the window is still due.
    WindowNotChecked,
    /// A thread empties a window, or adds a sample, without any order on other accesses.
    WindowUnordered,
    /// The wall clock is set back, and windows of before begin again.
    WindowNotHeld,
    /// A thread takes a slot without seeing what the last owner wrote.
    ThreadSlotsUnordered,
    /// A composite charges its first limits without a peek at the later ones.
    LaterNotPeeked,
    /// A composite that denies keeps what it has charged.
    RefundLeftOut,
    /// A composite that denies refunds twice what it has charged.
    RefundedTwice,
    /// A refund uses the time of the charge.
    RefundedAtOldTime,
    /// A lookup takes a head for the key's in any generation.
    GenerationUnchecked,
    /// A reset, or a peek, stops at a claim of the key, although its slot is elsewhere.
    ClaimHidesSlot,
    /// A key that has just got its slot takes it for another key's, and finds no slot.
    OwnSlotUnseen,
    /// A request displaces every claim that it finds.
    DisplacesAgain,
    /// A compare-and-swap is a load and a store.
    #[cfg_attr(
        not(any(tollgate_loom, tollgate_shuttle)),
        allow(dead_code, reason = "in histories only")
    )]
    LoadThenStore,
    /// Cells are counted in 32 bits, and wrap around.
    CellsWrap,
    /// The successor of a dead writer gives the turn back, and begins anew.
    TurnReturned,
    /// The number of a version is loaded after the words that are derived from it.
    #[cfg_attr(
        not(any(feature = "shared-memory", tollgate_loom)),
        allow(dead_code, reason = "for quotas in shared memory")
    )]
    NumberLoadedLate,
    /// A thread waits until the claimant of a key has committed its claim.
    ClaimAwaited,
    /// A thread finds that another has published its word in the ring, and waits until that thread advances the
    /// head.
    PublisherAwaited,
    /// A request that is denied takes another for lost, and refunds a cell in its place.
    HolderTakenForLost,
}

/// Lets the other threads run, where a planted fault makes this one wait for them.
pub(crate) fn wait_for_others() {
    #[cfg(tollgate_loom)]
    loom::thread::yield_now();
    #[cfg(tollgate_shuttle)]
    shuttle::thread::yield_now();
}

/// Whether a model has planted this fault.
#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
#[inline]
pub(crate) const fn planted(_: Fault) -> bool {
    false
}

/// The values that the loads of a model may return.
#[cfg(tollgate_loom)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "for the models only")]
pub enum Loads {
    /// Any value that the memory model allows, stale ones too.
    Any,
    /// The latest value, for models that would otherwise take hours.
    Latest,
}

// A model's choices are per thread of the test: all threads of a model run on it.
#[cfg(any(tollgate_loom, tollgate_shuttle))]
std::thread_local! {
    static PLANTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
    #[cfg(tollgate_loom)]
    static LOADS: std::cell::Cell<Loads> = const { std::cell::Cell::new(Loads::Any) };
}

#[cfg(any(tollgate_loom, tollgate_shuttle))]
pub(crate) fn planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Plants a fault for the rest of this test.
#[cfg(any(tollgate_loom, tollgate_shuttle))]
pub fn plant(fault: Fault) {
    PLANTED.set(Some(fault));
}

#[cfg(tollgate_loom)]
pub(super) fn loads() -> Loads {
    LOADS.get()
}

/// Says what loads may return for the rest of this test.
#[cfg(tollgate_loom)]
pub fn let_loads_return(loads: Loads) {
    LOADS.set(loads);
}
