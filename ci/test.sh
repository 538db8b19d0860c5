#!/usr/bin/env bash
# Every test: units, properties, oracles, conformance, doctests, the tool on real logs and between
# real clients and servers, models, histories, protocols.
set -euo pipefail
cd "$(dirname "$0")/.."
ci/packages.sh
# Examples are left to the lints: what they show is tested in the documentation.
cargo test --workspace --all-features --locked --lib --bins --tests
cargo test --workspace --all-features --locked --doc
ci/loom.sh
ci/shuttle.sh
ci/leases.sh
