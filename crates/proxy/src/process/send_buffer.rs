//! How much of a connection's bytes the system takes before it sends them.

use tokio::net::TcpStream;

/// The system takes no more while so many bytes are unsent (a segment of 64 KiB may go beyond). It reports room again
/// when less than half of them are.
#[cfg(target_os = "linux")]
const UNSENT_MAX: u32 = 128 << 10;

/// Limits what the system takes of a connection's bytes before it sends them. A send buffer has up to some megabytes,
/// and has room again only when a third of them are read: a peer that reads slowly would seem to read nothing for
/// minutes. Other systems have no such limit, or socket2 does not set it.
pub(crate) fn limit_unsent(stream: &TcpStream) {
    #[cfg(target_os = "linux")]
    let _ = socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_MAX);
    #[cfg(not(target_os = "linux"))]
    let _ = stream;
}
