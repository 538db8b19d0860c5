//! The command `mutants`: see `HELP`, and the library for how it works.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use mutants::compile::Build;
use mutants::config::Config;
use mutants::find::find;
use mutants::known::Known;
use mutants::mutant::{LeftOut, SourceFile};
use mutants::outcomes::Outcomes;
use mutants::process::children_seconds;
use mutants::record::{Runner, by_place, record};
use mutants::report::Summary;
use mutants::tree::{self, Package};
use mutants::trial::{Candidate, Trial};
use mutants::workers::Workers;

const HELP: &str = "\
mutants [OPTIONS]: tries each change of a package's library, with all of them built at once

  --workspace FOLDER     the workspace (default: .)
  --package NAME         the package whose src is changed (default: tollgate)
  --out FOLDER           where everything is kept (default: target/mutants)
  --known FILE           mutants that may survive, each with its reason
  --exclude PATH         leaves out files that begin with this; may be repeated
  --file PATH            tries only files that begin with this; may be repeated
  --shard K/N            tries each Nth mutant, beginning with number K (0 to N-1)
  --sample PERCENT       tries so many of a hundred, the same each time
  --lib                  builds the unit tests only
  --test NAME            builds the unit tests and this integration test only; may be repeated
  --skip TEST            leaves out tests whose name contains this; may be repeated
  --longest-test SECONDS leaves out slower tests. Run the mutants that survive again without it
  --jobs N               how many run at a time (default: 1)
  --for SECONDS          stops after this time. The next run continues
  --trust-kills          what was killed before other tests were added is not tried again
  --list                 prints the mutants, and tries none

Ends with 0 if each mutant that was tried is killed or listed, 1 if one is not or if not all were tried, 2 if
an option is wrong, 3 if the tests cannot be built or fail without a mutant.
";

/// The switch remembers the places that are reached in so many bits.
const MUTANTS_MAX: u32 = 1 << 16;

#[derive(Debug)]
struct Options {
    workspace: PathBuf,
    package: String,
    out: PathBuf,
    known: Option<PathBuf>,
    exclude: Vec<String>,
    files: Vec<String>,
    shard: (usize, usize),
    sample: f64,
    tests: Vec<String>,
    /// Whether the integration tests are built as well, all of them.
    all_tests: bool,
    skip: Vec<String>,
    longest_test: f64,
    jobs: usize,
    until: Option<Instant>,
    trust_kills: bool,
    list: bool,
}

impl Options {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            workspace: PathBuf::from("."),
            package: "tollgate".to_owned(),
            out: PathBuf::from("target/mutants"),
            known: None,
            exclude: Vec::new(),
            files: Vec::new(),
            shard: (0, 1),
            sample: 100.0,
            tests: vec!["--lib".to_owned()],
            all_tests: true,
            skip: Vec::new(),
            longest_test: f64::MAX,
            jobs: 1,
            until: None,
            trust_kills: false,
            list: false,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--workspace" => options.workspace = value()?.into(),
                "--package" => options.package = value()?,
                "--out" => options.out = value()?.into(),
                "--known" => options.known = Some(value()?.into()),
                "--exclude" => options.exclude.push(value()?),
                "--file" => options.files.push(value()?),
                "--shard" => options.shard = shard(&value()?)?,
                "--sample" => options.sample = number(&word, &value()?)?,
                "--lib" => options.all_tests = false,
                "--test" => {
                    options.all_tests = false;
                    options.tests.extend(["--test".to_owned(), value()?]);
                }
                "--skip" => options.skip.push(value()?),
                "--longest-test" => options.longest_test = number(&word, &value()?)?,
                "--jobs" => options.jobs = number::<usize>(&word, &value()?)?.max(1),
                "--for" => {
                    let seconds = Duration::try_from_secs_f64(number(&word, &value()?)?);
                    let seconds = seconds.map_err(|_| format!("{word} takes seconds"))?;
                    options.until = Instant::now().checked_add(seconds);
                }
                "--trust-kills" => options.trust_kills = true,
                "--list" => options.list = true,
                _ => return Err(format!("{word} is not an option")),
            }
        }
        Ok(options)
    }
}

fn number<T: std::str::FromStr>(option: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{option} takes a number, not {text}"))
}

fn shard(text: &str) -> Result<(usize, usize), String> {
    let parts = text.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
    parts.filter(|(k, n)| k < n).ok_or_else(|| format!("--shard takes 0/50 to 49/50, not {text}"))
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let options = match Options::parse(words.into_iter()) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("mutants: {error}; --help lists the options");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("mutants: {error}");
            ExitCode::from(3)
        }
    }
}

fn run(options: &Options) -> io::Result<bool> {
    let began = Instant::now();
    let workspace = options.workspace.canonicalize()?;
    let package = Package::of(&workspace, &options.package)?;
    let config = Config::of_host()?;
    let (files, mut left_out) = read(&workspace, &package, &config, &options.exclude)?;
    if options.list {
        for mutant in files.iter().flat_map(|file| &file.places).flat_map(|place| &place.mutants) {
            println!("{}", mutant.key);
        }
        return Ok(true);
    }
    let out = options.out.join(&package.name);
    std::fs::create_dir_all(out.join("scratch"))?;
    let out = out.canonicalize()?;
    let known = match &options.known {
        Some(path) => Known::parse(&std::fs::read_to_string(path)?),
        None => Known::default(),
    };
    let sources = tree::revision(&workspace, &package)?;
    let mut tests = options.tests.clone();
    if options.all_tests && workspace.join(&package.folder).join("tests").is_dir() {
        // Unlike `--tests`, this includes those that their package leaves to `verify/limiter/`.
        tests.extend(["--test".to_owned(), "*".to_owned()]);
    }
    let chosen = format!("{:?} {tests:?}", options.exclude);
    let hashes = format!("{sources}-{:016x}", fnv(&chosen));

    // 1. Build. Mutants that the compiler rejected before are left out from the beginning.
    let build = Build {
        workspace: &workspace,
        package: &package,
        copy: out.join("copy"),
        target: out.with_file_name("build"),
        jobs: options.jobs,
        tests: &tests,
        files: &files,
    };
    // By their keys, so that a change of the tests alone writes no file of the library again.
    let rejected_file = out.join("rejected.txt");
    let text = std::fs::read_to_string(&rejected_file).unwrap_or_default();
    let rejected_keys: BTreeSet<&str> = text.lines().collect();
    let keys: BTreeMap<u32, &str> = files
        .iter()
        .flat_map(SourceFile::numbered)
        .flat_map(|(first, place)| (first..).zip(place.mutants.iter().map(|mutant| &*mutant.key)))
        .collect();
    let mut rejected: BTreeSet<u32> = keys
        .iter()
        .filter(|(_, key)| rejected_keys.contains(*key))
        .map(|(number, _)| *number)
        .collect();
    let total: u32 = files.iter().map(SourceFile::count).sum();
    if total >= MUTANTS_MAX {
        return Err(io::Error::other(format!("{total} mutants: the switch holds {MUTANTS_MAX}")));
    }
    eprintln!("mutants: {total} mutants in {} files; building", files.len());
    let programs = build.run(&mut rejected, &mut |rejected| {
        let seconds = began.elapsed().as_secs_f64();
        eprintln!("mutants: after {seconds:.0} s, {} are found not to compile", rejected.len());
        let lines: Vec<String> =
            rejected.iter().map(|number| format!("{}\n", keys[number])).collect();
        std::fs::write(&rejected_file, lines.concat())
    })?;
    left_out.insert(LeftOut::NotCompiled, rejected.len());

    // 2. Record.
    let workers = Workers { jobs: options.jobs, until: options.until };
    let runner = Runner {
        programs: &programs,
        folder: build.copy.join(&package.folder),
        scratch: out.join("scratch"),
    };
    eprintln!("mutants: built after {:.0} s; recording", began.elapsed().as_secs_f64());
    let reached = out.join(format!("reached-{hashes}.txt"));
    let recorded = record(&runner, &reached, &options.skip, options.longest_test, &workers)?;
    for test in &recorded.failing {
        println!("Left out, since it fails without a mutant: {test}");
    }
    let slow = recorded.tests.iter().filter(|test| test.seconds > options.longest_test).count();
    if recorded.stopped > 0 {
        println!(
            "mutants: stopped slow tests: {}. They took longer than the longest test allowed. Places that only they \
             reach count as not reached",
            recorded.stopped
        );
    }
    let seconds: f64 = recorded.tests.iter().map(|test| test.seconds).sum();
    eprintln!(
        "mutants: {} tests take {seconds:.0} s; {slow} of them are left out",
        recorded.tests.len()
    );
    if !recorded.is_complete {
        println!("mutants: stopped while recording; the next run continues");
        return Ok(false);
    }

    // 3. Try.
    let places = by_place(&recorded.tests);
    let candidates = candidates(options, &files, &rejected, &places);
    // A change that some of the tests notice is noticed by all of them.
    let trusts_kills_of = |revision: &str| {
        options.trust_kills || (options.all_tests && revision.starts_with(&sources))
    };
    let mut outcomes = Outcomes::open(&out.join("outcomes.txt"), &hashes, trusts_kills_of)?;
    let trial = Trial {
        runner: &runner,
        tests: &recorded.tests,
        longest_test: options.longest_test,
        workers,
    };
    let unlisted: Vec<_> = candidates
        .iter()
        .filter(|candidate| known.reason(&candidate.mutant.key).is_none())
        .copied()
        .collect();
    trial.run(&unlisted, &mut outcomes)?;

    // 4. Report.
    let summary = Summary {
        candidates: &candidates,
        outcomes: &outcomes,
        known: &known,
        files: &files,
        left_out: &left_out,
    };
    let (counts, _) = summary.counts();
    print!("{}", summary.text());
    println!(
        "mutants: {}: {} tried: {} killed, {} too slow, {} listed, {} survived, {} not reached; {} open; {:.0} min of a processor",
        package.name,
        candidates.len() - counts.open,
        counts.killed,
        counts.timed_out,
        counts.known,
        counts.survived,
        counts.not_reached,
        counts.open,
        children_seconds() / 60.0,
    );
    let is_clean = counts.survived + counts.not_reached + counts.open == 0;
    Ok(is_clean && recorded.failing.is_empty() && summary.stale().is_empty())
}

/// The package's files with their places, and how many mutants were not made.
fn read(
    workspace: &Path,
    package: &Package,
    config: &Config,
    exclude: &[String],
) -> io::Result<(Vec<SourceFile>, BTreeMap<LeftOut, usize>)> {
    let (mut files, mut left_out) = (Vec::new(), BTreeMap::new());
    let mut first = 1;
    for (path, source) in tree::sources(workspace, &package.root, config)? {
        let path = path.to_string_lossy().into_owned();
        if exclude.iter().any(|start| path.starts_with(start)) {
            continue;
        }
        let found = find(&path, &source, config)
            .map_err(|error| io::Error::other(format!("{path}: {error}")))?;
        for (reason, count) in found.left_out {
            *left_out.entry(reason).or_default() += count;
        }
        let file = SourceFile { path, source, places: found.places, first };
        first += file.count();
        files.push(file);
    }
    Ok((files, left_out))
}

fn candidates<'a>(
    options: &Options,
    files: &'a [SourceFile],
    rejected: &BTreeSet<u32>,
    places: &'a std::collections::HashMap<u32, Vec<usize>>,
) -> Vec<Candidate<'a>> {
    let mut candidates = Vec::new();
    for file in files {
        let is_asked = options.files.is_empty()
            || options.files.iter().any(|start| file.path.starts_with(start));
        for (first, place) in file.numbered().filter(|_| is_asked) {
            let tests = places.get(&first).map_or(&[][..], Vec::as_slice);
            for (number, mutant) in (first..).zip(&place.mutants) {
                if !rejected.contains(&number) && is_sampled(&mutant.key, options.sample) {
                    candidates.push(Candidate { number, file: &file.path, mutant, tests });
                }
            }
        }
    }
    let (shard, shards) = options.shard;
    candidates.into_iter().skip(shard).step_by(shards).collect()
}

fn is_sampled(key: &str, percent: f64) -> bool {
    (fnv(key) % 10_000) as f64 / 100.0 < percent
}

/// A hash that stays the same: FNV-1a.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
