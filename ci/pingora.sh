#!/usr/bin/env bash
# Builds and tests the Pingora filter, which is a package of its own: it takes minutes, and cmake,
# which is installed where that may be.
set -euo pipefail
cd "$(dirname "$0")/../integrations/pingora"

if ! command -v cmake >/dev/null; then
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        { apt-get update && apt-get install -y --no-install-recommends cmake; } >/dev/null 2>&1 || true
    fi
    if ! command -v cmake >/dev/null; then
        echo 'pingora: SKIPPED: there is no cmake, and it cannot be installed here'
        exit 0
    fi
fi
if ! cargo fetch --locked --quiet; then
    echo 'pingora: SKIPPED: its dependencies cannot be fetched here'
    exit 0
fi
begin="$SECONDS"
cargo clippy --all-targets --locked -- -D warnings
cargo test --locked
echo "pingora: built and tested in $((SECONDS - begin)) s"
