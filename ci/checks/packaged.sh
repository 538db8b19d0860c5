# Sourced by checks that use the packages as their users get them, in the repository's root. A check sets `target`,
# the folder `work`, and the `names` of packages, and has a function `fail`.

# shellcheck shell=bash
# shellcheck disable=SC2154 # the variables are the check's

# The packages that are published, in the order of their dependencies.
published=(tollgate tollgate-rules tollgate-http tollgate-client tollgate-observe tollgate-paced tollgate-redis tollgate-replay tollgate-proxy tollgate-cli)

# The adapters in integrations/ that are published after them, as tollgate-NAME. Each has a workspace of its own.
# shellcheck disable=SC2034 # a check uses it
adapters=(actix reqwest pingora)

# The most that a package may hold, compressed. The unit tests are a fifth of the core's.
max_bytes() {
    case "$1" in
        tollgate) echo 500000 ;;
        *) echo 160000 ;;
    esac
}

# cargo names each test that a manifest's `include` leaves out. That is no mistake. The arguments are for cargo.
package() {
    cargo package --locked --no-verify --allow-dirty --target-dir "$target" "$@" \
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

# Writes the packages, and unpacks each into the folder $work/unpacked.
package_and_unpack() {
    version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)"
    mkdir "$work/unpacked"
    package "${names[@]/#/--package=}"
    local name
    for name in "${names[@]}"; do
        unpack "$name"
    done
}

# Copies the repository's files into a folder. There, the manifests of the adapters have the repository's address,
# which only the root's has here: no manifest inherits from another workspace.
copy_with_address() {
    local name
    mkdir -p "$1"
    git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C "$1"
    for name in "${adapters[@]}"; do
        sed "s|^# repository = .*|$(grep '^repository = ' Cargo.toml)|" "integrations/$name/Cargo.toml" \
            >"$1/integrations/$name/Cargo.toml"
    done
}

# The packages of this repository that an adapter uses, beside the core.
crates_of() {
    sed -n 's/^\(tollgate-[a-z]*\) = { path = .*/\1/p' "integrations/$1/Cargo.toml"
}

# Writes the package of an adapter, with the repository's address, and unpacks it beside those that it uses.
package_adapter() {
    local name adapter="tollgate-$1" beside=()
    [ -e "$work/copy" ] || copy_with_address "$work/copy"
    for name in $(crates_of "$1"); do
        beside+=(--config "patch.crates-io.$name.path='$work/copy/crates/${name#tollgate-}'")
    done
    (cd "$work/copy/integrations/$1" && package "${beside[@]}")
    unpack "$adapter"
    grep -qxF "$(grep '^repository = ' Cargo.toml)" "$work/unpacked/$adapter/Cargo.toml" \
        || fail "$adapter: its package does not say the repository's address"
}
