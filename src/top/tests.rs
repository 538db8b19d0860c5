//! Notes of several threads, which one thread plays in turns.

use super::*;
use crate::sync::act_as_thread;

fn note(top: &TopKeys<u32>, thread: usize, key: u32, times: usize) {
    act_as_thread(thread);
    (0..times).for_each(|_| top.note(&key));
}

#[test]
fn a_count_includes_what_a_sketch_may_have_forgotten_of_the_key() {
    let top = TopKeys::new(2);
    note(&top, 0, 1, 100);
    // The sketch of the other thread has room for two keys, and pushes this one out.
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
fn a_note_goes_to_the_next_sketch_if_one_is_locked_and_is_dropped_if_two_are() {
    let top = TopKeys::new(2);
    let (first, second) = (top.stripes[0].lock(), top.stripes[1].lock());
    // Sketches 0 and 1 are locked for the first notes; for the second, 1 is locked and 2 is free.
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
