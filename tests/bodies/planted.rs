// One planted fault for each thread. A body of a fuzz target that has an enum `Mistake` of such faults
// includes this file; tests plant each fault, and the body must find it.

thread_local! {
    static PLANTED: std::cell::Cell<Option<Mistake>> = const { std::cell::Cell::new(None) };
}

pub(crate) fn planted(mistake: Mistake) -> bool {
    PLANTED.get() == Some(mistake)
}

/// Plants a fault in this thread, or removes it.
#[allow(dead_code, reason = "the fuzz targets plant none")]
pub(crate) fn plant(mistake: Option<Mistake>) {
    PLANTED.set(mistake);
}
