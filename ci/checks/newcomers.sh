#!/usr/bin/env bash
# Newcomers, who type what a quick start says: in an empty folder, with an empty home, and with the packages as
# their users get them. Commands and code are taken from the pages. Each newcomer has to see the first denial
# within 300 seconds of the first command, compiling included.
#
#   ci/check.sh newcomers             all
#   ci/check.sh newcomers NAME ...    of these:
#
#   library   README.md                       the library, its first example, and a mistake whose error must help
#   guide     docs/guide/getting-started.md   the first page of the guide
#   http      crates/http/README.md           a server with axum
#   actix     integrations/actix/README.md    a server with actix-web
#   redis     crates/redis/README.md          a quota on a Redis or Valkey server
#   python    integrations/python/README.md   four workers of gunicorn
#   proxy     crates/cli/README.md            the tool: its demonstration, then a rules file before a server
#
# Four things differ from the pages. Ports are free ones. The packages are not on crates.io, so cargo takes them from
# their folder. The Python package is its source distribution. The shared file is in the newcomer's folder. What
# cannot be had prints SKIPPED.
set -euo pipefail
cd "$(dirname "$0")/../.."
source ci/checks/packaged.sh

max_seconds=300
repository="$PWD"
target="${CARGO_TARGET_DIR:-$PWD/target}"
names=("${published[@]}")
work="$(cd "$(mktemp -d)" && pwd -P)"
packages="$work/unpacked"
servers=()
report=()
began=$SECONDS
room="$work"

stop_servers() {
    local server
    for server in ${servers[@]+"${servers[@]}"}; do
        # It is `timeout`, which passes the signal on to all that it started.
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    done
    servers=()
}

trap 'stop_servers; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

fail() {
    tail -n 40 "$room"/*.log >&2 2>/dev/null || true
    echo "newcomers: $1" >&2
    exit 1
}

skip() {
    echo "newcomers: SKIPPED: $1"
}

# --- what a page says

# Prints the first block of a page in a language that has a line with this beginning.
block() {
    awk -v fence="\`\`\`$2" -v start="$3" '
        /^```/ && inside { if (wanted && found) { printf "%s", text; exit } inside = 0; next }
        /^```/ { inside = 1; text = ""; found = 0; wanted = $0 == fence || index($0, fence ",") == 1; next }
        inside { text = text $0 "\n"; if (index($0, start) == 1) found = 1 }' "$1" >"$work/block"
    [ -s "$work/block" ] || fail "$1 has no block of $2 with a line that begins with: $3"
    cat "$work/block"
}

# Prints the first command of a page that begins like this.
command_of() {
    block "$1" sh "$2" >"$work/commands"
    awk -v start="$2" 'index($0, start) == 1 { print; exit }' "$work/commands"
}

# --- what a newcomer has and does

# A cargo that finds the packages.
prepare() {
    local name
    mkdir -p "$work/bin" "$work/.cargo"
    {
        echo '[patch.crates-io]'
        for name in "${names[@]}"; do
            echo "$name = { path = \"$packages/$name\" }"
        done
    } >"$work/.cargo/config.toml"
    # `add` and `install` look for a name at the registry only.
    cat >"$work/bin/cargo" <<SCRIPT
#!/usr/bin/env bash
words=()
for word in "\$@"; do
    if [[ "\$word" == tollgate* && -d "$packages/\$word" ]]; then
        words+=(--path "$packages/\$word")
    else
        words+=("\$word")
    fi
done
exec "$(command -v cargo)" "\${words[@]}"
SCRIPT
    chmod +x "$work/bin/cargo"
    # So that `--locked` accepts them: the lock files say that they come from crates.io.
    for name in "${names[@]}"; do
        [ -e "$packages/$name/Cargo.lock" ] || continue
        awk '/^name = / { ours = /"tollgate/ } !(ours && /^(source|checksum) = /)' "$packages/$name/Cargo.lock" \
            >"$work/lock"
        mv "$work/lock" "$packages/$name/Cargo.lock"
    done
}

# Enters an empty folder, with a home that has only the registry's settings, and starts the clock.
enter() {
    local settings="${CARGO_HOME:-$HOME/.cargo}/config.toml"
    rm -rf "$work/home"
    mkdir -p "$work/home/.cargo/bin"
    [ ! -e "$settings" ] || cp "$settings" "$work/home/.cargo/"
    room="$work/$1"
    mkdir "$room"
    load="$(load)"
    began=$SECONDS
}

load() {
    uptime | sed 's/.*averages\{0,1\}: *//; s/[, ].*//'
}

left() {
    local seconds=$((max_seconds - (SECONDS - began)))
    echo $((seconds > 0 ? seconds : 1))
}

# Runs a command as the newcomer, for as long as is left.
typed() {
    cd "$room"
    exec env -u CARGO_TARGET_DIR -u CARGO_INCREMENTAL -u RUSTFLAGS -u RUSTC_WRAPPER \
        HOME="$work/home" CARGO_HOME="$work/home/.cargo" RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}" \
        PATH="$room/.venv/bin:$work/bin:$work/home/.cargo/bin:$PATH" \
        timeout --kill-after=5 "$(left)" bash -c "$1"
}

# Types a command, and leaves what it prints in the folder's `out.log`.
type_in() {
    echo "newcomers:   \$ ${1//$'\n'/$'\n'newcomers:   \$ }"
    (typed "$1") >"$room/out.log" 2>&1 || fail "this failed, or took more than $max_seconds s: $1"
}

# Types the page's block that has such a line, or the first command that begins so. The third argument changes it,
# for sed. An assignment fails where the page has none; an argument would not.
type_block() {
    local text
    text="$(block "$1" sh "$2" | sed "${3:-}")"
    type_in "$text"
}

type_command() {
    local text
    text="$(command_of "$1" "$2" | sed "${3:-}")"
    type_in "$text"
}

# The same into another terminal: page, beginning, port, change.
serve_command() {
    local text
    text="$(command_of "$1" "$2" | sed "${4:-}")"
    serve "$text" "$3"
}

# Types a command into another terminal, and waits until it listens on a port.
serve() {
    echo "newcomers:   \$ $1 &"
    (typed "$1") >>"$room/server.log" 2>&1 &
    local server=$!
    servers+=("$server")
    until (exec 3<>"/dev/tcp/127.0.0.1/$2") 2>/dev/null; do
        kill -0 "$server" 2>/dev/null || fail "this ended, and did not listen: $1"
        [ $((SECONDS - began)) -lt $max_seconds ] || fail "this does not listen after $max_seconds s: $1"
        sleep 0.2
    done
}

# Repeats what follows the pattern until a line of what it prints has the pattern, as a newcomer would: on a busy
# machine, cells come back between two requests.
until_printed() {
    local attempt
    for attempt in 1 2 3; do
        "${@:2}"
        ! grep -qE -- "$1" "$room/out.log" || return 0
        echo "newcomers:   no denial by attempt $attempt"
    done
}

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Ends the newcomer's time: a line of what the last command printed has to be the denial.
denied() {
    local name="$1" pattern="$2" seconds=$((SECONDS - began)) line
    line="$(grep -m1 -E -- "$pattern" "$room/out.log")" || fail "$name: no denial ($pattern) in what was printed"
    [ $seconds -le $max_seconds ] || fail "$name: the first denial came after $seconds s, later than $max_seconds"
    line="$(tail -c 60 <<<"$line" | tr -d '\r')"
    report+=("$(printf '%-8s %3d s to the first denial, compile included, load %s to %s' \
        "$name" $seconds "$load" "$(load)")")
    echo "newcomers: $name: after $seconds s: $line"
}

# --- the newcomers

library() {
    local page="$packages/tollgate/README.md"
    enter library
    type_in 'cargo init --name newcomer'
    sed -i.old '/^\[dependencies\]/d' "$room/Cargo.toml"
    block "$page" toml '[dependencies]' >>"$room/Cargo.toml"
    block "$page" rust 'fn main()' >"$room/src/main.rs"
    type_in 'cargo run'
    denied library '^429, Retry-After Some'
    mistake
}

# A user of `HashMap` asks a `Limiter<String>` with a `&str`. The error has to name the type that takes it.
mistake() {
    cat >"$room/src/main.rs" <<'CODE'
use tollgate::{Limiter, Quota};

fn main() {
    let gate: Limiter<String> = Limiter::builder(Quota::per_second(5)).build().unwrap();
    let _ = gate.check("alice");
}
CODE
    ! (typed 'cargo check') >"$room/out.log" 2>&1 || fail 'library: a Limiter<String> took a &str'
    grep -q 'expected `&String`, found `&str`' "$room/out.log" \
        || fail 'library: a Limiter<String> asked with a &str gave another error'
    grep -q 'pub fn check.*text: Limiter<str>' "$room/out.log" \
        || fail 'library: the error about a &str does not name Limiter<str>'
    echo 'newcomers: library: the error about a &str names Limiter<str>'
}

guide() {
    local page="$repository/docs/guide/getting-started.md"
    enter guide
    type_block "$page" 'cargo add tollgate'
    room="$room/gate"
    block "$page" rust 'fn main()' >"$room/src/main.rs"
    type_in 'cargo run'
    denied guide '^429, Retry-After: '
}

# A server whose page has its dependencies, its code, and the requests that it denies: name, page, port of the page.
server() {
    local page="$2" port
    port="$(free_port)"
    enter "$1"
    type_in 'cargo init --name newcomer'
    sed -i.old '/^\[dependencies\]/d' "$room/Cargo.toml"
    block "$page" toml '[dependencies]' >>"$room/Cargo.toml"
    block "$page" rust 'async fn main()' | sed "s/$3/$port/" >"$room/src/main.rs"
    serve 'cargo run' "$port"
    until_printed '^HTTP/1.1 429' type_command "$page" 'for i in' "s/$3/$port/"
    denied "$1" '^HTTP/1.1 429'
}

http() {
    server http "$packages/tollgate-http/README.md" 3000
}

actix() {
    server actix "$packages/tollgate-actix/README.md" 8080
}

redis() {
    local page="$packages/tollgate-redis/README.md" port program
    program="$(command -v redis-server || command -v valkey-server)" \
        || { skip 'redis: there is no redis-server and no valkey-server'; return; }
    port="$(free_port)"
    enter redis
    serve "${program##*/} --port $port --bind 127.0.0.1 --save ''" "$port"
    type_in 'cargo init --name newcomer'
    type_block "$page" 'cargo add tollgate-redis'
    block "$page" rust 'async fn main()' | sed "s/6379/$port/" >"$room/src/main.rs"
    until_printed '^Server: 429' type_in 'cargo run'
    denied redis '^Server: 429'
}

python() {
    local page="$repository/integrations/python/README.md" port tools="$work/tools"
    python3 -c 'import sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null \
        || { skip 'python: there is no Python 3.10 or later with the module venv'; return; }
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check \
        "$(grep '^maturin==' integrations/python/requirements.txt)" >"$work/pip.log" 2>&1 \
        || { skip 'python: maturin cannot be had from PyPI here'; return; }
    (cd integrations/python && "$tools/bin/maturin" sdist --out "$work/sdist") >"$work/sdist.log" 2>&1 \
        || fail "python: no source distribution: $(tail -n 5 "$work/sdist.log")"
    port="$(free_port)"
    enter python
    type_block "$page" 'pip install ./integrations/python' "s|\./integrations/python|$(echo "$work"/sdist/*.tar.gz)|"
    block "$page" python 'def app(' | sed "s|/dev/shm/|$room/|" >"$room/hello.py"
    type_command "$page" 'pip install gunicorn'
    serve_command "$page" gunicorn "$port" "s/8000/$port/"
    type_command "$page" 'curl -s' "s/8000/$port/"
    denied python '^(200 ){100}429'
}

proxy() {
    local page="$packages/tollgate-cli/README.md" port upstream admin
    port="$(free_port)" upstream="$(free_port)" admin="$(free_port)"
    enter proxy
    type_command "$page" 'cargo install --locked --debug'
    serve_command "$page" 'tollgate proxy' "$port" "s/\$/ --listen 127.0.0.1:$port --admin 127.0.0.1:$admin/"
    type_command "$page" 'curl -s -o' "s/8080/$port/"
    denied proxy '^(200 ){10,}429'
    stop_servers

    port="$(free_port)" admin="$(free_port)"
    block "$page" toml '[[rule]]' >"$room/rules.toml"
    serve_command "$page" 'python3 -m http.server' "$upstream" "s/3000/$upstream/"
    serve_command "$page" 'tollgate proxy --upstream' "$port" \
        "s/3000/$upstream/; s/8080/$port/; s/\$/ --admin 127.0.0.1:$admin/"
    type_command "$page" 'curl -s -o' "s/8080/$port/"
    denied rules '^(200 ){10,}429'
}

all=(library guide http actix redis python proxy)
wanted=("${@:-${all[@]}}")
for name in "${wanted[@]}"; do
    if ! printf '%s\n' "${all[@]}" | grep -x -- "$name" >/dev/null; then
        echo "newcomers: '$name' is none of: ${all[*]}" >&2
        exit 2
    fi
done
for program in curl timeout python3; do
    command -v "$program" >/dev/null || { skip "there is no $program here"; exit 0; }
done
package_and_unpack
if [[ " ${wanted[*]} " == *' actix '* ]]; then
    package_adapter actix
    names+=(tollgate-actix)
fi
prepare
enter registry
if ! (typed 'cargo init --quiet --name newcomer && cargo add --quiet cfg-if && cargo fetch --quiet') \
    >"$room/out.log" 2>&1; then
    skip "crates cannot be had from crates.io here: $(tail -n 1 "$room/out.log")"
    exit 0
fi
for name in "${wanted[@]}"; do
    "$name"
    stop_servers
    rm -rf "${work:?}/$name"
done
[ "${#report[@]}" -eq 0 ] || printf 'newcomers: %s\n' "${report[@]}"
echo "newcomers: ${#report[@]} saw their first denial within $max_seconds s"
