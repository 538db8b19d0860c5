#!/usr/bin/env bash
# Runs one check. `ci/test.sh`, `ci/lint.sh`, `ci/instructions.sh` and `ci/bench.sh` are the everyday
# commands; `ci/full.sh` runs everything.
#
#   ci/check.sh NAME [ARGUMENT ...]
#   ci/check.sh NAME --help    what the check does, and its arguments
#   ci/check.sh --help         this, and the names
#
# Times are of two cores, without the build. A check that lacks a tool prints SKIPPED.
#
#   fmt             formatting of every package                                 seconds
#   programs        installs what some tests run: curl, nginx, haproxy, envoy,
#                   wrk, hey, redis-server, faketime, promtool                  a minute
#   loom            models of the atomic protocols                              minutes
#   loom full       the same, deeper and with 4 threads                         hours
#   interleavings   `loom`, summed up by protocol                               minutes
#   shuttle         300,000 histories, checked for linearizability              15 s
#   shuttle full    20 million histories                                        9 min
#   states          protocols between processes and a server, in every state    a minute
#   states full     the largest of them too                                     minutes
#   faults          faults on real Redis and Valkey servers                     4 min
#   proofs          the steps of all rate algorithms, by z3 over all inputs     minutes
#   oracles         10^8 decisions compared with the oracles                    10 s
#   fuzz            each fuzz target for a minute                               6 min
#   miri            undefined behaviour and weak memory, on four targets        28 min
#   races           the tests with threads under the thread sanitizer           4 min
#   shared-memory   10,000 processes killed that share a limiter; their clocks  7 min
#   packages        licences, advisories, features, oldest compiler, versions,
#                   the packages unpacked, other machines                       an hour
#   newcomers       what the quick starts say, in empty folders, to the first denial
#                                                                               10 min
#   system          the ordinary tests on macOS, Windows or another compiler    minutes
#   mutants         whether tests notice changes in the code                    hours
#   mutants core --lib                the core, with its unit tests only        10 min
#   coherence       writes to shared cache lines, ours and the peers'           10 min
#   pingora         the filter for Pingora: lints, tests, its package           minutes
#   actix           the middleware of actix-web: lints, tests, its package      minutes
#   reqwest         the middleware of reqwest clients: the same                 minutes
#   python          the Python package: wheel, tests, servers of four workers   3 min
#   repeat          the ordinary tests with 50 other seeds                      hours
#   soak            the proxy under load                                        1 h
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
cd "$here/.."

# Prints the comment at the head of a script.
head_of() {
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$1"
}

target="${CARGO_TARGET_DIR:-target}"

# Every package, including those with a workspace of their own.
fmt() {
    cargo fmt --all --check
    local package
    for package in fuzz verify/mutants verify/states benches/peers benches/peers/dpdk integrations/*/; do
        (cd "$package" && cargo fmt --check)
    done
}

# Without `full`: 2 threads with 2 or 3 preemptions and stale values, 3 threads with 3 or 4 and the latest
# values. With `full`: one or two preemptions more, or all; 4 threads with 3; and models that take minutes to
# show a mistake that others show in seconds.
loom() {
    local all=()
    if [ "${1:-}" = full ]; then
        export TOLLGATE_LOOM_DEPTH=full
        all=(--include-ignored)
    fi
    RUST_BACKTRACE=0 RUSTFLAGS='--cfg tollgate_loom' CARGO_TARGET_DIR="$target/loom" \
        cargo test -p loom-tests --release --locked --tests -- --nocapture ${all[@]+"${all[@]}"}
}

# The numbers of the table in docs/model-checking.md.
interleavings() {
    loom "$@" | awk '
        match($0, /[a-z -]+: .*: [0-9]+ interleavings/) {
            line = substr($0, RSTART, RLENGTH)
            sub(/^(.*\.\.\.)? */, "", line)
            protocol = line
            sub(/:.*/, "", protocol)
            sub(/ interleavings$/, "", line)
            # A model that is explored in two ways counts once.
            name = line
            sub(/: [0-9]+$/, "", name)
            if (!known[name]++) models[protocol]++
            sub(/^.*: /, "", line)
            explored[protocol] += line
            all += line
        }
        END {
            if (!all) { print "no model is named in this" > "/dev/stderr"; exit 1 }
            for (protocol in models) printf "%-16s %3d models %9d interleavings\n", protocol, models[protocol], explored[protocol]
            printf "%-16s %20d interleavings\n", "~ all", all
        }' | sort
}

# Runs stateright, which also has to find planted faults. A package of its own, since the checker brings
# 40 dependencies. With `full`: lints too.
states() {
    cd verify/states
    export RUST_BACKTRACE=0 CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-../../target}/states"
    if ! cargo fetch --locked --quiet; then
        echo 'states: SKIPPED: its dependencies cannot be fetched here'
        return
    fi
    local all=()
    if [ "${1:-}" = full ]; then
        # The included files have tests of their own, which run in their own package.
        cargo clippy --lib --test leases --test batches --test shares --locked --quiet -- -D warnings
        all=(--include-ignored)
    fi
    cargo test --release --locked --quiet -- --nocapture ${all[@]+"${all[@]}"} | awk '
        { print }
        match($0, /: [0-9]+ states, all within/) { split(substr($0, RSTART + 2), words, " "); states += words[1]; models++ }
        /planted: beyond the bound/ { found++ }
        /said to add nothing: beyond/ { low++ }
        END {
            if (!models || !found || !low) exit 1
            printf "states: %d models, %d states, all within their bounds; %d planted faults and %d bounds that are too low found\n", models, states, found, low
        }'
}

# The arguments are the names of models, such as gcra. Needs Python 3.10 or later, and PyPI for
# z3-solver. Compares the models with the Rust, and plants the mistakes that must be found.
proofs() {
    local venv="$target/proofs-venv"
    if ! "$venv/bin/python" -c 'import z3' >/dev/null 2>&1; then
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet --disable-pip-version-check z3-solver==5.4.0.0
    fi
    # Overflow checks and assertions are on: where a model says that a step cannot panic, the Rust must not.
    cargo build -p proofs --locked --quiet
    "$venv/bin/python" verify/proofs/prove.py --vectors "$target/debug/proofs" "$@"
}

# [DECISIONS] [--seed SEED] [--seconds SECONDS] [--jobs JOBS], or --seed SEED --case NUMBER for one case
# again. Planted faults have to be found first.
oracles() {
    local words=("$@")
    [[ "${1:-}" =~ ^[0-9] || " $* " == *' --case '* ]] || words=(100000000 "$@")
    cargo test -p oracle-tests --release --locked --quiet
    cargo run -p oracle-tests --release --locked --quiet -- "${words[@]}"
}

# A workspace of its own. Needs cmake, which is installed where that is possible.
pingora() {
    cd integrations/pingora
    if ! command -v cmake >/dev/null; then
        if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
            { apt-get update && apt-get install -y --no-install-recommends cmake; } >/dev/null 2>&1 || true
        fi
        if ! command -v cmake >/dev/null; then
            echo 'pingora: SKIPPED: there is no cmake, and it cannot be installed here'
            return
        fi
    fi
    integration pingora
}

# A workspace of its own.
actix() {
    cd integrations/actix
    integration actix
}

# A workspace of its own.
reqwest() {
    cd integrations/reqwest
    integration reqwest
}

# Builds and tests the package in this folder, then as its users get it.
integration() {
    if ! cargo fetch --locked --quiet; then
        echo "$1: SKIPPED: its dependencies cannot be fetched here"
        return
    fi
    local begin="$SECONDS"
    cargo clippy --all-targets --locked -- -D warnings
    cargo test --locked
    ../../ci/checks/adapter.sh "$1"
    echo "$1: built, tested and packaged in $((SECONDS - begin)) s"
}

name="${1:---help}"
[ $# -eq 0 ] || shift
case "$name" in
    -h | --help) head_of "$0" ;;
    fmt | loom | interleavings | states | proofs | oracles | pingora | actix | reqwest)
        case "${1:-}" in
            -h | --help) sed -n "/^#.*/{H;b};/^$name() {/{x;s/^\n//;s/# \{0,1\}//g;p;q};s/.*//;x" "$0" ;;
            *) "$name" "$@" ;;
        esac
        ;;
    coherence | faults | fuzz | miri | mutants | newcomers | packages | programs | python | races | repeat | shared-memory | shuttle | soak | system)
        case "${1:-}" in
            -h | --help) head_of "ci/checks/${name//-/_}.sh" ;;
            *) exec "ci/checks/${name//-/_}.sh" "$@" ;;
        esac
        ;;
    *)
        echo "check: no check is named $name; ci/check.sh --help lists them" >&2
        exit 2
        ;;
esac
