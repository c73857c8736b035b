#!/bin/sh
# Make sure that Mono and its System.Messaging are there: tests use its formatters as the other writer and reader of
# bodies. Installs only what is missing, and says so when it may not.
set -eu

packages="mono-runtime mono-mcs libmono-messaging4.0-cil libmono-system-messaging4.0-cil"
present() {
    command -v mono >/dev/null && command -v mcs >/dev/null && [ -f /usr/lib/mono/4.5/System.Messaging.dll ] &&
        [ -f /usr/lib/mono/4.5/Mono.Messaging.dll ]
}
present && exit 0
if [ "$(id -u)" -ne 0 ]; then
    echo "Mono is missing; as root: apt-get install --no-install-recommends $packages" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
options="-o DPkg::Lock::Timeout=300 -qq"
# shellcheck disable=SC2086 # the options and packages are words
apt-get $options install -y --no-install-recommends $packages >&2 || {
    apt-get $options update >&2
    apt-get $options install -y --no-install-recommends $packages >&2
}
present
