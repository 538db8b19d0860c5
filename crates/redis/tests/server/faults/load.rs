//! Tasks that send requests almost without a pause, and a record of what was granted when.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::spans::Granted;
use super::strategy::Client;

const TASKS_EACH: u32 = 4;

/// Tasks that send requests until they are ended.
pub(crate) struct Load {
    pub(crate) began: Instant,
    over: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Vec<Granted>>>,
}

impl Load {
    /// Clients that ask in rounds switch to a new key after this time.
    pub(crate) fn start(runtime: &Runtime, clients: &[Client], round: Duration) -> Self {
        let (over, began) = (Arc::new(AtomicBool::new(false)), Instant::now());
        let mut tasks = Vec::new();
        for client in clients {
            for _ in 0..TASKS_EACH {
                let (client, over) = (client.clone(), Arc::clone(&over));
                tasks.push(runtime.spawn(async move {
                    let micros = || u64::try_from(began.elapsed().as_micros()).expect("short");
                    let mut granted = Vec::new();
                    while !over.load(SeqCst) {
                        let asked = micros();
                        let round = match client.asks_in_rounds() {
                            true => asked / u64::try_from(round.as_micros()).expect("short"),
                            false => 0,
                        };
                        if client.is_granted(round).await {
                            granted.push(Granted { round, asked, answered: micros() });
                        }
                        tokio::time::sleep(Duration::from_micros(500)).await;
                    }
                    granted
                }));
            }
        }
        Self { began, over, tasks }
    }

    /// Ends the tasks. Returns everything that was granted.
    pub(crate) fn end(self, runtime: &Runtime) -> Vec<Granted> {
        self.over.store(true, SeqCst);
        runtime.block_on(async {
            let mut granted = Vec::new();
            for task in self.tasks {
                granted.extend(task.await.expect("no panic"));
            }
            granted
        })
    }
}
