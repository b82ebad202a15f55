#!/usr/bin/env bash
# The small part of `make interop` for every build: the C++ client, and one round trip of Apache's Java client
# where Java and Maven are here and Maven's packages can be had. Says what it left out.
set -euo pipefail
cd "$(dirname "$0")/.."

pytest() { .venv/bin/python -m pytest --timeout 120 "$@"; }

echo "interop smoke: the C++ client"
pytest tests/interop/test_cpp_client.py -k "everything_sent or subscribed_tag"

if ! command -v java >/dev/null || ! command -v mvn >/dev/null; then
  echo "interop smoke: skipped the Java client (no java or mvn here)"
elif ! timeout 300 bash interop/prepare.sh java >/tmp/interop-prepare.$$ 2>&1; then
  echo "interop smoke: skipped the Java client (Maven could not fetch or build it):"
  tail -3 "/tmp/interop-prepare.$$"
else
  echo "interop smoke: Apache's Java client"
  pytest tests/interop/test_java_client.py -m interop -k "everything_sent"
fi
rm -f "/tmp/interop-prepare.$$"
