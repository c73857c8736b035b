#!/bin/sh
# Build dist/msmq_VERSION_ARCH.deb: the package and its locked dependencies in an environment of their own, /usr/lib/msmq,
# command, unit, user.
# The same source and lock give the same bytes (SOURCE_DATE_EPOCH). It is for the Python of the machine it is built on,
# and depends on that version: build it on the Debian it is for.
#
# usage: packaging/debian/build.sh [DIRECTORY]     the packages to put in, when somebody has installed them there already
set -eu
cd "$(dirname "$0")/../.."

python=${PYTHON:-/usr/bin/python3}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1580601600)}
export SOURCE_DATE_EPOCH
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml | sed 's/\.dev/~dev/; s/\(a\|b\|rc\)\([0-9]\)/~\1\2/')
abi=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
next=$("$python" -c 'import sys; print("%d.%d" % (sys.version_info[0], sys.version_info[1] + 1))')
architecture=$(dpkg --print-architecture)
umask 022
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
root=$scratch/root
mkdir -p "$root/DEBIAN" "$root/usr/bin" "$root/etc/msmq" "$root/usr/lib/systemd/system/msmq.service.d" \
    "$root/usr/lib/sysusers.d" "$root/usr/lib/tmpfiles.d" "$root/usr/share/doc/msmq"

# A virtual environment, so that processes which the command starts find everything too.
home=$root/usr/lib/msmq
site=$home/lib/python$abi/site-packages
mkdir -p "$home/bin" "$(dirname "$site")"
ln -s "/usr/bin/python$abi" "$home/bin/python3"
printf 'home = /usr/bin\ninclude-system-site-packages = false\nversion = %s\n' "$abi" >"$home/pyvenv.cfg"

if [ $# -gt 0 ]; then
    cp -r "$1" "$site"
else
    "$python" -m venv "$scratch/venv"
    pip="$scratch/venv/bin/pip --disable-pip-version-check --quiet"
    $pip install --require-hashes -r requirements/run.lock
    $pip install --no-compile --require-hashes --target "$site" -r requirements/run.lock
    rm -rf "$site/bin"    # or pip complains that it is there
    $pip install --no-compile --no-deps --no-build-isolation --target "$site" .
fi
# Only what is run: no builders, no scripts that name this machine's Python.
for name in bin hatchling hatchling-* editables editables-* pluggy pluggy-* pathspec pathspec-* trove_classifiers*; do
    rm -rf "$site"/$name
done
find "$root" -name __pycache__ -type d -prune -exec rm -rf {} +
find "$root" -name direct_url.json -delete

cat >"$root/usr/bin/msmq" <<EOF
#!/usr/lib/msmq/bin/python3 -I
from msmq.cli import main

main()
EOF
chmod 755 "$root/usr/bin/msmq"
cp packaging/systemd/msmq.service packaging/systemd/msmq.socket "$root/usr/lib/systemd/system/"
cp packaging/debian/user.conf "$root/usr/lib/systemd/system/msmq.service.d/"
cp packaging/debian/msmq.sysusers "$root/usr/lib/sysusers.d/msmq.conf"
cp packaging/debian/msmq.tmpfiles "$root/usr/lib/tmpfiles.d/msmq.conf"
cp packaging/debian/msmq.toml "$root/etc/msmq/"
cp LICENSE "$root/usr/share/doc/msmq/copyright"
gzip -9nc CHANGELOG.md >"$root/usr/share/doc/msmq/changelog.gz"
for script in postinst prerm postrm; do
    cp "packaging/debian/$script" "$root/DEBIAN/"
    chmod 755 "$root/DEBIAN/$script"
done
echo /etc/msmq/msmq.toml >"$root/DEBIAN/conffiles"
cat >"$root/DEBIAN/control" <<EOF
Package: msmq
Version: $version
Architecture: $architecture
Maintainer: The OpenMSMQ authors <noreply@example.org>
Section: net
Priority: optional
Depends: python3 (>= $abi), python3 (<< $next), systemd
Installed-Size: $(du -sk --apparent-size "$root/usr" | cut -f1)
Description: queue manager that speaks the protocols of Microsoft Message Queuing
 OpenMSMQ exchanges messages with other queue managers over TCP 1801, keeps them
 in a durable store, and serves applications, people and other hosts.
EOF
find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
mkdir -p dist
dpkg-deb --root-owner-group -Zxz --build "$root" "dist/msmq_${version}_$architecture.deb" >&2
echo "dist/msmq_${version}_$architecture.deb"
