#!/usr/bin/env bash
# Clients nobody here wrote against our broker: Apache's Java client, two Node clients, the C++ client.
#   bash interop/run.sh [pytest options]        make interop ARGS='-k java'
#   ROCKETEER_PEER=apache bash interop/run.sh   the same laws on Apache's own broker, which settles what is normal
set -euo pipefail
cd "$(dirname "$0")/.."

for tool in java mvn node npm; do
  command -v "$tool" >/dev/null || { echo "make interop needs $tool; make test runs the C++ client without it" >&2; exit 1; }
done
bash interop/prepare.sh java node prometheus
exec .venv/bin/python -m pytest tests/interop -m "interop or not interop" "$@"
