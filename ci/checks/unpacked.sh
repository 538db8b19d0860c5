#!/usr/bin/env bash
# Builds the packages as their users get them. `cargo package` writes them, without a warning. They are unpacked
# into an empty folder, where each takes the others from beside it instead of crates.io. There the programs,
# the examples and the code of every README are built, and the core's unit tests and all examples in the
# documentation pass.
#
#   ci/check.sh packages unpacked
#   ci/checks/unpacked.sh NAME ...    of these packages, and those that they use
set -euo pipefail
cd "$(dirname "$0")/../.."
source ci/checks/packaged.sh

target="${CARGO_TARGET_DIR:-$PWD/target}"
names=("$@")
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

fail() {
    echo "unpacked: $1" >&2
    exit 1
}

# A workspace of the unpacked packages. They are built as the repository's are: optimised a little, so that tests
# end, with the same versions of what they use.
wire() {
    local name
    {
        echo '[workspace]'
        echo 'resolver = "3"'
        printf 'members = ['
        printf '"%s", ' "${names[@]}"
        echo ']'
        echo '[patch.crates-io]'
        for name in "${names[@]}"; do
            echo "$name = { path = \"$name\" }"
        done
        echo '[profile.dev]'
        echo 'opt-level = 1'
        echo 'debug = false'
        echo '[profile.dev.package."*"]'
        echo 'opt-level = 0'
    } >"$work/unpacked/Cargo.toml"
    cp Cargo.lock "$work/unpacked/"
}

# How many examples the READMEs and the heads of the libraries have. A test of a README that is documentation is
# named after the library, so they are counted together.
examples() {
    cat "${names[@]/%//README.md}" | grep -cE '^```rust'
    local name bare tagged
    for name in "${names[@]}"; do
        [ -e "$name/src/lib.rs" ] || continue
        # What begins with a word is no Rust, and ends without it.
        bare="$(grep -cE '^//! ```$' "$name/src/lib.rs" || true)"
        tagged="$(grep -cE '^//! ```[a-z]' "$name/src/lib.rs" || true)"
        echo "$(((bare - tagged) / 2))"
    done
}

begin="$SECONDS"
package_and_unpack
wire

cd "$work/unpacked"
export CARGO_TARGET_DIR="$target/unpacked"
cargo build --workspace --all-features --bins --examples
cargo test --workspace --all-features --doc 2>&1 | tee "$work/doc.txt"
ran="$(grep -cE '^test [^ ]*(README\.md - |src/lib\.rs - \(line ).* ok$' "$work/doc.txt" || true)"
wanted="$(examples | awk '{ all += $1 } END { print all }')"
[ "$ran" -eq "$wanted" ] || fail "$ran examples of READMEs and libraries passed, and they have $wanted"
[[ " ${names[*]} " != *' tollgate '* ]] || cargo test --package tollgate --all-features --lib
echo "unpacked: ${#names[@]} packages, $ran examples of READMEs and libraries, in $((SECONDS - begin)) s"
