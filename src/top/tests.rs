//! Several threads' notes, taken in turns by one.

use super::*;
use crate::sync::act_as_thread;

fn note(top: &TopKeys<u32>, thread: usize, key: u32, times: usize) {
    act_as_thread(thread);
    (0..times).for_each(|_| top.note(&key));
}

#[test]
fn what_a_sketch_has_forgotten_of_a_key_is_in_its_count() {
    let top = TopKeys::new(2);
    note(&top, 0, 1, 100);
    // Another thread's sketch has room for two, and forgets it.
    note(&top, 1, 1, 1);
    (2..7).for_each(|key| note(&top, 1, key, 3));
    let all = top.top(usize::MAX);
    let one = all.iter().find(|entry| entry.key == 1).expect("it was noted most");
    // That sketch holds two keys, with counts of 9 and 7: it may have counted this one up to 7.
    assert_eq!((one.denied, one.error), (107, 7));
    assert_eq!(top.noted(), 116);
    for entry in &all[1..] {
        assert!((entry.at_least()..=entry.denied).contains(&3), "{entry:?}");
    }
}

#[test]
fn a_note_goes_to_the_next_sketch_and_then_nowhere() {
    let top = TopKeys::new(2);
    let (first, second) = (top.stripes[0].lock(), top.stripes[1].lock());
    // Sketch 0 and 1 are taken; then 1, and 2 is free.
    note(&top, 0, 7, 5);
    note(&top, 1, 7, 3);
    drop((first, second));
    assert_eq!((top.noted(), top.dropped()), (3, 5));
    note(&top, 8, 7, 1);
    assert_eq!(top.stripes[0].lock().sketch.noted(), 1);
    assert_eq!(top.top(1), [TopKey { key: 7, denied: 4, error: 0 }]);
    top.reset();
    assert_eq!((top.noted(), top.dropped()), (0, 0));
}
