//! A shared limiter whose block another process fills with arbitrary words, between decisions and while they
//! are made. The decisions may be wrong. They end, they do not panic, and no word beyond the block is touched.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use tollgate::algorithm::Algorithm;
use tollgate::internals::Rebase;
use tollgate::limiter::SlotLayout;
use tollgate::shared::Shared;
use tollgate::{
    AnyAlgorithm, Builder, FixedWindow, Gcra, LeakyQueue, Limiter, OnFull, Quota, SlidingCounter,
    SlidingLog, SubWindows,
};

/// Bytes of the header, before the table's words.
const HEADER: u64 = 4096;

/// The bytes from which a case is drawn. After their end, zeros are read.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn long(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }
}

/// Decides while words are overwritten, then attaches the block again.
pub(crate) fn block(path: &Path, data: &[u8]) {
    let mut input = Input(data);
    let quota = Quota::per_second(u64::from(input.byte() % 32) + 1);
    let on_full = [OnFull::EvictNearestIdle, OnFull::Deny, OnFull::Admit];
    let on_full = on_full[usize::from(input.byte() % 3)];
    let capacity = u64::from(input.byte() % 48) + 1;
    // Fixed seeds, so that a case can be repeated.
    let begun = || Limiter::<u64>::builder(quota).capacity(capacity).on_full(on_full).hash_seed(7);
    match input.byte() {
        // Any of the names. The other bytes have the meaning that older seeds gave them.
        252.. => {
            let name = AnyAlgorithm::NAMES[usize::from(input.byte()) % AnyAlgorithm::NAMES.len()];
            let named: AnyAlgorithm = name.parse().expect("one of the names");
            run(|| begun().algorithm(named), path, input);
        }
        byte => match byte % 7 {
            0 => run(|| begun().algorithm(Gcra::new()), path, input),
            1 => run(|| begun().slots(SlotLayout::Compact), path, input),
            2 => run(|| begun().algorithm(FixedWindow::anchored()), path, input),
            3 => run(|| begun().algorithm(SlidingCounter::new()), path, input),
            4 => run(|| begun().algorithm(SubWindows::new()), path, input),
            5 => run(|| begun().algorithm(SlidingLog::new()), path, input),
            _ => run(|| begun().algorithm(LeakyQueue::new()), path, input),
        },
    }
}

/// Runs a case with one algorithm.
fn run<A: Algorithm<Params: Rebase>>(
    begun: impl Fn() -> Builder<u64, A>,
    path: &Path,
    mut input: Input<'_>,
) {
    let _ = std::fs::remove_file(path);
    let shared = Shared::file(path);
    let gate = begun().build_shared(&shared).expect("a limiter");
    let file = OpenOptions::new().read(true).write(true).open(path).expect("its file");
    let words = file.metadata().expect("its length").len() / 8;
    let slots = HEADER / 8;
    while !input.0.is_empty() {
        let (operation, key) = (input.byte(), u64::from(input.byte() % 16));
        match operation % 9 {
            // Any word, or the word of another place, or one near it.
            0 => write(&file, input.long() % words, input.long()),
            1 => write(&file, slots + input.long() % (words - slots), input.long()),
            // A slot's two words, at another slot or their own, with a bit changed in one or in none.
            2 => {
                let [from, other] = [(); 2].map(|()| slots + input.long() % (words - slots - 1));
                let (how, bit) = (input.byte(), input.byte());
                let to = if how % 2 == 0 { from } else { other };
                let flip = 1_u64.rotate_left(bit.into());
                let copy = [read(&file, from), read(&file, from + 1)];
                write(&file, to, copy[0] ^ if how & 2 == 0 { 0 } else { flip });
                write(&file, to + 1, copy[1] ^ if how & 4 == 0 { 0 } else { flip });
            }
            // All words of the table are the same.
            3 => {
                let word = input.long().to_le_bytes();
                let all = word.repeat(usize::try_from(words - slots).expect("a small table"));
                file.write_all_at(&all, HEADER).expect("the table");
            }
            4 => {
                let _ = gate.check_n(&key, input.long());
            }
            5 => {
                let occupancy = gate.occupancy();
                assert!(occupancy.live <= occupancy.slots, "{occupancy:?}");
                let _ = (gate.stats(), gate.peek(&key));
                gate.reset(&key);
            }
            // Words of the whole block change while decisions are made.
            6 => {
                let count = usize::from(input.byte() % 16);
                let changes: Vec<_> =
                    (0..count).map(|_| (input.long() % words, input.long())).collect();
                std::thread::scope(|scope| {
                    let writer = scope.spawn(|| {
                        changes.iter().for_each(|(word, value)| write(&file, *word, *value));
                    });
                    for other in 0..16 {
                        let _ = gate.allow(&(key ^ other));
                    }
                    // The scope ends before its threads have, and what they free then would look like a leak.
                    writer.join().expect("written");
                });
            }
            _ => {
                let _ = gate.check(&key);
            }
        }
    }
    for key in 0..16 {
        let _ = gate.check(&key);
    }
    drop(gate);
    // The header may have been overwritten: it is attached, or it is an error.
    if let Ok(gate) = begun().build_shared(&shared) {
        let _ = gate.check(&7);
    }
}

fn read(file: &File, word: u64) -> u64 {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, word * 8).expect("a word");
    u64::from_ne_bytes(bytes)
}

fn write(file: &File, word: u64, value: u64) {
    file.write_all_at(&value.to_ne_bytes(), word * 8).expect("a word");
}

/// Ends the process if a case takes longer than it may, since a thread that hangs cannot be stopped.
pub(crate) fn within<T>(limit: Duration, case: impl FnOnce() -> T) -> T {
    let (sender, done) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        use std::sync::mpsc::RecvTimeoutError::Timeout;
        if done.recv_timeout(limit) == Err(Timeout) {
            eprintln!("a case takes longer than {limit:?}");
            std::process::abort();
        }
    });
    let result = case();
    drop(sender);
    watch.join().expect("the watch");
    result
}
