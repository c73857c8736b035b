"""Properties of the enterprise (MS-MQMQ 2.3.5)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from msmq.wire.names import MsmqVersion
from msmq.wire.properties.model import Content, Property, one_of
from msmq.wire.variant import VT

DEFAULT_PROVIDER: Final = "Microsoft Enhanced RSA and AES Cryptographic Provider"
DEFAULT_LONG_LIVE_S: Final = 345600
"""Four days; the value that messages carry in an enterprise without the property."""


class NameStyle(IntEnum):
    """PROPID_E_NAMESTYLE: whether weakened security is on."""

    WEAKENED_SECURITY_OFF = 0
    WEAKENED_SECURITY_ON = 1
    INTERNAL_DEFAULT = 2


ENTERPRISE: Final = (
    Property(601, "PROPID_E_NAME", VT.LPWSTR, "Name of the enterprise, chosen by its users."),
    Property(
        602,
        "PROPID_E_NAMESTYLE",
        VT.UI1,
        "Whether weakened security is on.",
        rule=one_of(NameStyle),
        default=NameStyle.INTERNAL_DEFAULT,
    ),
    Property(
        603, "PROPID_E_CSP_NAME", VT.LPWSTR, "The cryptographic provider in use.", default=DEFAULT_PROVIDER
    ),
    Property(604, "PROPID_E_PECNAME", VT.LPWSTR, "Computer name of the primary enterprise controller."),
    Property(605, "PROPID_E_S_INTERVAL1", VT.UI2, "Reserved and never interpreted."),
    Property(606, "PROPID_E_S_INTERVAL2", VT.UI2, "Reserved and never interpreted."),
    Property(607, "PROPID_E_PARTITIONID", VT.CLSID, "Groups objects for replication by old versions."),
    Property(608, "PROPID_E_SEQNUM", VT.BLOB, "Sequence number of the directory object."),
    Property(609, "PROPID_E_ID", VT.CLSID, "Identifier of the directory object."),
    Property(610, "PROPID_E_CRL", VT.BLOB, "Reserved and never interpreted."),
    Property(611, "PROPID_E_CSP_TYPE", VT.UI4, "Reserved and never interpreted."),
    Property(612, "PROPID_E_ENCRYPT_ALG", VT.UI4, "Reserved and never interpreted."),
    Property(613, "PROPID_E_SIGN_ALG", VT.UI4, "Reserved and never interpreted."),
    Property(614, "PROPID_E_HASH_ALG", VT.UI4, "Reserved and never interpreted."),
    Property(
        616,
        "PROPID_E_LONG_LIVE",
        VT.UI4,
        "Seconds a message has to reach its queue when it does not say.",
        default=DEFAULT_LONG_LIVE_S,
    ),
    Property(617, "PROPID_E_VERSION", VT.UI2, "Version of the directory information."),
    Property(
        1601,
        "PROPID_E_SECURITY",
        VT.BLOB,
        "The enterprise's security descriptor, with the entries Windows NT 4.0 knows.",
        content=Content.SECURITY_DESCRIPTOR,
    ),
    Property(615, "PROPID_E_CIPHER_MODE", VT.UI4, "Reserved and never interpreted."),
)


def weakened_security(name_style: int, version: MsmqVersion = MsmqVersion.V6) -> bool:
    """True if this PROPID_E_NAMESTYLE means weakened security; the internal default does not (MS-MQMQ 6)."""
    return version > MsmqVersion.V1 and name_style == NameStyle.WEAKENED_SECURITY_ON
