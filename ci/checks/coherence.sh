#!/usr/bin/env bash
# Counts what a decision costs the caches of other cores: writes to lines that they hold, and lines that
# come from them. Threads decide by turns under valgrind, and their accesses are replayed through a
# coherence protocol for 2, 8 and 64 cores. No larger machine is needed, and none is measured.
#
#   ci/check.sh coherence [TEXT]    for limiters whose names contain the text; prints tables
#   ci/check.sh coherence --keep    for all; writes benches/coherence.md
set -euo pipefail
cd "$(dirname "$0")/../.."
if ! command -v valgrind >/dev/null; then
    echo 'coherence: SKIPPED: valgrind is missing'
    exit 0
fi
cargo build --release --locked --quiet --manifest-path benches/peers/Cargo.toml --bin coherence
program="${CARGO_TARGET_DIR:-benches/peers/target}/release/coherence"
if [ "${1:-}" != --keep ]; then
    exec "$program" "${1:-}"
fi
page=benches/coherence.md
{
    cat <<'HEAD'
# Writes to shared cache lines

A decision's writes to cache lines that another core holds, and in brackets the lines that it had to fetch
from a core that had modified them. Made by `ci/check.sh coherence --keep`.

Threads decide by turns, and their accesses are replayed through a coherence protocol (MSI, caches of
infinite size, one core a thread): 16 decisions of each thread or more, after others that are not counted.
**No machine of more than 2 cores was measured.** The counts say how much of a decision needs another core.
They say nothing about time, and nothing about lost races, since no two threads decide at once. Each limiter
reads its own clock. Tollgate's clock also writes when it compares itself with the system's clock. A decision under
valgrind is so slow that this is some hundredths of a write each.
HEAD
    "$program"
} >"$page.new"
mv "$page.new" "$page"
echo "coherence: wrote $page"
