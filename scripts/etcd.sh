#!/bin/sh
# Make sure that etcd is there: tests of high availability run a cluster of their own for Patroni. Debian's package is
# unpacked into a directory (build/etcd by default) unless the system has one. Prints the path of the program.
set -eu

target=${1:-build/etcd}
if command -v etcd; then
    exit 0
fi
"$(dirname "$0")/unpack.sh" etcd-server "$target"
printf '%s\n' "$(cd "$target" && pwd)/usr/bin/etcd"
