"""Texts inside property values."""

from __future__ import annotations

import pytest

from msmq.wire.properties.texts import is_distinguished_name, is_fqdn, is_ldap_url


@pytest.mark.parametrize(
    "text",
    [
        "CN=msmq",
        "CN=msmq,CN=srv,CN=Computers,DC=corp,DC=example",
        "OU=Sales+CN=J. Smith,DC=example,DC=net",
        r"CN=James \"Jim\" Smith\, III,DC=example,DC=net",
        r"CN=Before\0dAfter,DC=example",
        "1.3.6.1.4.1.1466.0=#04024869",
        "CN=a=b,DC=x",
        r"CN=trailing\ ,DC=x",
        r"CN=\#sharp,DC=x",
        "CN=,DC=x",
        "CN=Größe,DC=x",
    ],
)
def test_distinguished_names(text: str) -> None:
    assert is_distinguished_name(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "msmq",
        "CN=a,",
        ",CN=a",
        "=a",
        "CN=a;DC=b",
        "CN= a",
        "CN=a ,DC=b",
        'CN="a"',
        "CN=a\\",
        r"CN=a\zz",
        "CN=#0",
        "C N=a",
        "CN=a\0",
        "1..2=a",
    ],
)
def test_other_texts_are_no_distinguished_names(text: str) -> None:
    assert not is_distinguished_name(text)


def test_long_texts_are_read_in_one_pass() -> None:
    """A second look at each character for each other would take hours."""
    assert not is_distinguished_name("CN=" + "a " * 500_000 + '"')
    assert not is_distinguished_name("CN=a," * 200_000 + '"')
    assert not is_distinguished_name("CN=" + " " * 500_000)


def test_ldap_urls() -> None:
    path = "CN=MyQueue,CN=msmq,CN=MyComp,CN=Computers,DC=MyDomain,DC=MyCompany,DC=COM"
    assert is_ldap_url(f"LDAP://MyLDAPServer/{path}")
    assert is_ldap_url(f"ldap:///{path}")
    for bad in (
        f"HTTP://MyLDAPServer/{path}",
        "LDAP://MyLDAPServer/",
        f"LDAP:/{path}",
        f"LDAP://a/{path}?sub",
    ):
        assert not is_ldap_url(bad)


def test_full_dns_names() -> None:
    assert is_fqdn("srv.corp.example")
    assert is_fqdn("srv_1.corp")
    for bad in ("srv", "srv.", ".corp", "srv..corp", "-srv.corp", "srv.corp example", "a" * 64 + ".corp"):
        assert not is_fqdn(bad)
