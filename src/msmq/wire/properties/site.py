"""Properties of sites (MS-MQMQ 2.3.3)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from msmq.wire.names import MsmqVersion
from msmq.wire.properties.model import Content, Property, one_of
from msmq.wire.properties.texts import DISTINGUISHED_NAME, SECURITY_INFORMATION
from msmq.wire.variant import VT

V2: Final = MsmqVersion.V2


class Nt4Stub(IntEnum):
    """PROPID_S_NT4_STUB: whether the site was migrated from an MQIS database."""

    NOT_MIGRATED = 0
    MIGRATED = 1


class ForeignSite(IntEnum):
    """PROPID_S_FOREIGN: whether the site stands for another messaging system."""

    NOT_EXTERNAL = 0
    EXTERNAL = 1


SITE: Final = (
    Property(301, "PROPID_S_PATHNAME", VT.LPWSTR, "Name of the site."),
    Property(302, "PROPID_S_SITEID", VT.CLSID, "The site's identifier."),
    Property(303, "PROPID_S_GATES", VT.VECTOR | VT.CLSID, "The queue managers that are gates of the site."),
    Property(304, "PROPID_S_PSC", VT.LPWSTR, "Computer name of the primary site controller."),
    Property(305, "PROPID_S_INTERVAL1", VT.UI2, "Seconds between replications inside the site.", default=2),
    Property(306, "PROPID_S_INTERVAL2", VT.UI2, "Seconds between replications to other sites.", default=10),
    Property(307, "PROPID_S_PARTITIONID", VT.CLSID, "Groups objects for replication by old versions."),
    Property(308, "PROPID_S_SEQNUM", VT.BLOB, "Sequence number of the directory object."),
    Property(
        309,
        "PROPID_S_FULL_NAME",
        VT.LPWSTR,
        "Distinguished name of the site.",
        since=V2,
        rule=DISTINGUISHED_NAME,
    ),
    Property(
        310,
        "PROPID_S_NT4_STUB",
        VT.UI2,
        "Whether the site was migrated from MQIS.",
        since=V2,
        rule=one_of(Nt4Stub),
    ),
    Property(
        311,
        "PROPID_S_FOREIGN",
        VT.UI1,
        "Whether the site stands for an external system.",
        since=V2,
        rule=one_of(ForeignSite),
    ),
    Property(
        312,
        "PROPID_S_DONOTHING",
        VT.UI1,
        "Takes what replication from old versions has no use for.",
        since=V2,
    ),
    Property(
        1301,
        "PROPID_S_SECURITY",
        VT.BLOB,
        "The site's security descriptor, with the entries Windows NT 4.0 knows.",
        content=Content.SECURITY_DESCRIPTOR,
    ),
    Property(
        1302,
        "PROPID_S_PSC_SIGNPK",
        VT.BLOB,
        "Signing key of the primary site controller.",
        content=Content.PUBLIC_KEYS,
    ),
    Property(
        1303,
        "PROPID_S_SECURITY_INFORMATION",
        VT.UI4,
        "Which parts of the descriptor are read or written.",
        since=MsmqVersion.V3,
        rule=SECURITY_INFORMATION,
    ),
)
