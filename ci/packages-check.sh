#!/usr/bin/env bash
# What others build it with: licences and advisories of all dependencies, the least versions that are
# declared, each feature by itself, the oldest compiler that is promised, and what changed for users.
# Tools that are missing are installed with cargo where that is possible.
set -euo pipefail
cd "$(dirname "$0")/.."

skipped=0
# Runs a cargo tool, which it installs if need be.
tool() {
    local name="$1"
    shift
    if ! cargo "$name" --version >/dev/null 2>&1 \
        && ! cargo install --quiet --locked "cargo-$name" >/dev/null 2>&1; then
        echo "packages: SKIPPED: cargo-$name cannot be installed here"
        skipped=$((skipped + 1))
        return 0
    fi
    cargo "$name" "$@"
}

echo '--- licences, sources and duplicate versions'
tool deny --all-features check bans licenses sources
echo '--- known vulnerabilities'
if [ -d "${CARGO_HOME:-$HOME/.cargo}/advisory-db" ] || [ -d "${CARGO_HOME:-$HOME/.cargo}/advisory-dbs" ]; then
    tool deny --all-features check advisories
else
    echo 'packages: SKIPPED: advisories, for there is no copy of the advisory database (cargo deny fetch)'
    skipped=$((skipped + 1))
fi
echo '--- each feature by itself'
tool hack check --locked --workspace --feature-powerset --no-dev-deps

echo '--- the oldest compiler that is promised'
oldest="$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)"
if rustup toolchain list 2>/dev/null | grep -q "^$oldest" \
    || rustup toolchain install --profile minimal "$oldest" >/dev/null 2>&1; then
    CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/msrv" \
        cargo "+$oldest" check --locked --workspace --all-features
else
    echo "packages: SKIPPED: rustup cannot install $oldest"
    skipped=$((skipped + 1))
fi

echo '--- the least versions of direct dependencies'
least="$(mktemp -d)"
trap 'rm -rf "$least"' EXIT
git archive HEAD | tar -x -C "$least"
(
    cd "$least"
    RUSTC_BOOTSTRAP=1 cargo -Zdirect-minimal-versions generate-lockfile
    CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$OLDPWD/target}/least" cargo check --workspace --all-features
)
echo "packages: checked, $skipped skipped"
