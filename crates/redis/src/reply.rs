//! Decodes replies: from bytes to numbers, and from the numbers of some scripts to values. (The
//! numbers of a limiter's script are decoded by its `Codec`.) Nothing here needs a server, so tests
//! and fuzzing use the same code as real replies.

use core::time::Duration;

use redis::Value;

use crate::batch::WindowCount;
use crate::share::Heartbeat;
use crate::unavailable::Unavailable;

const NOT_A_COUNTER: &str = "WRONGTYPE the value of this key is not a counter, or may not be read: \
                             delete the key, or use another prefix";
const UNWRITABLE_COUNTER: &str =
    "NOPERM the server's user may not write this counter and its expiry";
const UNREADABLE_COUNTER: &str = "the state of this counter cannot be read: delete the key";

/// The numbers in a reply, as the client library reads it. `None` if the reply is anything else.
#[must_use]
pub fn numbers(answer: &[u8]) -> Option<Vec<i64>> {
    numbers_of(redis::parse_redis_value(answer).ok()?)
}

pub(crate) fn numbers_of(value: Value) -> Option<Vec<i64>> {
    let Value::Array(values) = value else { return None };
    let number = |value| if let Value::Int(number) = value { Some(number) } else { None };
    values.into_iter().map(number).collect()
}

/// The window of each charged key, or why that key was not counted. `None` if the script cannot
/// have returned these numbers.
#[must_use]
pub fn window_counts(
    reply: &[i64],
    charges: usize,
) -> Option<Vec<Result<WindowCount, Unavailable>>> {
    let one = |pair: &[i64]| match *pair {
        [-1, 0] => Some(Err(Unavailable::Failed(NOT_A_COUNTER.to_owned()))),
        [-2, 0] => Some(Err(Unavailable::Failed(UNREADABLE_COUNTER.to_owned()))),
        [-3, 0] => Some(Err(Unavailable::Failed(UNWRITABLE_COUNTER.to_owned()))),
        [used, micros] => {
            let ends_after = Duration::from_micros(u64::try_from(micros).ok()?);
            Some(Ok(WindowCount { used: u64::try_from(used).ok()?, ends_after }))
        }
        _ => None,
    };
    let all: Option<Vec<_>> = reply.chunks(2).map(one).collect();
    all.filter(|all| all.len() == charges)
}

/// The reply to a heartbeat. `None` if the script cannot have returned these numbers.
#[must_use]
pub fn heartbeat(reply: &[i64]) -> Option<Heartbeat> {
    let &[live, member_micros] = reply else { return None };
    let member_for = Duration::from_micros(u64::try_from(member_micros).ok()?);
    Some(Heartbeat { live: u64::try_from(live).ok()?, member_for })
}

pub(crate) fn impossible() -> Unavailable {
    Unavailable::Failed("the script returned what it cannot have".to_owned())
}
