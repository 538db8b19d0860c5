#!/usr/bin/env bash
# Checks what other projects build: licences and advisories of all dependencies, each feature by itself, the
# oldest promised compiler, the least declared versions, changes for users since the last release, and
# documentation without warnings.
#
#   ci/check.sh packages             all
#   ci/check.sh packages NAME ...    of: licences advisories features oldest least changes documentation
#
# cargo builds missing tools below the target folder. A part that cannot run here says SKIPPED and why, and
# is counted.
set -euo pipefail
cd "$(dirname "$0")/../.."

target="${CARGO_TARGET_DIR:-$PWD/target}"
export PATH="$PATH:$target/tools/bin"
published=(tollgate tollgate-rules tollgate-http tollgate-client tollgate-observe tollgate-paced tollgate-redis tollgate-replay tollgate-proxy tollgate-cli)
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
skipped=0
done_count=0

skip() {
    echo "packages: SKIPPED: $1"
    skipped=$((skipped + 1))
    return 1
}

# Succeeds if cargo has a tool, and installs it if need be.
tool() {
    cargo "$1" --version >/dev/null 2>&1 \
        || cargo install --quiet --locked --root "$target/tools" "cargo-$1" \
        || skip "cargo-$1 cannot be installed here"
}

licences() {
    tool deny || return 0
    cargo deny --workspace --all-features --log-level error check bans licenses sources
}

advisories() {
    tool deny || return 0
    if ! cargo deny --workspace fetch db >"$work/fetch.txt" 2>&1; then
        skip "advisories, for their database cannot be fetched here" || return 0
    fi
    cargo deny --workspace --all-features --log-level error check --disable-fetch advisories
}

# The root is built by itself: the default members, which cargo builds with it, use all of its features.
features() {
    cargo check --locked --package tollgate --lib --no-default-features
    cargo check --locked --package tollgate --lib
    tool hack || return 0
    cargo hack check --locked --workspace --ignore-private --exclude tollgate --feature-powerset
}

oldest() {
    local version
    version="$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)"
    rustup toolchain list 2>/dev/null | grep -q "^$version" \
        || rustup toolchain install --profile minimal "$version" >/dev/null 2>&1 \
        || skip "rustup cannot install $version" || return 0
    CARGO_TARGET_DIR="$target/oldest" \
        cargo "+$version" check --locked "${published[@]/#/--package=}" --all-features
}

# A copy of the files as they are, since it needs another lock file.
least() {
    mkdir "$work/least"
    git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C "$work/least"
    rm "$work/least/Cargo.lock"
    (
        cd "$work/least"
        RUSTC_BOOTSTRAP=1 cargo -Zdirect-minimal-versions generate-lockfile
        CARGO_TARGET_DIR="$target/least" cargo check "${published[@]/#/--package=}" --all-features
    )
}

# Compares with the tag of the last release, since crates.io has none of these packages yet.
changes() {
    local last
    last="$(git tag --list 'v*' --sort=-version:refname | head -1)"
    [ -n "$last" ] || skip "changes for users, for nothing has been released to compare with (no tag v*)" \
        || return 0
    tool semver-checks || return 0
    cargo semver-checks --workspace --baseline-rev "$last"
}

documentation() {
    RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps --all-features
}

all=(licences advisories features oldest least changes documentation)
wanted=("${@:-${all[@]}}")
for name in "${wanted[@]}"; do
    if ! printf '%s\n' "${all[@]}" | grep -qx -- "$name"; then
        echo "packages: '$name' is none of: ${all[*]}" >&2
        exit 2
    fi
done
for name in "${wanted[@]}"; do
    echo "--- $name"
    before=$skipped
    "$name"
    [ "$skipped" -gt "$before" ] || done_count=$((done_count + 1))
done
echo "packages: $done_count passed, $skipped skipped"
