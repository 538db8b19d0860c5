//! A limiter that spends in this process what it took ahead.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use tokio::runtime::Handle;
use tollgate::clock::QuantaClock;
use tollgate::{Clock, Tick};

use super::account::{Account, Ahead, Errand, Gained, Landing, Met, Rules};
use super::bank::{LeaseSource, Want};
use super::builder::LeasedBuilder;
use super::stats::{Count, LeaseStats, Tally};
use crate::places::{Entry, Places};
use crate::{Answer, Origin, Unavailable};

/// How often a request waits for a call, or makes one, before it is denied: so often at least, and
/// then until it has waited for so long. Many tasks that ask for one key at once share each call's
/// cells, and wait for some calls; denied after four, 64 of them lost a tenth of what there was.
const ROUNDS_MIN: usize = 4;
const ROUNDS_MAX: usize = 1_000;
const PATIENCE: Duration = Duration::from_millis(10);

/// A limiter over many processes, most of whose decisions are made in this one: it takes cells
/// ahead from a [`LeaseSource`], and spends them without asking.
///
/// How many it takes follows what it spends. When few are left, more are fetched in the background;
/// a request waits only where none are left, and then all that wait for one key wait for one call; or,
/// where a call brings less than is spent while it is under way, for up to 256 that are under way together.
/// When the bank is short, a key pauses between calls ([`LeasedBuilder::pause`]), and when it
/// denies, requests are denied here until it is time to come back. So overload of one key, or
/// a client that does not take no for an answer, costs few calls.
///
/// Clones share everything.
///
/// **Guarantee.** What the bank grants is spent once, by the process that asked, within its
/// lifetime. With a bank that keeps what [`Grant::lifetime`](crate::Grant::lifetime) asks for, all
/// processes together never exceed the quota, in any span, whichever of them die or are stopped.
///
/// **Not guaranteed.**
///
/// - That every cell is used. What a process holds when it ends, and what it does not spend within
///   the lifetime, is lost: at most what it took in the last lifetime.
/// - Order. Another process may be denied while this one has cells in hand.
/// - That a denial is the bank's latest word: it may be as old as the pause, or, while the bank is
///   asked again, as old as the time to come back.
/// - What [`Permit::remaining`](tollgate::Permit::remaining) says. It is what is in hand and what
///   the bank had when it was last asked; others may have taken that since.
///
/// Runs on tokio. The bank's calls are tasks of their own there, so a request that is dropped while
/// it waits loses its own cells at most.
///
/// ```
/// # use std::time::Duration;
/// # use tollgate::decision::DecisionParts;
/// # use tollgate_redis::{LeaseSource, Grant, Leased, Origin, Unavailable, Want};
/// # struct Rich;
/// # impl LeaseSource for Rich {
/// #     async fn take(&self, _: &[u8], want: Want) -> Result<Grant, Unavailable> {
/// #         let parts = DecisionParts { limit: 9, remaining: 9, reset_after: Duration::from_secs(1) };
/// #         let lifetime = Duration::from_secs(9);
/// #         Ok(Grant { cells: want.most, lifetime, parts, retry_after: None })
/// #     }
/// # }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let leased = Leased::builder(Rich).build()?;
/// for _ in 0..100 {
///     match leased.check(b"192.0.2.7").await?.decision {
///         Ok(_) => {}
///         Err(denied) => println!("429, retry after {:?}", denied.retry_after()),
///     }
/// }
/// assert!(leased.stats().calls <= 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Leased<B, C = QuantaClock> {
    shared: Arc<Shared<B, C>>,
}

struct Shared<B, C> {
    bank: B,
    clock: C,
    rules: Rules,
    purses: Places<Account>,
    tally: Tally,
}

impl<B, C> Clone for Leased<B, C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<B, C> fmt::Debug for Leased<B, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { rules, purses, .. } = &*self.shared;
        let purses = purses.len();
        f.debug_struct("Leased").field("rules", rules).field("purses", &purses).finish()
    }
}

impl<B: LeaseSource> Leased<B> {
    /// A builder for a limiter on that bank.
    ///
    /// ```
    /// # use tollgate_redis::{LeaseSource, Grant, LeaseError, Leased, Unavailable, Want};
    /// # struct Away;
    /// # impl LeaseSource for Away {
    /// #     async fn take(&self, _: &[u8], _: Want) -> Result<Grant, Unavailable> {
    /// #         Err(Unavailable::Disconnected)
    /// #     }
    /// # }
    /// let leased = Leased::builder(Away).most(500).build()?;
    /// assert!(leased.try_check(b"a", 1).is_none());
    /// # Ok::<(), LeaseError>(())
    /// ```
    pub fn builder(bank: B) -> LeasedBuilder<B> {
        LeasedBuilder::new(bank)
    }
}

/// What a request finds at first.
enum Look {
    Answered(Answer),
    Unavailable(Unavailable),
    /// It has to ask or wait.
    Open,
}

impl<B: LeaseSource, C: Clock + Send + Sync + 'static> Leased<B, C> {
    pub(crate) fn new(bank: B, clock: C, capacity: u64, rules: Rules) -> Self {
        let (purses, tally) = (Places::new(capacity), Tally::default());
        Self { shared: Arc::new(Shared { bank, clock, rules, purses, tally }) }
    }

    /// Asks for one cell of `key`'s quota.
    ///
    /// # Errors
    ///
    /// The bank is unavailable, and there are no cells in hand.
    ///
    /// ```
    /// # use tollgate_redis::{LeaseSource, Grant, Leased, Unavailable, Want};
    /// # struct Away;
    /// # impl LeaseSource for Away {
    /// #     async fn take(&self, _: &[u8], _: Want) -> Result<Grant, Unavailable> {
    /// #         Err(Unavailable::Disconnected)
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let leased = Leased::builder(Away).build()?;
    /// assert_eq!(leased.check(b"a").await, Err(Unavailable::Disconnected));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn check(&self, key: &[u8]) -> Result<Answer, Unavailable> {
        self.check_n(key, 1).await
    }

    /// Asks for `n` cells of `key`'s quota, all of them or none. With 0, nothing is charged.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    ///
    /// ```
    /// # use tollgate_redis::{LeaseSource, Grant, Leased, Unavailable, Want};
    /// # struct Away;
    /// # impl LeaseSource for Away {
    /// #     async fn take(&self, _: &[u8], _: Want) -> Result<Grant, Unavailable> {
    /// #         Err(Unavailable::CircuitOpen)
    /// #     }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let leased = Leased::builder(Away).build()?;
    /// assert_eq!(leased.check_n(b"a", 5).await, Err(Unavailable::CircuitOpen));
    /// assert_eq!(leased.stats().unavailable, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn check_n(&self, key: &[u8], n: u64) -> Result<Answer, Unavailable> {
        let found = match self.look(key, n) {
            Look::Answered(answer) => Ok(answer),
            Look::Unavailable(why) => Err(why),
            Look::Open => match self.open(key) {
                Some(account) if self.is_leased(n) => self.settle(&account, n).await,
                account => self.ask_direct(account.as_deref(), key, n).await,
            },
        };
        self.count(&found);
        found
    }

    /// The same, if it can be answered without waiting: from cells in hand, or from what the bank
    /// said a moment ago. `None` where [`check_n`](Self::check_n) would ask the bank, or knows
    /// that it is unavailable.
    ///
    /// Cells are fetched in the background as by `check_n`, where this is called on tokio.
    ///
    /// ```
    /// # use tollgate_redis::{LeaseSource, Grant, LeaseError, Leased, Unavailable, Want};
    /// # struct Away;
    /// # impl LeaseSource for Away {
    /// #     async fn take(&self, _: &[u8], _: Want) -> Result<Grant, Unavailable> {
    /// #         Err(Unavailable::Disconnected)
    /// #     }
    /// # }
    /// let leased = Leased::builder(Away).build()?;
    /// assert!(leased.try_check(b"somebody new", 1).is_none());
    /// # Ok::<(), LeaseError>(())
    /// ```
    pub fn try_check(&self, key: &[u8], n: u64) -> Option<Answer> {
        let Look::Answered(answer) = self.look(key, n) else { return None };
        self.count_answer(&answer);
        Some(answer)
    }

    /// What was counted so far.
    ///
    /// ```
    /// # use tollgate_redis::{LeaseSource, Grant, LeaseError, Leased, Unavailable, Want};
    /// # struct Away;
    /// # impl LeaseSource for Away {
    /// #     async fn take(&self, _: &[u8], _: Want) -> Result<Grant, Unavailable> {
    /// #         Err(Unavailable::Disconnected)
    /// #     }
    /// # }
    /// assert_eq!(Leased::builder(Away).build()?.stats().calls, 0);
    /// # Ok::<(), LeaseError>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> LeaseStats {
        self.shared.tally.read(self.shared.purses.len())
    }

    /// The bank.
    ///
    /// ```
    /// # use tollgate_redis::{LeaseSource, Grant, LeaseError, Leased, Unavailable, Want};
    /// # struct Away;
    /// # impl LeaseSource for Away {
    /// #     async fn take(&self, _: &[u8], _: Want) -> Result<Grant, Unavailable> {
    /// #         Err(Unavailable::Disconnected)
    /// #     }
    /// # }
    /// let leased = Leased::builder(Away).build()?;
    /// let Away = leased.bank();
    /// # Ok::<(), LeaseError>(())
    /// ```
    #[must_use]
    pub fn bank(&self) -> &B {
        &self.shared.bank
    }

    fn now(&self) -> Tick {
        self.shared.clock.now()
    }

    /// Whether so many cells can come from a lease.
    fn is_leased(&self, n: u64) -> bool {
        (1..=self.shared.rules.most).contains(&n)
    }

    /// The straight line: the key's account, and what is there.
    #[inline]
    fn look(&self, key: &[u8], n: u64) -> Look {
        let now = self.now();
        let met = self.shared.purses.look(key, |account| {
            let met = match self.is_leased(n) {
                true => account.meet(n, now),
                false => account.meet_direct(n, now).unwrap_or(Met::Ask),
            };
            if let Met::Answered(_, Ahead::Ask(least)) = met {
                self.ask_ahead(account, least, now);
            }
            met
        });
        match met {
            Some(Met::Answered(answer, _)) => Look::Answered(answer),
            Some(Met::Unavailable(why)) => Look::Unavailable(why),
            Some(Met::Ask | Met::Wait) | None => Look::Open,
        }
    }

    fn open(&self, key: &[u8]) -> Option<Arc<Account>> {
        let (account, dropped) = self.shared.purses.open(key, || self.now());
        self.shared.tally.add(Count::CellsLapsed, dropped.cells);
        account
    }

    /// Asks, or waits for who asks, until there is an answer.
    async fn settle(&self, account: &Arc<Account>, n: u64) -> Result<Answer, Unavailable> {
        let mut late = false;
        let began = self.now();
        for round in 0..ROUNDS_MAX {
            let now = self.now();
            if round >= ROUNDS_MIN && now.since(began) > PATIENCE {
                break;
            }
            match account.meet(n, now) {
                Met::Answered(answer, ahead) => {
                    if let Ahead::Ask(least) = ahead {
                        self.ask_ahead(account, least, now);
                    }
                    return Ok(answer);
                }
                Met::Unavailable(why) => return Err(why),
                Met::Ask => {
                    let Some(errand) = account.begin(n, n, now, &self.shared.rules) else {
                        continue;
                    };
                    match self.ask(account, errand).await {
                        Landing::Answered(answer) => return Ok(answer),
                        Landing::Unavailable(why) => return Err(why),
                        Landing::Late => late = true,
                    }
                }
                Met::Wait => self.wait(account, n).await,
            }
        }
        match late {
            true => Err(Unavailable::TimedOut),
            false => Ok(account.crowded(n, self.now(), &self.shared.rules)),
        }
    }

    /// Waits for the end of the call that is under way.
    async fn wait(&self, account: &Account, n: u64) {
        let _waiting = account.wait_for(n);
        let landed = account.landed.notified();
        let mut landed = core::pin::pin!(landed);
        // In line first, then a look: a call that ends after the look tells those in line.
        landed.as_mut().enable();
        if account.is_asking() {
            landed.await;
        }
    }

    /// Makes the call that was begun, as a task of its own: it ends even if nobody waits for it.
    async fn ask(&self, account: &Arc<Account>, errand: Errand) -> Landing {
        let call = Call::new(self.clone(), Arc::clone(account), errand);
        match Handle::try_current() {
            Ok(runtime) => runtime.spawn(call.make()).await.unwrap_or_else(|error| {
                // The bank panicked, or the runtime ends.
                Landing::Unavailable(Unavailable::Failed(error.to_string()))
            }),
            Err(_) => call.make().await,
        }
    }

    #[cold]
    fn ask_ahead(&self, account: &Arc<Account>, least: u64, now: Tick) {
        if self.ask_beside(account, least, now) {
            self.shared.tally.one(Count::CallsAhead);
        }
    }

    /// Makes a call whose end nobody awaits by name; whether it is one.
    fn ask_beside(&self, account: &Arc<Account>, least: u64, now: Tick) -> bool {
        let Ok(runtime) = Handle::try_current() else { return false };
        let Some(errand) = account.begin(least, 0, now, &self.shared.rules) else { return false };
        drop(runtime.spawn(Call::new(self.clone(), Arc::clone(account), errand).make()));
        true
    }

    /// A call for this request alone.
    async fn ask_direct(
        &self,
        account: Option<&Account>,
        key: &[u8],
        n: u64,
    ) -> Result<Answer, Unavailable> {
        let Shared { bank, tally, .. } = &*self.shared;
        let unknown;
        let account = match account {
            Some(account) => account,
            None => {
                tally.one(Count::WithoutPurse);
                unknown = Account::new(key);
                &unknown
            }
        };
        tally.one(Count::Calls);
        let sent = self.now();
        let grant = bank.take(key, Want { least: n, most: n }).await?;
        tally.add(Count::CellsTaken, grant.cells);
        match account.land_direct(n, sent, self.now(), &grant) {
            Landing::Answered(answer) => Ok(answer),
            Landing::Unavailable(why) => Err(why),
            Landing::Late => {
                tally.add(Count::CellsLapsed, grant.cells);
                Err(Unavailable::TimedOut)
            }
        }
    }

    fn count(&self, found: &Result<Answer, Unavailable>) {
        match found {
            Ok(answer) => self.count_answer(answer),
            Err(_) => self.shared.tally.one(Count::Unavailable),
        }
    }

    #[inline]
    fn count_answer(&self, answer: &Answer) {
        self.shared.tally.one(match answer.origin {
            Origin::Lease => Count::FromLease,
            Origin::Memory => Count::FromMemory,
            _ => Count::FromBank,
        });
    }
}

/// A call to the bank. However it ends, those who wait are told.
struct Call<B: LeaseSource, C: Clock + Send + Sync + 'static> {
    leased: Leased<B, C>,
    account: Arc<Account>,
    errand: Errand,
    /// Cells that it has put in, once it is over.
    brought: Option<u64>,
}

impl<B: LeaseSource, C: Clock + Send + Sync + 'static> Call<B, C> {
    fn new(leased: Leased<B, C>, account: Arc<Account>, errand: Errand) -> Self {
        Self { leased, account, errand, brought: None }
    }

    async fn make(mut self) -> Landing {
        let Shared { bank, rules, tally, .. } = &*self.leased.shared;
        tally.one(Count::Calls);
        let sent = self.leased.now();
        let reply = bank.take(self.account.key(), self.errand.want).await;
        let now = self.leased.now();
        let (landing, gained) = self.account.land(self.errand, sent, now, reply, rules);
        let Gained { taken, lapsed } = gained;
        self.brought = Some(taken.saturating_sub(self.errand.keep));
        tally.add(Count::CellsTaken, taken);
        tally.add(Count::CellsLapsed, lapsed);
        if let Ahead::Ask(least) = self.account.after_call(now) {
            self.leased.ask_beside(&self.account, least, now);
        }
        landing
    }
}

impl<B: LeaseSource, C: Clock + Send + Sync + 'static> Drop for Call<B, C> {
    fn drop(&mut self) {
        let brought = self.brought.unwrap_or_else(|| {
            let now = self.leased.now();
            self.account.abandon(self.errand, now, &self.leased.shared.rules);
            0
        });
        self.account.wake(brought);
    }
}
