//! The faults of servers, links and clocks, and what each may add to what is granted.

use std::time::Duration;

use super::Rng;
use super::strategy::{BURST, Client, INTERVAL_MILLIS, RATE, Strategy};
use super::topology::{Clock, Topology, last_heartbeats, owed};
use crate::harness::Server;

/// How long a part is used after its heartbeat.
const HOLDS_MILLIS: u64 = 2 * INTERVAL_MILLIS;

/// A kind of fault. For nodes with parts, each node that comes or goes because of the fault also
/// adds its part of a burst (`observed_membership.rs`).
///
/// | kind | fault | may add |
/// |---|---|---|
/// | `Kill` | killed, and restarted empty | one fresh burst, or window; to parts nothing |
/// | `KillKept` | killed, and restarted with everything it had answered (`appendfsync always`) | nothing |
/// | `Stop` | stopped for a while | nothing |
/// | `Reset` | connections reset | nothing |
/// | `Swallow` | requests arrive, answers do not | nothing |
/// | `Delay` | answers are late, some beyond the deadline | nothing |
/// | `Partition` | neither requests nor answers arrive, for one node or for all processes | nothing |
/// | `ScriptFlush` | scripts forgotten | nothing |
/// | `NoMemory` | out of memory, `noeviction` | nothing |
/// | `FailOver` | a replica takes over | what was charged and had not reached it |
/// | `ClientClock` | a process's clock is set back by `s`, or ahead | back: rate x `s`; ahead: nothing |
/// | `ServerClock` | the server's clock is set ahead by `s`, or back | ahead: rate x `s`, a fresh burst at most; back: nothing |
///
/// The last three kinds add this to parts. `FailOver`: the parts, for two intervals, of nodes of
/// whose heartbeats the replica lacks more than one interval. `ClientClock`: for a step back, the
/// node's part and what comes back to it in `s`; for a step ahead, the latter alone. `ServerClock`:
/// for a step ahead, a burst and what comes back in `s`, or in two intervals if that is less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Kill,
    KillKept,
    Stop,
    Reset,
    Swallow,
    Delay,
    Partition,
    ScriptFlush,
    NoMemory,
    FailOver,
    ClientClock,
    ServerClock,
}

pub(crate) const KINDS: [Kind; 12] = [
    Kind::Kill,
    Kind::KillKept,
    Kind::Stop,
    Kind::Reset,
    Kind::Swallow,
    Kind::Delay,
    Kind::Partition,
    Kind::ScriptFlush,
    Kind::NoMemory,
    Kind::FailOver,
    Kind::ClientClock,
    Kind::ServerClock,
];

impl Kind {
    pub(crate) fn strategies(self) -> &'static [Strategy] {
        match self {
            // `RedisLimiter` has no clock of its own. `Batched` times the end of a window by one, and no
            // episode sees the end of a window.
            Self::ClientClock => &[Strategy::Leased, Strategy::Share],
            _ => &Strategy::ALL,
        }
    }

    /// Injects the fault and waits until it is over. Returns how many cells it may have added.
    pub(crate) fn inject(
        self,
        strategy: Strategy,
        topology: &mut Topology,
        clients: &[Client],
        rng: &mut Rng,
    ) -> u64 {
        let Topology { server, link, .. } = topology;
        match self {
            Self::Kill | Self::KillKept => {
                server.kill();
                pause(rng.millis(1, 100));
                server.restart();
                if self == Self::Kill { strategy.fresh() } else { 0 }
            }
            Self::Stop => {
                server.signal("STOP");
                pause(rng.millis(5, 250));
                server.signal("CONT");
                0
            }
            Self::Reset => {
                for _ in 0..rng.within(1, 5) {
                    link.reset();
                    pause(rng.millis(1, 40));
                }
                0
            }
            Self::Swallow => {
                for _ in 0..rng.within(1, 3) {
                    link.swallow_answers();
                    pause(rng.millis(5, 120));
                }
                0
            }
            Self::Delay => {
                for _ in 0..rng.within(1, 4) {
                    link.delay(rng.millis(1, 150));
                    pause(rng.millis(5, 100));
                }
                link.delay(Duration::ZERO);
                0
            }
            Self::Partition => {
                for _ in 0..rng.within(5, 40) {
                    link.let_die();
                    pause(Duration::from_millis(10));
                }
                0
            }
            Self::ScriptFlush => {
                for _ in 0..rng.within(1, 8) {
                    send_command(server, &["SCRIPT", "FLUSH"]);
                    pause(rng.millis(0, 30));
                }
                0
            }
            Self::NoMemory => {
                send_command(server, &["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
                send_command(server, &["CONFIG", "SET", "maxmemory", "1"]);
                pause(rng.millis(5, 200));
                send_command(server, &["CONFIG", "SET", "maxmemory", "0"]);
                0
            }
            Self::FailOver => fail_over(strategy, topology, clients, rng),
            Self::ClientClock => clients.iter().map(|client| jump(strategy, client, rng)).sum(),
            Self::ServerClock => {
                let clock = topology.clock.as_ref().expect("this kind has one");
                let ahead = jump_of_server(server, clock, rng);
                strategy.kept(&ahead)
            }
        }
    }
}

impl Strategy {
    /// The cells that the server's clock steps ahead may add.
    fn kept(self, ahead_millis: &[u64]) -> u64 {
        let all = ahead_millis.iter().sum::<u64>();
        match self {
            // No episode sees the end of a window.
            Self::Batched => 0,
            Self::RedisLimiter | Self::Leased => cells_in(all).min(self.fresh()),
            // Old parts are valid beside new ones.
            Self::Share => {
                ahead_millis.iter().map(|&millis| BURST + cells_in(millis.min(HOLDS_MILLIS))).sum()
            }
        }
    }

    /// The cells that a step of a process's clock may add.
    fn kept_by(self, client: &Client, ahead_millis: i64) -> u64 {
        let cells = cells_in(ahead_millis.unsigned_abs());
        match (self, ahead_millis < 0) {
            (Self::Share, true) => (BURST + cells).div_ceil(client.live()),
            (Self::Share, false) => cells.min(BURST).div_ceil(client.live()),
            (_, true) => cells,
            (_, false) => 0,
        }
    }
}

/// Cells that come back in this time.
fn cells_in(millis: u64) -> u64 {
    (RATE * millis).div_ceil(1_000)
}

/// A replica that lacks some of the last writes takes the server's place and address. The old
/// server is dead, or follows the new one.
fn fail_over(
    strategy: Strategy,
    topology: &mut Topology,
    clients: &[Client],
    rng: &mut Rng,
) -> u64 {
    let replica = topology.replica.as_ref().expect("this kind has one");
    replica.link.swallow_answers();
    pause(rng.millis(5, 100));
    // From here on the old server charges nothing, so the two states can be compared.
    send_command(&topology.server, &["CLIENT", "PAUSE", "60000", "WRITE"]);
    let lost = match strategy {
        Strategy::Share => lost_parts(&topology.server, &replica.server, clients),
        // Both are rounded up, so a fraction of a cell may be missing.
        _ => owed(&topology.server).saturating_sub(owed(&replica.server)) + 1,
    };
    send_command(&replica.server, &["REPLICAOF", "NO", "ONE"]);
    for link in [&topology.link, &topology.second_link] {
        link.lead_to(replica.server.port());
    }
    if rng.within(0, 1) == 0 {
        topology.server.kill();
    } else {
        let port = replica.server.port().to_string();
        send_command(&topology.server, &["REPLICAOF", "127.0.0.1", &port]);
        send_command(&topology.server, &["CLIENT", "UNPAUSE"]);
    }
    lost
}

/// The parts, for two intervals, of nodes that the replica will drop before these end.
fn lost_parts(server: &Server, replica: &Server, clients: &[Client]) -> u64 {
    let replicated = last_heartbeats(replica);
    let is_lost = |(id, at): &(String, u64)| {
        !replicated.iter().any(|(other, then)| other == id && then + INTERVAL_MILLIS * 1_000 >= *at)
    };
    let lost = u64::try_from(last_heartbeats(server).iter().filter(|node| is_lost(node)).count());
    let live = clients.iter().map(Client::live).min().unwrap_or(1);
    (lost.expect("few") * (BURST + cells_in(HOLDS_MILLIS))).div_ceil(live)
}

/// Sets a process's clock a few times. Returns what that may add.
fn jump(strategy: Strategy, client: &Client, rng: &mut Rng) -> u64 {
    let mut added = 0;
    for _ in 0..rng.within(1, 3) {
        let millis = i64::try_from(rng.within(1, 400)).expect("small");
        let ahead = if rng.within(0, 2) == 0 { millis } else { -millis };
        added += strategy.kept_by(client, ahead);
        client.shift_clock(ahead * 1_000_000);
        pause(rng.millis(1, 60));
    }
    added
}

/// Sets the server's clock a few times. Returns its steps ahead.
fn jump_of_server(server: &Server, clock: &Clock, rng: &mut Rng) -> Vec<u64> {
    let (mut at, mut ahead_millis) = (0, Vec::new());
    for _ in 0..rng.within(1, 3) {
        let to = i64::try_from(rng.within(0, 1_200)).expect("small") - 400;
        ahead_millis.extend(u64::try_from(to - at).ok().filter(|millis| *millis > 0));
        at = to;
        clock.set_of(server, at);
        pause(rng.millis(1, 100));
    }
    ahead_millis
}

fn send_command(server: &Server, words: &[&str]) {
    let mut command = redis::cmd(words[0]);
    let _: () = command.arg(&words[1..]).query(&mut server.admin()).expect("it");
}

fn pause(span: Duration) {
    std::thread::sleep(span);
}
