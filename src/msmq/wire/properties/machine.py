"""Properties of queue managers (MS-MQMQ 2.3.2)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from msmq.wire.management_text import parse_machine_type
from msmq.wire.names import MsmqVersion
from msmq.wire.properties.model import Content, Property, Rule, Use, one_of
from msmq.wire.properties.texts import DISTINGUISHED_NAME, DISTINGUISHED_NAMES, FQDN, SECURITY_INFORMATION
from msmq.wire.variant import VT


class Service(IntEnum):
    """PROPID_QM_SERVICE: the services that a queue manager offers to others."""

    NONE = 0x00
    ROUTING_SERVER = 0x01
    BACKUP_SITE_CONTROLLER = 0x02
    PRIMARY_SITE_CONTROLLER = 0x04
    PRIMARY_ENTERPRISE_CONTROLLER = 0x08
    RAS_SERVER = 0x10


class Foreign(IntEnum):
    """PROPID_QM_FOREIGN: whether the machine stands for another queueing system."""

    MSMQ_MACHINE = 0
    FOREIGN_MACHINE = 1


class OperatingSystem(IntEnum):
    """PROPID_QM_OS."""

    MSMQ_OS_NONE = 0x000
    MSMQ_OS_FOREIGN = 0x100
    MSMQ_OS_95 = 0x200
    MSMQ_OS_NTW = 0x300
    MSMQ_OS_NTS = 0x400
    MSMQ_OS_NTE = 0x500


class Cluster(IntEnum):
    """PROPID_QM_GROUP_IN_CLUSTER."""

    MSMQ_GROUP_NOT_IN_CLUSTER = 0
    MSMQ_GROUP_IN_CLUSTER = 1


class Switch(IntEnum):
    """A byte that means no or yes."""

    NO = 0
    YES = 1


def _allows_machine_type(value: object, version: MsmqVersion) -> bool:
    assert isinstance(value, str)
    parse_machine_type(value, version=version)
    return True


MACHINE_TYPE = Rule("a description of the system and its MSMQ, or empty", _allows_machine_type)
SWITCH = one_of(Switch)
_GUIDS: Final = VT.VECTOR | VT.CLSID
_TEXTS: Final = VT.VECTOR | VT.LPWSTR
_BYTES: Final = VT.VECTOR | VT.UI1
V2: Final = MsmqVersion.V2

PROPID_QM_ENCRYPTION_PK: Final = 205
PROPID_QM_ENCRYPTION_PK_BASE: Final = 231

MACHINE: Final = (
    Property(201, "PROPID_QM_SITE_ID", VT.CLSID, "The site it is in."),
    Property(202, "PROPID_QM_MACHINE_ID", VT.CLSID, "The queue manager's identifier.", uses=Use.AT_CREATION),
    Property(203, "PROPID_QM_PATHNAME", VT.LPWSTR, "Name of the computer.", uses=Use.AT_CREATION),
    Property(
        PROPID_QM_ENCRYPTION_PK,
        "PROPID_QM_ENCRYPTION_PK",
        _BYTES,
        "Public key for encryption, unless PROPID_QM_ENCRYPTION_PK_BASE is there.",
    ),
    Property(
        206, "PROPID_QM_ADDRESS", VT.BLOB, "Network addresses of the computer.", content=Content.ADDRESSES
    ),
    Property(207, "PROPID_QM_CNS", _GUIDS, "The connected networks it supports."),
    Property(208, "PROPID_QM_OUTFRS", _GUIDS, "Routing servers for everything it sends."),
    Property(209, "PROPID_QM_INFRS", _GUIDS, "Routing servers for everything it receives."),
    Property(210, "PROPID_QM_SERVICE", VT.UI4, "What it does for others.", rule=one_of(Service)),
    Property(214, "PROPID_QM_QUOTA", VT.UI4, "The most all its queues may hold, in kilobytes."),
    Property(211, "PROPID_QM_PARTITIONID", VT.CLSID, "Groups objects for replication by old versions."),
    Property(212, "PROPID_QM_HASHKEY", VT.UI4, "Reserved and never interpreted."),
    Property(213, "PROPID_QM_SEQNUM", VT.BLOB, "Sequence number of the directory object."),
    Property(215, "PROPID_QM_JOURNAL_QUOTA", VT.UI4, "The most the system journal may hold, in kilobytes."),
    Property(
        216,
        "PROPID_QM_MACHINE_TYPE",
        VT.LPWSTR,
        "Versions of the operating system and of MSMQ.",
        rule=MACHINE_TYPE,
    ),
    Property(
        217,
        "PROPID_QM_CREATE_TIME",
        VT.I4,
        "When the directory object was created, in seconds since 1970.",
        uses=Use.READ_ONLY,
    ),
    Property(
        218,
        "PROPID_QM_MODIFY_TIME",
        VT.I4,
        "When the directory object last changed, in seconds since 1970.",
        uses=Use.READ_ONLY,
    ),
    Property(219, "PROPID_QM_FOREIGN", VT.UI1, "Whether it is a foreign system.", rule=one_of(Foreign)),
    Property(220, "PROPID_QM_OS", VT.UI4, "Kind of operating system.", rule=one_of(OperatingSystem)),
    Property(
        221,
        "PROPID_QM_FULL_PATH",
        VT.LPWSTR,
        "Distinguished name of the MSMQ Configuration object.",
        since=V2,
        rule=DISTINGUISHED_NAME,
        uses=Use.READ_ONLY,
    ),
    Property(222, "PROPID_QM_SITE_IDS", _GUIDS, "The sites it belongs to.", since=V2),
    Property(
        223,
        "PROPID_QM_OUTFRS_DN",
        _TEXTS,
        "Distinguished names of the outgoing routing servers.",
        since=V2,
        rule=DISTINGUISHED_NAMES,
    ),
    Property(
        224,
        "PROPID_QM_INFRS_DN",
        _TEXTS,
        "Distinguished names of the incoming routing servers.",
        since=V2,
        rule=DISTINGUISHED_NAMES,
    ),
    Property(
        227,
        "PROPID_QM_SERVICE_ROUTING",
        VT.UI1,
        "Whether it is a routing server; the installer decides.",
        since=V2,
        rule=SWITCH,
        uses=Use.READ_ONLY,
    ),
    Property(228, "PROPID_QM_SERVICE_DSSERVER", VT.UI1, "Whether it serves the directory.", rule=SWITCH),
    Property(
        229, "PROPID_QM_SERVICE_DEPCLIENTS", VT.UI1, "Whether it supports dependent clients.", rule=SWITCH
    ),
    Property(
        PROPID_QM_ENCRYPTION_PK_BASE,
        "PROPID_QM_ENCRYPTION_PK_BASE",
        _BYTES,
        "Public key for encryption.",
        since=V2,
    ),
    Property(232, "PROPID_QM_ENCRYPTION_PK_ENHANCED", _BYTES, "Public key for 128-bit encryption.", since=V2),
    Property(233, "PROPID_QM_PATHNAME_DNS", VT.LPWSTR, "Full DNS name of the computer.", since=V2, rule=FQDN),
    Property(
        234,
        "PROPID_QM_OBJ_SECURITY",
        VT.BLOB,
        "Security descriptor of the MSMQ Configuration object.",
        since=V2,
        content=Content.SECURITY_DESCRIPTOR,
    ),
    Property(
        237,
        "PROPID_QM_SECURITY_INFORMATION",
        VT.UI4,
        "Which parts of the descriptor are read or written.",
        rule=SECURITY_INFORMATION,
    ),
    Property(238, "PROPID_QM_ENCRYPT_PKS", VT.BLOB, "Its keys for encryption.", content=Content.PUBLIC_KEYS),
    Property(239, "PROPID_QM_SIGN_PKS", VT.BLOB, "Its keys for signing.", content=Content.PUBLIC_KEYS),
    Property(
        241,
        "PROPID_QM_OWNER_SID",
        VT.BLOB,
        "Who ran the setup, to be given full control of the new object.",
        since=V2,
        uses=Use.AT_CREATION,
        content=Content.SID,
    ),
    Property(
        242,
        "PROPID_QM_GROUP_IN_CLUSTER",
        VT.UI1,
        "Whether the installation belongs to a cluster.",
        since=V2,
        rule=one_of(Cluster),
        uses=Use.AT_CREATION,
    ),
    Property(
        1201,
        "PROPID_QM_SECURITY",
        VT.BLOB,
        "The machine's security descriptor, with the entries Windows NT 4.0 knows.",
        content=Content.SECURITY_DESCRIPTOR,
    ),
    Property(
        1202,
        "PROPID_QM_SIGN_PK",
        VT.BLOB,
        "Its keys for signing, given at creation.",
        uses=Use.AT_CREATION,
        content=Content.PUBLIC_KEYS,
    ),
    Property(
        1203,
        "PROPID_QM_ENCRYPT_PK",
        VT.BLOB,
        "Its keys for encryption, given at creation.",
        uses=Use.AT_CREATION,
        content=Content.PUBLIC_KEYS,
    ),
    Property(
        1205,
        "PROPID_QM_UPGRADE_DACL",
        VT.BLOB,
        "Set to ask for an update of the machine's own access list; the value means nothing.",
        uses=Use.SET | Use.SYSTEM,
    ),
)
