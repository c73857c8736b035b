#!/bin/sh
# Unpacks the brokers that bench/peers.py measures, from Debian's packages, into a directory (build/peers by default).
# Nothing is installed and no service is started.
set -eu

target=${1:-build/peers}
packages="redis-server redis-tools liblzf1 libjemalloc2 nats-server rabbitmq-server
erlang-base erlang-asn1 erlang-crypto erlang-public-key erlang-mnesia erlang-runtime-tools erlang-ssl erlang-eldap
erlang-ftp erlang-tftp erlang-inets erlang-snmp erlang-os-mon erlang-parsetools erlang-syntax-tools erlang-tools
erlang-xmerl libwrap0"

mkdir -p "$target/packages"
cd "$target"
root=$(pwd)
(cd packages && apt-get download $packages)
for package in packages/*.deb; do
    dpkg -x "$package" "$root"
done
for script in usr/lib/erlang/bin/erl usr/lib/erlang/bin/start usr/lib/erlang/erts-*/bin/erl usr/lib/erlang/erts-*/bin/start; do
    sed -i "s#ROOTDIR=/usr/lib/erlang#ROOTDIR=$root/usr/lib/erlang#" "$script"
done
echo "brokers are in $root"
