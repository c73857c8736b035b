#!/bin/sh
# Build the console's pages from console/ into src/msmq/web/static, or into CONSOLE_OUT. The packages it is built with are
# the locked ones, in build/console; running the console needs none of them.
set -eu
cd "$(dirname "$0")/.."

target=build/console
out=${CONSOLE_OUT:-$(pwd)/src/msmq/web/static}
mkdir -p "$target"
exec 9>"$target/.lock"
flock 9

if ! command -v node >/dev/null 2>&1 || ! command -v npm >/dev/null 2>&1; then
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        echo "Node.js is missing; as root: apt-get install --no-install-recommends nodejs npm" >&2
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get -o DPkg::Lock::Timeout=300 -qq update >&2
    apt-get -o DPkg::Lock::Timeout=300 -qq install -y --no-install-recommends nodejs npm >&2
fi

wanted=$(cat console/package.json console/package-lock.json | cksum)
if [ ! -f "$target/.stamp" ] || [ "$(cat "$target/.stamp")" != "$wanted" ]; then
    cp console/package.json console/package-lock.json "$target/"
    # Not `npm ci`: it wants the packages of all other systems in the lock file too, and leaves none out.
    (cd "$target" && npm install --ignore-scripts --no-audit --no-fund --no-progress --loglevel=error >&2 9>&-)
    printf '%s\n' "$wanted" >"$target/.stamp"
fi
for name in index.html vite.config.ts svelte.config.js tsconfig.json src public; do
    rm -rf "${target:?}/$name"
    cp -R "console/$name" "$target/"
done
cd "$target"
CONSOLE_OUT=$out npx --no-install vite build --logLevel error >&2
