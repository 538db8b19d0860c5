#!/usr/bin/env bash
# Proves the pure steps with z3, plants the mistakes that must be found, and compares the models with
# the Rust. Some minutes on one core; needs Python 3.10 or later, and PyPI for z3-solver.
#
#   ci/prove.sh              all
#   ci/prove.sh gcra grid    these models only
set -euo pipefail
cd "$(dirname "$0")/.."
target="${CARGO_TARGET_DIR:-target}"
venv="$target/proofs-venv"
z3=z3-solver==5.4.0.0
if ! "$venv/bin/python" -c 'import z3' >/dev/null 2>&1; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "$z3"
fi
# With overflow checks, and with assertions: what a model says cannot panic must not.
cargo build -p proofs --locked --quiet
exec "$venv/bin/python" verify/proofs/prove.py --vectors "$target/debug/proofs" "$@"
