#!/usr/bin/env bash
# The ordinary tests on any system and with any compiler: on macOS, on Windows, with the nightly compiler.
# Tests that lack a program are skipped. `ci/test.sh` also installs programs, and runs models and histories.
#
#   ci/check.sh system    minutes from nothing built
set -euo pipefail
cd "$(dirname "$0")/../.."

# Where it is set, tests do not skip what they lack.
unset CI
# Tests of models and histories need flags of their own.
packages=(--workspace --exclude loom-tests --exclude shuttle-tests)
features=(--all-features)
case "$(rustc -vV | sed -n 's/^host: //p')" in
    *windows*)
        # Windows has no `shared-memory`, which the counted program and the benchmarks ask for.
        packages+=(--exclude instructions --exclude tollgate-benches)
        features=(--features tollgate-http/axum,tollgate-paced/http-body,tollgate-redis/cluster,tollgate-redis/http)
        ;;
esac
cargo test --locked "${packages[@]}" "${features[@]}" --tests
cargo test --locked "${packages[@]}" "${features[@]}" --doc
echo "system: the tests passed on $(rustc -vV | sed -n 's/^host: //p'), $(rustc --version)"
