"""Properties of queues (MS-MQMQ 2.3.1), and the decisions they make about arriving messages."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from msmq.wire.guid import NULL_GUID
from msmq.wire.names import MsmqVersion
from msmq.wire.properties.model import Content, Property, Use, at_most, between, one_of
from msmq.wire.properties.texts import (
    DISTINGUISHED_NAME,
    DNS_PATH_NAME,
    LDAP_URL,
    MULTICAST_ADDRESS,
    PATH_NAME,
    SECURITY_INFORMATION,
)
from msmq.wire.variant import VT

MAX_LABEL_LENGTH: Final = 124

NO_QUOTA_KB: Final = 0xFFFFFFFF
"""The quota that means no limit. The defaults in the table are those of MS-MQDMPR 3.1.7.1.33."""


class Journal(IntEnum):
    """PROPID_Q_JOURNAL: whether messages that are received from the queue are copied to its journal."""

    MQ_JOURNAL_NONE = 0
    MQ_JOURNAL = 1


class Authenticate(IntEnum):
    """PROPID_Q_AUTHENTICATE: whether the queue accepts signed messages only."""

    MQ_AUTHENTICATE_NONE = 0
    MQ_AUTHENTICATE = 1


class PrivLevel(IntEnum):
    """PROPID_Q_PRIV_LEVEL: whether the queue accepts clear messages, both kinds, or encrypted ones."""

    MQ_PRIV_LEVEL_NONE = 0
    MQ_PRIV_LEVEL_OPTIONAL = 1
    MQ_PRIV_LEVEL_BODY = 2


class Transaction(IntEnum):
    """PROPID_Q_TRANSACTION: whether the queue accepts transactional messages only, or others only."""

    MQ_TRANSACTIONAL_NONE = 0
    MQ_TRANSACTIONAL = 1


class Scope(IntEnum):
    """PROPID_Q_SCOPE and PROPID_D_SCOPE: how widely a directory object is known."""

    MQDS_SITESCOPE = 0
    MQDS_ENTERPRISESCOPE = 1


QUEUE: Final = (
    Property(101, "PROPID_Q_INSTANCE", VT.CLSID, "The queue's identifier.", uses=Use.READ_ONLY),
    Property(
        102,
        "PROPID_Q_TYPE",
        VT.CLSID,
        "What service the queue offers, as its users agree.",
        default=NULL_GUID,
    ),
    Property(
        103,
        "PROPID_Q_PATHNAME",
        VT.LPWSTR,
        "The path name; it never changes.",
        rule=PATH_NAME,
        uses=Use.AT_CREATION,
        required=True,
    ),
    Property(
        104,
        "PROPID_Q_JOURNAL",
        VT.UI1,
        "Whether received messages are copied to the queue's journal.",
        rule=one_of(Journal),
        default=Journal.MQ_JOURNAL_NONE,
    ),
    Property(
        105, "PROPID_Q_QUOTA", VT.UI4, "The most the queue may hold, in kilobytes.", default=NO_QUOTA_KB
    ),
    Property(
        106,
        "PROPID_Q_BASEPRIORITY",
        VT.I2,
        "Priority among public queues; always 0 for private ones.",
        rule=between(-0x8000, 0x7FFF),
        default=0,
        public_only=True,
    ),
    Property(
        107,
        "PROPID_Q_JOURNAL_QUOTA",
        VT.UI4,
        "The most the queue's journal may hold, in kilobytes.",
        default=NO_QUOTA_KB,
    ),
    Property(
        108,
        "PROPID_Q_LABEL",
        VT.LPWSTR,
        "A description for people.",
        rule=at_most(MAX_LABEL_LENGTH),
        default="",
    ),
    Property(
        109,
        "PROPID_Q_CREATE_TIME",
        VT.I4,
        "When the queue was created, in seconds since 1970.",
        uses=Use.READ_ONLY,
    ),
    Property(
        110,
        "PROPID_Q_MODIFY_TIME",
        VT.I4,
        "When its properties last changed, in seconds since 1970.",
        uses=Use.READ_ONLY,
    ),
    Property(
        111,
        "PROPID_Q_AUTHENTICATE",
        VT.UI1,
        "Whether only signed messages are taken.",
        rule=one_of(Authenticate),
        default=Authenticate.MQ_AUTHENTICATE_NONE,
    ),
    Property(
        112,
        "PROPID_Q_PRIV_LEVEL",
        VT.UI4,
        "Whether clear, encrypted or all messages are taken.",
        rule=one_of(PrivLevel),
        default=PrivLevel.MQ_PRIV_LEVEL_OPTIONAL,
    ),
    Property(
        113,
        "PROPID_Q_TRANSACTION",
        VT.UI1,
        "Whether the queue is transactional.",
        rule=one_of(Transaction),
        default=Transaction.MQ_TRANSACTIONAL_NONE,
    ),
    Property(114, "PROPID_Q_SCOPE", VT.UI1, "How far the queue is known.", rule=one_of(Scope)),
    Property(115, "PROPID_Q_QMID", VT.CLSID, "The queue manager that hosts the queue.", uses=Use.READ_ONLY),
    Property(116, "PROPID_Q_PARTITIONID", VT.CLSID, "Groups objects for replication by old versions."),
    Property(117, "PROPID_Q_SEQNUM", VT.BLOB, "Sequence number of the directory object."),
    Property(118, "PROPID_Q_HASHKEY", VT.UI4, "Reserved and never interpreted."),
    Property(119, "PROPID_Q_LABEL_HASHKEY", VT.UI4, "Reserved and never interpreted."),
    Property(
        121,
        "PROPID_Q_FULL_PATH",
        VT.LPWSTR,
        "Distinguished name of the directory object.",
        since=MsmqVersion.V2,
        rule=DISTINGUISHED_NAME,
        uses=Use.READ_ONLY,
    ),
    Property(
        123,
        "PROPID_Q_NAME_SUFFIX",
        VT.LPWSTR,
        "The part of a long queue name that its common name has no room for.",
        since=MsmqVersion.V2,
        uses=Use.READ_ONLY,
    ),
    Property(
        124,
        "PROPID_Q_PATHNAME_DNS",
        VT.LPWSTR,
        "The path name with the computer's full DNS name.",
        since=MsmqVersion.V2,
        rule=DNS_PATH_NAME,
        uses=Use.READ_ONLY,
    ),
    Property(
        125,
        "PROPID_Q_MULTICAST_ADDRESS",
        VT.LPWSTR,
        "The multicast address and port the queue listens to.",
        since=MsmqVersion.V3,
        rule=MULTICAST_ADDRESS,
    ),
    Property(
        126,
        "PROPID_Q_ADS_PATH",
        VT.LPWSTR,
        "LDAP URL of the public queue's directory object.",
        since=MsmqVersion.V3,
        rule=LDAP_URL,
        uses=Use.READ_ONLY,
    ),
    Property(
        1101,
        "PROPID_Q_SECURITY",
        VT.BLOB,
        "The queue's security descriptor, with the entries Windows NT 4.0 knows.",
        content=Content.SECURITY_DESCRIPTOR,
    ),
    Property(
        1102,
        "PROPID_Q_OBJ_SECURITY",
        VT.BLOB,
        "The queue's security descriptor.",
        since=MsmqVersion.V2,
        content=Content.SECURITY_DESCRIPTOR,
    ),
    Property(
        1103,
        "PROPID_Q_SECURITY_INFORMATION",
        VT.UI4,
        "Which parts of the descriptor are read or written.",
        rule=SECURITY_INFORMATION,
    ),
)


def accepts_authentication(level: int, authenticated: bool) -> bool:
    """True if a queue with this PROPID_Q_AUTHENTICATE accepts the message."""
    return authenticated or level == Authenticate.MQ_AUTHENTICATE_NONE


def accepts_privacy(level: int, encrypted: bool) -> bool:
    """True if a queue with this PROPID_Q_PRIV_LEVEL accepts the message."""
    if level == PrivLevel.MQ_PRIV_LEVEL_OPTIONAL:
        return True
    return encrypted == (level == PrivLevel.MQ_PRIV_LEVEL_BODY)


def accepts_transaction(level: int, transactional: bool) -> bool:
    """True if a queue with this PROPID_Q_TRANSACTION accepts the message."""
    return transactional == (level == Transaction.MQ_TRANSACTIONAL)


def within_quota(quota_kb: int, used_bytes: int, added_bytes: int) -> bool:
    """True if the added bytes fit into the quota."""
    return quota_kb == NO_QUOTA_KB or used_bytes + added_bytes <= quota_kb * 1024
