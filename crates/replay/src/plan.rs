//! The options of a replay, and the plan that follows from them.

use std::path::Path;

use tollgate::{OnFull, Quota};
use tollgate_rules::{ReloadError, Rules};

use crate::algorithm::{ALGORITHMS, Algorithm, Selection};
use crate::contender::{Options, Setup};
use crate::log::charge::{Charge, Cost, Key};
use crate::log::format::Format;
use crate::log::lines::Input;
use crate::log::same_file::is_same_file;
use crate::suggest::{AnalysisOptions, KeyList, Percentage, SuggestOptions};

/// The options of a replay: those of `tollgate replay`.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// The logs, oldest first; `-` is standard input. An empty list is standard input too.
    pub files: Vec<String>,
    /// Limits to compare.
    pub rules: Vec<Quota>,
    /// A rules file to enforce in place of `rules`.
    pub rules_file: Option<String>,
    /// Whether to suggest a rate and a burst.
    pub suggest: bool,
    /// Rates to suggest a burst for; none means eight round rates that suit the log.
    pub rates: Vec<Quota>,
    /// The share of well-behaved keys that a suggestion may deny.
    pub at_most: Percentage,
    /// A file of well-behaved keys, one a line; without it they are inferred.
    pub well_behaved: Option<String>,
    /// The HTML page that the caller will write. The replay computes its charts, and checks that the
    /// page overwrites no input.
    pub html: Option<String>,
    /// The fields of a line that name its bucket.
    pub key: Key,
    /// The cells that a request costs.
    pub cost: Cost,
    /// The algorithms that enforce each of `rules`.
    pub algorithms: Selection,
    /// The format of the lines.
    pub format: Format,
    /// The field or column of the time in JSON and CSV; without it, one of the usual names.
    pub time_field: Option<String>,
    /// Sub-windows in a period, for the algorithm sub-windows. The default is 6.
    pub sub_windows: Option<u32>,
    /// Cells that pass without delay, for the algorithm leaky-queue. The default is 1.
    pub immediate_cells: Option<u64>,
    /// The offset from UTC at which the days of aligned windows begin, in seconds.
    pub utc_offset_secs: i32,
    /// How many of the keys denied most are listed. The default is 10, or 5 for each of several
    /// limiters.
    pub top: Option<usize>,
    /// Keys that each limiter has room for. The default is as many as fit in 1 GiB, at most
    /// 1,000,000.
    pub capacity: Option<u64>,
    /// The treatment of a new key when a limiter is full.
    pub on_full: OnFull,
    /// A file for every decision, one JSON object a line.
    pub decisions: Option<String>,
    /// Whether to run the exact reference model beside every limiter.
    pub verify: bool,
}

impl Default for ReplayOptions {
    /// Standard input by client address, one cell a request, GCRA. There is no rule yet.
    fn default() -> Self {
        Self {
            files: Vec::new(),
            rules: Vec::new(),
            rules_file: None,
            suggest: false,
            rates: Vec::new(),
            at_most: Percentage::ONE_PERCENT,
            well_behaved: None,
            html: None,
            key: Key::client_address(),
            cost: Cost::ONE,
            algorithms: Selection::Named(vec![ALGORITHMS[0]]),
            format: Format::Auto,
            time_field: None,
            sub_windows: None,
            immediate_cells: None,
            utc_offset_secs: 0,
            top: None,
            capacity: None,
            on_full: OnFull::EvictNearestIdle,
            decisions: None,
            verify: false,
        }
    }
}

/// A limiter is a rule and an algorithm.
type Limiters = Vec<(Quota, Algorithm)>;

/// A replay whose options fit together.
#[derive(Debug)]
pub struct ReplayPlan {
    pub(crate) inputs: Vec<Input>,
    /// Every rule with every algorithm, except those in `left_out`.
    pub(crate) limiters: Limiters,
    pub(crate) left_out: Vec<LeftOut>,
    /// The rules file that decides in place of `limiters`.
    pub(crate) rules: Option<Rules>,
    pub(crate) analysis: Option<AnalysisOptions>,
    pub(crate) charge: Charge,
    pub(crate) format: Format,
    pub(crate) time_field: Option<String>,
    pub(crate) options: Options,
    pub(crate) top: usize,
    pub(crate) decisions: Option<String>,
}

/// An algorithm that cannot keep a rule and was not named by the caller.
#[derive(Debug)]
pub(crate) struct LeftOut {
    pub(crate) rule: Quota,
    pub(crate) algorithm: Algorithm,
    pub(crate) why: String,
}

const SUB_WINDOWS_DEFAULT: u32 = 6;
const IMMEDIATE_CELLS_DEFAULT: u64 = 1;
/// Keys denied most that are listed for one limiter, and for each of several.
const TOP_DEFAULT: (usize, usize) = (10, 5);

impl ReplayPlan {
    /// Checks the options against each other, and reads the rules file and the list of keys.
    ///
    /// # Errors
    ///
    /// The options contradict each other, or a file is wrong or cannot be read. The message names
    /// the option of `tollgate replay` and says what to write.
    pub fn new(options: ReplayOptions) -> Result<Self, String> {
        let inputs = inputs(&options.files)?;
        let analysis = analysis(&options)?;
        let rules = options.rules_file.as_deref().map(read_rules).transpose()?;
        overwrites_nothing(&options, &inputs)?;
        page_has_a_folder(&options)?;
        let limiter_options = limiter_options(&options)?;
        let (limiters, left_out) = limiters(&options.rules, &options.algorithms, limiter_options)?;
        let contenders = limiters.len() + rules.as_ref().map_or(0, |rules| rules.rules().len());
        let top_default = if contenders > 1 { TOP_DEFAULT.1 } else { TOP_DEFAULT.0 };
        let headers =
            |rules: &Rules| rules.required_headers().into_iter().map(str::to_owned).collect();
        let headers = rules.as_ref().map(headers);
        Ok(Self {
            inputs,
            limiters,
            left_out,
            rules,
            analysis,
            charge: Charge { key: options.key, cost: options.cost, headers },
            format: options.format,
            time_field: options.time_field,
            options: limiter_options,
            top: options.top.unwrap_or(top_default),
            decisions: options.decisions,
        })
    }

    /// The unit of costs in reports: requests if each request costs one cell.
    pub(crate) fn unit(&self) -> &'static str {
        if self.charge.cost == Cost::ONE { "requests" } else { "cells" }
    }
}

fn inputs(files: &[String]) -> Result<Vec<Input>, String> {
    let mut inputs: Vec<Input> = files.iter().cloned().map(Input::named).collect();
    if inputs.is_empty() {
        inputs.push(Input::Stdin);
    }
    if inputs.iter().filter(|input| **input == Input::Stdin).count() > 1 {
        return Err("standard input (-) can be read only once".to_owned());
    }
    Ok(inputs)
}

fn analysis(options: &ReplayOptions) -> Result<Option<AnalysisOptions>, String> {
    let rates = options.rates.clone();
    if let Some(rate) = rates.iter().find(|rate| rate.burst_cells() != rate.limit()) {
        let alone = Quota::new(rate.limit(), rate.period());
        return Err(format!(
            "--rate \"{rate}\" has a burst, which --suggest computes: write \"{alone}\""
        ));
    }
    if !options.suggest && options.html.is_none() {
        return Ok(None);
    }
    let list = |file: &str| KeyList::read(file, &options.key);
    let well_behaved = options.well_behaved.as_deref().map(list).transpose();
    Ok(Some(AnalysisOptions {
        suggest: options.suggest.then_some(SuggestOptions { rates, at_most: options.at_most }),
        grid: options.html.is_some(),
        well_behaved: well_behaved.map_err(|error| format!("{error:#}"))?,
    }))
}

/// Checks that the page can have its file, which is written after the logs are read.
fn page_has_a_folder(options: &ReplayOptions) -> Result<(), String> {
    let Some(page) = &options.html else { return Ok(()) };
    let folder = folder_of(Path::new(page));
    match folder.is_dir() {
        true => Ok(()),
        false => Err(format!("cannot write {page}: there is no folder {}", folder.display())),
    }
}

fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn overwrites_nothing(options: &ReplayOptions, inputs: &[Input]) -> Result<(), String> {
    for (option, file) in [("--decisions", &options.decisions), ("--html", &options.html)] {
        let Some(file) = file else { continue };
        if inputs.iter().any(|input| input.is_file(file)) {
            return Err(format!("{option} {file} would overwrite a log to be read"));
        }
        let others = [&options.rules_file, &options.well_behaved].into_iter().flatten().cloned();
        if others.map(Input::File).any(|other| other.is_file(file)) {
            return Err(format!("{option} {file} would overwrite a file to be read"));
        }
    }
    match (&options.decisions, &options.html) {
        (Some(decisions), Some(html)) if is_same_output(decisions, html) => {
            Err(format!("--html {html} would overwrite the file of --decisions"))
        }
        _ => Ok(()),
    }
}

/// Whether both names lead to the same file, which may not exist yet. A device can be written twice.
fn is_same_output(one: &str, other: &str) -> bool {
    let resolved = |name: &str| {
        std::fs::canonicalize(name).ok().or_else(|| {
            let path = Path::new(name);
            let folder = std::fs::canonicalize(folder_of(path));
            Some(folder.ok()?.join(path.file_name()?))
        })
    };
    let is_same = || resolved(one).zip(resolved(other)).is_some_and(|(one, other)| one == other);
    let is_device = std::fs::metadata(one).is_ok_and(|metadata| !metadata.is_file());
    !is_device && (is_same_file(one, other) || is_same())
}

fn limiter_options(options: &ReplayOptions) -> Result<Options, String> {
    if options.capacity == Some(0) {
        return Err("--capacity 0 leaves no room for any key: give at least 1".to_owned());
    }
    let chosen = options.algorithms.algorithms();
    let advice = "choose it with --algorithm or --compare";
    if options.sub_windows.is_some() && !chosen.iter().any(|by| by.uses_sub_windows) {
        return Err(format!("--sub-windows is for the algorithm sub-windows alone: {advice}"));
    }
    if options.immediate_cells.is_some() && !chosen.iter().any(|by| by.uses_immediate) {
        return Err(format!("--immediate is for the algorithm leaky-queue alone: {advice}"));
    }
    Ok(Options {
        capacity: options.capacity,
        on_full: options.on_full,
        utc_offset_secs: options.utc_offset_secs,
        sub_windows: options.sub_windows.unwrap_or(SUB_WINDOWS_DEFAULT),
        immediate_cells: options.immediate_cells.unwrap_or(IMMEDIATE_CELLS_DEFAULT),
        verify: options.verify,
    })
}

/// Reads a rules file. The error lists every mistake in it, without its line, which may have the password of a store.
fn read_rules(file: &str) -> Result<Rules, String> {
    // A replay runs in one process, so limits in a store are enforced in memory.
    Rules::read(file).map(Rules::without_stores).map_err(|error| match error {
        ReloadError::Rules(errors) => {
            format!(
                "the rules file has mistakes\n{errors}\n`tollgate check {file}` shows the lines"
            )
        }
        unreadable => unreadable.to_string(),
    })
}

/// Pairs each rule with each algorithm. With [`Selection::All`], an algorithm that cannot keep a
/// rule is left out.
fn limiters(
    rules: &[Quota],
    selection: &Selection,
    options: Options,
) -> Result<(Limiters, Vec<LeftOut>), String> {
    let mut limiters = Vec::new();
    let mut left_out = Vec::new();
    // Whether an algorithm can keep a rule depends neither on the number of keys nor on the time.
    let options = Options { capacity: Some(1), ..options };
    for rule in rules {
        let before = (limiters.len(), left_out.len());
        for algorithm in selection.algorithms() {
            let setup = Setup { quota: *rule, options, origin_unix_nanos: 0 };
            match algorithm.build_bare(&setup) {
                Err(why) if *selection == Selection::All => left_out.push(LeftOut {
                    rule: *rule,
                    algorithm: *algorithm,
                    why: format!("{why:#}"),
                }),
                // An algorithm that was named and cannot keep the rule is an error when the replay starts.
                Ok(_) | Err(_) => limiters.push((*rule, *algorithm)),
            }
        }
        if limiters.len() == before.0 {
            let why = left_out.get(before.1).map_or("", |first| &first.why);
            return Err(format!("no algorithm can keep the rule \"{rule}\": {why}"));
        }
    }
    Ok((limiters, left_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rules: &[&str], algorithms: &str) -> Result<ReplayPlan, String> {
        plan_with(rules, algorithms, |_| {})
    }

    fn plan_with(
        rules: &[&str],
        algorithms: &str,
        change: impl FnOnce(&mut ReplayOptions),
    ) -> Result<ReplayPlan, String> {
        let mut options = ReplayOptions {
            rules: rules.iter().map(|rule| rule.parse().unwrap()).collect(),
            algorithms: algorithms.parse().unwrap(),
            ..ReplayOptions::default()
        };
        change(&mut options);
        ReplayPlan::new(options)
    }

    #[test]
    fn every_rule_is_paired_with_every_algorithm() {
        let plan = plan(&["1/s", "2/s"], "fixed-window,gcra").unwrap();
        let limiters: Vec<String> =
            plan.limiters.iter().map(|(rule, by)| format!("{rule} {}", by.name)).collect();
        assert_eq!(limiters, ["1/s fixed-window", "1/s gcra", "2/s fixed-window", "2/s gcra"]);
        assert_eq!(plan.top, 5);
    }

    #[test]
    fn an_algorithm_that_cannot_keep_a_rule_is_left_out_unless_it_was_named() {
        let rules = ["70000/min", "7/min"];
        let all = plan(&rules, "all").unwrap();
        assert_eq!(all.limiters.len(), 2 * ALGORITHMS.len() - 1);
        let [left_out] = &all.left_out[..] else { panic!("{:?}", all.left_out) };
        assert_eq!((left_out.rule.limit(), left_out.algorithm.name), (70_000, "sliding-log"));
        assert!(left_out.why.contains("at most 65,536 events"), "{}", left_out.why);
        let named = plan(&rules, "gcra,sliding-log").unwrap();
        assert_eq!((named.limiters.len(), named.left_out.len()), (4, 0));
        let too_fast = Quota::per_second(2_000_000_000);
        let error = limiters(&[too_fast], &Selection::All, all.options).unwrap_err();
        let why = "no algorithm can keep the rule \"2000000000/s\": the rate is above";
        assert!(error.starts_with(why), "{error}");
    }

    #[test]
    fn sub_windows_are_for_their_algorithm_alone() {
        let with = |algorithms: &str, count| {
            plan_with(&["1/s"], algorithms, |options| options.sub_windows = count)
                .map(|plan| plan.options.sub_windows)
        };
        assert_eq!(with("sub-windows", None), Ok(6));
        assert_eq!(with("sub-windows", Some(256)), Ok(256));
        assert_eq!(with("all", Some(12)), Ok(12));
        for others in ["gcra", "gcra,sliding-log"] {
            let error = with(others, Some(12)).unwrap_err();
            assert!(error.contains("choose it with --algorithm"), "{error}");
        }
    }

    #[test]
    fn immediate_cells_are_for_the_queue_alone() {
        let with = |algorithms: &str, cells| {
            plan_with(&["1/s"], algorithms, |options| options.immediate_cells = cells)
                .map(|plan| plan.options.immediate_cells)
        };
        assert_eq!(with("leaky-queue", None), Ok(1));
        assert_eq!(with("leaky-queue", Some(u64::MAX)), Ok(u64::MAX));
        assert_eq!(with("all", Some(3)), Ok(3));
        for others in ["gcra", "gcra,sub-windows"] {
            let error = with(others, Some(3)).unwrap_err();
            assert!(error.contains("leaky-queue alone: choose it with --algorithm"), "{error}");
        }
    }

    #[test]
    fn options_that_contradict_each_other_are_an_error_that_says_what_to_write() {
        let twice = vec!["-".to_owned(), "-".to_owned()];
        let error = plan_with(&["1/s"], "gcra", |options| options.files = twice).unwrap_err();
        assert!(error.contains("only once"), "{error}");
        let error = plan_with(&["1/s"], "gcra", |options| options.capacity = Some(0)).unwrap_err();
        assert!(error.contains("at least 1"), "{error}");
    }

    #[test]
    fn no_file_is_standard_input() {
        let plan = plan(&["1/s"], "all").unwrap();
        let names: Vec<_> = plan.inputs.iter().map(Input::name).collect();
        assert_eq!((names, plan.limiters.len()), (vec!["standard input"], ALGORITHMS.len()));
    }
}
