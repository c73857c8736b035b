#!/bin/sh
# Build packaging/container/Containerfile with buildah and try the image: the demo, then a queue manager that is killed
# and started again on its volume. No container engine is needed, no daemon, and no registry: with BASE unset the base
# image is made by debootstrap. The image is run as an engine would run it, as far as a mount namespace and chroot go:
# as its own user, with a read-only root, tmpfs on /run/msmq and /tmp, and a volume. Needs root, and apt the first time.
#
# usage: scripts/container.sh [DIRECTORY]      where images and volumes are kept; build/container
set -eu
cd "$(dirname "$0")/.."
place=${1:-build/container}
mkdir -p "$place"
place=$(cd "$place" && pwd -P)
image=localhost/openmsmq
say() { printf 'container: %s\n' "$*" >&2; }

missing=
command -v buildah >/dev/null 2>&1 || missing=buildah
[ -n "${BASE:-}" ] || command -v debootstrap >/dev/null 2>&1 || missing="$missing debootstrap"
if [ -n "$missing" ]; then
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        say "$missing is missing; as root: apt-get install --no-install-recommends $missing"
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086
    apt-get -o DPkg::Lock::Timeout=300 -qq install -y --no-install-recommends $missing >&2
fi
buildah() { command buildah --root "$place/storage" --runroot "$place/run" --storage-driver vfs "$@"; }

if [ -z "${BASE:-}" ]; then
    BASE=localhost/debian:bookworm-slim
    if ! buildah inspect --type image "$BASE" >/dev/null 2>&1; then
        if [ ! -e "$place/base/.made" ]; then
            say "making the base image with debootstrap"
            rm -rf "$place/base"
            debootstrap --variant=minbase bookworm "$place/base" http://deb.debian.org/debian >"$place/debootstrap.log" 2>&1
            touch "$place/base/.made"
        fi
        name=$(buildah from scratch)
        buildah add --quiet "$name" "$place/base" / >/dev/null
        buildah commit --quiet --rm "$name" "$BASE" >/dev/null
    fi
fi

say "building $image"
# A machine that reaches the index through a proxy of its own needs that proxy's authority inside as well.
set --
if [ -n "${PIP_CERT:-}" ]; then
    printf '[global]\ncert = /etc/pip-authorities.pem\n' >"$place/pip.conf"
    set -- --volume "$PIP_CERT:/etc/pip-authorities.pem:ro" --volume "$place/pip.conf:/etc/pip.conf:ro"
fi
buildah build --layers --isolation chroot --format docker --quiet --build-arg "BASE=$BASE" "$@" \
    --ignorefile packaging/container/.containerignore -f packaging/container/Containerfile -t "$image" . >/dev/null

name=$(buildah from "$image")
root=$(buildah mount "$name")
volume=$place/volume
trap 'buildah rm "$name" >/dev/null' EXIT
rm -rf "$volume"
install -d -o 1801 -g 1801 -m 0700 "$volume"
buildah inspect --format '{{range .OCIv1.Config.Env}}{{println .}}{{end}}' "$name" >"$place/environment"

# One command in the image, as an engine runs it; with "exec" a shell that is replaced by it, so that signals arrive.
inside() {
    exec unshare --mount --propagation private sh -ec '
        root=$1 volume=$2 environment=$3 shared=$4
        shift 4
        mount --bind "$root" "$root"
        mount --bind "$volume" "$root/var/lib/msmq"
        mount --bind "$shared" "$root/run/msmq"
        mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        mount -o remount,bind,ro "$root"
        # shellcheck disable=SC2046
        exec /usr/sbin/chroot --userspec=1801:1801 "$root" /usr/bin/env -i $(cat "$environment") HOME=/var/lib/msmq "$@"
    ' inside "$root" "$volume" "$place/environment" "$place/shared" "$@"
}
rm -rf "$place/shared"
install -d -o 1801 -g 1801 -m 0755 "$place/shared"

say "it is not root, and cannot write to its root"
(inside sh -ec 'test "$(id -u)" = 1801; ! touch /usr/x 2>/dev/null; ! touch /opt/msmq/x 2>/dev/null; touch /var/lib/msmq/x; rm /var/lib/msmq/x')
say "the demo"
(inside msmq demo)

start() {
    (inside msmq serve --name CONTAINER --listen 127.0.0.1 --port 0 --ping-port 0 --rpc-port 0) >"$place/out" 2>"$place/log" &
    process=$!
    while ! grep -q ^ready "$place/out"; do
        kill -0 "$process" || { cat "$place/log" >&2; exit 1; }
        sleep 0.2
    done
}
start
(inside msmq manager show --json) >/dev/null && say "healthy"
(inside msmq queue create '.\private$\orders' --transactional)
(inside msmq send '.\private$\orders' --body 'kept over a kill' --transactional --count 100)
say "kill -9"
kill -9 "$process"
wait "$process" || true
start
kept=$( (inside msmq receive '.\private$\orders' --all --json) | grep -c 'kept over a kill')
say "$kept of 100 messages found after the kill"
kill -TERM "$process"
status=0
wait "$process" || status=$?
say "SIGTERM ended it with status $status"
[ "$kept" = 100 ] && [ "$status" = 0 ]
say "everything was as it should be"
