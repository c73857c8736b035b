#!/bin/sh
# Make sure that Samba's Python modules are there for /usr/bin/python3: tests use its RPC client as a peer.
# Installs only what is missing, and says so when it may not.
set -eu

python=/usr/bin/python3
if "$python" -c "import samba.dcerpc.mgmt, samba.tests.dcerpc.raw_protocol" 2>/dev/null; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "python3-samba is missing; as root: apt-get install --no-install-recommends python3-samba" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
options="-o DPkg::Lock::Timeout=300 -qq"
# shellcheck disable=SC2086 # the options are words
apt-get $options install -y --no-install-recommends python3-samba >&2 || {
    apt-get $options update >&2
    apt-get $options install -y --no-install-recommends python3-samba >&2
}
"$python" -c "import samba.dcerpc.mgmt, samba.tests.dcerpc.raw_protocol"
