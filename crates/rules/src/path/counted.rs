//! The reading of a path by which keys count it.

use super::reading::{Dots, PathReading, dot_count};
use super::{Segments, Spelling, split};

/// The segments of a path as keys count them, so that no spelling of a path has a key of its own.
///
/// All paths of which servers make different ones have one key: what one server leaves out is a part of the path for
/// another one, and the client chooses it.
///
/// - A server that ends a path at `%00` serves `/a` for `/a%00/1`, and one that reads on serves it for `/1%00/../a`.
/// - A server that keeps backslashes serves `/a` for `/1\2/../a`, and another one `/1/a`.
/// - The same server serves `/a` for `/a;\1` if it leaves parameters out.
pub(crate) fn counted(path: &str, spelling: Spelling) -> Segments<'_> {
    let kept = PathReading { dots: Dots::Kept, ..PathReading::of_keys(spelling) }.of(path);
    let has_dots = kept.as_slice().iter().any(|segment| dot_count(segment) > 0);
    match has_dots || path.contains(';') || path.contains("%00") {
        true => counted_odd(path, spelling, has_dots),
        false => kept,
    }
}

#[cold]
fn counted_odd(path: &str, spelling: Spelling, has_dots: bool) -> Segments<'_> {
    let reading = PathReading::of_keys(spelling);
    let before_merging = PathReading { dots: Dots::ResolvedBeforeMerging, ..reading };
    let (segments, others) = (reading.of(path), before_merging.of(path));
    let odd = split(path, spelling, &mut Segments::new(""));
    match odd.is_unclear_for_keys(has_dots) || segments.as_slice() != others.as_slice() {
        true => {
            let mut unclear = Segments::new("");
            unclear.push("%00");
            unclear
        }
        false => segments,
    }
}
