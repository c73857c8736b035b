#!/bin/sh
# Unpack a package of Debian into a directory, once: unpack.sh PACKAGE DIRECTORY. Nothing is installed and no service is
# started. Several may ask at once, and others may be using apt.
set -eu

package=$1
target=$2
mkdir -p "$(dirname "$target")"
exec 9>"$target.lock"
flock 9
if [ ! -e "$target/complete" ]; then
    rm -rf "$target"
    mkdir -p "$target"
    cd "$target"
    tries=1
    until apt-get -qq download "$package" >&2; do
        [ "$tries" -lt 6 ] || exit 1
        tries=$((tries + 1))
        apt-get -qq update >&2 || sleep 10 # somebody else may be at it
    done
    dpkg -x "$package"_*.deb .
    touch complete
fi
