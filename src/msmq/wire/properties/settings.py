"""Properties of the settings of routing and directory servers (MS-MQMQ 2.3.8); MSMQ 1.0 has none of them."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Final

from msmq.wire.names import MsmqVersion
from msmq.wire.properties.machine import SWITCH
from msmq.wire.properties.model import Property, one_of
from msmq.wire.properties.texts import DISTINGUISHED_NAME
from msmq.wire.variant import VT

V2: Final = MsmqVersion.V2


class SettingsName(StrEnum):
    """PROPID_SET_NAME, which has only one value."""

    MSMQ_SETTINGS = "MSMQ Settings"


class ServerService(IntEnum):
    """PROPID_SET_SERVICE and PROPID_SET_OLDSERVICE: a machine's services without RAS."""

    NONE = 0
    ROUTING_SERVER = 1
    BACKUP_SITE_CONTROLLER = 2
    PRIMARY_SITE_CONTROLLER = 4
    PRIMARY_ENTERPRISE_CONTROLLER = 8


_SERVICE: Final = one_of(ServerService)

SETTINGS: Final = (
    Property(5101, "PROPID_SET_NAME", VT.LPWSTR, "The common name.", since=V2, rule=one_of(SettingsName)),
    Property(5102, "PROPID_SET_SERVICE", VT.UI4, "What the server does.", since=V2, rule=_SERVICE),
    Property(5103, "PROPID_SET_QM_ID", VT.CLSID, "The queue manager it belongs to.", since=V2),
    Property(
        5105,
        "PROPID_SET_FULL_PATH",
        VT.LPWSTR,
        "Distinguished name of the settings.",
        since=V2,
        rule=DISTINGUISHED_NAME,
    ),
    Property(5106, "PROPID_SET_NT4", VT.UI1, "Whether the server is MSMQ 1.0.", since=V2, rule=SWITCH),
    Property(
        5107, "PROPID_SET_PARTITIONID", VT.CLSID, "Groups objects for replication by old versions.", since=V2
    ),
    Property(5108, "PROPID_SET_SITENAME", VT.LPWSTR, "Name of the site.", since=V2),
    Property(
        5109, "PROPID_SET_SERVICE_ROUTING", VT.UI1, "Whether it is a routing server.", since=V2, rule=SWITCH
    ),
    Property(
        5110,
        "PROPID_SET_SERVICE_DSSERVER",
        VT.UI1,
        "Whether it opens the directory to MSMQ 2.0 clients.",
        since=V2,
        rule=SWITCH,
    ),
    Property(
        5111,
        "PROPID_SET_SERVICE_DEPCLIENTS",
        VT.UI1,
        "Whether it supports dependent clients.",
        since=V2,
        rule=SWITCH,
    ),
    Property(5112, "PROPID_SET_OLDSERVICE", VT.UI4, "What the server did.", since=V2, rule=_SERVICE),
)
