#!/bin/sh
# Make sure that PostgreSQL's server programs are there: the tests of high availability run clusters of their own.
# Installs only what is missing, makes no cluster and starts no service, and says so when it may not install.
# Prints the directory of the programs.
set -eu

# Several processes of a test run ask at once.
exec 9>"${TMPDIR:-/tmp}/msmq-postgres-$(id -u).lock"
flock 9

find_programs() { ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1; }

programs=$(find_programs)
if [ -z "$programs" ] || [ ! -x "$programs/postgres" ]; then
    if [ "$(id -u)" -ne 0 ]; then
        echo "postgresql is missing; as root: apt-get install --no-install-recommends postgresql-15" >&2
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    options="-o DPkg::Lock::Timeout=300 -qq"
    tries=1
    # shellcheck disable=SC2086 # the options are words
    until apt-get $options install -y --no-install-recommends postgresql-common >&2; do
        [ "$tries" -lt 6 ] || exit 1
        tries=$((tries + 1))
        apt-get $options update >&2 || sleep 10 # somebody else may be at it
    done
    mkdir -p /etc/postgresql-common/createcluster.d
    echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.d/msmq.conf
    # shellcheck disable=SC2086
    apt-get $options install -y --no-install-recommends postgresql-15 >&2
    programs=$(find_programs)
fi
printf '%s\n' "$programs"
