#!/bin/sh
# Sees that Maven is there, which fetches what Spark needs for some tests; as root it is installed.
set -eu
command -v mvn >/dev/null 2>&1 && exit 0
if [ "$(id -u)" -ne 0 ]; then
    echo "maven is missing; as root: apt-get install --no-install-recommends maven" >&2
    exit 1
fi
apt-get -qq install -y --no-install-recommends maven >&2 ||
    { apt-get -qq update && apt-get -qq install -y --no-install-recommends maven; } >&2
