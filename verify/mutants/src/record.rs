//! Runs each test alone, without a mutant, and notes which places it reaches and how long it takes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use crate::compile::TestProgram;
use crate::process::{self, Ended};
use crate::workers::Workers;

/// A test of the slowest kind, recorded on a busy machine, ends within this.
const LIMIT: Duration = Duration::from_secs(1200);

/// A test that is not left out for its time may take so many times as long while its places are recorded on a busy
/// machine, and a few seconds in any case.
const SLOWDOWN: f64 = 10.0;
const SLOWDOWN_MIN: Duration = Duration::from_secs(5);

/// A test of a program.
#[derive(Debug, Clone)]
pub struct Test {
    /// Which of the programs.
    pub program: usize,
    /// As the program lists it.
    pub name: String,
    /// How long it took, alone.
    pub seconds: f64,
    /// The places that it reaches, each by the number of its first mutant.
    pub reaches: BTreeSet<u32>,
}

/// How tests are run.
#[derive(Debug)]
pub struct Runner<'a> {
    /// The programs.
    pub programs: &'a [TestProgram],
    /// Where they run: the package's folder in the copy.
    pub folder: PathBuf,
    /// A folder for what a run writes.
    pub scratch: PathBuf,
}

impl Runner<'_> {
    /// Runs some tests of a program, with `mutant` as the switch. `worker` names files of its own.
    pub fn run(
        &self,
        program: usize,
        tests: &[&str],
        mutant: &str,
        worker: usize,
        limit: Duration,
    ) -> io::Result<(Ended, Duration)> {
        // Emptied each time, so that a test that was killed leaves nothing to the next one.
        let temporary = self.scratch.join(format!("tmp-{worker}"));
        let _ = std::fs::remove_dir_all(&temporary);
        std::fs::create_dir_all(&temporary)?;
        let mut command = process::limited(&self.programs[program].path);
        command.args(["--exact", "--test-threads=1"]).args(tests).current_dir(&self.folder);
        command.env("TOLLGATE_MUTANT", mutant).env("TMPDIR", temporary);
        command.env("RUST_BACKTRACE", "0").env("CARGO_MANIFEST_DIR", &self.folder);
        command
            .env("PROPTEST_MAX_SHRINK_ITERS", "0")
            .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true");
        process::run(&mut command, &self.output(worker), limit)
    }

    /// Where the latest run of a worker printed to.
    pub fn output(&self, worker: usize) -> PathBuf {
        self.scratch.join(format!("output-{worker}.txt"))
    }

    fn list(&self, program: usize) -> io::Result<Vec<String>> {
        let mut command = Command::new(&self.programs[program].path);
        let output =
            command.args(["--list", "--format", "terse"]).current_dir(&self.folder).output()?;
        let lines = String::from_utf8_lossy(&output.stdout);
        Ok(lines
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .map(str::to_owned)
            .collect())
    }
}

/// The tests, those that were left out because they fail without a mutant, and whether all were recorded.
#[derive(Debug, Default)]
pub struct Recorded {
    /// Those that pass.
    pub tests: Vec<Test>,
    /// The names of those that fail, twice in a row.
    pub failing: Vec<String>,
    /// How many were stopped because they take longer than the longest test. The next run records them if its
    /// longest test is longer.
    pub stopped: usize,
    /// Whether the time was enough for all.
    pub is_complete: bool,
}

/// Records what is not in `file` yet, which grows by a line for each test. A test of which it is clear that it takes
/// longer than `longest_test` seconds is stopped.
pub fn record(
    runner: &Runner<'_>,
    file: &Path,
    skip: &[String],
    longest_test: f64,
    workers: &Workers,
) -> io::Result<Recorded> {
    let mut lines = BTreeMap::new();
    for line in std::fs::read_to_string(file).unwrap_or_default().lines() {
        if let Some((name, rest)) = line.split_once('\t') {
            lines.insert(name.to_owned(), rest.to_owned());
        }
    }
    let mut all = Vec::new();
    for program in 0..runner.programs.len() {
        for name in runner.list(program)? {
            if !skip.iter().any(|part| name.contains(part)) {
                all.push((program, name));
            }
        }
    }
    let title =
        |(program, name): &(usize, String)| format!("{}::{name}", runner.programs[*program].name);
    let open: Vec<_> = all.iter().filter(|test| !lines.contains_key(&title(test))).collect();
    let state = Mutex::new((File::options().create(true).append(true).open(file)?, lines));
    let limit = Duration::try_from_secs_f64(longest_test * SLOWDOWN).unwrap_or(LIMIT);
    let limit = limit.max(SLOWDOWN_MIN).min(LIMIT);
    let is_complete = workers.each(open.len(), |worker, index| {
        let (program, name) = open[index];
        let Some(line) = record_one(runner, *program, name, worker, limit)? else { return Ok(()) };
        let title = title(open[index]);
        let (file, lines) = &mut *state.lock().expect("no worker panics");
        file.write_all(format!("{title}\t{line}\n").as_bytes())?;
        lines.insert(title, line);
        Ok(())
    })?;
    let (_, lines) = state.into_inner().expect("no worker panics");
    let mut recorded = Recorded { is_complete, ..Recorded::default() };
    for test in all {
        let Some(line) = lines.get(&title(&test)) else {
            recorded.stopped += usize::from(is_complete);
            continue;
        };
        match line
            .split_once('\t')
            .and_then(|(seconds, places)| Some((seconds.parse().ok()?, places)))
        {
            Some((seconds, places)) => recorded.tests.push(Test {
                program: test.0,
                name: test.1,
                seconds,
                reaches: places.split(' ').filter_map(|place| place.parse().ok()).collect(),
            }),
            None => recorded.failing.push(title(&test)),
        }
    }
    recorded.tests.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    Ok(recorded)
}

/// The line of a test: its seconds and the places, or that it fails. One that fails is asked once more. `None`: it was
/// stopped at the limit.
fn record_one(
    runner: &Runner<'_>,
    program: usize,
    name: &str,
    worker: usize,
    limit: Duration,
) -> io::Result<Option<String>> {
    let places = runner.scratch.join(format!("places-{worker}.txt"));
    let switch = format!("record:{}", places.display());
    for _ in 0..2 {
        let _ = std::fs::remove_file(&places);
        match runner.run(program, &[name], &switch, worker, limit)?.0 {
            Ended::Well => {}
            Ended::Badly => continue,
            Ended::TooLate => return Ok(None),
        }
        let reached = std::fs::read_to_string(&places).unwrap_or_default();
        let reached: BTreeSet<u32> = reached.lines().filter_map(|line| line.parse().ok()).collect();
        // Recording takes time, so the time is that of a run with all switches off.
        let (ended, took) = runner.run(program, &[name], "0", worker, LIMIT)?;
        if ended == Ended::Well {
            let places: Vec<_> = reached.iter().map(u32::to_string).collect();
            return Ok(Some(format!("{:.4}\t{}", took.as_secs_f64(), places.join(" "))));
        }
    }
    Ok(Some("fails".to_owned()))
}

/// For each place, by the number of its first mutant, the tests that reach it, the fastest first.
pub fn by_place(tests: &[Test]) -> HashMap<u32, Vec<usize>> {
    let mut places: HashMap<u32, Vec<usize>> = HashMap::new();
    for (index, test) in tests.iter().enumerate() {
        for place in &test.reaches {
            places.entry(*place).or_default().push(index);
        }
    }
    places
}
