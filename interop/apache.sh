#!/usr/bin/env bash
# Our clients, and every other test whose outcome RocketMQ defines, against Apache's own name server and broker.
#   bash interop/apache.sh [pytest options]              make apache ARGS='-k rebalance'
#   ROCKETEER_APACHE_LIB=/opt/rocketmq/lib make apache   with the jars of a distribution instead of Maven's
# docs/clients.md lists where our clients differ from Java's on purpose.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v java >/dev/null || { echo "make apache needs Java 11 or later" >&2; exit 1; }
if command -v mvn >/dev/null; then
  bash interop/prepare.sh java   # Apache's servers, and the Java members of the mixed groups
elif [ -z "${ROCKETEER_APACHE_LIB:-}" ]; then
  echo "make apache needs mvn, or ROCKETEER_APACHE_LIB with the lib folder of a RocketMQ distribution" >&2
  exit 1
fi
export ROCKETEER_PEER=apache
exec .venv/bin/python -m pytest -rs tests/client tests/golden/test_broker_messages_replay.py \
  tests/golden/test_broker_management_replay.py tests/interop/test_cpp_client.py "$@"
