#!/bin/sh
# Make sure that Node.js and the packages of tests/api/node are there, in build/node: a test calls the application
# channel from JavaScript. What was installed before stays; the locked versions are the only ones that are taken.
set -eu
cd "$(dirname "$0")/.."

target=build/node
mkdir -p "$target"
exec 9>"$target/.lock"
flock 9

if ! command -v node >/dev/null 2>&1 || ! command -v npm >/dev/null 2>&1; then
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        echo "Node.js is missing; as root: apt-get install --no-install-recommends nodejs npm" >&2
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    options="-o DPkg::Lock::Timeout=300 -qq"
    # shellcheck disable=SC2086 # the options are words
    apt-get $options install -y --no-install-recommends nodejs npm >&2 || {
        apt-get $options update >&2
        apt-get $options install -y --no-install-recommends nodejs npm >&2
    }
fi

wanted=$(cat tests/api/node/package.json tests/api/node/package-lock.json | cksum)
if [ -f "$target/.stamp" ] && [ "$(cat "$target/.stamp")" = "$wanted" ]; then
    exit 0
fi
cp tests/api/node/package.json tests/api/node/package-lock.json "$target/"
npm ci --ignore-scripts --prefix "$target" --no-audit --no-fund --no-progress --loglevel=error >&2 9>&-
printf '%s\n' "$wanted" >"$target/.stamp"
