"""Properties of deletion notifications."""

from __future__ import annotations

import pytest

from msmq.wire.properties.deletion import DirectoryObjectType
from tests.wire.properties.support import GUID, keeps, refuses


@pytest.mark.spec("MQMQ-2.3.13.3-a")
def test_scope() -> None:
    keeps("PROPID_D_SCOPE", 0, 1)
    refuses("PROPID_D_SCOPE", 2, 255)


@pytest.mark.spec("MQMQ-2.3.13.4-a")
def test_object_type() -> None:
    assert [(member.name, member.value) for member in DirectoryObjectType] == [
        ("MQDS_QUEUE", 1),
        ("MQDS_MACHINE", 2),
        ("MQDS_SITE", 3),
        ("MQDS_DELETEDOBJECT", 4),
        ("MQDS_CN", 5),
        ("MQDS_ENTERPRISE", 6),
        ("MQDS_USER", 7),
        ("MQDS_ROUTINGLINK", 8),
    ]
    keeps("PROPID_D_OBJTYPE", *range(1, 9))
    refuses("PROPID_D_OBJTYPE", 0, 9)


@pytest.mark.spec("MQMQ-2.3.13.5-a")
def test_identifier() -> None:
    keeps("PROPID_D_IDENTIFIER", GUID)
