//! Tasks that run as long as the proxy. If one ends, for example by a panic, it is logged, counted and
//! restarted.

use std::sync::Arc;
use std::time::Duration;

use crate::log;
use crate::metrics::{Metrics, Task};

/// The pause before a task is restarted.
const RESTART_PAUSE: Duration = Duration::from_millis(500);

/// Runs the future that `begin` returns, and a new one whenever it ends.
pub(crate) fn keep<F>(
    task: Task,
    metrics: Arc<Metrics>,
    mut begin: impl FnMut() -> F + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    tokio::spawn(async move {
        loop {
            // The inner task contains the panic.
            let _ = tokio::spawn(begin()).await;
            metrics.count_task_restart(task);
            log::error(format_args!("the task \"{}\" ended and is restarted", task.word()));
            tokio::time::sleep(RESTART_PAUSE).await;
        }
    });
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_is_restarted_and_counted() {
        let metrics = Arc::new(Metrics::new(1));
        let (ran, mut runs) = mpsc::unbounded_channel();
        keep(Task::Rules, Arc::clone(&metrics), move || {
            let ran = ran.clone();
            async move {
                ran.send(()).expect("the test receives");
                panic!("a planted panic");
            }
        });
        for _ in 0..3 {
            runs.recv().await.expect("it runs");
        }
        // The third run may or may not have ended.
        assert!((2..=3).contains(&metrics.task_restarts(Task::Rules)));
        assert_eq!(metrics.task_restarts(Task::Admin), 0);
    }
}
