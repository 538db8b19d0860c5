//! A replay as it was asked for: what the options mean together.

use std::path::Path;

use clap::ArgMatches;
use tollgate::{OnFull, Quota};
use tollgate_rules::Rules;

use super::{ReplayArgs, WhenFull};
use crate::algorithm::{Algorithm, Selection};
use crate::charge::Charge;
use crate::format::Format;
use crate::judge::{Options, Setup};
use crate::source::Input;
use crate::study::{GoodList, Questions, Wanted};

/// A limiter is a rule and an algorithm.
pub(crate) type Limiters = Vec<(Quota, Algorithm)>;

/// A replay as it was asked for, with nothing left to doubt.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) inputs: Vec<Input>,
    /// Every rule with every algorithm,
    pub(crate) limiters: Limiters,
    /// but for these.
    pub(crate) left_out: Vec<LeftOut>,
    /// In place of limiters.
    pub(crate) rules: Option<Rules>,
    /// What is to be found out about other limits.
    pub(crate) questions: Option<Questions>,
    pub(crate) charge: Charge,
    pub(crate) format: Format,
    pub(crate) time_field: Option<String>,
    pub(crate) options: Options,
    pub(crate) top: usize,
    pub(crate) json: bool,
    pub(crate) decisions: Option<String>,
    pub(crate) html: Option<String>,
}

/// An algorithm that cannot keep a rule, and was not asked for by name.
#[derive(Debug)]
pub(crate) struct LeftOut {
    pub(crate) rule: Quota,
    pub(crate) algorithm: Algorithm,
    pub(crate) why: String,
}

/// Sub-windows in a period unless told otherwise.
const SUB_WINDOWS_DEFAULT: u32 = 6;
/// Cells that a queue lets pass without delay unless told otherwise.
const IMMEDIATE_DEFAULT_CELLS: u64 = 1;

impl ReplayArgs {
    /// Settles what the options mean together. `matches` tells where they stood.
    pub(crate) fn plan(self, matches: &ArgMatches) -> Result<Plan, String> {
        let (selection, files) = self.selection_and_files(matches)?;
        let mut inputs: Vec<Input> = files.into_iter().map(Input::named).collect();
        if inputs.is_empty() {
            inputs.push(Input::Stdin);
        }
        if inputs.iter().filter(|input| **input == Input::Stdin).count() > 1 {
            return Err("standard input (-) can be read only once".to_owned());
        }
        let questions = self.questions()?;
        let rules = self.rules_file.as_deref().map(read_rules).transpose()?;
        self.overwrites_nothing(&inputs)?;
        if self.capacity == Some(0) {
            return Err("--capacity 0 leaves no room for any key: give at least 1".to_owned());
        }
        let chosen = selection.algorithms();
        let advice = "choose it with --algorithm or --compare";
        if self.sub_windows.is_some() && !chosen.iter().any(|by| by.uses_sub_windows) {
            return Err(format!("--sub-windows is for the algorithm sub-windows alone: {advice}"));
        }
        if self.immediate.is_some() && !chosen.iter().any(|by| by.uses_immediate) {
            return Err(format!("--immediate is for the algorithm leaky-queue alone: {advice}"));
        }
        let options = Options {
            capacity: self.capacity,
            on_full: match self.on_full {
                WhenFull::Evict => OnFull::EvictNearestIdle,
                WhenFull::Deny => OnFull::Deny,
                WhenFull::Admit => OnFull::Admit,
            },
            utc_offset_secs: self.utc_offset,
            sub_windows: self.sub_windows.unwrap_or(SUB_WINDOWS_DEFAULT),
            immediate_cells: self.immediate.unwrap_or(IMMEDIATE_DEFAULT_CELLS),
            verify: self.verify,
        };
        let (limiters, left_out) = limiters(&self.rules, &selection, options)?;
        let several = limiters.len() + rules.as_ref().map_or(0, |rules| rules.rules().len()) > 1;
        let headers =
            |rules: &Rules| rules.required_headers().into_iter().map(str::to_owned).collect();
        Ok(Plan {
            inputs,
            top: self.top.unwrap_or(if several { 5 } else { 10 }),
            limiters,
            left_out,
            charge: Charge { key: self.key, cost: self.cost, headers: rules.as_ref().map(headers) },
            rules,
            questions,
            format: self.format,
            time_field: self.time_field,
            options,
            json: self.json,
            decisions: self.decisions,
            html: self.html,
        })
    }

    /// What is to be found out about limits that were not named.
    fn questions(&self) -> Result<Option<Questions>, String> {
        let rates = self.rates.clone();
        if let Some(rate) = rates.iter().find(|rate| rate.burst_cells() != rate.limit()) {
            let alone = Quota::new(rate.limit(), rate.period());
            return Err(format!("--rate \"{rate}\": the burst is to be found: write {alone}"));
        }
        if !self.suggest && self.html.is_none() {
            return Ok(None);
        }
        let good = self.good.as_deref().map(GoodList::read).transpose();
        Ok(Some(Questions {
            suggest: self.suggest.then_some(Wanted { rates, at_most: self.at_most }),
            grid: self.html.is_some(),
            good: good.map_err(|error| format!("{error:#}"))?,
        }))
    }

    fn overwrites_nothing(&self, inputs: &[Input]) -> Result<(), String> {
        for (option, file) in [("--decisions", &self.decisions), ("--html", &self.html)] {
            let Some(file) = file else { continue };
            if inputs.iter().any(|input| input.is_file(file)) {
                return Err(format!("{option} {file} would overwrite a log to be read"));
            }
            let others = [&self.rules_file, &self.good].into_iter().flatten().cloned();
            if others.map(Input::File).any(|other| other.is_file(file)) {
                return Err(format!("{option} {file} would overwrite a file to be read"));
            }
        }
        Ok(())
    }

    /// `--compare access.log` means `--compare all access.log`: a value that names no algorithm
    /// but a file is the file that stood there.
    fn selection_and_files(
        &self,
        matches: &ArgMatches,
    ) -> Result<(Selection, Vec<String>), String> {
        let mut files = self.files.clone();
        let Some(compare) = &self.compare else {
            return Ok((Selection::Named(vec![self.algorithm]), files));
        };
        match compare.parse() {
            Ok(selection) => Ok((selection, files)),
            Err(_) if compare == "-" || Path::new(compare).exists() => {
                let place = matches.index_of("compare").unwrap_or(0);
                let before = matches
                    .indices_of("files")
                    .map_or(0, |places| places.filter(|at| *at < place).count());
                files.insert(before, compare.clone());
                Ok((Selection::All, files))
            }
            Err(why) => Err(format!("--compare {compare}: {why}, or all (no file has that name)")),
        }
    }
}

/// A rules file, or all that is wrong with it.
fn read_rules(file: &str) -> Result<Rules, String> {
    let text = std::fs::read_to_string(file).map_err(|why| format!("cannot read {file}: {why}"))?;
    Rules::parse(file, &text)
        // What a log would have met is told by limits of this process, wherever they are kept.
        .map(Rules::without_stores)
        .map_err(|wrong| format!("the rules are wrong\n{}", wrong.with_source()))
}

/// Every rule with every algorithm; where all are asked for, with every one that can keep it.
fn limiters(
    rules: &[Quota],
    selection: &Selection,
    options: Options,
) -> Result<(Limiters, Vec<LeftOut>), String> {
    let mut limiters = Vec::new();
    let mut left_out = Vec::new();
    // Whether a rule can be kept does not depend on how many keys there are, nor on when.
    let options = Options { capacity: Some(1), ..options };
    for rule in rules {
        let before = (limiters.len(), left_out.len());
        for algorithm in selection.algorithms() {
            let setup = Setup { quota: *rule, options, origin_unix_nanos: 0 };
            match (algorithm.build)(&setup) {
                Err(why) if *selection == Selection::All => left_out.push(LeftOut {
                    rule: *rule,
                    algorithm: *algorithm,
                    why: format!("{why:#}"),
                }),
                // What was named and cannot be built is an error of the replay.
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
    use clap::{CommandFactory, FromArgMatches};

    use super::super::{Cli, Command};
    use super::*;
    use crate::algorithm::ALGORITHMS;

    fn plan(words: &[&str]) -> Result<Plan, String> {
        let words = ["tollgate", "replay"].iter().chain(words);
        let matches = Cli::command().try_get_matches_from(words).map_err(|e| e.to_string())?;
        let Command::Replay(args) = Cli::from_arg_matches(&matches).unwrap().command else {
            panic!("replay was asked for");
        };
        args.plan(matches.subcommand().unwrap().1)
    }

    fn names(plan: &Plan) -> Vec<&str> {
        plan.inputs.iter().map(Input::name).collect()
    }

    #[test]
    fn every_rule_meets_every_algorithm() {
        let plan =
            plan(&["-r", "1/s", "-r", "2/s", "--compare", "fixed-window,gcra", "f"]).unwrap();
        let limiters: Vec<String> =
            plan.limiters.iter().map(|(rule, by)| format!("{rule} {}", by.name)).collect();
        assert_eq!(limiters, ["1/s fixed-window", "1/s gcra", "2/s fixed-window", "2/s gcra"]);
        assert_eq!(plan.top, 5);
    }

    #[test]
    fn compare_alone_means_all_even_before_a_file() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        for (words, files) in [
            (&["--compare"][..], &["standard input"][..]),
            (&["--compare", "all"], &["standard input"]),
            (&["a", "--compare", file, "b"], &["a", file, "b"]),
            (&["--compare", "-"], &["standard input"]),
            (&["--compare", file], &[file]),
        ] {
            let words = [&["--rule", "1/s"], words].concat();
            let plan = plan(&words).unwrap();
            assert_eq!(plan.limiters.len(), ALGORITHMS.len(), "{words:?}");
            assert_eq!(names(&plan), files, "{words:?}");
        }
        let error = plan(&["--rule", "1/s", "--compare", "no-such"]).unwrap_err();
        assert!(error.contains("`no-such` is not an algorithm"), "{error}");
    }

    #[test]
    fn what_cannot_keep_a_rule_is_left_out_unless_it_was_named() {
        let words = ["-r", "70000/min", "-r", "7/min", "--compare"];
        let all = plan(&words).unwrap();
        assert_eq!(all.limiters.len(), 2 * ALGORITHMS.len() - 1);
        let [left_out] = &all.left_out[..] else { panic!("{:?}", all.left_out) };
        assert_eq!((left_out.rule.limit(), left_out.algorithm.name), (70_000, "sliding-log"));
        assert!(left_out.why.contains("at most 65,536 events"), "{}", left_out.why);
        let named = plan(&[&words[..], &["gcra,sliding-log"]].concat()).unwrap();
        assert_eq!((named.limiters.len(), named.left_out.len()), (4, 0));
        let too_fast = Quota::per_second(2_000_000_000);
        let error = limiters(&[too_fast], &Selection::All, all.options).unwrap_err();
        let why = "no algorithm can keep the rule \"2000000000/s\": the rate is above";
        assert!(error.starts_with(why), "{error}");
    }

    #[test]
    fn sub_windows_are_told_to_the_algorithm_that_has_them() {
        let count = |words: &[&str]| {
            let words = [&["-r", "1/s", "-a", "sub-windows"], words].concat();
            plan(&words).map(|plan| plan.options.sub_windows)
        };
        assert_eq!(count(&[]), Ok(6));
        assert_eq!(count(&["--sub-windows", "256"]), Ok(256));
        for wrong in ["1", "257", "-6", "many"] {
            assert!(count(&["--sub-windows", wrong]).is_err(), "{wrong}");
        }
        let alone = plan(&["-r", "1/s", "--sub-windows", "12"]).unwrap_err();
        assert!(alone.contains("choose it with --algorithm"), "{alone}");
        assert!(plan(&["-r", "1/s", "--compare", "--sub-windows", "12"]).is_ok());
        assert!(
            plan(&["-r", "1/s", "--compare", "gcra,sliding-log", "--sub-windows", "9"]).is_err()
        );
    }

    #[test]
    fn cells_that_pass_at_once_are_told_to_the_queue() {
        let cells = |words: &[&str]| {
            let words = [&["-r", "1/s", "-a", "leaky-queue"], words].concat();
            plan(&words).map(|plan| plan.options.immediate_cells)
        };
        assert_eq!(cells(&[]), Ok(1));
        assert_eq!(cells(&["--immediate", "18446744073709551615"]), Ok(u64::MAX));
        for wrong in ["0", "-1", "18446744073709551616", "all"] {
            assert!(cells(&["--immediate", wrong]).is_err(), "{wrong}");
        }
        let alone = plan(&["-r", "1/s", "--immediate", "3"]).unwrap_err();
        assert!(alone.contains("leaky-queue alone: choose it with --algorithm"), "{alone}");
        assert!(plan(&["-r", "1/s", "--compare", "--immediate", "3"]).is_ok());
        assert!(plan(&["-r", "1/s", "--compare", "gcra,sub-windows", "--immediate", "3"]).is_err());
    }

    #[test]
    fn wrong_options_say_what_to_write() {
        for (words, why) in [
            (&["f"][..], "--rule"),
            (&["--rule", "10 per fortnight", "f"], "unit of time"),
            (&["--rule", "0/s", "f"], "at least 1"),
            (&["--rule", "1/s", "--key", "colour"], "field:NAME"),
            (&["--rule", "1/s", "--cost", "-3"], "whole number"),
            (&["--rule", "1/s", "--algorithm", "magic"], "gcra, fixed-window"),
            (&["--rule", "1/s", "--utc-offset", "2"], "+02:00"),
            (&["--rule", "1/s", "--utc-offset", "-25:00"], "+02:00"),
            (&["--rule", "1/s", "--format", "xml"], "jsonl"),
            (&["--rule", "1/s", "--on-full", "panic"], "evict"),
            (&["--rule", "1/s", "--capacity", "0"], "at least 1"),
            (&["--rule", "1/s", "-", "-"], "only once"),
        ] {
            let error = plan(words).unwrap_err();
            assert!(error.contains(why), "{words:?}: {error}");
        }
    }

    #[test]
    fn offsets_are_read_in_seconds() {
        let offset =
            |text| plan(&["--rule", "1/s", "--utc-offset", text]).unwrap().options.utc_offset_secs;
        assert_eq!((offset("+02:00"), offset("-05:30"), offset("+00:00")), (7_200, -19_800, 0));
    }
}
