//! Keeps the rules up to date with their file.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::MissedTickBehavior;
use tollgate_rules::RulesFile;

use super::gate::RulesGate;
use super::mistakes::first_mistakes;
use crate::log;
use crate::process::signals::HangupSignals;

/// How often the file is checked.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long a reload waits until its log message is written.
const LOG_FLUSH_TIMEOUT: Duration = Duration::from_millis(100);

/// A rules file, the gate that enforces it, and the signals that force a reload.
#[derive(Debug)]
pub(crate) struct RulesFollower {
    file: RulesFile,
    gate: Arc<RulesGate>,
    hangups: HangupSignals,
    /// The mistake that was logged last; `None` after a successful reload.
    logged_mistake: Option<String>,
}

impl RulesFollower {
    pub(crate) fn new(
        file: RulesFile,
        gate: Arc<RulesGate>,
        hangups: HangupSignals,
    ) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self { file, gate, hangups, logged_mistake: None }))
    }

    /// Checks the file, and logs the outcome. A mistake that was logged before is logged again only if the
    /// check is forced.
    fn renew(&mut self, is_forced: bool) {
        match self.gate.renew(&mut self.file, is_forced) {
            Ok(None) => {}
            Ok(Some(summary)) => {
                self.logged_mistake = None;
                log::info(format_args!("rules reloaded: {summary}"));
                for warning in &summary.warnings {
                    log::warn(warning);
                }
                self.gate.warn_about_rules();
                log::flush(LOG_FLUSH_TIMEOUT);
                self.gate.note_reload(true);
            }
            Err(error) => {
                let why = first_mistakes(&error);
                if is_forced || self.logged_mistake.as_ref() != Some(&why) {
                    log::error(format_args!("the rules in force stay unchanged\n{why}"));
                    self.logged_mistake = Some(why);
                }
                // The log has the reason before the metric shows the failure.
                log::flush(LOG_FLUSH_TIMEOUT);
                self.gate.note_reload(false);
            }
        }
    }
}

/// Checks the file every second and on each SIGHUP. Returns only if a check panics; the rules in force
/// then stay unchanged.
pub(crate) async fn follow(follower: Arc<Mutex<RulesFollower>>) {
    let mut ticks = tokio::time::interval(POLL_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut follower = follower.lock_owned().await;
    let gate = Arc::clone(&follower.gate);
    loop {
        let is_forced = tokio::select! {
            _ = ticks.tick() => false,
            () = follower.hangups.next() => true,
        };
        // Reading the file and reserving tables may be slow.
        let renewed = tokio::task::spawn_blocking(move || {
            follower.renew(is_forced);
            follower
        });
        match renewed.await {
            Ok(returned) => follower = returned,
            Err(_) => return gate.note_reload(false),
        }
    }
}
