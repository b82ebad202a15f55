#!/usr/bin/env bash
# Fetches and builds what the peers need, once: bash interop/prepare.sh [java] [node] [prometheus] [kafka]
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
    kafka)
      # For `rocketeer bench spark --kafka`: a server, and Spark's own source and sink for it.
      for part in server spark; do
        if [ ! -d kafka/$part/target/jars ] || [ kafka/$part/pom.xml -nt kafka/$part/target/jars ]; then
          echo "fetching interop/kafka/$part"
          mvn -q -B -f kafka/$part/pom.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$PWD/kafka/$part/target/jars"
          touch kafka/$part/target/jars
        fi
      done ;;
    *) echo "prepare.sh: java, node, prometheus or kafka, not $what" >&2; exit 2 ;;
  esac
done
