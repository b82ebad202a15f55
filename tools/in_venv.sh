#!/bin/sh
# Runs the program named first from the checkout's own environment, with the other words.
root=$(cd -- "$(dirname -- "$0")/.." && pwd) || exit 1
program=$root/.venv/bin/$1
if [ ! -x "$program" ]; then
    echo "$1: there is no environment in $root yet: run make setup there" >&2
    exit 1
fi
shift
exec "$program" "$@"
