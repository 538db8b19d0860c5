//! Decodes bytes into limiters and requests.

use std::time::Duration;

use tollgate::limiter::SlotLayout;
use tollgate::{FixedWindow, Gcra, LeakyQueue, OnFull, Quota, SlidingCounter, SubWindows, Tick};

use super::choice::{Choice, Cost, Kind, LogRates, Pace};
use super::keyed::{Operation, Setup};
use super::numbers::Numbers;

pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

const SECOND: u64 = 1_000_000_000;
const YEAR: u64 = 365 * 24 * 3_600 * SECOND;
/// Limit, period in nanoseconds, and burst (0: none).
const QUOTAS: [(u64, u64, u64); 16] = [
    (1, SECOND, 0),
    (100, SECOND, 20),
    (5, SECOND, 2),
    (20, 60 * SECOND, 0),
    (3, SECOND, 1),
    (7, SECOND, 50),
    (1, YEAR, 0),
    (1, 366 * 24 * 3_600 * SECOND, 3),
    (1_000_000, SECOND, 10),
    (1_000_003, SECOND, 7),
    (600_000_000, SECOND, 10),
    (1_000_000_000, SECOND, 1),
    (1_000_000_000, SECOND, 0),
    (1_000, SECOND, 1 << 32),
    (2, 24 * 3_600 * SECOND, 0),
    (1, 1, 0),
];
/// Kinds of one word that [`Cursor::choice`] lists.
const LISTED: usize = 4;
/// Choices of algorithms with a ring. The bytes after them are for further kinds of one word, if there are any. All
/// other bytes have the meaning that older seeds gave them.
pub(crate) const FIRST_RING: u8 = 240;
pub(crate) const LAST_RING: u8 = 251;

impl Numbers for Cursor<'_> {
    fn any(&mut self) -> u64 {
        self.long()
    }
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self { rest: data }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        match self.rest.split_first() {
            Some((first, rest)) => {
                self.rest = rest;
                *first
            }
            None => 0,
        }
    }

    fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    pub(crate) fn long(&mut self) -> u64 {
        let mut bytes = [0; 8];
        bytes.fill_with(|| self.byte());
        u64::from_le_bytes(bytes)
    }

    /// A number of any magnitude, from two bytes.
    pub(crate) fn scaled(&mut self) -> u64 {
        let short = u64::from(self.short());
        let (mantissa, shift) = (short >> 6, short & 63);
        mantissa << shift >> shift << shift
    }

    pub(crate) fn tick(&mut self) -> Tick {
        let kind = self.byte();
        Tick::from_nanos(match kind {
            0..=99 => u64::from(kind) * SECOND,
            100..=149 => self.scaled(),
            150..=199 => self.long(),
            _ => u64::MAX - self.scaled(),
        })
    }

    /// The algorithm; a log's further rates are read by [`for_log`](Self::for_log).
    pub(crate) fn choice(&mut self) -> Choice {
        let byte = self.byte();
        let later = byte.checked_sub(LAST_RING + 1).and_then(|place| {
            Kind::all().filter(|kind| !kind.has_ring()).nth(LISTED + usize::from(place))
        });
        if let Some(kind) = later {
            return kind.draw(self);
        }
        match byte {
            kind @ FIRST_RING..=LAST_RING => self.ring_choice(kind - FIRST_RING),
            kind => match kind % 10 {
                0 | 1 => Choice::Bucket(Gcra::new()),
                2 => Choice::Bucket(Gcra::start_empty()),
                3 => Choice::Window(FixedWindow::anchored()),
                4 => Choice::Window(FixedWindow::aligned()),
                6 => Choice::Queue(LeakyQueue::new()),
                7 => Choice::Queue(LeakyQueue::new().immediate(self.byte().into())),
                8 => Choice::WarmUp(Pace {
                    period: Duration::from_secs(self.byte().into()),
                    cold_factor: 3,
                    max_wait: Duration::from_millis(self.byte().into()),
                }),
                9 => Choice::WarmUp(Pace {
                    period: Duration::from_nanos(self.scaled()),
                    cold_factor: u32::from(self.byte()) % 100 + 1,
                    max_wait: Duration::from_nanos(self.scaled()),
                }),
                _ => Choice::Window(FixedWindow::aligned().utc_offset_secs(self.offset_secs())),
            },
        }
    }

    fn ring_choice(&mut self, kind: u8) -> Choice {
        match kind {
            0..=2 => {
                let windows = SubWindows::new().count(self.small_count() + 1);
                let offset = if kind == 2 { self.offset_secs() } else { 0 };
                Choice::SubWindows(windows.utc_offset_secs(offset))
            }
            3..=5 => {
                let counter = SlidingCounter::new().older(self.small_count());
                let offset = if kind == 5 { self.offset_secs() } else { 0 };
                Choice::Counter(counter.utc_offset_secs(offset))
            }
            _ => Choice::Log(LogRates::default()),
        }
    }

    /// A few, or up to 256.
    fn small_count(&mut self) -> u32 {
        match self.byte() {
            few @ 0..=199 => u32::from(few % 8),
            many => u32::from(many - 199) * 5,
        }
    }

    fn offset_secs(&mut self) -> i32 {
        (i32::from(self.short()) - 32_768) * 2
    }

    /// A log with its further rates, and a quota of at most `max` cells; others as they are.
    pub(crate) fn for_log(&mut self, choice: Choice, quota: Quota, max: u64) -> (Choice, Quota) {
        let Choice::Log(_) = choice else { return (choice, quota) };
        let within = |limit: u64| limit.wrapping_sub(1) % max + 1;
        let quota = Quota::new(within(quota.limit()), quota.period());
        let kind = self.byte();
        let rate = |cursor: &mut Self| {
            let limit = match cursor.byte() {
                few @ 0..=191 => u64::from(few % 12) + 1,
                _ => within(cursor.scaled()),
            };
            let share = cursor.byte();
            (limit, u32::from(share & 15) + 1, u32::from(share >> 4) + 1)
        };
        let shares: Vec<_> = (0..kind % 4).map(|_| rate(self)).collect();
        (Choice::Log(LogRates::beside(&quota, &shares, kind & 4 > 0)), quota)
    }

    pub(crate) fn quota(&mut self) -> Quota {
        let kind = usize::from(self.byte());
        if let Some((limit, period, burst)) = QUOTAS.get(kind % 20) {
            let quota = Quota::new(*limit, Duration::from_nanos(*period));
            return if *burst > 0 { quota.burst(*burst) } else { quota };
        }
        let (limit, period) = (self.scaled().max(1), self.scaled().max(1));
        let quota = Quota::new(limit, Duration::from_nanos(period));
        match self.byte() {
            0..=63 => quota,
            cells @ 64..=191 => quota.burst(cells.into()),
            _ => quota.burst(self.scaled()),
        }
    }

    pub(crate) fn cost(&mut self) -> Cost {
        match self.byte() {
            few @ 0..=99 => Cost::Few((few % 4).into()),
            100..=139 => Cost::TheRest,
            140..=159 => Cost::All,
            160..=169 => Cost::OneTooMany,
            170..=179 => Cost::Huge,
            share => Cost::Share((share - 180) * 3),
        }
    }

    pub(crate) fn setup(&mut self) -> Setup {
        let quota = self.quota();
        let on_full = match self.byte() % 4 {
            0 => OnFull::EvictNearestIdle,
            1 => OnFull::Deny,
            2 => OnFull::Admit,
            _ => OnFull::SharedOverflow(self.quota()),
        };
        let skew = match self.byte() {
            0..=63 => 0,
            64..=127 => 1_000_000,
            _ => self.scaled(),
        };
        let size = self.byte();
        Setup {
            quota,
            on_full,
            capacity: u64::from(size % 20) + 1,
            slots: if size < 128 { SlotLayout::Wide } else { SlotLayout::Auto },
            skew: Duration::from_nanos(skew),
            seed: self.byte().into(),
            start: self.tick(),
        }
    }

    pub(crate) fn operation(&mut self) -> Operation {
        let kind = self.byte();
        let key = |byte: u8| u16::from(byte) % 48;
        match kind {
            0..=119 => Operation::Check { key: key(self.byte()), cost: self.cost() },
            120..=139 => Operation::Allow { key: key(self.byte()), cost: self.cost() },
            140..=159 => Operation::Peek { key: key(self.byte()), cost: self.cost() },
            160..=169 => Operation::Reset { key: key(self.byte()) },
            170..=179 => Operation::Count,
            180..=199 => Operation::ToRetry(self.byte() % 3),
            200..=209 => Operation::ToReset(self.byte() % 3),
            210..=229 => Operation::Forward(self.scaled()),
            230..=241 => Operation::ForwardIntervals(self.byte()),
            _ => Operation::Back(self.scaled()),
        }
    }
}
