//! Runs the built `tollgate replay` and reads its output.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

/// A log among the repository's test data.
pub(crate) fn data(name: &str) -> String {
    format!("{}/../../tests/data/{name}", env!("CARGO_MANIFEST_DIR"))
}

pub(crate) const NASA: &str = "nasa_19950801.clf.log.gz";
pub(crate) const HACKERS: &str = "hackers-access.log.gz";
pub(crate) const ELASTIC: &str = "elastic_apache.log.gz";
pub(crate) const AZURE_CODE: &str = "azure_llm_code.csv.gz";
pub(crate) const AZURE_CONV: &str = "azure_llm_conv.csv.gz";

/// Exit code and output of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs `tollgate replay` with these arguments and this standard input.
pub(crate) fn replay_with(words: &[&str], input: &[u8]) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .arg("replay")
        .args(words)
        .env_remove("COLUMNS")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    let input = input.to_vec();
    // The tool may exit before it has read everything, so a broken pipe is no failure.
    let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("the binary ends");
    feeder.join().expect("the feeder ends");
    let ran = Ran {
        code: output.status.code().expect("no signal ended it"),
        out: String::from_utf8(output.stdout).expect("it writes UTF-8"),
        err: String::from_utf8(output.stderr).expect("it writes UTF-8"),
    };
    assert!(!ran.err.contains("panicked"), "{ran:?}");
    ran
}

/// Runs it without input.
pub(crate) fn replay(words: &[&str]) -> Ran {
    replay_with(words, b"")
}

/// Runs it with `--json`, and expects success.
pub(crate) fn json_with(words: &[&str], input: &[u8]) -> Value {
    let ran = replay_with(&[words, &["--json"]].concat(), input);
    assert_eq!(ran.code, 0, "{ran:?}");
    serde_json::from_str(&ran.out).expect("one JSON object")
}

/// The same without input.
pub(crate) fn json(words: &[&str]) -> Value {
    json_with(words, b"")
}

/// A file with this content in the temporary folder of the build.
pub(crate) fn scratch(name: &str, content: &[u8]) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).expect("the place for scratch files is writable");
    path.to_str().expect("its name is UTF-8").to_owned()
}

/// The content of a packed file.
pub(crate) fn unpacked(name: &str) -> Vec<u8> {
    let file = std::fs::File::open(data(name)).expect("the test data is there");
    let mut text = Vec::new();
    let mut decoder = flate2::read::MultiGzDecoder::new(file);
    std::io::Read::read_to_end(&mut decoder, &mut text).expect("the test data is whole");
    text
}
