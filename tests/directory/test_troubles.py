"""What servers and libraries say, and what an operator is told to do about it."""

from __future__ import annotations

import pytest

from msmq.directory.troubles import remedy


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("SpnegoError (1): Clock skew too great", "clocks"),
        ("SpnegoError (16): Ticket expired", "directory.keytab, which needs no renewal"),
        ("insufficientAccessRights (50) 00002098", "may not do this"),
        ("dc1: the server refuses us: invalidCredentials (49) 80090308", "does not believe the account"),
        ("Server ldap/x@R not found in Kerberos database", "full DNS names"),
        ("Cannot contact any KDC for realm 'CORP.EXAMPLE'", "/etc/krb5.conf"),
        ("Cannot find KDC for realm \"X\"", "/etc/krb5.conf"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", "certificate_authority"),
        ("strongerAuthRequired (8)", "directory.protection"),
        ("noSuchObject (32) 0000208D", "the account of this computer"),
        ("dc1: socket connection error while opening: [Errno 111] Connection refused", "port 389"),
        ("session terminated by server", "No domain controller can be reached"),
        ("[Errno -2] Name or service not known", "do they resolve"),
        ("the DNS has no controllers of corp.example: NXDOMAIN", "directory.domain"),
        ("no global catalog answers: [Errno 111] Connection refused", "port 3268"),
        ("something else", ""),
    ],
    ids=[
        "skew", "expired", "rights", "password", "name", "kdc", "realm", "tls", "strong", "missing", "refused", "gone",
        "dns", "records", "catalog", "unknown",
    ],
)  # fmt: skip
def test_each_trouble_has_its_remedy(reason: str, told: str) -> None:
    assert told in remedy(reason)
    assert bool(remedy(reason)) == bool(told)
