//! A thread that stops for ever beside one that continues.

use std::sync::Arc;

use loom::thread;
use tollgate::algorithm::Algorithm;
use tollgate::internals::{StateMachine, stops_at};

use crate::{Answer, Bucket, Story, answers, some_order_explains};

/// The outcome of a thread that may have stopped.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Doomed {
    /// Whether it has stopped.
    pub has_stopped: bool,
    /// The cells that it had counted by then: those that it was granted, or holds.
    pub counted: u64,
}

/// Runs `body`, which takes `steps` steps and stops for ever before the next.
pub fn doomed<T>(shared: &T, steps: usize, body: impl FnOnce(&T, &mut u64)) -> Doomed {
    let mut counted = 0;
    let has_stopped = stops_at(steps, || body(shared, &mut counted));
    Doomed { has_stopped, counted }
}

/// The same on a thread of its own, beside `survivor`. Returns what `survivor` has returned, too.
pub fn beside_a_doomed<T: Send + Sync + 'static, R>(
    shared: &Arc<T>,
    steps: usize,
    body: impl FnOnce(&T, &mut u64) + 'static,
    survivor: impl FnOnce(&T) -> R,
) -> (Doomed, R) {
    let other = Arc::clone(shared);
    let thread = thread::spawn(move || doomed(&*other, steps, body));
    let survived = survivor(shared);
    (thread.join().unwrap(), survived)
}

impl Story {
    /// As [`play`](Self::play) of two threads, of which the second takes `steps` steps and then stops.
    /// The request in which it stops must have charged nothing.
    pub fn play_beside_a_doomed<A: Algorithm + 'static>(
        &self,
        bucket: &Arc<Bucket<A>>,
        steps: usize,
    ) -> bool {
        let mut oracle = bucket.params().oracle();
        for answer in answers(bucket, self.before) {
            assert!(answer.is_by(&mut oracle), "before the threads: {answer:?}");
        }
        let &[mine, theirs] = self.threads else { unreachable!("a story of two threads") };
        let other = Arc::clone(bucket);
        let thread = thread::spawn(move || {
            let mut given: Vec<Answer> = Vec::new();
            let has_stopped = stops_at(steps, || {
                theirs.iter().for_each(|&request| given.extend(answers(&other, &[request])));
            });
            (has_stopped, given)
        });
        let mine = answers(bucket, mine);
        let (has_stopped, theirs) = thread.join().unwrap();
        let after = answers(bucket, self.after);
        assert!(
            some_order_explains(&oracle, &[&mine, &theirs], &after),
            "no order explains {mine:#?}, and {theirs:#?} of the thread that may have stopped, then {after:#?}"
        );
        has_stopped
    }
}
