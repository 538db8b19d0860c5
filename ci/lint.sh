#!/usr/bin/env bash
# Lints, the layers, and documentation without warnings.
#
#   ci/lint.sh          some minutes from nothing built
#   ci/lint.sh --help   prints this
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
    '') ;;
    *)
        sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
        [[ "$1" == -h || "$1" == --help ]] || exit 2
        exit 0
        ;;
esac

fail() {
    printf 'lint: %s\n' "$1" >&2
    exit 1
}

# Prints the lines of code, not those of comments, that match a pattern in the named files or folders.
code() {
    grep -rnHE "$1" "${@:2}" --include='*.rs' | grep -vE ':[0-9]+: *//'
}

# Checks the rooms of a crate, which are named in order: a room may use only rooms before it, so no two rooms use
# each other. `lib.rs` re-exports from all of them, and `main.rs` uses them.
layers() {
    local source="$1" rooms=("${@:2}") index later name room
    for room in "$source"/*; do
        name="$(basename "$room" .rs)"
        [[ " lib main ${rooms[*]} " == *" $name "* ]] || fail "$room is not a room: ci/lint.sh lists the rooms in order"
    done
    for index in "${!rooms[@]}"; do
        later="$(IFS='|' && echo "${rooms[*]:index+1}")"
        room="$source/${rooms[index]}"
        [ -d "$room" ] || room+=.rs
        if [ -n "$later" ] && code "\bcrate::($later)\b" "$room"; then
            fail "$room uses a room that comes after it"
        fi
        # An import from the crate's root would hide the room of the name. Tests may import from there,
        # as users do.
        if code '\bcrate::(\{|[A-Z])' "$room" | grep -vE '(/tests\.rs|/tests/[^:]*):'; then
            fail "$room imports from the crate's root: name the room"
        fi
    done
}

layers src sync word time quota decision algo cell table limiter charge concurrency snapshot top wait policy
layers crates/replay/src words log log_lines progress tally suggest contender rules_replay algorithm \
    plan outcome report replay
layers crates/proxy/src log metrics demo process connection request rule_counters stores rules upstream \
    config admin server banner run
layers crates/cli/src args check shm
layers crates/http/src key headers jitter denial gate adaptive body stats enforcer future shadow limit in_flight \
    service layer penalized several
layers crates/rules/src words inline_vec error request matcher key rule clock shared active_rule parse reload \
    decision limiter live file explain
layers crates/redis/src lua script sync stats server_key bounded_map answer unavailable algorithm health breaker pool \
    lease batch share reply store redis_limiter windows redis_membership remote with_fallback open http
layers crates/client/src structured advice error places settings rate pacer layer
layers crates/paced/src bucket chunk error pace direction body items stream
layers crates/observe/src denial_log recorder top_keys

# Atomics are named in the cell, the table and src/sync only, and come from src/sync.
if code '\b(core|std)::sync::atomic|loom::|shuttle::' src | grep -v '^src/sync/'; then
    fail 'atomics, loom and shuttle are named in src/sync only'
fi
if code '\bAtomicU64\b|compare_exchange|fetch_' src | grep -vE '^src/(sync|cell|table)/'; then
    fail 'atomics are used in src/cell, src/table and src/sync only'
fi
# Values and algorithms are pure: no atomics, no clock, no allocation, no float.
pure=$(find src/algo src/quota src/decision -name '*.rs' -not -path '*oracle*' -not -name tests.rs -not -name text.rs)
if code 'crate::(sync|time::(clocks|counter|disciplined|quanta_clock))|\b(Box|Vec|String|Arc|Rc)\b|\bf(32|64)\b' $pure src/word.rs; then
    fail 'values and algorithms are pure, and know none of the layers above'
fi
if code 'quanta::' src | grep -v '^src/time/counter\.rs:'; then
    fail 'quanta is named in src/time/counter.rs only'
fi
if code '\bunsafe\b' src | grep -vE '^src/(table/(memory|placed|block)|time/counter)\.rs:'; then
    fail 'unsafe code lives in src/table/memory.rs, placed.rs and block.rs, and in src/time/counter.rs only'
fi

# Packages with a workspace of their own are built by checks that few changes run. A dependency that is added
# here belongs into their lock files too.
for package in fuzz verify/mutants verify/states benches/peers integrations/*/; do
    if ! why="$(cd "$package" && cargo update --workspace --locked --quiet 2>&1)"; then
        case "$why" in
            *'--locked was passed'*) fail "$package/Cargo.lock is not current: run cargo update --workspace there" ;;
            *'failed to download'* | *'failed to fetch'*)
                echo "lint: SKIPPED: whether $package/Cargo.lock is current: the registry cannot be reached here"
                ;;
            *) fail "$package: $why" ;;
        esac
    fi
done

cargo clippy --workspace --all-targets --all-features --locked -- -D warnings
# The library is linted with the packages that use it. Its own tests do not run under these flags, nor do
# those of the files that `loom-tests` includes, so not all targets. The profile is that of the models, which
# then need no macro of a dependency built again.
RUSTFLAGS='--cfg tollgate_loom' CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom" \
    cargo clippy --release -p loom-tests --lib --tests --locked -- -D warnings
RUSTFLAGS='--cfg tollgate_shuttle' CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/shuttle" \
    cargo clippy --release -p shuttle-tests --all-targets --locked -- -D warnings
# Builds without the standard library, and for a target without it, an allocator or 64-bit atomics.
cargo clippy -p tollgate --lib --no-default-features --locked -- -D warnings
bare=thumbv7em-none-eabi
if rustup target add "$bare" >/dev/null 2>&1; then
    cargo clippy -p tollgate --lib --no-default-features --locked --target "$bare" -- -D warnings
else
    echo "lint: SKIPPED: $bare, which rustup cannot add here"
fi
# All features and an example: then the dependencies have the features that clippy has checked them with, and
# are not checked again.
RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --all-features --lib --example prefork --locked --quiet
