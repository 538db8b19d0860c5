#!/usr/bin/env bash
# The Python package: builds the wheel and runs its tests, those of the package `limits` with its storage, and
# servers with four workers. Everything is installed into target/python-venv, from PyPI.
#
#   ci/check.sh python            builds and tests
#   ci/check.sh python --bench    builds, and times decisions beside `limits` (under a minute)
#   ci/check.sh python -k NAME    builds, and hands the arguments to pytest
set -euo pipefail
cd "$(dirname "$0")/../.."
target="$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)"
venv="$target/python-venv"
package=integrations/python
begin="$SECONDS"

skip() {
    echo "python: SKIPPED: $1"
    exit 0
}

[ "$(uname)" = Linux ] || [ "$(uname)" = Darwin ] || skip 'shared memory needs Linux or macOS'
python3 -c 'import sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
    skip 'there is no Python 3.10 or later with the module venv'

# Installs what is pinned, once for each content of the file.
pins="$(sha256sum "$package/requirements.txt" | cut -c1-16)"
if [ ! -e "$venv/$pins" ]; then
    python3 -m venv --clear "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$package/requirements.txt" ||
        skip 'its requirements cannot be had from PyPI here'
    touch "$venv/$pins"
fi

# The tests of `limits` are in its source distribution only.
version="$(sed -n 's/^limits==//p' "$package/requirements.txt")"
source="$target/python-sources/limits-$version"
if [ ! -d "$source/tests" ]; then
    mkdir -p "$target/python-sources"
    if "$venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --no-binary limits \
        --dest "$target/python-sources" "limits==$version"; then
        tar -xzf "$target/python-sources/limits-$version.tar.gz" -C "$target/python-sources"
    else
        echo 'python: SKIPPED: the tests of limits: its source distribution cannot be had from PyPI here'
    fi
fi

cargo fmt --manifest-path "$package/Cargo.toml" --check
export PYO3_PYTHON="$venv/bin/python"
if ! cargo fetch --quiet --locked --manifest-path "$package/Cargo.toml"; then
    skip 'its crates cannot be fetched here'
fi
export CARGO_TARGET_DIR="$target"
(cd "$package" && cargo clippy --quiet --release --locked --features pyo3/extension-module -- -D warnings)
rm -rf "$target/python-wheels"
(cd "$package" && "$venv/bin/maturin" build --quiet --release --locked \
    --interpreter "$venv/bin/python" --out "$target/python-wheels")
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --force-reinstall "$target"/python-wheels/*.whl

if [ "${1:-}" = --bench ]; then
    "$venv/bin/python" "$package/bench.py"
    exit
fi
export TOLLGATE_LIMITS_SOURCE="$source"
cd "$package"
"$venv/bin/python" -m pytest -p no:cacheprovider -q -rs "$@"
echo "python: built and tested in $((SECONDS - begin)) s"
