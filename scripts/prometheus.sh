#!/bin/sh
# Unpacks Prometheus and its promtool from Debian's package into build/prometheus: tests have them check the metrics, the
# alert rules and what a scrape brings. Nothing is installed and no service is started.
set -eu
cd "$(dirname "$0")/.."

target=build/prometheus
mkdir -p "$target"
exec 9>"$target/.lock"
flock 9
if [ -x "$target/usr/bin/promtool" ]; then
    exit 0
fi
(cd "$target" && { apt-get -qq download prometheus || { apt-get -qq update && apt-get -qq download prometheus; }; } >&2)
for package in "$target"/*.deb; do
    dpkg -x "$package" "$target"
done
rm -f "$target"/*.deb
test -x "$target/usr/bin/promtool"
