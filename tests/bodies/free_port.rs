// A free port for a server of another program. Included where it is used.

/// A free port. It is not one of those that a system gives to connections and to listeners at port 0, so
/// nothing else takes it before a server does, or while that server is down.
pub(crate) fn free_port() -> u16 {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let next = || NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    // Processes that run at once begin at different ports.
    let numbers = std::iter::repeat_with(next).take(20_000);
    let numbers = numbers.map(|number| std::process::id().wrapping_mul(61).wrapping_add(number));
    let mut ports = numbers.map(|number| 10_000 + u16::try_from(number % 20_000).expect("small"));
    let free = ports.find(|&port| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok());
    free.expect("a free port")
}
