//! The events that a tracing subscriber receives.

#![allow(clippy::disallowed_types, reason = "a subscriber of a test may block")]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::thread;

use tollgate::top::TopKeys;
use tollgate::{Limiter, Quota};
use tollgate_observe::{DenialLog, log_top};
use tracing::field::{Field, Visit};
use tracing::subscriber::with_default;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// The fields of an event.
#[derive(Clone, Debug, Default)]
struct Fields(BTreeMap<String, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

/// Collects all events down to a level.
#[derive(Clone)]
struct Keep(Arc<Mutex<Vec<Fields>>>, Level);

impl Keep {
    fn down_to(level: Level) -> Self {
        Self(Arc::default(), level)
    }

    fn events(&self) -> Vec<Fields> {
        self.0.lock().expect("no panic").clone()
    }
}

impl<S: Subscriber> Layer<S> for Keep {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        *metadata.level() <= self.1
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        assert_eq!(event.metadata().target(), "tollgate");
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.0.lock().expect("no panic").push(fields);
    }
}

fn empty_gate() -> Limiter<str> {
    let gate: Limiter<str> = Limiter::builder(Quota::per_day(1)).build().expect("in range");
    assert!(gate.check("192.0.2.7").is_ok());
    gate
}

#[test]
fn a_flood_of_denials_makes_as_many_events_as_the_quota_allows() {
    let (gate, keep) = (empty_gate(), Keep::down_to(Level::WARN));
    let log = DenialLog::new("api", Quota::per_day(3)).expect("in range");
    with_default(tracing_subscriber::registry().with(keep.clone()), || {
        assert!(log.watch("another", gate.check("another")).is_ok());
        for _ in 0..1_000 {
            assert!(log.watch("192.0.2.7", gate.check("192.0.2.7")).is_err());
        }
    });
    let events = keep.events();
    assert_eq!((events.len(), log.suppressed()), (3, 997));
    let first = &events[0].0;
    assert_eq!(first["limiter"], "\"api\"");
    assert_eq!(first["key"], "192.0.2.7");
    assert_eq!(first["suppressed"], "0");
    let wait: u64 = first["retry_after_ms"].parse().expect("a number");
    assert!((80_000_000..=86_400_000).contains(&wait), "{wait}");
}

#[test]
fn each_suppressed_denial_is_reported_once() {
    const EACH: u64 = 100_000;
    let (gate, keep) = (empty_gate(), Keep::down_to(Level::WARN));
    let log = DenialLog::new("api", Quota::per_second(500).burst(5)).expect("in range");
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                with_default(tracing_subscriber::registry().with(keep.clone()), || {
                    for _ in 0..EACH {
                        let _ = log.watch("192.0.2.7", gate.check("192.0.2.7"));
                    }
                });
            });
        }
    });
    thread::sleep(std::time::Duration::from_millis(20));
    let last = Keep::down_to(Level::WARN);
    with_default(tracing_subscriber::registry().with(last.clone()), || {
        let _ = log.watch("192.0.2.7", gate.check("192.0.2.7"));
    });
    let events = [keep.events(), last.events()].concat();
    let suppressed: u64 =
        events.iter().map(|fields| fields.0["suppressed"].parse::<u64>().expect("a number")).sum();
    assert_eq!(suppressed, log.suppressed());
    assert_eq!(suppressed + events.len() as u64, 3 * EACH + 1);
}

#[test]
fn without_a_subscriber_no_event_is_spent() {
    let (gate, keep) = (empty_gate(), Keep::down_to(Level::ERROR));
    let log = DenialLog::new("api", Quota::per_day(3)).expect("in range");
    with_default(tracing_subscriber::registry().with(keep.clone()), || {
        for _ in 0..10 {
            let _ = log.watch("192.0.2.7", gate.check("192.0.2.7"));
        }
    });
    assert_eq!((keep.events().len(), log.suppressed()), (0, 0));
}

#[test]
fn a_denial_that_no_wait_helps_has_no_retry_after() {
    let (gate, keep) = (empty_gate(), Keep::down_to(Level::WARN));
    let log = DenialLog::new("api", Quota::per_day(3)).expect("in range");
    with_default(tracing_subscriber::registry().with(keep.clone()), || {
        assert!(log.watch("a", gate.check_n("a", 2)).is_err());
    });
    assert!(!keep.events()[0].0.contains_key("retry_after_ms"));
}

#[test]
fn a_key_with_control_characters_is_escaped() {
    let keep = Keep::down_to(Level::INFO);
    let forged = "a\n WARN tollgate: denied\x1b[31m";
    let (gate, top) = (empty_gate(), TopKeys::<String>::new(1));
    let log = DenialLog::new("api", Quota::per_day(3)).expect("in range");
    with_default(tracing_subscriber::registry().with(keep.clone()), || {
        let _ = top.watch(forged, log.watch(forged, gate.check_n(forged, 2)));
        log_top(&top, "api", 1);
    });
    let events = keep.events();
    assert_eq!(events.len(), 2);
    for fields in &events {
        assert_eq!(fields.0["key"], r"a\n WARN tollgate: denied\u{1b}[31m");
    }
}

#[test]
fn of_a_long_key_the_first_200_characters_are_logged() {
    let keep = Keep::down_to(Level::INFO);
    let top = TopKeys::<String>::new(2);
    ["é".repeat(201), "é".repeat(200)].iter().for_each(|key| top.note(key));
    with_default(tracing_subscriber::registry().with(keep.clone()), || log_top(&top, "api", 2));
    let mut logged: Vec<_> = keep.events().iter().map(|fields| fields.0["key"].clone()).collect();
    logged.sort();
    assert_eq!(logged, ["é".repeat(200), "é".repeat(200) + "..."]);
}

#[test]
fn the_most_denied_keys_are_logged_in_order() {
    let keep = Keep::down_to(Level::INFO);
    let top: TopKeys<String> = TopKeys::new(10);
    ["a", "b", "b", "c", "c", "c"].iter().for_each(|key| top.note(*key));
    with_default(tracing_subscriber::registry().with(keep.clone()), || log_top(&top, "api", 2));
    let fields: Vec<_> = keep
        .events()
        .iter()
        .map(|fields| ["rank", "key", "denied", "error"].map(|name| fields.0[name].clone()))
        .collect();
    assert_eq!(fields, [["1", "c", "3", "0"], ["2", "b", "2", "0"]]);
}
