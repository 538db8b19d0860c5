//! Vectors from other limiters' test suites, and from the definitions of the algorithms.
//!
//! `data/conformance/` holds them with their sources. Each is replayed on a bucket without a key
//! and on a keyed one. Every vector is either replayed or listed in [`NOT_YET`].

mod bucket4j;
mod classdojo;
mod folly_envoy;
mod gate;
mod gcra_standard;
mod guava;
mod nginx;
mod sliding;
mod throttled;

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

/// Replays one vector, and panics if an answer differs.
type Replay = fn(&Value);

/// The files to replay, with the function that replays each vector.
const REPLAYED: [(&str, &[(&str, Replay)]); 8] = [
    ("02_throttled_redis_cell", throttled::VECTORS),
    ("04_bucket4j", bucket4j::VECTORS),
    ("05_folly_envoy_token_bucket", folly_envoy::VECTORS),
    ("06_guava_smooth", guava::VECTORS),
    ("10_nginx_limit_req", nginx::VECTORS),
    ("07_sliding_window_counter", sliding::VECTORS),
    ("08_sliding_log_classdojo", classdojo::VECTORS),
    ("11_gcra_rfc2697_derived", gcra_standard::VECTORS),
];

/// Vectors that are not replayed yet: file, vector (`*` for all of a file), and the missing
/// feature.
const NOT_YET: [(&str, &str, &str); 0] = [];

/// The package that builds this is the library or one below it.
fn folder() -> std::path::PathBuf {
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut folders = packages.map(|package| package.join("tests/data/conformance"));
    folders.find(|folder| folder.is_dir()).expect("the vectors are kept with the sources")
}

fn read(file: &str) -> Value {
    let text = std::fs::read_to_string(folder().join(file).with_extension("json"))
        .expect("the vectors are kept with the sources");
    serde_json::from_str(&text).expect("vectors are JSON")
}

/// The vectors of a file by name: its cases, or its steps as one vector and its other notes.
fn vectors(file: &Value) -> Vec<(String, Value)> {
    let named = |case: &Value| {
        let id = case["id"].as_str().expect("a case has an id").to_owned();
        (id, case.clone())
    };
    if let Some(cases) = file["cases"].as_array() {
        return cases.iter().map(named).collect();
    }
    let steps = std::iter::once(("steps".to_owned(), file.clone()));
    steps.chain(file["other"].as_array().into_iter().flatten().map(named)).collect()
}

fn replay_file(name: &str) {
    let replays = REPLAYED.iter().find(|(file, _)| *file == name).expect("a replayed file").1;
    let mut replayed = 0;
    for (id, vector) in vectors(&read(name)) {
        if let Some((_, replay)) = replays.iter().find(|(named, _)| *named == id) {
            replay(&vector);
            replayed += 1;
        }
    }
    assert_eq!(replayed, replays.len(), "a replay names no vector of {name}");
}

#[test]
fn throttled_and_redis_cell_vectors_pass() {
    replay_file("02_throttled_redis_cell");
}

#[test]
fn bucket4j_vectors_pass() {
    replay_file("04_bucket4j");
}

#[test]
fn folly_and_envoy_vectors_pass() {
    replay_file("05_folly_envoy_token_bucket");
}

#[test]
fn guava_vectors_pass() {
    replay_file("06_guava_smooth");
}

#[test]
fn nginx_limit_req_vectors_pass() {
    replay_file("10_nginx_limit_req");
}

#[test]
fn sliding_window_counter_vectors_pass() {
    replay_file("07_sliding_window_counter");
}

#[test]
fn classdojo_rolling_rate_limiter_vectors_pass() {
    replay_file("08_sliding_log_classdojo");
}

#[test]
fn vectors_of_the_standardised_generic_cell_rate_algorithm_pass() {
    replay_file("11_gcra_rfc2697_derived");
}

/// No vector is forgotten, and none is both replayed and listed as not yet.
#[test]
fn every_vector_is_replayed_or_named_as_not_yet() {
    let mut present: BTreeSet<(String, String)> = BTreeSet::new();
    for entry in std::fs::read_dir(folder()).expect("the vectors are kept with the sources") {
        let path = entry.expect("a readable folder").path();
        let file = path.file_stem().expect("a file").to_string_lossy().into_owned();
        if NOT_YET.iter().any(|(named, id, _)| *named == file && *id == "*") {
            present.insert((file, "*".to_owned()));
            continue;
        }
        let ids = vectors(&read(&file)).into_iter();
        present.extend(ids.map(|(id, _)| (file.clone(), id)));
    }
    let replayed = REPLAYED.iter().flat_map(|(file, replays)| {
        replays.iter().map(|(id, _)| ((*file).to_owned(), (*id).to_owned()))
    });
    let excused = NOT_YET.iter().map(|(file, id, _)| ((*file).to_owned(), (*id).to_owned()));
    let mut known: BTreeSet<(String, String)> = BTreeSet::new();
    for vector in replayed.chain(excused) {
        assert!(known.insert(vector.clone()), "{vector:?} is named twice");
    }
    assert_eq!(present, known);
}
