#!/usr/bin/env bash
# The public interface of every library, listed in docs/interface: fails where the listing is no longer that of
# the code. A reviewer sees there what a change does to users.
#
#   ci/check.sh packages interface    compares
#   ci/checks/interface.sh --update   writes docs/interface
set -euo pipefail
cd "$(dirname "$0")/../.."

libraries=(tollgate tollgate-rules tollgate-http tollgate-client tollgate-observe tollgate-paced tollgate-redis
    tollgate-replay tollgate-proxy)
update=no
case "${1:-}" in
    '') ;;
    --update) update=yes ;;
    *)
        sed -n '5,6s/^# *//p' "$0" >&2
        exit 2
        ;;
esac
if ! command -v python3 >/dev/null; then
    echo 'interface: SKIPPED: there is no python3'
    exit 0
fi
RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps --all-features "${libraries[@]/#/--package=}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
for name in "${libraries[@]}"; do
    python3 ci/checks/interface.py "${CARGO_TARGET_DIR:-target}/doc" "$name" >"$work/$name.txt"
done
if [ "$update" = yes ]; then
    mkdir -p docs/interface
    cp "$work"/*.txt docs/interface/
elif ! diff -r -U 2 docs/interface "$work"; then
    echo 'interface: changed; if that is meant, run ci/checks/interface.sh --update and look at the difference' >&2
    exit 1
fi
echo "interface: ${#libraries[@]} libraries, $(cat "$work"/*.txt | wc -l) lines"
