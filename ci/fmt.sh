#!/usr/bin/env bash
# Formatting, everywhere.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo fmt --all --check
(cd fuzz && cargo fmt --check)
(cd verify/states && cargo fmt --check)
(cd benches/peers && cargo fmt --check)
(cd integrations/pingora && cargo fmt --check)
