"""Properties of migrated users; SIDs and digests are in test_user, descriptors in test_check."""

from __future__ import annotations

import pytest

from msmq.wire.certificates import UserSignCerts
from tests.wire.properties.support import GUID, certificate, keeps, refuses


@pytest.mark.spec("MQMQ-2.3.9.2-a")
def test_one_certificate_and_no_pack() -> None:
    der = certificate()
    keeps("PROPID_MQU_SIGN_CERT", der)
    refuses("PROPID_MQU_SIGN_CERT", b"", der[:-1], UserSignCerts().register(der, GUID).encode())


@pytest.mark.spec("MQMQ-2.3.9.4-a")
def test_identifier() -> None:
    keeps("PROPID_MQU_ID", GUID)
