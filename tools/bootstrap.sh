#!/bin/sh
# Makes .venv from uv.lock; installs uv into the cache first. Does nothing when both are up to date.
set -eu
cd "$(dirname "$0")/.."
UV_VERSION=0.13.9

fail() {
    echo "bootstrap: $1" >&2
    exit 1
}

python=
for candidate in python3.11 python3.12 python3.13 python3; do
    # A name on PATH may be a version manager's shim for a version that is not chosen: run it.
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || fail "no Python 3.11 or newer found; install it (Debian: apt-get install python3 python3-venv)"

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get -qq update && apt-get -qq install -y --no-install-recommends python3-venv >/dev/null ||
            fail "could not install python3-venv; install it by hand"
    else
        fail "the venv module is missing; install it (Debian: apt-get install python3-venv)"
    fi
fi

cache=${XDG_CACHE_HOME:-$HOME/.cache}/pd-operator
mkdir -p "$cache" 2>/dev/null || fail "cannot write to $cache; set XDG_CACHE_HOME to a folder that you may write to"
uv=$cache/uv-$UV_VERSION/bin/uv
if ! "$uv" --version >/dev/null 2>&1; then
    rm -rf "$cache/uv-$UV_VERSION"
    "$python" -m venv "$cache/uv-$UV_VERSION" || fail "could not make a virtual environment in $cache"
    "$cache/uv-$UV_VERSION/bin/pip" install -q --disable-pip-version-check "uv==$UV_VERSION" ||
        fail "could not install uv $UV_VERSION; is the Python package index reachable?"
fi

# The stamp holds what the environment was made from, and is written last.
want=$(cat uv.lock pyproject.toml tools/bootstrap.sh | sha256sum | cut -d' ' -f1)
if [ "$(cat .venv/ready 2>/dev/null)" != "$want" ] || ! .venv/bin/python -c '' 2>/dev/null; then
    "$uv" sync --quiet --frozen --all-groups --no-group bench --all-extras --python "$python" ||
        fail "could not install the locked packages; the lines above say why"
    echo "$want" >.venv/ready
fi
