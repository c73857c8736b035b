#!/bin/sh
# Make sure that Chromium is there: tests look at the pages that `msmq pipeline report` writes with it.
# Installs only what is missing, and says so when it may not.
set -eu

if command -v chromium >/dev/null; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "Chromium is missing; as root: apt-get install --no-install-recommends chromium" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
options="-o DPkg::Lock::Timeout=300 -qq"
# shellcheck disable=SC2086 # the options are words
apt-get $options install -y --no-install-recommends chromium >&2 || {
    apt-get $options update >&2
    apt-get $options install -y --no-install-recommends chromium >&2
}
command -v chromium >/dev/null
