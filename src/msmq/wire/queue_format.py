"""QUEUE_FORMAT and its parts as values (MS-MQMQ 2.2.6 to 2.2.11); `queue_format_ndr` encodes them.

The structure has the same meaning as a format name: ``QueueFormat.from_name`` and ``QueueFormat.to_name`` convert
between the two. ``QueueFormat.from_members`` is for decoders: it refuses undefined numbers. ``to_name`` applies the
table of suffixes, flags and types, and parses the direct name in the structure.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from ipaddress import IPv4Address
from typing import TypeAlias

from msmq.errors import DecodeError, IllegalFormatnameError
from msmq.wire.names import (
    ConnectorName,
    DirectName,
    DistributionListName,
    MachineName,
    MsmqVersion,
    MulticastName,
    PrivateName,
    Protocol,
    PublicName,
    SingleName,
    SuffixType,
    check,
)

__all__ = [
    "ARM_CLASSES",
    "REMOTE_READ_TYPES",
    "SUFFIX_RULES",
    "Arm",
    "DLId",
    "MulticastId",
    "ObjectId",
    "QueueFormat",
    "QueueFormatFlags",
    "QueueFormatType",
    "SuffixType",
    "supported_by_remote_read",
]


class QueueFormatType(IntEnum):
    """QUEUE_FORMAT_TYPE (MS-MQMQ 2.2.6); SUBQUEUE exists from MSMQ 4.0 on."""

    UNKNOWN = 0
    PUBLIC = 1
    PRIVATE = 2
    DIRECT = 3
    MACHINE = 4
    CONNECTOR = 5
    DL = 6
    MULTICAST = 7
    SUBQUEUE = 8


class QueueFormatFlags(IntEnum):
    """The high four bits of m_SuffixAndFlags."""

    NOT_SYSTEM = 0x00
    SYSTEM = 0x80


@dataclass(frozen=True, slots=True)
class ObjectId:
    """OBJECTID (MS-MQMQ 2.2.8): a group and an object in it; for a private queue, its computer and its number."""

    lineage: bytes
    uniquifier: int


@dataclass(frozen=True, slots=True)
class DLId:
    """DL_ID (MS-MQMQ 2.2.9): a distribution list and, if known, its domain."""

    guid: bytes
    domain: str | None = None


@dataclass(frozen=True, slots=True)
class MulticastId:
    """MULTICAST_ID (MS-MQMQ 2.2.10): two ULONGs."""

    address: int
    port: int

    # The text does not define the order of the address. As in TA_ADDRESS the bytes in memory are in dotted order, so
    # the little-endian ULONG has the first octet in its lowest byte (MQMQ-2.2.10-a).
    @classmethod
    def from_name(cls, name: MulticastName) -> MulticastId:
        return cls(int.from_bytes(IPv4Address(name.address).packed, "little"), name.port)

    def to_name(self) -> MulticastName:
        if not 0 <= self.address <= 0xFFFFFFFF or not 0 <= self.port <= 0xFFFF:
            raise IllegalFormatnameError("A multicast name has a 32-bit address and a port from 0 to 65535")
        return MulticastName(str(IPv4Address(self.address.to_bytes(4, "little"))), self.port)


Arm: TypeAlias = bytes | ObjectId | str | DLId | MulticastId | None

ARM_CLASSES: dict[QueueFormatType, type] = {
    QueueFormatType.UNKNOWN: type(None),
    QueueFormatType.PUBLIC: bytes,
    QueueFormatType.PRIVATE: ObjectId,
    QueueFormatType.DIRECT: str,
    QueueFormatType.MACHINE: bytes,
    QueueFormatType.CONNECTOR: bytes,
    QueueFormatType.DL: DLId,
    QueueFormatType.MULTICAST: MulticastId,
    QueueFormatType.SUBQUEUE: str,
}


@dataclass(frozen=True, slots=True)
class SuffixRule:
    """One line of the table of suffix types in MS-MQMQ 2.2.7."""

    flags: frozenset[QueueFormatFlags]
    types: frozenset[QueueFormatType]


_T = QueueFormatType
_ALL = frozenset(_T)
_NOT_SYSTEM = frozenset({QueueFormatFlags.NOT_SYSTEM})
_SYSTEM = frozenset({QueueFormatFlags.SYSTEM})

SUFFIX_RULES: dict[SuffixType, SuffixRule] = {
    SuffixType.NONE: SuffixRule(_NOT_SYSTEM, _ALL - {_T.MACHINE}),
    SuffixType.JOURNAL: SuffixRule(_SYSTEM, _ALL - {_T.CONNECTOR, _T.DL, _T.MULTICAST}),
    SuffixType.DEADLETTER: SuffixRule(
        _SYSTEM, _ALL - {_T.PUBLIC, _T.PRIVATE, _T.CONNECTOR, _T.DL, _T.MULTICAST}
    ),
    SuffixType.DEADXACT: SuffixRule(_SYSTEM, frozenset({_T.DIRECT, _T.MACHINE})),
    SuffixType.XACTONLY: SuffixRule(frozenset(QueueFormatFlags), frozenset({_T.CONNECTOR})),
    SuffixType.SUBQUEUE: SuffixRule(_NOT_SYSTEM, frozenset({_T.SUBQUEUE})),
}


@dataclass(frozen=True, slots=True)
class QueueFormat:
    """QUEUE_FORMAT (MS-MQMQ 2.2.7).

    ``arm`` is the member of the union that ``type`` selects: None for UNKNOWN, a GUID for PUBLIC, MACHINE and
    CONNECTOR, an `ObjectId` for PRIVATE, the direct name without "DIRECT=" for DIRECT and SUBQUEUE, a `DLId`, a
    `MulticastId`. ``reserved`` is m_reserved: kept to be displayed, but not compared.
    """

    type: QueueFormatType
    arm: Arm = None
    suffix: SuffixType = SuffixType.NONE
    flags: QueueFormatFlags = QueueFormatFlags.NOT_SYSTEM
    reserved: int = field(default=0, compare=False)

    @classmethod
    def from_members(cls, qft: int, suffix_and_flags: int, arm: Arm, reserved: int = 0) -> QueueFormat:
        """Make the structure from its numbers on the wire; raises `DecodeError` for an undefined number."""
        try:
            kind = QueueFormatType(qft)
        except ValueError:
            raise DecodeError(f"m_qft {qft} is no QUEUE_FORMAT_TYPE") from None
        try:
            suffix = SuffixType(suffix_and_flags & 0x0F)
            flags = QueueFormatFlags(suffix_and_flags & ~0x0F)
        except ValueError:
            raise DecodeError(f"m_SuffixAndFlags 0x{suffix_and_flags:02X} has undefined bits") from None
        if type(arm) is not ARM_CLASSES[kind]:
            raise DecodeError(f"the union arm does not fit m_qft {kind.name}")
        return cls(kind, arm, suffix, flags, reserved)

    @property
    def suffix_and_flags(self) -> int:
        """m_SuffixAndFlags: the suffix in the low four bits, the flags in the high four."""
        return self.flags | self.suffix

    @classmethod
    def from_name(cls, name: SingleName) -> QueueFormat:
        """Make the structure that corresponds to ``name``; a bare MACHINE= name gives one that names no queue."""
        kind, arm = _type_and_arm(name)
        suffix = name.suffix
        if kind is QueueFormatType.SUBQUEUE and suffix is SuffixType.NONE:
            suffix = SuffixType.SUBQUEUE
        system = suffix in (SuffixType.JOURNAL, SuffixType.DEADLETTER, SuffixType.DEADXACT)
        return cls(kind, arm, suffix, QueueFormatFlags.SYSTEM if system else QueueFormatFlags.NOT_SYSTEM)

    def to_name(self, *, version: MsmqVersion = MsmqVersion.V6) -> SingleName:
        """Return the corresponding format name; raises MQ_ERROR_ILLEGAL_FORMATNAME if a rule is broken or the type is
        UNKNOWN."""
        self._check_table(version)
        name = _name(self)
        check(name, version=version)
        return name

    def _check_table(self, version: MsmqVersion) -> None:
        rule = SUFFIX_RULES[self.suffix]
        if self.type is QueueFormatType.SUBQUEUE and version < MsmqVersion.V4:
            raise IllegalFormatnameError(f"Subqueues exist from MSMQ 4.0 on, not in MSMQ {version}.0")
        if self.type not in rule.types:
            raise IllegalFormatnameError(
                f"The suffix {self.suffix.name} does not go with the type {self.type.name}"
            )
        if self.flags not in rule.flags:
            raise IllegalFormatnameError(
                f"The suffix {self.suffix.name} does not go with the flag {self.flags.name}"
            )


def _type_and_arm(name: SingleName) -> tuple[QueueFormatType, Arm]:
    match name:
        case DirectName(subqueue=None):
            return QueueFormatType.DIRECT, name.wire_text
        case DirectName():
            return QueueFormatType.SUBQUEUE, name.wire_text
        case PublicName():
            return QueueFormatType.PUBLIC, name.queue
        case PrivateName():
            return QueueFormatType.PRIVATE, ObjectId(name.computer, name.queue_id)
        case DistributionListName():
            return QueueFormatType.DL, DLId(name.guid, name.domain)
        case MachineName():
            return QueueFormatType.MACHINE, name.computer
        case ConnectorName():
            return QueueFormatType.CONNECTOR, name.guid
        case MulticastName():
            return QueueFormatType.MULTICAST, MulticastId.from_name(name)


def _name(form: QueueFormat) -> SingleName:
    suffix = form.suffix
    match form.type, form.arm:
        case QueueFormatType.PUBLIC, bytes() as guid:
            return PublicName(guid, suffix)
        case QueueFormatType.PRIVATE, ObjectId(computer, queue_id):
            return PrivateName(computer, queue_id, suffix)
        case ((QueueFormatType.DIRECT | QueueFormatType.SUBQUEUE), str() as text):
            return _direct_name(form.type, suffix, text)
        case QueueFormatType.MACHINE, bytes() as guid:
            return MachineName(guid, suffix)
        case QueueFormatType.CONNECTOR, bytes() as guid:
            return ConnectorName(guid, suffix)
        case QueueFormatType.DL, DLId(guid, domain):
            return DistributionListName(guid, domain)
        case QueueFormatType.MULTICAST, MulticastId() as group:
            return group.to_name()
    raise IllegalFormatnameError(f"A queue format of type {form.type.name} with this arm names no queue")


def _direct_name(kind: QueueFormatType, suffix: SuffixType, text: str) -> DirectName:
    """Return the direct name of the arm with the suffix of the structure, which must not contradict it."""
    name = DirectName.parse("DIRECT=" + text)
    if kind is QueueFormatType.SUBQUEUE and name.subqueue is None:
        raise IllegalFormatnameError("A SUBQUEUE queue format needs a direct name that ends in ;SUBQUEUE")
    if suffix is SuffixType.SUBQUEUE:
        suffix = SuffixType.NONE
    # The suffix means the journal *of* the queue in the union (2.2.11), so the text may omit it.
    if suffix is SuffixType.JOURNAL and name.suffix is SuffixType.NONE:
        return replace(name, suffix=suffix)
    if name.suffix is not suffix:
        raise IllegalFormatnameError("The direct name and m_SuffixAndFlags disagree about the suffix")
    return name


REMOTE_READ_TYPES = frozenset(QueueFormatType) - {_T.CONNECTOR, _T.DL, _T.MULTICAST}


def supported_by_remote_read(form: QueueFormat) -> bool:
    """True if MS-MQRR allows such a name: six types, and direct names over TCP and OS only (MS-MQRR 2.2.3)."""
    if form.type not in REMOTE_READ_TYPES:
        return False
    if isinstance(form.arm, str):
        return form.arm.partition(":")[0].upper() in (Protocol.TCP.value, Protocol.OS.value)
    return True
