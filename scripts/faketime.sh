#!/bin/sh
# Make sure that libfaketime is there: tests of high availability give processes clocks that are wrong. Nothing is
# installed: Debian's package is unpacked into a directory (build/faketime by default). Prints the path of the library.
set -eu

target=${1:-build/faketime}
find_library() {
    find "$target" -name libfaketime.so.1 2>/dev/null | head -n 1
}
if [ -z "$(find_library)" ]; then
    mkdir -p "$target"
    (cd "$target" && { apt-get -qq download libfaketime >&2 || { apt-get -qq update >&2 && apt-get -qq download libfaketime >&2; }; })
    dpkg -x "$target"/libfaketime_*.deb "$target"
fi
found=$(find_library)
printf '%s\n' "$(cd "$(dirname "$found")" && pwd)/libfaketime.so.1"
