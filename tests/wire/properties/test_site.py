"""Properties of sites."""

from __future__ import annotations

import pytest

from msmq.errors import IllegalPropertyVtError, IllegalPropidError
from msmq.wire.names import MsmqVersion
from msmq.wire.properties import ObjectType, Use, check_value, lookup
from msmq.wire.variant import VT, Variant
from tests.wire.properties.support import (
    DISTINGUISHED_NAME,
    GUID,
    KEYS,
    declared,
    default_of,
    judge,
    keeps,
    refuses,
    row_marks,
)


@pytest.mark.parametrize("name", row_marks(PROPID_S_PATHNAME="2.3.3.1-a", PROPID_S_PSC="2.3.3.4-a"))
def test_names(name: str) -> None:
    keeps(name, "", "Default-First-Site", "Größe")


@pytest.mark.spec("MQMQ-2.3.3.2-a")
def test_identifier() -> None:
    keeps("PROPID_S_SITEID", GUID)


@pytest.mark.spec("MQMQ-2.3.3.3-a")
def test_gates() -> None:
    keeps("PROPID_S_GATES", (), (GUID, GUID[::-1]))


@pytest.mark.spec("MQMQ-2.3.3.5-a")
def test_replication_inside() -> None:
    assert default_of("PROPID_S_INTERVAL1") == 2
    keeps("PROPID_S_INTERVAL1", 65535)


@pytest.mark.spec("MQMQ-2.3.3.6-a")
def test_replication_between() -> None:
    assert default_of("PROPID_S_INTERVAL2") == 10
    keeps("PROPID_S_INTERVAL2", 65535)


@pytest.mark.spec("MQMQ-2.3.3.9-a")
def test_full_name() -> None:
    keeps("PROPID_S_FULL_NAME", DISTINGUISHED_NAME)
    refuses("PROPID_S_FULL_NAME", "site")


@pytest.mark.spec("MQMQ-2.3.3.10-a")
def test_migrated_sites() -> None:
    keeps("PROPID_S_NT4_STUB", 0, 1)
    refuses("PROPID_S_NT4_STUB", 2, 65535)
    with pytest.raises(IllegalPropertyVtError):  # two bytes, unlike the other switches
        check_value(declared("PROPID_S_NT4_STUB"), Variant(VT.UI1, 1))


@pytest.mark.spec("MQMQ-2.3.3.11-a")
def test_external_sites() -> None:
    keeps("PROPID_S_FOREIGN", 0, 1)
    refuses("PROPID_S_FOREIGN", 2)


@pytest.mark.spec("MQMQ-2.3.3.12-a")
def test_nothing_is_done_with_the_sink() -> None:
    row = declared("PROPID_S_DONOTHING")
    assert judge(Use.SET, row.name, 7) == (0,)
    assert (row.rule, row.default) == (None, None)


@pytest.mark.spec("MQMQ-2.3.3.14-a")
def test_signing_key_of_the_controller() -> None:
    keeps("PROPID_S_PSC_SIGNPK", KEYS)
    refuses("PROPID_S_PSC_SIGNPK", b"", KEYS[:-1])


@pytest.mark.spec("MQMQ-2.3.3.15-a")
def test_security_information_came_with_msmq_3() -> None:
    keeps("PROPID_S_SECURITY_INFORMATION", 4)
    refuses("PROPID_S_SECURITY_INFORMATION", 16)
    for version in (MsmqVersion.V1, MsmqVersion.V2):
        with pytest.raises(IllegalPropidError):
            lookup(ObjectType.SITE, 1303, version)
    assert lookup(ObjectType.SITE, 1303, MsmqVersion.V3)
