#!/bin/sh
# Make the project's own environment in .venv: with "run", what the queue manager needs to run
# (requirements/run.lock); with "dev" or nothing, all that tests and documentation need too (requirements/dev.lock).
# Every make target that needs it calls this. A stamp for each of the two remembers what the environment was made
# from, so nothing is done when nothing changed, and an interrupted set-up is taken up again. Progress goes to
# standard error.
set -eu
cd "$(dirname "$0")/.."

LEVEL=${1:-dev}
case $LEVEL in
    run | dev) LOCK=requirements/$LEVEL.lock ;;
    *) echo "usage: $0 [run|dev]" >&2; exit 2 ;;
esac
ENVIRONMENT=.venv
STAMP=$ENVIRONMENT/.stamp
OLDEST=3.11

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { for line in "$@"; do say "$line"; done; exit 1; }

# PYTHON if the caller names one, else that of the environment, else the first on the path that is new enough.
find_python() {
    for candidate in ${PYTHON:-$ENVIRONMENT/bin/python python3 python3.14 python3.13 python3.12 python3.11}; do
        if "$candidate" -c "import sys; sys.exit(sys.version_info < (${OLDEST%.*}, ${OLDEST#*.}))" 2>/dev/null; then
            printf '%s' "$candidate"
            return
        fi
    done
    fail "Python $OLDEST or newer is needed; found: $("${PYTHON:-python3}" --version 2>/dev/null || echo none)" \
         "Install one (Debian: apt-get install python3) or name it: make PYTHON=/path/to/python3.11 ..."
}

identity() { "$1" -c 'import sys; print(sys.base_prefix, sys.version.replace("\n", " "))' 2>/dev/null; }

# Debian ships the venv module without its bootstrap; python3-venv, or the one of another Python, brings it.
need_venv() {
    has_venv "$1" && return
    version=$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        fail "$1 has no venv module, and only root can install it" \
             "Run: sudo apt-get install python3-venv   (or your system's equal), then run make again"
    fi
    say "installing the system package python3-venv"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >&2 || true
    for package in python3-venv "python$version-venv"; do
        apt-get install -y -qq --no-install-recommends "$package" >&2 || true
        has_venv "$1" && return
    done
    fail "$1 still has no venv module; install python$version-venv by hand, then run make again"
}

# The Kerberos bindings come as source: they need its library, a compiler and Python's headers. Without optimization
# they take a third of the time to build, and they spend theirs in the library anyway.
need_kerberos() {
    grep -q '^gssapi' "$LOCK" || return 0
    "$1" -c 'import gssapi, krb5' 2>/dev/null && return
    export CFLAGS="${CFLAGS:--O0 -g0}"
    missing=
    command -v krb5-config >/dev/null 2>&1 || missing="libkrb5-dev"
    command -v gcc >/dev/null 2>&1 || missing="$missing gcc libc6-dev"
    headers=$("$1" -c 'import sysconfig; print(sysconfig.get_path("include"))')
    [ -f "$headers/Python.h" ] || missing="$missing python3-dev"
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        fail "Kerberos needs system packages, and only root can install them" \
             "Run: sudo apt-get install $missing   (or your system's equals), then run make again"
    fi
    say "installing the system packages $missing"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >&2 || true
    # shellcheck disable=SC2086
    apt-get install -y -qq --no-install-recommends $missing >&2
}

has_venv() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

# What the environment is made from, for one of the two; the pins of the larger one are those of the smaller.
wanted() { pwd -P; printf '%s\n' "$identity"; cat "requirements/$1.lock" pyproject.toml scripts/setup.sh | cksum; }
made() { [ -f "$STAMP-$1" ] && [ "$(cat "$STAMP-$1")" = "$(wanted "$1")" ]; }

# An environment that was moved or copied here names its old place in its scripts.
for stamp in "$STAMP"-*; do
    if [ -f "$stamp" ] && [ "$(head -n 1 "$stamp")" != "$(pwd -P)" ]; then
        rm -rf "$ENVIRONMENT"
    fi
done
python=$(find_python)
identity=$(identity "$python")
if made dev || made "$LEVEL"; then
    exit 0
fi

if [ "$(identity "$ENVIRONMENT/bin/python")" != "$identity" ]; then
    need_venv "$python"
    say "making $ENVIRONMENT with $("$python" --version)"
    "$python" -m venv --clear "$ENVIRONMENT"
fi
need_kerberos "$ENVIRONMENT/bin/python"
say "installing the locked packages of $LOCK"
pip="$ENVIRONMENT/bin/python -m pip --disable-pip-version-check -qq"
# What is not imported need not be compiled: most of it is not, and the rest is compiled when it is imported.
$pip install --no-compile --require-hashes -r "$LOCK" >&2
$pip install --no-compile --no-deps --no-build-isolation --editable . >&2
wanted "$LEVEL" >"$STAMP-$LEVEL"
say "ready"
