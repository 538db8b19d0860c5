#!/usr/bin/env bash
# An adapter of integrations/, which has a workspace of its own, as its users get it. `cargo package` writes it and
# the packages that it uses, without a warning. They are unpacked into an empty folder, where each takes the others
# from beside it instead of crates.io. There the adapter's examples are built, and those in its documentation pass.
#
#   ci/check.sh NAME                      with its lints and tests: actix, pingora or reqwest
#   ci/checks/adapter.sh NAME             only this
#   ci/checks/adapter.sh --copy FOLDER    copies the repository, for `cargo publish` in its integrations/NAME
set -euo pipefail
cd "$(dirname "$0")/../.."
source ci/checks/packaged.sh

if [ "${1:-}" = --copy ] && [ $# -eq 2 ]; then
    [ ! -e "$2" ] || { echo "adapter: $2 is there already" >&2; exit 2; }
    copy_with_address "$2"
    exit
fi
if [ $# -ne 1 ] || [[ " ${adapters[*]} " != *" $1 "* ]]; then
    sed -n '6,8s/^# *//p' "$0" >&2
    exit 2
fi

adapter="tollgate-$1"
folder="integrations/$1"
target="${CARGO_TARGET_DIR:-$PWD/target}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

fail() {
    echo "$adapter: $1" >&2
    exit 1
}

# Those that the packages that it uses name for their tests are packaged too.
# shellcheck disable=SC2207 # names have no spaces
direct=($(crates_of "$1"))
# shellcheck disable=SC2207
names=(tollgate $(printf '%s\n' tollgate-http "${direct[@]}" | sort -u))
package_and_unpack
package_adapter "$1"

# A workspace of the unpacked adapter, with the profiles and the versions of its own.
{
    echo '[workspace]'
    echo 'resolver = "3"'
    echo "members = [\"$adapter\"]"
    echo '[patch.crates-io]'
    for name in tollgate "${direct[@]}" "$adapter"; do
        echo "$name = { path = \"$name\" }"
    done
    sed -n '/^\[profile/,$p' "$folder/Cargo.toml"
} >"$work/unpacked/Cargo.toml"
cp "$folder/Cargo.lock" "$work/unpacked/"

# The adapter's own tests have built its dependencies from crates.io in this folder.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/$folder/target}"
cd "$work/unpacked"
cargo build --package "$adapter" --all-features --lib --examples
cargo test --package "$adapter" --all-features --doc 2>&1 | tee "$work/doc.txt"
ran="$(grep -cE '^test .* \.\.\. ok$' "$work/doc.txt" || true)"
[ "$ran" -ge 1 ] || fail 'no example of its documentation has run'
echo "$adapter: unpacked and built, $ran examples of its documentation passed"
