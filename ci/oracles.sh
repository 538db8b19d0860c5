#!/usr/bin/env bash
# Decisions of every algorithm compared with its oracle's, drawn by a fast generator, on all cores; before
# that, mistakes that are planted have to be found.
#
#   ci/oracles.sh [DECISIONS] [--seed SEED] [--seconds SECONDS] [--jobs JOBS]    100,000,000 unless said
#   ci/oracles.sh --seed SEED --case NUMBER    one case again, as a difference says
set -euo pipefail
cd "$(dirname "$0")/.."
words=("$@")
[[ "${1:-}" =~ ^[0-9] || " $* " == *' --case '* ]] || words=(100000000 "$@")
cargo test -p oracle-tests --release --locked --quiet
exec cargo run -p oracle-tests --release --locked --quiet -- "${words[@]}"
