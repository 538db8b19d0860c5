//! From the bytes of an answer to numbers, and to what numbers of some scripts mean. (What those of a
//! limiter's mean is its plan's to say.) Nothing here needs a server, so that
//! tests and fuzzing go the way that answers go.

use core::time::Duration;

use redis::Value;

use crate::{Heartbeat, WindowCount, Unavailable};

/// The numbers in an answer, as the client reads it; `None`, if it is anything else.
#[must_use]
pub fn numbers(answer: &[u8]) -> Option<Vec<i64>> {
    numbers_of(redis::parse_redis_value(answer).ok()?)
}

pub(crate) fn numbers_of(value: Value) -> Option<Vec<i64>> {
    let Value::Array(values) = value else { return None };
    let number = |value| if let Value::Int(number) = value { Some(number) } else { None };
    values.into_iter().map(number).collect()
}

/// What so many charged keys have used; `None`, if that cannot be.
#[must_use]
pub fn known(reply: &[i64], charges: usize) -> Option<Vec<WindowCount>> {
    let one = |pair: &[i64]| {
        let [used, micros] = pair else { return None };
        let ends_after = Duration::from_micros(u64::try_from(*micros).ok()?);
        Some(WindowCount { used: u64::try_from(*used).ok()?, ends_after })
    };
    let all: Option<Vec<_>> = reply.chunks(2).map(one).collect();
    all.filter(|all| all.len() == charges)
}

/// Who is alive; `None`, if that cannot be.
#[must_use]
pub fn heartbeat(reply: &[i64]) -> Option<Heartbeat> {
    let &[live, member_micros] = reply else { return None };
    let member_for = Duration::from_micros(u64::try_from(member_micros).ok()?);
    Some(Heartbeat { live: u64::try_from(live).ok()?, member_for })
}

pub(crate) fn impossible() -> Unavailable {
    Unavailable::Failed("the script returned what it cannot have".to_owned())
}
