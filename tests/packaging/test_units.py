"""Units, users, directories, and files for systems that nobody has tried: what a machine can check of them here."""

from __future__ import annotations

import plistlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
EXPOSURE_LIMIT = 20
"""Tenths: what `systemd-analyze security` calls the exposure of a service, from 0 to 100."""


def test_the_unit_is_not_exposed() -> None:
    unit = PACKAGING / "systemd" / "msmq.service"
    command = [
        "systemd-analyze",
        "security",
        "--offline=true",
        "--no-pager",
        f"--threshold={EXPOSURE_LIMIT}",
        str(unit),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    level = re.search(r"Overall exposure level for msmq.service: ([\d.]+)", done.stdout)
    assert level
    assert float(level[1]) * 10 <= EXPOSURE_LIMIT


def test_the_package_makes_its_user_and_directory(tmp_path: Path) -> None:
    """In a root of their own: nothing of this machine is touched."""
    for name in ("sysusers", "tmpfiles"):
        place = tmp_path / "usr" / "lib" / f"{name}.d"
        place.mkdir(parents=True)
        shutil.copy(PACKAGING / "debian" / f"msmq.{name}", place / "msmq.conf")
    (tmp_path / "etc").mkdir()
    (tmp_path / "var" / "lib").mkdir(parents=True)
    subprocess.run(["systemd-sysusers", f"--root={tmp_path}", "msmq.conf"], check=True, capture_output=True)
    (line,) = (tmp_path / "etc" / "passwd").read_text().splitlines()
    _, _, uid, _, _, home, shell = line.split(":")
    assert (home, shell) == ("/var/lib/msmq", "/usr/sbin/nologin")
    command = ["systemd-tmpfiles", f"--root={tmp_path}", "--create", "msmq.conf"]
    subprocess.run(command, check=True, capture_output=True)
    made = (tmp_path / "var" / "lib" / "msmq").stat()
    assert (oct(made.st_mode), str(made.st_uid)) == ("0o40700", uid)


@pytest.fixture(scope="module")
def debian_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the bare source; `make deb` puts the locked dependencies beside it."""
    place = tmp_path_factory.mktemp("deb")
    copy = place / "source"
    shutil.copytree(PACKAGING, copy / "packaging")
    for name in ("pyproject.toml", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, copy / name)
    packages = place / "packages"
    shutil.copytree(ROOT / "src", packages, ignore=shutil.ignore_patterns("testing"))
    command = [str(copy / "packaging" / "debian" / "build.sh"), str(packages)]
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SOURCE_DATE_EPOCH": "1700000000"}
    made = []
    for _ in range(2):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        path = copy / done.stdout.strip()
        made.append(path.read_bytes())
    assert made[0] == made[1]
    return path


def test_the_debian_package_has_what_a_service_needs(debian_package: Path, tmp_path: Path) -> None:
    subprocess.run(["dpkg-deb", "-R", str(debian_package), str(tmp_path)], check=True)
    for name in (
        "usr/bin/msmq",
        "usr/lib/msmq/pyvenv.cfg",
        "usr/lib/systemd/system/msmq.service",
        "usr/lib/systemd/system/msmq.socket",
        "usr/lib/systemd/system/msmq.service.d/user.conf",
        "usr/lib/sysusers.d/msmq.conf",
        "usr/lib/tmpfiles.d/msmq.conf",
        "etc/msmq/msmq.toml",
        "usr/share/doc/msmq/copyright",
    ):
        assert (tmp_path / name).is_file(), name
    (python,) = (tmp_path / "usr" / "lib" / "msmq" / "lib").iterdir()
    assert (python / "site-packages" / "msmq" / "cli" / "__init__.py").is_file()
    assert (tmp_path / "DEBIAN" / "conffiles").read_text() == "/etc/msmq/msmq.toml\n"
    control = (tmp_path / "DEBIAN" / "control").read_text()
    assert re.search(r"^Depends: python3 \(>= 3\.\d+\), python3 \(<< 3\.\d+\)", control, re.MULTILINE)
    for script in ("postinst", "prerm", "postrm"):
        subprocess.run(["sh", "-n", str(tmp_path / "DEBIAN" / script)], check=True)
    assert "rm -rf /var/lib" not in (tmp_path / "DEBIAN" / "postrm").read_text()
    for unit in (tmp_path / "usr/lib/systemd/system").glob("msmq.*"):
        if unit.is_file():  # a socket that stays would start a program that is gone
            assert unit.name in (tmp_path / "DEBIAN" / "prerm").read_text()


def test_what_the_installed_command_starts_finds_the_package(debian_package: Path, tmp_path: Path) -> None:
    """The console and the demo are processes that are started with the interpreter of the command."""
    subprocess.run(["dpkg-deb", "-R", str(debian_package), str(tmp_path)], check=True)
    first, *_ = (tmp_path / "usr" / "bin" / "msmq").read_text().splitlines()
    interpreter = first.removeprefix("#!").removesuffix(" -I")
    ask = "import importlib.util, sys; print(sys.executable, importlib.util.find_spec('msmq').origin)"
    command = [f"{tmp_path}{interpreter}", "-I", "-c", ask]
    executable, origin = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert executable == command[0]
    assert Path(origin).is_relative_to(tmp_path)


def test_the_socket_of_the_socket_unit_outlives_the_service() -> None:
    """`make deb-try` starts the units; these are the settings it depends on."""
    unit, user, socket = (
        (PACKAGING / name).read_text(encoding="utf-8").splitlines()
        for name in ("systemd/msmq.service", "debian/user.conf", "systemd/msmq.socket")
    )
    assert {"StateDirectoryMode=0700", "RuntimeDirectory=msmq", "DynamicUser=yes"} <= {*unit}
    assert {"DynamicUser=no", "User=msmq", "RuntimeDirectoryPreserve=yes"} <= {*user}
    assert {"ListenStream=0.0.0.0:1801", "BindIPv6Only=ipv6-only"} <= {*socket}


def test_files_that_nobody_tried_say_so() -> None:
    plist = PACKAGING / "launchd" / "org.openmsmq.msmq.plist"
    for path in (plist, *(PACKAGING / "windows").glob("*.ps1")):
        assert "NEVER RUN" in path.read_text(encoding="utf-8"), path
    job = plistlib.loads(plist.read_bytes())
    assert job["ProgramArguments"][1] == "serve"
