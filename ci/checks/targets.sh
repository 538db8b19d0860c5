#!/usr/bin/env bash
# Builds for other machines: all packages for Linux on ARM and for Windows, and those without C code for macOS.
# The core's unit tests run as ARM code, by qemu.
#
#   ci/check.sh packages targets
#   ci/checks/targets.sh NAME ...    these packages
#
# rustup adds the standard libraries. As root on Debian, the script installs compilers of C and qemu. A target
# that lacks a part says SKIPPED and why.
set -euo pipefail
cd "$(dirname "$0")/../.."

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/targets"
names=("$@")
# All except `shared-memory`, which needs Unix.
features=(tollgate-http/axum tollgate-paced/http-body tollgate-redis/cluster tollgate-redis/http)

skip() {
    echo "targets: SKIPPED: $1"
    return 1
}

# Succeeds if there is a standard library for the target.
library() {
    rustup target list --installed 2>/dev/null | grep -x "$1" >/dev/null \
        || rustup target add "$1" >/dev/null 2>&1 \
        || skip "$1, which rustup cannot add here"
}

# Succeeds if there is a program, and installs its packages if need be.
program() {
    command -v "$1" >/dev/null && return
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        { apt-get update && apt-get install -y --no-install-recommends "${@:2}"; } >/dev/null 2>&1 || true
    fi
    command -v "$1" >/dev/null || skip "$1 is not here; on Debian: apt-get install ${*:2}"
}

# Succeeds if a package is among those that are built.
has() {
    [[ " ${names[*]} " == *" $1 "* ]]
}

# The features of the packages that are built.
asked() {
    local feature
    for feature in "${features[@]}" "$@"; do
        ! has "${feature%/*}" || printf '%s ' "$feature"
    done
}

arm() {
    local target=aarch64-unknown-linux-gnu
    library "$target" || return 0
    program aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu libc6-dev-arm64-cross || return 0
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    cargo build --locked --target "$target" "${names[@]/#/--package=}" --features "$(asked tollgate/shared-memory tollgate-rules/shared-memory)"
    echo "targets: $target: built"
    has tollgate || return 0
    program qemu-aarch64 qemu-user || return 0
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER='qemu-aarch64 -L /usr/aarch64-linux-gnu' \
        cargo test --locked --target "$target" --package tollgate --lib --features shared-memory
    echo "targets: $target: the core's unit tests passed"
}

windows() {
    local target=x86_64-pc-windows-gnu
    library "$target" || return 0
    program x86_64-w64-mingw32-gcc gcc-mingw-w64-x86-64 || return 0
    cargo build --locked --target "$target" "${names[@]/#/--package=}" --features "$(asked)"
    echo "targets: $target: built"
}

# The proxy and the tool have C code (cryptography), whose compiler needs Apple's headers.
macos() {
    local target=aarch64-apple-darwin name without=()
    library "$target" || return 0
    for name in "${names[@]}"; do
        [[ "$name" == tollgate-proxy || "$name" == tollgate-cli ]] || without+=("$name")
    done
    [ "${#without[@]}" -gt 0 ] || return 0
    cargo check --locked --target "$target" "${without[@]/#/--package=}" --features "$(asked tollgate/shared-memory tollgate-rules/shared-memory)"
    echo "targets: $target: checked"
}

arm
windows
macos
