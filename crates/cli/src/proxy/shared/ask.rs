//! What one request asks of stores.

use std::sync::Arc;

use tollgate_http::{GateDecision, GatePermit, Reading, Reason, Report};
use tollgate_redis::{Answer, Origin};
use tollgate_rules::Deferred;

use super::SharedRule;
use crate::proxy::book::Page;
use crate::proxy::metrics::{Decision, Metrics};

/// About one rule: its limits one after the other, until one denies.
#[derive(Debug)]
pub(in crate::proxy) struct Question {
    limits: Arc<SharedRule>,
    page: Arc<Page>,
    key: Box<[u8]>,
    cells: u64,
    is_shadow: bool,
    /// How many limits have answered.
    answered: usize,
}

impl Question {
    pub(in crate::proxy) fn new(
        asked: &Deferred<'_>,
        limits: Arc<SharedRule>,
        page: Arc<Page>,
    ) -> Self {
        let (key, cells) = (asked.key().into(), asked.cells());
        Self { limits, page, key, cells, is_shadow: asked.rule().is_shadow(), answered: 0 }
    }

    /// The next limit's answer, if it can be told at once.
    fn try_next(&self) -> Option<Answer> {
        self.limits.tiers[self.answered].try_check_n(&self.key, self.cells)
    }

    async fn next(&self) -> Answer {
        self.limits.tiers[self.answered].check_n(&self.key, self.cells).await
    }

    fn is_settled(&self) -> bool {
        self.answered == self.limits.tiers.len()
    }
}

/// All that a request asks, and what was said so far. It borrows nothing, so that it can wait.
#[derive(Debug)]
pub(in crate::proxy) struct Inquiry {
    questions: Vec<Question>,
    /// Which of them is asked.
    current: usize,
    admission: GatePermit,
    readings: Vec<Reading>,
    shadow_denials: Vec<Reading>,
    metrics: Arc<Metrics>,
}

impl Inquiry {
    /// For a request that the limits of this process have admitted, and what they said of it.
    ///
    /// Rules in shadow are asked last: were they in force, those before them would decide.
    pub(in crate::proxy) fn new(
        mut questions: Vec<Question>,
        admission: GatePermit,
        reading: Option<Reading>,
        metrics: Arc<Metrics>,
    ) -> Self {
        questions.sort_by_key(|question| question.is_shadow);
        let readings = reading.into_iter().collect();
        let shadow_denials = Vec::new();
        Self { questions, current: 0, admission, readings, shadow_denials, metrics }
    }

    /// Asks as far as answers can be told at once; a ruling, if that was all, or enough.
    pub(in crate::proxy) fn ask_now(&mut self) -> Option<Result<(), Reason>> {
        while let Some(question) = self.questions.get(self.current) {
            if let Err(reason) = self.hear(question.try_next()?) {
                return Some(Err(reason));
            }
        }
        Some(Ok(()))
    }

    /// Asks for what is missing yet.
    pub(in crate::proxy) async fn ask(mut self) -> (GateDecision, Report) {
        while let Some(question) = self.questions.get(self.current) {
            let answer = question.next().await;
            if let Err(reason) = self.hear(answer) {
                return self.rule(Err(reason));
            }
        }
        self.rule(Ok(()))
    }

    /// Ends, with what the request and its client are told.
    pub(in crate::proxy) fn rule(self, ruling: Result<(), Reason>) -> (GateDecision, Report) {
        self.metrics.count_decision(match ruling {
            Ok(()) => Decision::Admitted,
            Err(Reason::Unavailable) => Decision::Unavailable,
            Err(_) => Decision::Denied,
        });
        let mut report = Report::default();
        self.readings.into_iter().for_each(|reading| report.note(reading));
        self.shadow_denials.into_iter().for_each(|reading| report.note_shadow(reading));
        (ruling.map(|()| self.admission), report)
    }

    /// Takes an answer in, and goes on to the next limit or question.
    fn hear(&mut self, answer: Answer) -> Result<(), Reason> {
        let question = &mut self.questions[self.current];
        let counts = &question.page.counts;
        counts.count_origin(answer.origin);
        let policy = question.page.policies[question.answered].clone();
        let reading = Reading::of(policy, &answer.decision);
        question.answered += 1;
        let is_denied = answer.decision.is_err();
        if question.is_settled() && !is_denied {
            counts.count_store_admission();
        }
        if question.is_settled() || is_denied {
            self.current += 1;
        }
        match (is_denied, question.is_shadow) {
            (false, true) => {}
            (false, false) => self.readings.push(reading),
            (true, true) => {
                counts.count_shadow_denial();
                self.shadow_denials.push(reading);
            }
            (true, false) => {
                counts.count_denial();
                self.readings.clear();
                if answer.origin == Origin::Fallback && question.limits.denies_without_store() {
                    return Err(Reason::Unavailable);
                }
                self.readings.push(reading);
                return Err(Reason::OverLimit);
            }
        }
        Ok(())
    }
}
