#!/bin/sh
# Makes the virtual environment given as $1, unless a usable one is there: needs a Python 3.11 or newer, no more.
set -eu
venv=$1

recent_enough='import sys; assert sys.version_info >= (3, 11)'

if [ -x "$venv/bin/python" ] && "$venv/bin/python" -c "$recent_enough; import pip" 2>/dev/null; then
    exit 0
fi

found=
for candidate in ${PYTHON:-} python3.13 python3.12 python3.11 python3; do
    if command -v "$candidate" >/dev/null 2>&1 && "$candidate" -c "$recent_enough" >/dev/null 2>&1; then
        found=$candidate
        break
    fi
done
if [ -z "$found" ]; then
    echo "make: Rocketeer needs Python 3.11 or newer, and none was found on PATH." >&2
    echo "      Debian 12, Ubuntu 24.04: sudo apt install python3 python3-venv; or set PYTHON=/path/to/python3" >&2
    exit 1
fi

if ! "$found" -c 'import ensurepip, venv' 2>/dev/null; then
    version=$("$found" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    echo "make: $found cannot make virtual environments: its venv module is a package of its own here." >&2
    echo "      Debian, Ubuntu: sudo apt install python$version-venv; then run make again" >&2
    exit 1
fi

echo "making $venv with $("$found" --version)"
"$found" -m venv --clear "$venv"
