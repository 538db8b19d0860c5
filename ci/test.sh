#!/usr/bin/env bash
# Every test: units, properties, oracles, conformance, doctests, the tool on real logs and between
# real clients and servers, models, histories, protocols.
set -euo pipefail
cd "$(dirname "$0")/.."
ci/packages.sh
cargo test --workspace --all-features --locked
ci/loom.sh
ci/shuttle.sh
ci/leases.sh
