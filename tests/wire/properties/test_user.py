"""Properties of users, migrated users and computers: SIDs, certificates and digests."""

from __future__ import annotations

import hashlib

import pytest

from msmq.wire.certificates import UserSignCerts
from tests.wire.properties.support import GUID, USER, certificate, keeps, refuses, row_marks, store


@pytest.mark.parametrize("name", row_marks(PROPID_U_SID="2.3.6.1-a", PROPID_MQU_SID="2.3.9.1-a"))
def test_sids(name: str) -> None:
    assert USER.encode()[8:12] == (21).to_bytes(4, "little")
    keeps(name, USER.encode())
    refuses(name, b"", USER.encode()[:-1], USER.encode() + b"\0")


@pytest.mark.spec("MQMQ-2.3.6.4-a")
def test_certificates_of_a_user() -> None:
    pack = UserSignCerts().register(certificate(), GUID).register(certificate(), GUID[::-1]).encode()
    keeps("PROPID_U_SIGN_CERT", pack)
    refuses("PROPID_U_SIGN_CERT", b"", pack[:-1], certificate())


@pytest.mark.parametrize(
    "name",
    row_marks(PROPID_U_DIGEST="2.3.6.5-a", PROPID_MQU_DIGEST="2.3.9.3-a", PROPID_COM_DIGEST="2.3.10.7-a"),
)
def test_digests_are_raw_md5(name: str) -> None:
    der = certificate()
    registered = UserSignCerts().register(der, GUID).certificates[0]
    digest = store(name, (registered.digest,)).value
    assert digest == (hashlib.md5(der, usedforsecurity=False).digest(),)


@pytest.mark.spec("MQMQ-2.3.6.6-a")
def test_identifier() -> None:
    keeps("PROPID_U_ID", GUID)
