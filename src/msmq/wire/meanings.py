"""The meanings of packet fields in a few words each: the tables behind :mod:`msmq.wire.describe`.

Keys are specification names; ``Flags.PR`` is a group of bits in ``Flags``. A meaning is a text, a table from value to
text, or a function of the value. The text for a single bit says what it means when set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from msmq.wire.algorithms import EncryptionAlgorithm, HashAlgorithm
from msmq.wire.bodies.text import type_name
from msmq.wire.classes import class_name
from msmq.wire.declare import Bits, Wire
from msmq.wire.headers import INFINITE, BaseHeader, MessagePropertiesHeader, UserHeader
from msmq.wire.multi_queue import MQFAddressHeader, MQFSignatureHeader
from msmq.wire.optional_headers import DebugHeader, SecurityHeader, SessionHeader, TransactionHeader
from msmq.wire.packets import (
    ConnectionParametersHeader,
    EstablishConnectionHeader,
    FinalAckBody,
    InternalHeader,
    OrderAckBody,
    Ping,
)
from msmq.wire.srmp import CompoundMessageHeader

Meaning = str | Mapping[int, str] | Callable[[Any], str]

IGNORED: Final = "ignored by the receiver"


def duration(seconds: int) -> str:
    """Write seconds in words: ``345600`` is "4 days", the largest number is "no limit"."""
    if seconds == INFINITE:
        return "no limit"
    parts = []
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        count, seconds = divmod(seconds, length)
        if count:
            parts.append(f"{count} {unit}" + ("s" if count > 1 else ""))
    return " ".join(parts) or "no time at all"


def moment(seconds: int) -> str:
    """Write seconds since 1970 as a UTC date and time."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _milliseconds(number: int) -> str:
    return f"{number / 1000:g} s"


def _uptime(number: int) -> str:
    return f"the initiator's system was up for {duration(number // 1000)}"


def _algorithm(kind: type[HashAlgorithm] | type[EncryptionAlgorithm]) -> Callable[[int], str]:
    def name(number: int) -> str:
        try:
            return kind(number).name
        except ValueError:
            return "none" if number == 0 else "not assigned"

    return name


def _body_type(number: int) -> str:
    return type_name(number) or "not a VARTYPE known here"


def _class(number: int) -> str:
    return class_name(number) or "a class of the application's own"


_QUEUE_TYPES: Final = {
    0: "none",
    1: "the same as the admin queue",
    2: "a private queue of the source host, by number",
    3: "a private queue of the destination host, by number",
    4: "a private queue of the admin queue's host, by number",
    5: "a public queue, by GUID",
    6: "a private queue of another host",
    7: "a direct name",
}
_SENDER_TYPES: Final = {
    0: "SecurityID is absent",
    1: "SecurityID is the sender's SID",
    2: "SecurityID is the sending queue manager's GUID",
}
_SIGNATURE_TYPES: Final = {
    0: "no claim",
    1: "claims an MSMQ 1.0 signature",
    3: "claims an MSMQ 2.0 signature",
    5: "claims an MSMQ 3.0 signature",
}
_SEQUENCE: Final[Mapping[str, Meaning]] = {
    "TxSequenceID": "the sequence of transactional messages",
    "TxSequenceNumber": "place in that sequence",
}

MEANINGS: Final[Mapping[type[Wire], Mapping[str, Meaning]]] = {
    Ping: {
        "Flags.RC": {0: "the initiator runs a server system", 1: "the initiator runs no server system"},
        "Flags.RF": {0: "a session would be accepted", 1: "a session would be refused now"},
        "Flags.X": "unused, may hold anything",
        "Signature": "marks a Ping",
        "Cookie": "joins the answer to the question",
        "QMGuid": "the queue manager that made this packet",
    },
    BaseHeader: {
        "VersionNumber": "the one version of the packet format",
        "Reserved": IGNORED,
        "Flags.PR": "priority, 0 to 7",
        "Flags.IN": "an internal packet of the session",
        "Flags.SH": "a SessionHeader is there",
        "Flags.DH": "a DebugHeader is there",
        "Flags.TR": "the message is traced",
        "Signature": 'marks an MSMQ packet, reads "LIOR"',
        "PacketSize": "bytes",
        "TimeToReachQueue": lambda value: f"{duration(value)} to reach the destination",
    },
    InternalHeader: {
        "Reserved": IGNORED,
        "Flags.PT": {1: "SessionAck", 2: "EstablishConnection", 3: "ConnectionParameters"},
        "Flags.CS": "the connection is refused",
    },
    EstablishConnectionHeader: {
        "ClientGuid": "the queue manager that asks for the session",
        "ServerGuid": lambda value: (
            "the queue manager that is asked" if any(value) else "whichever queue manager is at this address"
        ),
        "TimeStamp": _uptime,
        "OperatingSystem.RE": "always 0x10",
        "OperatingSystem.SE": "no Ping was sent before",
        "OperatingSystem.OS": "the initiator runs a server system",
        "OperatingSystem.QS": "the transport guarantees quality of service",
        "Reserved": IGNORED,
        "Padding": lambda value: f"{len(value)} bytes that say nothing",
    },
    ConnectionParametersHeader: {
        "RecoverableAckTimeout": lambda value: f"{_milliseconds(value)} pass before recoverables are acked",
        "AckTimeout": lambda value: f"{_milliseconds(value)} without a SessionAck close the session",
        "Reserved": IGNORED,
        "WindowSize": "packets that may wait for confirmation",
    },
    SessionHeader: {
        "AckSequenceNumber": "messages received on this session",
        "RecoverableMsgAckSeqNumber": lambda value: (
            "first recoverable message now on disk" if value else "no recoverable message to confirm"
        ),
        "RecoverableMsgAckFlags": "one bit for each of the 32 recoverables from there on",
        "UserMsgSequenceNumber": "messages sent on this session",
        "RecoverableMsgSeqNumber": "recoverable messages sent on this session",
        "WindowSize": "packets that may wait for confirmation",
        "Reserved": IGNORED,
    },
    UserHeader: {
        "SourceQueueManager": "the original sender",
        "QueueManagerAddress": lambda value: (
            "the destination queue manager" if any(value) else "none: a direct name ends where it arrives"
        ),
        "TimeToBeReceived": lambda value: f"{duration(value)} to be read from the queue",
        "SentTime": moment,
        "MessageID": "the sender's number for this message",
        "Flags.RC": "routing servers passed so far",
        "Flags.DM": {
            0: "express: kept in memory, lost when a queue manager restarts",
            1: "recoverable: written to disk on its way",
        },
        "Flags.JN": "the sender keeps a copy if delivery fails",
        "Flags.JP": "the sender keeps a copy if delivery succeeds",
        "Flags.DQ": _QUEUE_TYPES,
        "Flags.AQ": _QUEUE_TYPES,
        "Flags.RQ": _QUEUE_TYPES,
        "Flags.SH": "a SecurityHeader is there",
        "Flags.TH": "a TransactionHeader is there",
        "Flags.MP": "a MessagePropertiesHeader is there",
        "Flags.CQ": "a ConnectorType is there",
        "Flags.MQ": "a MultiQueueFormatHeader is there",
        "Flags.AH": "came over HTTP; not allowed on a session",
        "Flags.HH": "a SoapHeader is there",
        "ConnectorType": "the application's connector",
    },
    TransactionHeader: {
        "Flags.CG": "a ConnectorQMGuid is there",
        "Flags.FA": "a FinalAck is wanted",
        "Flags.FM": "the first message of its transaction",
        "Flags.LM": "the last message of its transaction",
        "Flags.ID": "the transaction, by the sender's number",
        **_SEQUENCE,
        "PreviousTxSequenceNumber": lambda value: (
            "the number that must have arrived before" if value else "nothing comes before it"
        ),
        "ConnectorQMGuid": "the connector's queue manager",
    },
    SecurityHeader: {
        "Flags.ST": _SENDER_TYPES,
        "Flags.AU": "claims to be authenticated; never believed",
        "Flags.EB": "the body is encrypted",
        "Flags.DE": "signed by the default provider",
        "Flags.AI": "SecurityData is there",
        "Flags.AS": _SIGNATURE_TYPES,
        "SenderIdSize": "bytes of SecurityID",
        "EncryptionKeySize": "bytes of EncryptionKey",
        "SignatureSize": "bytes of Signature",
        "SenderCertSize": "bytes of SenderCert",
        "ProviderInfoSize": "bytes of ProviderInfo",
        "EncryptionKey": "the session key, sealed for the receiver",
        "Signature": "the sender's signature",
        "SenderCert": "the sender's X.509 certificate",
        "ProviderType": "the kind of cryptographic provider",
        "ProviderName": "the cryptographic provider",
    },
    MessagePropertiesHeader: {
        "Flags.PA": "acknowledge when it reaches the queue",
        "Flags.PR": "acknowledge when it is read",
        "Flags.NA": "report when it does not reach the queue",
        "Flags.NR": "report when it is not read",
        "LabelLength": "characters, the null included",
        "MessageClass": _class,
        "BodyType": _body_type,
        "ApplicationTag": "the application's own number",
        "MessageSize": "bytes of MessageBody",
        "AllocationBodySize": "bytes reserved for MessageBody",
        "PrivacyLevel": {
            0: "the body is not encrypted",
            1: "40-bit encryption",
            3: "128-bit encryption",
            5: "AES encryption",
        },
        "HashAlgorithm": _algorithm(HashAlgorithm),
        "EncryptionAlgorithm": _algorithm(EncryptionAlgorithm),
        "ExtensionSize": "bytes of ExtensionData",
        "Label": "the application's title for the message",
        "ExtensionData": "the application's own data beside the body",
    },
    DebugHeader: {
        "Flags.QT": {0: "no queue", 1: "a public queue"},
        "Reserved": IGNORED,
        "QueueIdentifier": "the queue that collects trace reports",
    },
    MQFAddressHeader: {
        "HeaderSize": "bytes of this list",
        "HeaderID": {0x64: "destination queues", 0xC8: "admin queues", 0x12C: "response queues"},
        "Reserved": IGNORED,
        "ElementCount": "queues in the list",
    },
    MQFSignatureHeader: {
        "ID": "the signature",
        "Reserved": IGNORED,
        "Size": "bytes of Signature",
        "Signature": "the sender's MSMQ 3.0 signature",
    },
    CompoundMessageHeader: {
        "Reserved": IGNORED,
        "HTTPBodySize": "bytes of Data",
        "MsgBodySize": "bytes of the message body within Data",
        "MsgBodyOffset": "where the message body begins within Data",
        "Data": "the HTTP request that carried the message",
    },
    OrderAckBody: {
        **_SEQUENCE,
        "TxPreviousSequenceNumber": "the number before it",
        "Reserved": IGNORED,
    },
    FinalAckBody: {
        **_SEQUENCE,
        "TxPreviousSequenceNumber": "the number received before it",
        "SourceGUID": "the queue manager that sent the message",
        "MessageID": "the sender's number for the message",
    },
}  # fmt: skip


def _unused(field: str, *names: tuple[int, str]) -> tuple[Bits, ...]:
    return tuple(Bits(field, low, 1, name) for low, name in names)


UNUSED_BITS: Final[Mapping[type[Wire], tuple[Bits, ...]]] = {
    Ping: (Bits("flags", 2, 14, "X"),),
    BaseHeader: _unused(
        "flags", (6, "X9"), (7, "X8"), *((low, f"X{15 - low}") for low in range(9, 16))
    ),
    InternalHeader: _unused("flags", *((low, f"X{low}") for low in range(5, 16))),
    EstablishConnectionHeader: _unused("operating_system", *((low, f"X{low}") for low in range(11, 16))),
    UserHeader: (
        *_unused("flags", (7, "X1"), (24, "X2")),
        Bits("flags", 26, 2, "X3"),
        Bits("flags", 29, 3, "X4"),
    ),
    TransactionHeader: _unused("flags", *((23 + number, f"X{number}") for number in range(1, 9))),
    SecurityHeader: _unused("flags", *((low, f"X{low}") for low in range(12, 16))),
    MessagePropertiesHeader: (Bits("flags", 4, 4, "X"),),
    DebugHeader: _unused("flags", *((low, f"X{low}") for low in range(2, 16))),
}  # fmt: skip
"""Bits that have a name but are ignored. A group of bits that are all named X is one entry."""


def meaning_of(structure: type[Wire], name: str, value: object) -> str:
    """Return what ``value`` means in the field ``name`` of a structure; empty if there is nothing to say."""
    meaning = MEANINGS.get(structure, {}).get(name, "")
    if isinstance(meaning, str):
        return meaning
    if isinstance(meaning, Mapping):
        return meaning.get(value, "not assigned") if isinstance(value, int) else ""
    return meaning(value)


def meaning_of_bits(structure: type[Wire], name: str, value: int, width: int) -> str:
    """Return what ``value`` means in ``width`` bits of a field. A clear bit means nothing unless a table has a text for
    it."""
    if width == 1 and not value and isinstance(MEANINGS.get(structure, {}).get(name), str):
        return ""
    return meaning_of(structure, name, value)
