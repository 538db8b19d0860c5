//! The window of the wall clock in which an instant of a limiter's clock lies.

/// Words of the [`WallEdges`].
pub(super) const WORDS: usize = 7;

/// A mapping from instants of the limiter's clock to wall time. Wall time counts from the beginning of some
/// window of the wall clock, so a window begins at each multiple of the period.
///
/// Instants before `edge` are mapped by `before`, and later ones by `after`. The mapping is meant for
/// instants up to `until`, where its next window begins. (It has an answer for later ones too.)
///
/// A later instant never lies in an earlier window, within one mapping and from one to the
/// [next](Self::next).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WallEdges {
    edge: u64,
    before: Side,
    after: Side,
    until: u64,
    /// An offset of whole periods, added to the wall clock. With it, wall time begins no later than the wall clock
    /// showed when it was first read.
    shift: u64,
}

/// The mapping on one side of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Side {
    /// Wall time less the clock's time.
    ahead: i64,
    /// The end of a window that is held because the wall clock was set back to an earlier one. Instants before
    /// it are in that window. 0: no window is held.
    opens: u64,
}

/// Where an instant lies on the wall clock, and for how long its window is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WallPosition {
    /// The offset from the instant to a time in the window in force, which is `held` whole periods ahead of wall
    /// time.
    pub(crate) ahead_nanos: i64,
    /// Whole periods for which the window in force is held beyond the end of the wall clock's window.
    pub(crate) held: u64,
    /// Periods, rounded up, for which it has been held.
    pub(crate) held_for: u64,
}

impl Side {
    /// `since`: instants from then on are mapped by this side.
    #[inline(always)]
    fn place(self, now: u64, since: u64, period: u64) -> WallPosition {
        if now >= self.opens {
            return WallPosition { ahead_nanos: self.ahead, held: 0, held_for: 0 };
        }
        let held = (self.opens - now - 1) / period;
        let held_for = now.saturating_sub(since).div_ceil(period);
        let ahead_nanos = self.ahead.saturating_add_unsigned(held * period);
        WallPosition { ahead_nanos, held, held_for }
    }

    /// The first instant after `now` at which a window of the wall clock begins.
    fn next_edge(self, now: u64, period: u64) -> u64 {
        let wall = now.saturating_add_signed(self.place(now, now, period).ahead_nanos);
        now.saturating_add(period - wall % period)
    }
}

impl WallEdges {
    /// The mapping of a wall clock that was not read yet. It covers no instant, so the first one reads the clock.
    pub(super) fn unread(ahead: i64) -> Self {
        let side = Side { ahead, opens: 0 };
        Self { edge: 0, before: side, after: side, until: 0, shift: 0 }
    }

    /// The first instant that this mapping is not meant for.
    #[inline(always)]
    pub(super) fn until(&self) -> u64 {
        self.until
    }

    /// How far wall time is ahead of the limiter's clock in the end.
    #[cfg(feature = "shared-memory")]
    pub(super) fn ahead(&self) -> i64 {
        self.after.ahead
    }

    pub(super) fn shift(&self) -> u64 {
        self.shift
    }

    #[inline(always)]
    pub(super) fn place(&self, now: u64, period: u64) -> WallPosition {
        match now < self.edge {
            true => self.before.place(now, 0, period),
            false => self.after.place(now, self.edge, period),
        }
    }

    /// The mapping from `until` on, if the wall clock is `ahead` of the limiter's. It is meant for `now`,
    /// which is not before `until`.
    ///
    /// If the wall clock is set back, the window in force just before `until` is held until the wall clock
    /// reaches that window's end, unless `holds` is false, which is a planted fault.
    pub(super) fn next(&self, now: u64, ahead: i128, period: u64, holds: bool) -> Self {
        let next = if self.until == 0 {
            let before = narrow(-(i128::from(now) + ahead));
            let shift = before.div_ceil(period).saturating_mul(period);
            Self { shift, ..Self::unread(signed(ahead + i128::from(shift))) }
        } else {
            self.followed_by(signed(ahead + i128::from(self.shift)), holds)
        };
        Self { until: next.after.next_edge(now, period), ..next }
    }

    fn followed_by(&self, ahead: i64, holds: bool) -> Self {
        if ahead == self.after.ahead {
            return *self;
        }
        let last = self.until.max(self.after.opens);
        let window_end = last.saturating_add_signed(self.after.ahead);
        let opens = narrow(i128::from(window_end) - i128::from(ahead));
        let after = Side { ahead, opens: if holds { opens } else { 0 } };
        Self { edge: self.until, before: self.after, after, ..*self }
    }

    pub(super) fn to_words(self) -> [u64; WORDS] {
        let Self { edge, before, after, until, shift } = self;
        let [ahead_before, ahead_after] = [before, after].map(|side| side.ahead.cast_unsigned());
        [edge, ahead_before, before.opens, ahead_after, after.opens, until, shift]
    }

    #[inline(always)]
    pub(super) fn from_words(words: [u64; WORDS]) -> Self {
        let [edge, before, opens_before, after, opens_after, until, shift] = words;
        Self {
            edge,
            before: Side { ahead: before.cast_signed(), opens: opens_before },
            after: Side { ahead: after.cast_signed(), opens: opens_after },
            until,
            shift,
        }
    }
}

/// At least 0, and at most the end of time.
fn narrow(nanos: i128) -> u64 {
    u64::try_from(nanos.max(0)).unwrap_or(u64::MAX)
}

/// At most 292 years.
fn signed(nanos: i128) -> i64 {
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}
