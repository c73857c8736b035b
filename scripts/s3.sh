#!/bin/sh
# Makes an environment in build/s3 with moto, a server that speaks the protocol of Amazon's object store: tests archive to
# it. It has requirements of its own, which nothing else shall depend on. Prints its Python.
set -eu
cd "$(dirname "$0")/.."

target=build/s3
mkdir -p build
exec 9>build/.s3-lock
flock 9
if [ ! -f "$target/.made" ]; then
    python=${PYTHON:-.venv/bin/python}
    "$python" -m venv --clear --without-pip "$target" >&2
    "$python" -m pip --python "$target/bin/python" --disable-pip-version-check -qq install --no-compile \
        'moto[s3]==5.2.5' 'flask==3.1.2' 'flask-cors==6.0.1' >&2
    touch "$target/.made"
fi
printf '%s\n' "$PWD/$target/bin/python"
