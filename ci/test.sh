#!/usr/bin/env bash
# Every test: units, properties, oracles, conformance, doctests, the tool on real logs, models.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --workspace --all-features --locked
ci/loom.sh
