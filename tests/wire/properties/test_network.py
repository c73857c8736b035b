"""Properties of connected networks."""

from __future__ import annotations

import pytest

from msmq.wire.addresses import AddressType, TAAddress
from tests.wire.properties.support import GUID, keeps, refuses, store


@pytest.mark.spec("MQMQ-2.3.4.1-a")
def test_protocol() -> None:
    keeps("PROPID_CN_PROTOCOLID", 1, 3, 5)
    refuses("PROPID_CN_PROTOCOLID", 0, 2, 4, 6)


@pytest.mark.spec("MQMQ-2.3.4.2-a")
def test_name() -> None:
    keeps("PROPID_CN_NAME", "", "Backbone")


@pytest.mark.spec("MQMQ-2.3.4.3-a")
def test_identifier_is_what_a_foreign_address_holds() -> None:
    keeps("PROPID_CN_GUID", GUID)
    address = TAAddress.decode(TAAddress(AddressType.FOREIGN, GUID).encode())
    assert store("PROPID_CN_GUID", GUID).value == address.address
