//! A process that is stopped at a random instant holds up no other, and decides on when it continues.

use std::time::Duration;

use crate::workers::{Task, Worker, add, wait_until};
use crate::{Folder, KINDS, quota, words};

const KEYS: u64 = 900;
const STOPS: u64 = 25;

#[test]
fn processes_stopped_at_random_instants_hold_up_no_other_and_the_totals_are_exact() {
    let mut random = words(u64::from(std::process::id()) << 9 | 1);
    for kind in [0, 1, 7] {
        // A log keeps a word for each cell.
        let limit = if kind == 7 { 100 } else { 10_000 };
        let folder = Folder::new();
        let gate = KINDS[kind].build(&folder.shared(), quota(limit)).expect("created");
        let task = Task::in_turn(kind, limit, KEYS, u64::MAX);
        let workers = [(); 3].map(|()| Worker::start(&folder.path(), task));
        let mut granted = vec![0; usize::try_from(KEYS).expect("few")];
        for stop in 0..STOPS {
            // The first stops are while the workers attach and claim all slots.
            std::thread::sleep(Duration::from_micros(
                (random.next().expect("endless") >> 20) % 2_000,
            ));
            let (stopped, others) = match stop % 3 {
                0 => (&workers[0], [&workers[1], &workers[2]]),
                1 => (&workers[1], [&workers[0], &workers[2]]),
                _ => (&workers[2], [&workers[0], &workers[1]]),
            };
            stopped.stop();
            let before = stopped.tally.asked();
            for other in others {
                let asked = other.tally.asked();
                wait_until("another process decides", || other.tally.asked() > asked + 1_000);
            }
            // This process decides too, about every key: the stopped one may be charging any of them.
            for (key, granted) in (0..).zip(&mut granted) {
                *granted += u64::from(gate.check(&key).is_ok());
            }
            assert_eq!(stopped.tally.asked(), before, "it stands still");
            stopped.resume();
            wait_until("it decides on", || stopped.tally.asked() > before);
        }
        workers.iter().for_each(|worker| worker.tally.end());
        for worker in workers {
            add(&mut granted, &worker.granted());
        }
        for (key, granted) in (0..).zip(&mut granted) {
            while gate.check(&key).is_ok() {
                *granted += 1;
            }
        }
        let exact = granted.iter().all(|cells| *cells == limit);
        assert!(exact, "{:?}: {limit} cells each, and not {granted:?}", KINDS[kind]);
        assert_eq!(gate.len() as u64, KEYS, "{:?}", KINDS[kind]);
    }
}
