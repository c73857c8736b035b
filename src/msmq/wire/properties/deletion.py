"""Properties of deletion notifications (MS-MQMQ 2.3.13)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from msmq.wire.properties.model import Property, one_of
from msmq.wire.properties.queue import Scope
from msmq.wire.variant import VT


class DirectoryObjectType(IntEnum):
    """PROPID_D_OBJTYPE: the kind of object that was deleted."""

    MQDS_QUEUE = 1
    MQDS_MACHINE = 2
    MQDS_SITE = 3
    MQDS_DELETEDOBJECT = 4
    MQDS_CN = 5
    MQDS_ENTERPRISE = 6
    MQDS_USER = 7
    MQDS_ROUTINGLINK = 8


DELETION: Final = (
    Property(1401, "PROPID_D_SEQNUM", VT.BLOB, "Sequence number of the deleted object."),
    Property(1402, "PROPID_D_PARTITIONID", VT.CLSID, "Groups objects for replication by old versions."),
    Property(1403, "PROPID_D_SCOPE", VT.UI1, "How far the notification goes.", rule=one_of(Scope)),
    Property(
        1404, "PROPID_D_OBJTYPE", VT.UI1, "Kind of the deleted object.", rule=one_of(DirectoryObjectType)
    ),
    Property(1405, "PROPID_D_IDENTIFIER", VT.CLSID, "Identifier of the deleted object."),
)
