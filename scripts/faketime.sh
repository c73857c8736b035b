#!/bin/sh
# Make sure that libfaketime is there: tests of high availability give processes clocks that are wrong. Debian's package
# is unpacked into a directory (build/faketime by default). Prints the path of the library.
set -eu

target=${1:-build/faketime}
"$(dirname "$0")/unpack.sh" libfaketime "$target"
find "$(cd "$target" && pwd)" -name libfaketime.so.1
