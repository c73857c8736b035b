"""Properties of the enterprise."""

from __future__ import annotations

import pytest

from msmq.wire.names import MsmqVersion
from msmq.wire.properties.enterprise import NameStyle, weakened_security
from tests.wire.properties.support import GUID, default_of, keeps, refuses, row_marks


@pytest.mark.parametrize("name", row_marks(PROPID_E_NAME="2.3.5.1-a", PROPID_E_PECNAME="2.3.5.4-a"))
def test_names(name: str) -> None:
    keeps(name, "", "Fabrikam")


@pytest.mark.spec("MQMQ-2.3.5.2-a", "MQMQ-6-t")
def test_weakened_security() -> None:
    keeps("PROPID_E_NAMESTYLE", 0, 1, 2)
    refuses("PROPID_E_NAMESTYLE", 3)
    for version in (MsmqVersion.V2, MsmqVersion.V6):
        assert [weakened_security(style, version) for style in NameStyle] == [False, True, False]
    assert not weakened_security(NameStyle.WEAKENED_SECURITY_ON, MsmqVersion.V1)


@pytest.mark.spec("MQMQ-2.3.5.3-a")
def test_provider() -> None:
    assert default_of("PROPID_E_CSP_NAME") == "Microsoft Enhanced RSA and AES Cryptographic Provider"
    keeps("PROPID_E_CSP_NAME", "Microsoft Base Cryptographic Provider v1.0")


@pytest.mark.spec("MQMQ-2.3.5.9-a")
def test_identifier() -> None:
    keeps("PROPID_E_ID", GUID)


def test_time_to_reach_a_queue() -> None:
    assert default_of("PROPID_E_LONG_LIVE") == 345600
    keeps("PROPID_E_LONG_LIVE", 0, 0xFFFFFFFF)


@pytest.mark.spec("MQMQ-2.3.5.16-a")
def test_version() -> None:
    keeps("PROPID_E_VERSION", 0, 200, 65535)
