#!/usr/bin/env bash
# The programs that tests run beside the tool: installed where that may be, else named. Debian and
# what derives from it.
set -euo pipefail

# Program and package.
wanted=(curl:curl nginx:nginx-light wrk:wrk hey:hey redis-server:redis-server faketime:faketime
    promtool:prometheus)

# nginx is where only root looks.
PATH="$PATH:/usr/sbin"
missing=()
for pair in "${wanted[@]}"; do
    command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
[ "${#missing[@]}" -gt 0 ] || exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "packages: tests that need these are skipped, and fail where CI is set: ${missing[*]}"
    echo "packages: on Debian: apt-get install --no-install-recommends ${missing[*]}"
    exit 0
fi

# The tests start servers of their own; those of the packages must not take their place.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get install -y --no-install-recommends "${missing[@]}" >/dev/null \
    || { apt-get update >/dev/null && apt-get install -y --no-install-recommends "${missing[@]}" >/dev/null; }
echo "packages: installed ${missing[*]}"
