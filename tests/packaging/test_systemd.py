"""The unit of systemd, started as systemd starts it, and the queue manager that root starts by hand.

The sandbox of the unit is made by hand in namespaces, because where the tests run there may be no systemd: a user
without a home, nothing to write to but the directories of the unit, no home directories, and a network with free ports.
"""

from __future__ import annotations

import configparser
import os
import shlex
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from typer.testing import CliRunner

from msmq.cli import app

ROOT = Path(__file__).resolve().parents[2]
NEEDED = [ROOT, Path(sys.prefix), Path(sys.base_prefix)]
DYNAMIC_USER = "61184"
MSMQ = f"{sys.executable} -m msmq"
AS_ROOT = ["unshare", "--user", "--map-root-user", "--mount", "--net", "sh", "-ec"]


def unit() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    assert parser.read(ROOT / "packaging" / "systemd" / "msmq.service")
    return parser["Service"]


@contextmanager
def running(script: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([*AS_ROOT, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(120)


def command_line(server: Path, *arguments: str) -> str:
    result = CliRunner().invoke(app, ["--server", f"unix:{server}", *arguments])
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_the_unit_starts_with_the_documented_configuration(tmp_path: Path) -> None:
    service = unit()
    state, runtime, config = (
        service[name] for name in ("StateDirectory", "RuntimeDirectory", "ConfigurationDirectory")
    )
    for name in ("state", "runtime", "config"):
        (tmp_path / name).mkdir()
    (tmp_path / "config" / "msmq.toml").write_text(command_line(tmp_path, "config", "show", "--defaults"))
    start = service["ExecStart"].replace(f"/etc/{config}", "/run/shared/config")
    assert start.startswith("/usr/bin/msmq ")
    hidden = [
        place
        for place in ("/home", "/root")
        if not any(path.is_relative_to(place) for path in NEEDED) and Path(place).is_dir()
    ]
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/",
        "USER": "msmq",
        "STATE_DIRECTORY": f"/var/lib/{state}",
        "RUNTIME_DIRECTORY": f"/run/{runtime}",
        "CONFIGURATION_DIRECTORY": f"/etc/{config}",
        "NOTIFY_SOCKET": "/run/shared/notify",
    }
    script = f"""
        mount -t tmpfs tmpfs /run
        mkdir /run/{runtime} /run/shared
        mount --bind {shlex.quote(str(tmp_path))} /run/shared
        mount --bind /run/shared/runtime /run/{runtime}
        mount -t tmpfs tmpfs /var/lib
        mkdir /var/lib/{state}
        mount --bind /run/shared/state /var/lib/{state}
        mkdir /run/kept
        mount --bind {ROOT} /run/kept
        mount -t tmpfs tmpfs /tmp
        if [ ! -e {ROOT} ]; then mkdir -p {ROOT} && mount --bind /run/kept {ROOT}; fi  # it lay there
        for place in {" ".join(hidden)}; do mount -t tmpfs -o mode=000 tmpfs $place; done
        mount -o remount,bind,ro /
        cd /
        exec unshare --user --map-user {DYNAMIC_USER} --map-group {DYNAMIC_USER} env -i \
            {shlex.join(f"{name}={value}" for name, value in environment.items())} \
            {start.replace("/usr/bin/msmq", MSMQ)}
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(str(tmp_path / "notify"))
        notified.settimeout(300)
        with running(script) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            ready = process.stdout.readline()
            assert ready.startswith(b"ready"), process.stderr.read().decode()
            assert f"unix:/run/{runtime}/api.sock" in ready.decode()
            assert notified.recv(100) == b"READY=1"
            command_line(tmp_path / "runtime" / "api.sock", "queue", "create", ".\\private$\\orders")
        assert process.returncode == 0
    assert (tmp_path / "state" / "store").is_dir()


def test_the_socket_of_root_is_for_everybody_whatever_the_umask(tmp_path: Path) -> None:
    place = tmp_path / "run"
    place.mkdir()
    script = f"""
        mount --bind {shlex.quote(str(place))} /run
        umask 077
        unset XDG_RUNTIME_DIR
        exec {MSMQ} serve --data {shlex.quote(str(tmp_path / "data"))} --name HOST
    """
    with running(script) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"ready"), process.stderr.read().decode()
        assert stat.S_IMODE(os.stat(place / "msmq").st_mode) == 0o755
        assert stat.S_IMODE(os.stat(place / "msmq" / "api.sock").st_mode) == 0o666
        assert "HOST" in command_line(place / "msmq" / "api.sock", "manager", "show")
