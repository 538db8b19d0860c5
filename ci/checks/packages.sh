#!/usr/bin/env bash
# Checks what other projects build: licences and advisories of all dependencies, each feature by itself, the
# oldest promised compiler, the least declared versions, changes for users since the last release, documentation
# without warnings, the public interface, the packages unpacked and wired to each other, builds for other
# machines, the workflows' syntax, and whether the repository's address is known.
#
#   ci/check.sh packages             all
#   ci/check.sh packages NAME ...    of: licences advisories features oldest least changes documentation
#                                        interface unpacked targets workflows address
#
# cargo builds missing tools below the target folder. A part that cannot run here says SKIPPED and why, and
# is counted.
set -euo pipefail
cd "$(dirname "$0")/../.."
source ci/checks/packaged.sh

target="${CARGO_TARGET_DIR:-$PWD/target}"
export PATH="$PATH:$target/tools/bin"
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
    rustup toolchain list 2>/dev/null | grep "^$version" >/dev/null \
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
    if rustup toolchain list 2>/dev/null | grep '^nightly' >/dev/null; then
        # As docs.rs does, which shows the features that an item needs.
        RUSTDOCFLAGS='-D warnings --cfg docsrs' CARGO_TARGET_DIR="$target/docsrs" \
            cargo +nightly doc --locked --package tollgate --no-deps --all-features
    else
        skip 'documentation as docs.rs builds it, for there is no nightly toolchain' || true
    fi
}

# Runs a part that is a script, and counts what it skips.
script() {
    "ci/checks/$1.sh" "${@:2}" | tee "$work/$1.txt"
    skipped=$((skipped + $(grep -c SKIPPED "$work/$1.txt" || true)))
}

interface() {
    script interface
}

unpacked() {
    script unpacked "${published[@]}"
}

targets() {
    script targets "${published[@]}"
}

workflows() {
    python3 -c 'import yaml' 2>/dev/null || skip 'workflows, for Python has no module yaml' || return 0
    local file
    while IFS= read -r file; do
        python3 -c 'import sys, yaml; assert yaml.safe_load(open(sys.argv[1]))' "$file" \
            || { echo "packages: $file is not YAML" >&2; return 1; }
    done < <(find .github -name '*.yml')
}

address() {
    local repository
    repository="$(sed -n 's/^repository = "\(.*\)"/\1/p' Cargo.toml)"
    case "$repository" in
        *.example/*) skip "address: a release needs the repository's, in Cargo.toml instead of $repository" || return 0 ;;
        # crates.io completes relative links for these.
        https://github.com/*/* | https://gitlab.com/*/* | https://bitbucket.org/*/*) ;;
        *)
            echo "packages: crates.io completes no relative links for $repository" >&2
            return 1
            ;;
    esac
}

all=(licences advisories features oldest least changes documentation interface unpacked targets workflows address)
wanted=("${@:-${all[@]}}")
for name in "${wanted[@]}"; do
    if ! printf '%s\n' "${all[@]}" | grep -x -- "$name" >/dev/null; then
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
