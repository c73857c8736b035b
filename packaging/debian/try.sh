#!/bin/sh
# Install the newest dist/msmq_*.deb into a fresh Debian and try it there: the service's user, its configuration, the
# demo, a kill, an upgrade; then the units, started by systemd in namespaces of its own; and what a purge leaves. Needs
# root, and apt the first time.
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
cp "$package" "$place/root/srv/msmq.deb"
cp /etc/resolv.conf "$place/root/etc/"

cat >"$place/root/srv/common" <<'INSIDE'
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
say() { printf 'deb: %s\n' "$*" >&2; }
install() { apt-get -qq install -y --no-install-recommends "$@" >/srv/apt.log 2>&1 || { cat /srv/apt.log >&2; exit 1; }; }
INSIDE

cat >"$place/root/srv/first" <<'INSIDE'
. /srv/common
export MSMQ_SERVER=unix:/tmp/api.sock
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
install /srv/msmq.deb
say "installed: $(msmq --version), for the user $(getent passwd msmq)"
[ "$(stat -c '%U %a' /var/lib/msmq)" = "msmq 700" ]
cd /srv
say "the demo: $(msmq demo | tail -n 20 | grep 'every order arrived once')"
serve
msmq queue create '.\private$\orders' --transactional
msmq send '.\private$\orders' --body 'kept over a kill' --transactional --count 100
say "kill -9"
kill -9 "$process"
wait "$process" || true
say "installed again: $(install --reinstall /srv/msmq.deb && msmq --version)"
serve
kept=$(msmq receive '.\private$\orders' --all --json | grep -c 'kept over a kill')
say "$kept of 100 messages found"
[ "$kept" = 100 ]
kill -TERM "$process"
wait "$process"
INSIDE

# A service of systemd's, which writes its verdict into a file.
cat >"$place/root/srv/units" <<'INSIDE'
. /srv/common
is() { [ "$(systemctl show "$1" -p "$2" --value)" = "$3" ] || { systemctl status "$1" --no-pager -l >&2; return 1; }; }
console() { /usr/lib/msmq/bin/python3 -c 'import urllib.request as it; it.urlopen("http://127.0.0.1:1811/", timeout=60)'; }
/usr/lib/msmq/bin/python3 -c 'import fcntl, socket, struct
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sH14x", b"lo", 0x49))'    # a network with a loopback
systemctl enable --now msmq
is msmq ActiveState active
say "the unit runs as $(systemctl show msmq -p User --value)"
[ "$(stat -c '%U %a' /var/lib/msmq)" = "msmq 700" ]
msmq queue create '.\private$\units' --transactional
setpriv --reuid nobody --clear-groups msmq send '.\private$\units' --body 'kept over a kill' --transactional
console
say "it is reached by other users, and has its console"
systemctl reload msmq
is msmq ActiveState active
kill -9 "$(systemctl show msmq -p MainPID --value)"
until msmq status >/dev/null 2>&1; do sleep 0.2; done
msmq receive '.\private$\units' | grep -q 'kept over a kill'
say "reloaded; killed, started again by systemd, nothing lost"
systemctl stop msmq
is msmq Result success
systemctl enable --now msmq.socket
msmq status >/dev/null
is msmq ActiveState active
say "the socket unit starts it for the first who connects"
(for number in 1 2 3 4 5 6 7 8 9 10; do msmq status >/dev/null || echo refused; done) >/srv/during &
systemctl restart msmq
wait
[ ! -s /srv/during ]
msmq ping 127.0.0.1 | grep -q 'session .* opened'
say "nobody was refused while it was started anew"
systemctl disable --now msmq.socket msmq
mkdir -p /etc/systemd/system/msmq.service.d
rm -rf /run/msmq
printf '[Service]\nDynamicUser=yes\nRuntimeDirectoryPreserve=no\nUser=\nGroup=\nStateDirectory=\nStateDirectory=other\nExecStart=\nExecStart=/usr/bin/msmq serve --data /var/lib/other\n' >/etc/systemd/system/msmq.service.d/zz.conf
systemctl daemon-reload
systemctl start msmq
setpriv --reuid nobody --clear-groups msmq queue list >/dev/null
say "the unit runs with a user of the moment, too"
systemctl stop msmq
rm -r /etc/systemd/system/msmq.service.d
systemctl daemon-reload
systemctl start msmq
say "$(systemd-analyze security msmq.service --no-pager | grep Overall | tr -cd 'A-Za-z0-9:. ')"
echo good >/srv/verdict
INSIDE
cat >"$place/root/srv/last" <<'INSIDE'
. /srv/common
mount -t proc proc /proc
apt-get -qq purge -y msmq >/srv/apt.log 2>&1
say "purged: $(ls -d /var/lib/msmq/store) is still there, the rest is gone"
[ -d /var/lib/msmq/store ] && [ ! -e /usr/lib/msmq ] && [ ! -e /usr/bin/msmq ] && [ ! -e /etc/msmq/msmq.toml ]
INSIDE

inside() { unshare --mount --pid --fork --kill-child chroot "$place/root" /bin/sh "/srv/$1"; }

# The root of the Debian as systemd wants it, in a cgroup of its own; the machine's other cgroups are left as they are.
boot() {
    cgroups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
    if [ -z "$cgroups" ] || ! mkdir -p "$cgroups/msmq-deb-try" 2>/dev/null; then
        say "NOT TRIED: the units, because there is no cgroup to start systemd in"
        return
    fi
    cat >"$place/root/etc/systemd/system/units.service" <<'INSIDE'
[Service]
Type=oneshot
StandardOutput=file:/srv/units.log
StandardError=file:/srv/units.log
ExecStart=/bin/sh /srv/units
ExecStopPost=/bin/systemctl exit 0
INSIDE
    mkdir -p "$place/root/.outside"
    sh -ec 'echo $$ >"$1/msmq-deb-try/cgroup.procs"; shift; exec "$@"' join "$cgroups" \
        timeout -s KILL 180 unshare --mount --pid --cgroup --uts --ipc --net --fork --kill-child sh -ec '
            mount --make-rprivate /
            cd "$1"
            mount --bind . .
            cd "$1"
            mount -t proc proc proc
            for part in proc/sys proc/sysrq-trigger; do
                [ ! -e "$part" ] || { mount --bind "$part" "$part"; mount -o remount,bind,ro "$part"; }
            done
            mount -t sysfs -o ro sysfs sys
            mount -t tmpfs -o mode=755 tmpfs sys/fs
            mkdir sys/fs/cgroup
            mount -t cgroup2 cgroup2 sys/fs/cgroup
            mount -t tmpfs -o mode=755 tmpfs run
            mount -t tmpfs tmpfs tmp
            mount -t tmpfs -o mode=755 tmpfs dev
            # Nodes of its own, and none of the machine: systemd changes who may use the console.
            for node in null:3 zero:5 full:7 random:8 urandom:9 console:3 kmsg:3; do
                mknod -m 666 "dev/${node%:*}" c 1 "${node#*:}"
            done
            mknod -m 666 dev/tty c 5 0
            mkdir dev/shm dev/pts
            mount -t tmpfs tmpfs dev/shm
            mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
            ln -s pts/ptmx dev/ptmx
            ln -s /proc/self/fd dev/fd
            hostname debian
            pivot_root . .outside
            cd /
            umount -l /.outside
            exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \
                /lib/systemd/systemd --system --unit=units.service --show-status=0 --log-target=journal
        ' boot "$place/root" || true
    cat "$place/root/srv/units.log" >&2
    # Those of its services, from within; it is gone when the last of them is.
    find "$cgroups/msmq-deb-try" -depth -type d -exec rmdir {} + 2>/dev/null || true
    grep -q good "$place/root/srv/verdict"
}

inside first
boot
inside last
say "everything was as it should be"
