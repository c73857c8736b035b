#!/bin/sh
# Install the newest dist/msmq_*.deb into a fresh Debian and try it there: the service's user, its configuration, the
# demo of a kill, an upgrade, and what a purge leaves. The Debian is a chroot made by debootstrap, without systemd as its
# first process, so the unit itself is not started. Needs root, and apt the first time.
set -eu
cd "$(dirname "$0")/../.."
package=$(ls -t dist/msmq_*.deb | head -n 1)
place=$PWD/build/debian
say() { printf 'deb: %s\n' "$*" >&2; }

if ! command -v debootstrap >/dev/null 2>&1; then
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends debootstrap >&2
fi
if [ ! -e "$place/base/.made" ]; then
    say "making a Debian with debootstrap"
    rm -rf "$place/base"
    mkdir -p "$place"
    debootstrap --variant=minbase bookworm "$place/base" http://deb.debian.org/debian >"$place/debootstrap.log" 2>&1
    touch "$place/base/.made"
fi
rm -rf "$place/root"
cp -a "$place/base" "$place/root"
trap 'rm -rf "$place/root"' EXIT
cp "$package" "$place/root/tmp/msmq.deb"
cp /etc/resolv.conf "$place/root/etc/"

cat >"$place/root/tmp/try" <<'INSIDE'
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C MSMQ_SERVER=unix:/tmp/api.sock
say() { printf 'deb: %s\n' "$*" >&2; }
install() { apt-get -qq install -y --no-install-recommends "$@" >/tmp/apt.log 2>&1 || { cat /tmp/apt.log >&2; exit 1; }; }
serve() {
    : >/tmp/out
    setpriv --reuid msmq --regid msmq --init-groups env HOME=/ /usr/bin/msmq serve --data /var/lib/msmq \
        --config /etc/msmq/msmq.toml --name DEB --listen 127.0.0.1 --port 0 --ping-port 0 --rpc-port 0 --web none \
        --api "$MSMQ_SERVER" >/tmp/out 2>/tmp/log &
    process=$!
    while ! grep -q ^ready /tmp/out; do
        kill -0 "$process" || { cat /tmp/log >&2; exit 1; }
        sleep 0.2
    done
}
mount -t proc proc /proc
apt-get -qq update
install /tmp/msmq.deb
say "installed: $(msmq --version), for the user $(getent passwd msmq)"
[ "$(stat -c '%U %a' /var/lib/msmq)" = "msmq 700" ]
serve
msmq queue create '.\private$\orders' --transactional
msmq send '.\private$\orders' --body 'kept over a kill' --transactional --count 100
say "kill -9"
kill -9 "$process"
wait "$process" || true
say "installed again: $(install --reinstall /tmp/msmq.deb && msmq --version)"
serve
kept=$(msmq receive '.\private$\orders' --all --json | grep -c 'kept over a kill')
say "$kept of 100 messages found"
[ "$kept" = 100 ]
kill -TERM "$process"
wait "$process"
apt-get -qq purge -y msmq >/tmp/apt.log 2>&1
say "purged: $(ls -d /var/lib/msmq/store) is still there, the rest is gone"
[ -d /var/lib/msmq/store ] && [ ! -e /usr/lib/msmq ] && [ ! -e /usr/bin/msmq ] && [ ! -e /etc/msmq/msmq.toml ]
INSIDE
unshare --mount --pid --fork --kill-child chroot "$place/root" /bin/sh /tmp/try
say "everything was as it should be"
