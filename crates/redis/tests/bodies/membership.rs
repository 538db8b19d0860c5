//! The membership list as `src/lua/heartbeat.lua` and `leave.lua` keep it. `verify/states/` uses it
//! in place of a server; `tests/server/transcript.rs` compares it with one.

/// A node on the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) came: u64,
    pub(crate) heard: u64,
}

/// A heartbeat of this node. Returns how many nodes are alive, and how long this one has been a
/// member.
pub(crate) fn heartbeat(
    places: &mut [Option<Member>],
    node: usize,
    now: u64,
    lifetime: u64,
) -> (u64, u64) {
    for place in places.iter_mut() {
        *place = place.filter(|member| member.heard + lifetime > now);
        if let Some(member) = place {
            // The clock was set back: this works as if it had stopped.
            member.came -= member.heard.saturating_sub(now);
            member.heard = member.heard.min(now);
        }
    }
    let came = places[node].map_or(now, |member| member.came);
    places[node] = Some(Member { came, heard: now });
    (places.iter().flatten().count() as u64, now.saturating_sub(came))
}

pub(crate) fn leave(places: &mut [Option<Member>], node: usize) {
    places[node] = None;
}
