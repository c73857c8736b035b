"""The table [directory], as operators write it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msmq.directory.settings import CredentialCache, Keytab, Password, Protection, Server
from msmq.server.config import load, show
from msmq.server.directory_settings import ConfigError, DirectorySettings

DC = "dc1.corp.example"


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, "none"),
        ({"file": "x"}, "file"),
        ({"servers": (DC,)}, "ldap"),
        ({"servers": (DC,), "file": "x", "kind": "ldap"}, "ldap"),
        ({"servers": (DC,), "kind": "none"}, "none"),
    ],
    ids=["nothing", "file", "servers", "both", "off"],
)
def test_which_kind_is_meant(options: dict[str, Any], kind: str) -> None:
    assert DirectorySettings(**options).wanted == kind


@pytest.mark.parametrize(
    ("text", "server"),
    [
        (DC, Server(DC)),
        (f"{DC}:3389", Server(DC, None, 3389)),
        (f"{DC}@10.0.0.1", Server(DC, "10.0.0.1")),
        (f"{DC}@10.0.0.1:3389", Server(DC, "10.0.0.1", 3389)),
        (f"{DC}@[fe80::1]:3389", Server(DC, "fe80::1", 3389)),
        (f"{DC}@[fe80::1]", Server(DC, "fe80::1")),
    ],
)
def test_servers(text: str, server: Server) -> None:
    assert DirectorySettings(servers=(text,)).connection().servers == (server,)


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "nds"},
        {"kind": "file"},
        {"kind": "ldap"},
        {"servers": (DC,), "protection": "hope"},
        {"servers": (DC,), "mechanism": "digest"},
        {"servers": (f"{DC}:x",)},
        {"servers": (f"{DC}:0",)},
        {"servers": ("",)},
        {"servers": (DC,), "keytab": "x"},
        {"servers": (DC,), "principal": "x", "keytab": "x", "password_file": "y"},
        {"servers": (DC,), "principal": "x", "keytab": "x", "protection": "tls"},
    ],
    ids=str,
)
def test_what_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="directory"):
        DirectorySettings(**options)


def test_ways_to_log_on(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("pass word \n", encoding="utf-8")
    whole = DirectorySettings(servers=(DC,), principal="QM1$@R", password_file=str(secret), protection="tls")
    assert whole.connection().credential == Password("QM1$@R", "pass word ")
    assert whole.connection().protection is Protection.TLS
    assert whole.connection().certificate_authority is None
    keytab = DirectorySettings(servers=(DC,), principal="QM1$@R", keytab="k")
    assert keytab.connection().credential == Keytab("QM1$@R", Path("k"))
    cache = DirectorySettings(servers=(DC,), ticket_cache="c")
    assert cache.connection().credential == CredentialCache(Path("c"))
    assert DirectorySettings(servers=(DC,)).connection().credential == CredentialCache(None)
    secret.unlink()
    with pytest.raises(ConfigError, match="password_file"):
        whole.connection()


def test_paths_start_at_the_file(tmp_path: Path) -> None:
    file = tmp_path / "qm.toml"
    file.write_text(
        f'[directory]\nservers = ["{DC}"]\nprincipal = "QM1$@R"\nkeytab = "qm.keytab"\n'
        'certificate_authority = "/etc/ca.pem"\n',
        encoding="utf-8",
    )
    settings = load(file).directory
    assert settings.keytab == str(tmp_path / "qm.keytab")
    assert settings.connection().certificate_authority == Path("/etc/ca.pem")
    again = tmp_path / "again.toml"
    again.write_text(show(load(file)), encoding="utf-8")
    assert load(again).directory == settings
