"""How a domain controller is reached."""

from __future__ import annotations

from msmq.directory.settings import Password, Protection, Server, Settings


def test_ports() -> None:
    settings = Settings((Server("dc1"),), Password("user", "secret"))
    assert settings.port_of(Server("dc1")) == 389
    assert settings.port_of(Server("dc1", port=1389)) == 1389
    encrypted = Settings((), settings.credential, Protection.TLS)
    assert encrypted.port_of(Server("dc1")) == 636


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(Settings((), Password("user", "secret")))
