#!/bin/sh
# Make sure that etcd is there: tests of high availability run a cluster of their own for Patroni. Nothing is installed
# and no service is started: Debian's package is unpacked into a directory (build/etcd by default) unless the system
# has one. Prints the path of the program.
set -eu

target=${1:-build/etcd}
if command -v etcd; then
    exit 0
fi
if [ ! -x "$target/usr/bin/etcd" ]; then
    mkdir -p "$target"
    (cd "$target" && { apt-get -qq download etcd-server >&2 || { apt-get -qq update >&2 && apt-get -qq download etcd-server >&2; }; })
    dpkg -x "$target"/etcd-server_*.deb "$target"
fi
printf '%s\n' "$(cd "$target" && pwd)/usr/bin/etcd"
