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

target="${CARGO_TARGET_DIR:-$PWD/target}"
names=("$@")
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

fail() {
    echo "unpacked: $1" >&2
    exit 1
}

# The most that a package may hold, compressed. The unit tests are a sixth of the core's.
max_bytes() {
    case "$1" in
        tollgate) echo 440000 ;;
        *) echo 160000 ;;
    esac
}

# cargo names each test that a manifest's `include` leaves out. That is no mistake.
package() {
    cargo package --locked --no-verify --allow-dirty --target-dir "$target" "${names[@]/#/--package=}" \
        >"$work/package.txt" 2>&1 || { cat "$work/package.txt" >&2; fail 'cargo package failed'; }
    if grep -E '^(warning|error)' "$work/package.txt" \
        | grep -vE '^warning: ignoring test `[a-z_]+` as `tests/[a-z_/.]+` is not included in the published package$'; then
        fail 'cargo package gave these warnings'
    fi
}

# Prints the files of a package, and checks that none is missing and none too many.
unpack() {
    local name="$1" crate="$target/package/$1-$version.crate" bytes file
    bytes="$(wc -c <"$crate")"
    [ "$bytes" -le "$(max_bytes "$name")" ] \
        || fail "$name: its package has $bytes bytes, and may have $(max_bytes "$name"): see include in its manifest"
    # A package's files are all of one old date, by which cargo would take those of the last run for these.
    tar -xzmf "$crate" -C "$work/unpacked"
    mv "$work/unpacked/$name-$version" "$work/unpacked/$name"
    for file in README.md LICENSE-APACHE LICENSE-MIT src; do
        [ -e "$work/unpacked/$name/$file" ] || fail "$name: its package has no $file"
    done
    for file in LICENSE-APACHE LICENSE-MIT; do
        cmp -s "$file" "$work/unpacked/$name/$file" || fail "$name: $file in its package is not the root's"
    done
    printf 'unpacked: %-18s %4d files %8d bytes compressed\n' \
        "$name" "$(tar -tzf "$crate" | wc -l)" "$bytes"
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
version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)"
mkdir "$work/unpacked"
package
for name in "${names[@]}"; do
    unpack "$name"
done
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
