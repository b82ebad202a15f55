#!/bin/sh
# Installs the locked dependencies and the checkout into the virtual environment given as $1.
# Compiling the checkout needs Cython and setuptools only: the rest is installed beside it.
set -eu
install="$1/bin/python -m pip --disable-pip-version-check install --quiet"

backend=$(mktemp)
trap 'rm -f "$backend"' EXIT
awk '/^(cython|setuptools)==/ { ours = 1 } ours { print } !/\\$/ { ours = 0 }' requirements.lock >"$backend"
$install --require-hashes -r "$backend"

# What is locked fits together: no look at what the other installation is about to write.
$install --no-warn-conflicts --require-hashes -r requirements.lock &
rest=$!
# The backend came with the lock, so building the checkout fetches nothing.
$install --no-deps --no-build-isolation --editable . || { kill "$rest"; exit 1; }
wait "$rest"
