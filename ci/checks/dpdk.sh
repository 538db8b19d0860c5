#!/usr/bin/env bash
# Prints the folder of DPDK's header rte_meter.h, for DPDK_INCLUDE; nothing where libdpdk-dev is installed.
# On Debian and its derivatives, the header is taken from the package, into target/dpdk. The package is not
# installed: that brings more than 200 others, and the header needs none.
set -euo pipefail
cd "$(dirname "$0")/../.."
if pkg-config --variable=includedir libdpdk >/dev/null 2>&1; then
    exit 0
fi
into="$PWD/target/dpdk"
header="$into/usr/include/dpdk/rte_meter.h"
download() { apt-get -qq download libdpdk-dev >/dev/null 2>&1; }
unpack() { dpkg-deb --fsys-tarfile libdpdk-dev_*.deb | tar --extract "./${header#"$into/"}"; }
if [ ! -e "$header" ] && command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
    mkdir -p "$into"
    cd "$into"
    if download || { [ "$(id -u)" -eq 0 ] && apt-get -qq update >/dev/null 2>&1 && download; }; then
        unpack || true
        rm libdpdk-dev_*.deb
    fi
fi
if [ ! -e "$header" ]; then
    echo 'dpdk: no header of DPDK, its meter is SKIPPED; install libdpdk-dev, or set DPDK_INCLUDE' >&2
    exit 0
fi
dirname "$header"
