"""Properties of connected networks (MS-MQMQ 2.3.4)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from msmq.wire.addresses import AddressType
from msmq.wire.properties.model import Content, Property, one_of
from msmq.wire.variant import VT


class NetworkProtocol(IntEnum):
    """PROPID_CN_PROTOCOLID."""

    IP_ADDRESS_TYPE = AddressType.IP
    IPX_ADDRESS_TYPE = AddressType.IPX
    FOREIGN_ADDRESS_TYPE = AddressType.FOREIGN


CONNECTED_NETWORK: Final = (
    Property(501, "PROPID_CN_PROTOCOLID", VT.UI1, "What the network speaks.", rule=one_of(NetworkProtocol)),
    Property(502, "PROPID_CN_NAME", VT.LPWSTR, "Name of the network, chosen by its users."),
    Property(503, "PROPID_CN_GUID", VT.CLSID, "The network's identifier."),
    Property(504, "PROPID_CN_PARTITIONID", VT.CLSID, "Groups objects for replication by old versions."),
    Property(505, "PROPID_CN_SEQNUM", VT.BLOB, "Sequence number of the directory object."),
    Property(
        1501,
        "PROPID_CN_SECURITY",
        VT.BLOB,
        "The network's security descriptor, with the entries Windows NT 4.0 knows.",
        content=Content.SECURITY_DESCRIPTOR,
    ),
)
