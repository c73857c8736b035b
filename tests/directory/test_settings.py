"""How a domain controller is reached."""

from __future__ import annotations

from msmq.directory.settings import Password, Protection, Server, Settings


def test_ports() -> None:
    settings = Settings((Server("dc1"),), Password("user", "secret"))
    assert settings.port_of(Server("dc1")) == 389
    assert settings.port_of(Server("dc1", port=1389)) == 1389
    encrypted = Settings((), settings.credential, Protection.TLS)
    assert encrypted.port_of(Server("dc1")) == 636
    assert settings.of_catalog("").port_of(Server("dc1", port=1389)) == 3268
    assert settings.of_catalog("").port_of(Server("dc1", catalog_port=9)) == 9
    assert encrypted.of_catalog("").port_of(Server("dc1")) == 3269


def test_the_catalog_is_looked_for_in_the_forest_if_anything_is_looked_for() -> None:
    named = Settings((Server("dc1"),), Password("user", "secret"))
    assert named.of_catalog("corp.example").domain == ""
    found = Settings((), named.credential, domain="child.corp.example")
    assert found.of_catalog("corp.example").domain == "corp.example"


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(Settings((), Password("user", "secret")))
