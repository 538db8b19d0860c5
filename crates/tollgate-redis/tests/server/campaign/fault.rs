//! What happens to a server and its clients, and what it may add to what is granted.

use std::time::Duration;

use super::Numbers;
use super::scene::{Clock, Scene, owed};
use super::way::{Client, RATE, Way};
use crate::harness::Server;

/// A kind of fault.
///
/// | kind | may add |
/// |---|---|
/// | `Kill` | killed, and back with nothing: one fresh burst, or window |
/// | `KillKept` | killed, and back with all that it had answered (`appendfsync always`): nothing |
/// | `Stop` | stopped for a while: nothing |
/// | `Reset` | connections reset: nothing |
/// | `Swallow` | requests arrive, answers do not: nothing |
/// | `Delay` | answers late, some beyond the deadline: nothing |
/// | `ScriptFlush` | scripts forgotten: nothing |
/// | `NoMemory` | out of memory, `noeviction`: nothing |
/// | `FailOver` | a replica takes over: what was charged and had not reached it |
/// | `ClientClock` | a process's clock is set back by `s`: rate x `s`; ahead: nothing |
/// | `ServerClock` | the server's is set ahead by `s`: rate x `s`, a fresh burst at most; back: nothing |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Kill,
    KillKept,
    Stop,
    Reset,
    Swallow,
    Delay,
    ScriptFlush,
    NoMemory,
    FailOver,
    ClientClock,
    ServerClock,
}

pub(crate) const KINDS: [Kind; 11] = [
    Kind::Kill,
    Kind::KillKept,
    Kind::Stop,
    Kind::Reset,
    Kind::Swallow,
    Kind::Delay,
    Kind::ScriptFlush,
    Kind::NoMemory,
    Kind::FailOver,
    Kind::ClientClock,
    Kind::ServerClock,
];

impl Kind {
    pub(crate) fn ways(self) -> &'static [Way] {
        match self {
            // The others have no use for a clock of their own.
            Self::ClientClock => &[Way::Leased],
            _ => &Way::ALL,
        }
    }

    /// Lets it happen, and be over. How many cells it may have added.
    pub(crate) fn happen(
        self,
        way: Way,
        scene: &mut Scene,
        clients: &[Client],
        numbers: &mut Numbers,
    ) -> u64 {
        let Scene { server, link, .. } = scene;
        match self {
            Self::Kill | Self::KillKept => {
                server.kill();
                pause(numbers.millis(1, 100));
                server.restart();
                if self == Self::Kill { way.fresh() } else { 0 }
            }
            Self::Stop => {
                server.signal("STOP");
                pause(numbers.millis(5, 250));
                server.signal("CONT");
                0
            }
            Self::Reset => {
                for _ in 0..numbers.within(1, 5) {
                    link.reset();
                    pause(numbers.millis(1, 40));
                }
                0
            }
            Self::Swallow => {
                for _ in 0..numbers.within(1, 3) {
                    link.swallow_answers();
                    pause(numbers.millis(5, 120));
                }
                0
            }
            Self::Delay => {
                for _ in 0..numbers.within(1, 4) {
                    link.delay(numbers.millis(1, 150));
                    pause(numbers.millis(5, 100));
                }
                link.delay(Duration::ZERO);
                0
            }
            Self::ScriptFlush => {
                for _ in 0..numbers.within(1, 8) {
                    tell(server, &["SCRIPT", "FLUSH"]);
                    pause(numbers.millis(0, 30));
                }
                0
            }
            Self::NoMemory => {
                tell(server, &["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
                tell(server, &["CONFIG", "SET", "maxmemory", "1"]);
                pause(numbers.millis(5, 200));
                tell(server, &["CONFIG", "SET", "maxmemory", "0"]);
                0
            }
            Self::FailOver => fail_over(scene, numbers),
            Self::ClientClock => clients.iter().map(|client| jump(client, numbers)).sum(),
            Self::ServerClock => {
                let clock = scene.clock.as_ref().expect("this kind has one");
                way.kept(jump_of_server(server, clock, numbers))
            }
        }
    }
}

impl Way {
    /// What of so many cells that come back a server gives before it has all.
    fn kept(self, cells: u64) -> u64 {
        match self {
            // No episode sees the end of a window.
            Self::Batched => 0,
            _ => cells.min(self.fresh()),
        }
    }
}

/// A replica that some last writes have not reached takes the server's place and address. The old one
/// is dead, or follows the new one.
fn fail_over(scene: &mut Scene, numbers: &mut Numbers) -> u64 {
    let replica = scene.replica.as_ref().expect("this kind has one");
    replica.link.swallow_answers();
    pause(numbers.millis(5, 100));
    // From here on the old one charges nothing, so what it knows can be compared.
    tell(&scene.server, &["CLIENT", "PAUSE", "60000", "WRITE"]);
    let charged = owed(&scene.server);
    // Both are rounded up, so a part of a cell may be missing.
    let lost = charged.saturating_sub(owed(&replica.server)) + 1;
    tell(&replica.server, &["REPLICAOF", "NO", "ONE"]);
    scene.link.lead_to(replica.server.port());
    if numbers.within(0, 1) == 0 {
        scene.server.kill();
    } else {
        let port = replica.server.port().to_string();
        tell(&scene.server, &["REPLICAOF", "127.0.0.1", &port]);
        tell(&scene.server, &["CLIENT", "UNPAUSE"]);
    }
    lost
}

/// Sets a process's clock some times. What comes back while leases live on that should have ended.
fn jump(client: &Client, numbers: &mut Numbers) -> u64 {
    let mut back_micros = 0;
    for _ in 0..numbers.within(1, 3) {
        let millis = numbers.within(1, 400);
        let nanos = i64::try_from(millis * 1_000_000).expect("small");
        if numbers.within(0, 2) == 0 {
            client.shift_clock(nanos);
        } else {
            client.shift_clock(-nanos);
            back_micros += millis * 1_000;
        }
        pause(numbers.millis(1, 60));
    }
    (RATE * back_micros).div_ceil(1_000_000)
}

/// Sets the server's clock some times. What comes back by its steps ahead.
fn jump_of_server(server: &Server, clock: &Clock, numbers: &mut Numbers) -> u64 {
    let (mut at, mut ahead_millis) = (0, 0);
    for _ in 0..numbers.within(1, 3) {
        let to = i64::try_from(numbers.within(0, 1_200)).expect("small") - 400;
        ahead_millis += u64::try_from(to - at).unwrap_or(0);
        at = to;
        clock.set_of(server, at);
        pause(numbers.millis(1, 100));
    }
    (RATE * ahead_millis).div_ceil(1_000)
}

fn tell(server: &Server, words: &[&str]) {
    let mut command = redis::cmd(words[0]);
    let _: () = command.arg(&words[1..]).query(&mut server.admin()).expect("it");
}

fn pause(span: Duration) {
    std::thread::sleep(span);
}
