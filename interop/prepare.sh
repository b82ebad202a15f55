#!/usr/bin/env bash
# Fetches and builds what the peers need, once: bash interop/prepare.sh [java] [node] [prometheus]
set -euo pipefail
cd "$(dirname "$0")"

for what in "$@"; do
  case "$what" in
    java)
      if [ ! -e java/target/classes/interop/Peer.class ] || [ -n "$(find java/pom.xml java/src -newer java/target/classes/interop/Peer.class)" ]; then
        echo "building interop/java"
        mvn -q -B -f java/pom.xml package
        touch java/target/classes/interop/Peer.class
      fi ;;
    node)
      if [ ! -e node/node_modules/.package-lock.json ] || [ node/package-lock.json -nt node/node_modules/.package-lock.json ]; then
        echo "installing interop/node"
        npm ci --prefix node --no-audit --no-fund --loglevel=error
        touch node/node_modules/.package-lock.json
      fi ;;
    prometheus)
      # Debian's package, unpacked and not installed; an installed one is used as it is.
      if ! command -v promtool >/dev/null && [ ! -e prometheus/root/usr/bin/promtool ]; then
        echo "fetching interop/prometheus"
        mkdir -p prometheus
        (cd prometheus && apt-get -qq download prometheus 2>/dev/null && dpkg -x prometheus_*.deb root)
      fi ;;
    *) echo "prepare.sh: java, node or prometheus, not $what" >&2; exit 2 ;;
  esac
done
