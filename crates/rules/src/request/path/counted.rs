//! The reading of a path by which keys count it.

use super::reading::{Dots, Params, PathReading, dot_count};
use super::{Segments, Spelling, split};

/// Adds the segments of a path as keys count them, so that no spelling of a path has a key of its own.
///
/// All paths that servers read in different ways have one key. A client chooses the text that one server leaves out
/// and another one reads, so each choice would be a new key.
///
/// - A server that ends a path at `%00` serves `/a` for `/a%00/1`, and one that reads on serves it for `/1%00/../a`.
/// - A server that keeps backslashes serves `/a` for `/1\2/../a`, and another one `/1/a`.
/// - The same server serves `/a` for `/a;\1` if it leaves parameters out, and so does one that replaces backslashes
///   afterwards.
pub(crate) fn split_for_keys<'p>(path: &'p str, spelling: Spelling, segments: &mut Segments<'p>) {
    let reading = PathReading::of_keys(spelling);
    let drops_params = reading.params == Params::Dropped && path.contains(';');
    let params = if drops_params { Params::Dropped } else { Params::Kept };
    PathReading { params, dots: Dots::Kept, ..reading }.split(path, segments);
    let has_dots = segments.as_slice().iter().any(|segment| dot_count(segment) > 0);
    if has_dots || drops_params || path.contains("%00") {
        *segments = split_odd(path, spelling, has_dots);
    }
}

#[cold]
fn split_odd(path: &str, spelling: Spelling, has_dots: bool) -> Segments<'_> {
    let reading = PathReading::of_keys(spelling);
    let before_merging = PathReading { dots: Dots::ResolvedBeforeMerging, ..reading };
    let (segments, others) = (reading.of(path), before_merging.of(path));
    let odd = split(path, spelling, &mut Segments::new(""));
    if !odd.is_unclear_for_keys(has_dots) && segments.as_slice() == others.as_slice() {
        return segments;
    }
    let mut unclear = Segments::new("");
    unclear.push("%00");
    unclear
}
