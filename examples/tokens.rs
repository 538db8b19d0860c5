//! Tokens of a language model: reserved by an estimate, settled when the answer is complete.
//!
//! The cost of an answer in tokens is known only when it is written. A service that charges afterwards
//! admits everybody at once; one that charges the maximum keeps most of the quota idle. A reservation
//! charges the maximum, and refunds what was not used.
//!
//! Ten workers share one tenant's quota. Time is simulated, so this ends at once:
//! `cargo run --example tokens`

use std::time::Duration;

use tollgate::algorithm::Algorithm;
use tollgate::reservation::{Chargeable, Reservation};
use tollgate::{Direct, FixedWindow, Gcra, Limiter, ManualClock, Quota, Tick};

const TENANT: &str = "tenant";
const TOKENS_A_MINUTE: u64 = 60_000;
/// May be spent at once; the rest comes at an even rate.
const BURST: u64 = 20_000;
const LONGEST_ANSWER: u64 = 2_000;
const SECONDS: u64 = 600;
const WORKERS: usize = 10;

type Gate<A> = Limiter<str, A, ManualClock>;

/// An answer that is being written: what was reserved for it, and what it will have taken.
struct Answer<'a, G: Chargeable> {
    done: Duration,
    tokens: u64,
    reserved: Option<Reservation<'a, G>>,
}

/// Prompts of 100 to 1,600 tokens, answers of 10 to 2,000, short ones more often.
struct Requests(u64);

impl Requests {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn next(&mut self) -> (u64, u64) {
        let (prompt, max) = (100 + self.below(1_500), self.below(LONGEST_ANSWER - 9) + 1);
        (prompt, 10 + self.below(max))
    }
}

/// The number of answers written and of their tokens, if each is charged in this way.
fn serve<A: Algorithm>(
    algorithm: A,
    settles: bool,
) -> Result<(u64, u64), Box<dyn std::error::Error>>
where
    Gate<A>: Chargeable,
{
    let quota = Quota::per_minute(TOKENS_A_MINUTE).burst(BURST);
    let gate: Gate<A> =
        Limiter::builder(quota).algorithm(algorithm).clock(ManualClock::new()).build()?;
    let mut requests = Requests(0x9e37_79b9_7f4a_7c15);
    let mut waiting = requests.next();
    let mut writing: Vec<Answer<'_, Gate<A>>> = Vec::new();
    let (mut answers, mut tokens) = (0, 0);
    for tenth in 0..SECONDS * 10 {
        let elapsed = Duration::from_millis(tenth * 100);
        let now = Tick::from_duration(elapsed);
        for answer in writing.extract_if(.., |answer| answer.done <= elapsed) {
            answers += 1;
            tokens += answer.tokens;
            if let Some(reserved) = answer.reserved {
                reserved.settle_at(answer.tokens, now);
            }
        }
        while writing.len() < WORKERS {
            let (prompt, answer) = waiting;
            let max = prompt + LONGEST_ANSWER;
            let reserved = if settles {
                match gate.ask(TENANT).cells(max).at(now).reserve() {
                    Ok(reserved) => Some(reserved),
                    Err(_) => break,
                }
            } else {
                if gate.ask(TENANT).cells(max).at(now).check().is_err() {
                    break;
                }
                None
            };
            // A hundred tokens of the answer are written in a second.
            let done = elapsed + Duration::from_millis(answer * 10);
            writing.push(Answer { done, tokens: prompt + answer, reserved });
            waiting = requests.next();
        }
    }
    Ok((answers, tokens))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let granted = TOKENS_A_MINUTE * SECONDS / 60 + BURST;
    let report = |how, (answers, tokens): (u64, u64)| {
        println!("{how:>28}: {answers} answers, {}% of the quota", tokens * 100 / granted);
        assert!(tokens <= granted, "never more than the quota");
    };
    report("bucket, maximum charged", serve(Gcra::new(), false)?);
    report("bucket, settled", serve(Gcra::new(), true)?);
    // A bucket refunds what time has not restored since; a window refunds everything while it is open.
    let window = FixedWindow::aligned();
    report("window, maximum charged", serve(window, false)?);
    report("window, settled", serve(window, true)?);

    // Where no estimate exists, the cost is charged when it is known, and the next request waits until
    // it is paid.
    let gate = Direct::builder(Quota::per_minute(TOKENS_A_MINUTE).burst(6_000)).build()?;
    let wait = gate.ask().cells(9_000).at(Tick::ZERO).charge();
    println!("{:>28}: 9,000 tokens, the next request waits {wait:?}", "charged afterwards");
    assert_eq!(wait, Duration::from_secs(3));
    Ok(())
}
