//! A gateway to a language model: each tenant has a budget of tokens by its plan, all tenants in one table.
//!
//! The cost of an answer is known when the answer has been written. So a request reserves the most that it may cost:
//! its prompt and the longest answer that it allows. The response states the tokens used, and the rest is refunded.
//!
//! ```sh
//! cargo run -p tollgate-http --example tokens --features axum             # some requests, and what came of them
//! cargo run -p tollgate-http --example tokens --features axum -- --serve  # listens, for the line below
//! curl -si localhost:3000/ -H 'x-tenant: acme' -H 'x-max-tokens: 700' -d 'Why is the sky blue?'
//! ```

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::IntoResponse;
use axum::routing::post;
use tokio::net::TcpListener;
use tollgate::{Gcra, Limiter, Quota};
use tollgate_http::key::Header;
use tollgate_http::{Limit, Policy, RateLimitLayer};
use tower::ServiceExt;

/// The longest answer, where the request names none.
const MAX_TOKENS: u64 = 1_000;

/// The prompt, where the request does not say its length. The answer charges what a longer one costs.
const MAX_PROMPT: u64 = 1_000;

/// The prompt of all tenants.
const PROMPT: &str = "Why is the sky blue?";

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

/// The most that a request may cost: a token is about four bytes of the prompt. It is at least 1, because a request
/// that costs 0 is never denied, and the numbers are the client's.
fn estimate(headers: &HeaderMap) -> u64 {
    let prompt = number(headers, "content-length").map_or(MAX_PROMPT, |bytes| bytes.div_ceil(4));
    let answer = number(headers, "x-max-tokens").unwrap_or(MAX_TOKENS);
    prompt.saturating_add(answer.min(MAX_TOKENS)).max(1)
}

/// Stands for the model: each answer takes a tenth of what it may take.
async fn answer(headers: HeaderMap, prompt: String) -> impl IntoResponse {
    let used = prompt.len().div_ceil(4) as u64
        + number(&headers, "x-max-tokens").unwrap_or(MAX_TOKENS).min(MAX_TOKENS) / 10;
    ([("x-tokens-used", used.to_string())], "Because of the air.\n")
}

fn gateway() -> Result<Router, Box<dyn Error>> {
    // The largest budget of any tenant.
    let largest = Quota::per_minute(100_000).burst(20_000);
    let limiter: Limiter<str> =
        Limiter::builder(largest).algorithm(Gcra::new().for_plans()).capacity(10_000).build()?;
    let limit =
        Limit::new(Policy::new("tokens", &largest)?, Arc::new(limiter), Header::new("x-tenant")?);

    let free = limit.plan(Quota::per_minute(600).burst(2_000))?;
    let team = limit.plan(Quota::per_minute(30_000).burst(10_000))?;
    // A gateway reads this from its accounts.
    let plans = HashMap::from([("acme", team)]);

    let limit = limit
        .plans(move |request| {
            let tenant = request.headers.get("x-tenant").and_then(|name| name.to_str().ok());
            // `None` would be the limiter's own quota, the largest.
            Some(tenant.and_then(|name| plans.get(name)).unwrap_or(&free).clone())
        })
        .cost(|request| estimate(&request.headers))
        // A response without the field has used nothing.
        .settle(|response| number(&response.headers, "x-tokens-used").unwrap_or(0));
    Ok(Router::new().route("/", post(answer)).layer(RateLimitLayer::new(limit)))
}

/// Sends a prompt, and returns the status and the tokens that are left. Without `length`, the request does not say
/// that of its prompt.
async fn send(
    gateway: &Router,
    tenant: &str,
    max_tokens: u64,
    length: Option<usize>,
) -> Result<(StatusCode, u64), Box<dyn Error>> {
    let mut request =
        Request::post("/").header("x-tenant", tenant).header("x-max-tokens", max_tokens);
    if let Some(length) = length {
        request = request.header("content-length", length);
    }
    let request = request.body(Body::from(PROMPT))?;
    let response = gateway.clone().oneshot(request).await?;
    let left = response.headers()["ratelimit"].to_str()?;
    let left = left.split(";r=").nth(1).and_then(|left| left.split(';').next());
    Ok((response.status(), left.ok_or("no tokens left are shown")?.parse()?))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let gateway = gateway()?;
    if std::env::args().nth(1).as_deref() == Some("--serve") {
        let listener = TcpListener::bind("127.0.0.1:3000").await?;
        println!("listening on http://{}", listener.local_addr()?);
        axum::serve(listener, gateway).await?;
        return Ok(());
    }
    for tenant in ["somebody", "acme"] {
        let mut answers = 0;
        let left = loop {
            match send(&gateway, tenant, 1_000, Some(PROMPT.len())).await? {
                (StatusCode::OK, _) => answers += 1,
                (_, left) => break left,
            }
        };
        println!("{tenant}: {answers} answers of 105 tokens, then 429 with {left} tokens left");
        // 1,005 tokens are reserved and 105 used, so the last answers need 900 more than they use.
        assert!(left < 1_005);
        assert!((if tenant == "acme" { 85..=90 } else { 9..=12 }).contains(&answers));
        // An estimate of 0 would admit these, and charge them into debt.
        for length in [None, Some(0)] {
            let (mut answers, mut status) = (0, StatusCode::OK);
            while status == StatusCode::OK && answers < 1_000_000 {
                status = send(&gateway, tenant, 0, length).await?.0;
                answers += 1;
            }
            assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
        }
    }
    Ok(())
}
