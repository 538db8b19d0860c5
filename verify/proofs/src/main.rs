//! Answers requests with the algorithms themselves, so that `prove.py` can compare its models with
//! them.
//!
//! A line of the input is a request, and a line of the output its answer:
//!
//! ```text
//! gcra limit=10 period=1000000000 burst=3 word=0 now=77 n=2 [option=value ...] [ring=1,2,3]
//! admit next=... published=place:content,... idle=units remaining=... reset=... delay=...
//! deny idle=... remaining=... reset=... retry=...
//! ```
//!
//! `none` means that the quota has no such state, `denied` that the quota is out of range, and `panic`
//! that the algorithm panicked, which must never happen.

mod request;

use std::io::{BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use request::Request;
use tollgate::algorithm::Algorithm;
use tollgate::dynamic::Inherit;
use tollgate::internals::dynamic_gcra::GcraEpoch;
use tollgate::internals::{Liveness, Receipt, Refund, StateMachine, Step};
use tollgate::{
    AnyAlgorithm, FixedWindow, Gcra, LeakyQueue, QuotaError, SlidingCounter, SubWindows, Tick,
    WarmUp,
};

fn main() -> std::io::Result<()> {
    std::panic::set_hook(Box::new(|_| {}));
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let request = Request::of(&line);
        let answer = catch_unwind(AssertUnwindSafe(|| answer(&request)));
        let answer = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => "denied".to_owned(),
            Err(_) => "panic".to_owned(),
        };
        writeln!(out, "{answer}")?;
    }
    out.flush()
}

fn answer(request: &Request) -> Result<String, QuotaError> {
    let small = |name: &str| u32::try_from(request.number(name)).unwrap_or(u32::MAX);
    match request.algorithm() {
        "gcra" => {
            let gcra = if request.has("empty") { Gcra::start_empty() } else { Gcra::new() };
            let gcra = if request.has("plans") { gcra.for_plans() } else { gcra };
            refundable(gcra, request)
        }
        "fixed_window" => match request.has("offset") {
            true => refundable(FixedWindow::aligned().utc_offset_secs(request.offset()), request),
            false => refundable(FixedWindow::anchored(), request),
        },
        "leaky_queue" => built(LeakyQueue::new().immediate(request.number("immediate")), request),
        "warm_up" => {
            let warm_up = WarmUp::new(request.span("warm")).cold_factor(small("cold"));
            built(warm_up.max_wait(request.span("wait")), request)
        }
        "sub_windows" => built(SubWindows::new().count(small("count")), request),
        "sliding_counter" => built(SlidingCounter::new().older(small("older")), request),
        "dynamic_gcra" => dynamic_gcra(request),
        // An algorithm whose options no model draws.
        name => match name.replace('_', "-").parse::<AnyAlgorithm>() {
            Ok(algorithm) => built(algorithm, request),
            Err(error) => panic!("{name}: {error}"),
        },
    }
}

fn dynamic_gcra(request: &Request) -> Result<String, QuotaError> {
    let mut params = GcraEpoch::new(&request.quota(), request.has("empty"))?;
    if request.has("at") {
        let inherit = match request.text("inherit") {
            "as-is" => Inherit::AsIs,
            "additive" => Inherit::Additive,
            "spent" => Inherit::Spent,
            "proportional" => Inherit::Proportional,
            _ => Inherit::Reset,
        };
        let at = Tick::from_nanos(request.number("at"));
        params = params.change(&request.new_quota(), inherit, at)?;
        if request.has("reset") {
            params = params.change(&request.quota(), Inherit::Reset, at)?;
        }
    }
    Ok(refunded(&params, request).unwrap_or_else(|| stepped(&params, request)))
}

fn built<A: Algorithm>(algorithm: A, request: &Request) -> Result<String, QuotaError> {
    let params = params(&algorithm, request)?;
    Ok(params.map_or("none".to_owned(), |params| stepped(&params, request)))
}

fn refundable<A: Algorithm<Params: Refund>>(
    algorithm: A,
    request: &Request,
) -> Result<String, QuotaError> {
    let params = params(&algorithm, request)?;
    Ok(params.map_or("none".to_owned(), |params| {
        refunded(&params, request).unwrap_or_else(|| stepped(&params, request))
    }))
}

fn params<A: Algorithm>(algorithm: &A, request: &Request) -> Result<Option<A::Params>, QuotaError> {
    let (quota, origin) = (request.quota(), request.number("origin"));
    match request.has("compact") {
        true => algorithm.compact_params(&quota, origin),
        false => algorithm.params(&quota, origin).map(Some),
    }
}

/// The state after a refund or an addition, if the request asks for one.
fn refunded<M: Refund>(params: &M, request: &Request) -> Option<String> {
    let [word, now, n] = ["word", "now", "n"].map(|name| request.number(name));
    let now = Tick::from_nanos(now);
    if request.has("overdrawn") {
        return Some(stepped(&params.overdrawn(), request));
    }
    if request.has("add") {
        return Some(format!("word {}", params.add(word, now, n)));
    }
    let [cells, at, next] = ["cells", "charged", "next"].map(|name| request.number(name));
    let receipt = Receipt { cells, at: Tick::from_nanos(at), next };
    request.has("cells").then(|| format!("word {}", params.refund(word, &receipt, now, n)))
}

fn stepped<M: StateMachine>(params: &M, request: &Request) -> String {
    let [word, now, n] = ["word", "now", "n"].map(|name| request.number(name));
    let (now, ring) = (Tick::from_nanos(now), request.ring(params.ring_cells()));
    let ring = ring.as_slice();
    let view = params.read(word, ring, now, n);
    let liveness = match params.liveness(word, params.instant(now)) {
        Liveness::Idle { units } => format!("idle={units}"),
        Liveness::Live { debt } => format!("live={debt}"),
    };
    let fresh = params.fresh(now);
    let mut published = Vec::new();
    let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    let step = params.step(view, now, n);
    assert_eq!(params.step_by_branch(view, now, n), step);
    match step {
        Step::Admit { next } => {
            params.publish(view, ring, |place, content| {
                published.push(format!("{place}:{content}"));
                true
            });
            let permit = params.permit(view, now, n);
            let (left, reset) = (permit.remaining(), nanos(permit.reset_after()));
            let (delay, published) = (nanos(permit.delay()), published.join(","));
            format!(
                "admit fresh={fresh} {liveness} next={next} published={published} remaining={left} reset={reset} delay={delay}"
            )
        }
        Step::Deny | Step::DenyCounted { .. } => {
            let denied = params.denied(view, now, n);
            let (left, reset) = (denied.remaining(), nanos(denied.reset_after()));
            let retry =
                denied.retry_after().map_or("never".to_owned(), |span| nanos(span).to_string());
            format!("deny fresh={fresh} {liveness} remaining={left} reset={reset} retry={retry}")
        }
    }
}
