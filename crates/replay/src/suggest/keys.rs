//! The requests of a log, grouped by key.

use super::trace::{Kept, Trace};

/// The length of a busiest minute, wherever it begins.
const MINUTE_NANOS: u64 = 60_000_000_000;

/// All keys and their requests.
#[derive(Debug)]
pub(super) struct Keys {
    names: Vec<Box<str>>,
    /// The start of each key's range in `requests`, and the end of the last range.
    starts: Vec<usize>,
    requests: Vec<Arrival>,
    kept: Kept,
}

/// The arrival of one request of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Nanoseconds since the first request of the log.
    pub(super) nanos: u64,
    pub(super) cells: u64,
}

impl Keys {
    /// Groups a log by key.
    pub(super) fn of(trace: Trace<'_>) -> Self {
        let (names, recorded, kept) = trace.into_parts();
        let mut starts = vec![0; names.len() + 1];
        for request in &recorded {
            starts[request.key as usize + 1] += 1;
        }
        for key in 0..names.len() {
            starts[key + 1] += starts[key];
        }
        let origin = recorded.first().map_or(0, |first| first.unix_nanos);
        let mut next = starts.clone();
        let mut requests = vec![Arrival::default(); recorded.len()];
        for request in recorded {
            let place = &mut next[request.key as usize];
            let nanos = request.unix_nanos.saturating_sub(origin);
            requests[*place] = Arrival { nanos, cells: request.cells };
            *place += 1;
        }
        Self { names, starts, requests, kept }
    }

    /// The number of keys.
    pub(super) fn count(&self) -> usize {
        self.names.len()
    }

    /// The number of requests.
    pub(super) fn requests(&self) -> u64 {
        self.requests.len() as u64
    }

    /// The name of each key.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(AsRef::as_ref)
    }

    /// The requests of each key, in the order of time.
    pub(super) fn each(&self) -> impl Iterator<Item = &[Arrival]> {
        self.starts.windows(2).map(|pair| &self.requests[pair[0]..pair[1]])
    }

    /// How much of the log was kept.
    pub(super) fn kept(&self) -> Kept {
        self.kept
    }
}

/// The cells of all requests together.
pub(super) fn volume(requests: &[Arrival]) -> u64 {
    requests.iter().fold(0, |sum: u64, request| sum.saturating_add(request.cells))
}

/// The most cells within any minute.
pub(super) fn busiest_minute(requests: &[Arrival]) -> u64 {
    let mut first = 0;
    let mut cells = 0_u128;
    let mut max = 0;
    for request in requests {
        cells += u128::from(request.cells);
        while request.nanos - requests[first].nanos >= MINUTE_NANOS {
            cells -= u128::from(requests[first].cells);
            first += 1;
        }
        max = max.max(cells);
    }
    u64::try_from(max).unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::well_behaved::KeyList;
    use super::*;

    pub(crate) fn keys(log: &[(&str, u64, u64)]) -> Keys {
        keys_with(None, log)
    }

    pub(crate) fn keys_with(list: Option<&KeyList>, log: &[(&str, u64, u64)]) -> Keys {
        let mut trace = Trace::new(list);
        for (key, unix_nanos, cells) in log {
            trace.record(key, *cells, *unix_nanos);
        }
        Keys::of(trace)
    }

    #[test]
    fn requests_are_grouped_by_key() {
        let keys = keys(&[("a", 5, 1), ("b", 6, 2), ("a", 8, 3)]);
        assert_eq!((keys.count(), keys.requests()), (2, 3));
        assert!(keys.names().eq(["a", "b"]));
        let of = |nanos, cells| Arrival { nanos, cells };
        let each: Vec<_> = keys.each().collect();
        assert_eq!(each, [&[of(0, 1), of(3, 3)][..], &[of(1, 2)]]);
        assert_eq!((volume(each[0]), busiest_minute(each[0])), (4, 4));
    }

    #[test]
    fn a_busiest_minute_is_exactly_one_minute() {
        let at = |nanos| Arrival { nanos, cells: 1 };
        assert_eq!(busiest_minute(&[at(0), at(MINUTE_NANOS - 1)]), 2);
        assert_eq!(busiest_minute(&[at(0), at(MINUTE_NANOS)]), 1);
        let huge = Arrival { nanos: 0, cells: u64::MAX };
        assert_eq!(busiest_minute(&[huge, huge]), u64::MAX);
        assert_eq!(busiest_minute(&[]), 0);
    }
}
