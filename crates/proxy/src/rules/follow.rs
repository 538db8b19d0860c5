//! Keeps the rules up to date with their file.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::MissedTickBehavior;
use tollgate_rules::{ReloadError, RulesFile};

use super::gate::RulesGate;
use crate::log;
use crate::process::signals::HangupSignals;

/// How often the file is looked at.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long a reload waits until its line of the log is written.
const LOG_PATIENCE: Duration = Duration::from_millis(100);
/// So many mistakes of a file are logged; `tollgate check` shows all.
const MISTAKES_LOGGED: usize = 5;

/// A rules file, the rules that it keeps up to date, and the signals that ask for it.
#[derive(Debug)]
pub(crate) struct RulesFollower {
    file: RulesFile,
    gate: Arc<RulesGate>,
    hangups: HangupSignals,
    /// The mistake that was logged last, until the file is right.
    all_mistakes: Option<String>,
}

impl RulesFollower {
    pub(crate) fn new(file: RulesFile, gate: Arc<RulesGate>, hangups: HangupSignals) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self { file, gate, hangups, all_mistakes: None }))
    }

    /// Looks at the file, and says what came of it. A mistake is logged again only if the process was
    /// told to look.
    fn renew(&mut self, is_told: bool) {
        match self.gate.renew(&mut self.file, is_told) {
            Ok(None) => {}
            Ok(Some(carried)) => {
                self.all_mistakes = None;
                log::info(format_args!("rules reloaded: {carried}"));
                for warning in &carried.warnings {
                    log::warn(warning);
                }
                self.gate.warn_of_hosts();
                log::flush(LOG_PATIENCE);
                self.gate.note_reload(true);
            }
            Err(error) => {
                let why = first_mistakes(&error);
                if is_told || self.all_mistakes.as_ref() != Some(&why) {
                    log::error(format_args!("the rules in force stay as they are\n{why}"));
                    self.all_mistakes = Some(why);
                }
                // The reason is in the log before the metric shows the failure.
                log::flush(LOG_PATIENCE);
                self.gate.note_reload(false);
            }
        }
    }
}

/// Looks at the file every second, and at each SIGHUP. Returns only if a look panics; the rules in force
/// then stay as they are.
pub(crate) async fn follow(follower: Arc<Mutex<RulesFollower>>) {
    let mut ticks = tokio::time::interval(POLL_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut follower = follower.lock_owned().await;
    let gate = Arc::clone(&follower.gate);
    loop {
        let is_told = tokio::select! {
            _ = ticks.tick() => false,
            () = follower.hangups.next() => true,
        };
        // The file may be slow to read, and tables are reserved.
        let renewed = tokio::task::spawn_blocking(move || {
            follower.renew(is_told);
            follower
        });
        match renewed.await {
            Ok(its) => follower = its,
            Err(_) => return gate.note_reload(false),
        }
    }
}

/// The first mistakes, each with its line, in a few lines.
fn first_mistakes(error: &ReloadError) -> String {
    let ReloadError::Rules(wrong) = error else { return error.to_string() };
    let (file, errors) = (wrong.file(), wrong.errors());
    let shown = errors.iter().take(MISTAKES_LOGGED);
    let mut text: Vec<String> = shown
        .map(|error| format!("{file}:{}:{}: {}", error.line(), error.column(), error.message()))
        .collect();
    if errors.len() > MISTAKES_LOGGED {
        let more = errors.len() - MISTAKES_LOGGED;
        text.push(format!("and {more} more: `tollgate check {file}` shows all of them"));
    }
    text.join("\n")
}
