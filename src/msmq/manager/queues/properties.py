"""The properties of queues and of the queue manager as PROPIDs and variants (MS-MQMQ 2.3.1, 2.3.2).

Two tables say which attribute of the data model a property shows and, if its value has another form, how it is
converted. Properties of the tables of :mod:`msmq.wire.properties` that are not here have no attribute: they are read
as their default and cannot be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from msmq.errors import PropertyNotallowedError
from msmq.manager.model import OperatingSystemType, QueueManagerRecord, QueuePrivacyLevel, QueueScope
from msmq.manager.queues.queue import Queue
from msmq.security.descriptor import decode_security_property
from msmq.wire.properties import (
    WIRE_CONTENTS,
    Content,
    ContentDecoder,
    ObjectType,
    Use,
    check_array_sizes,
    lookup,
)
from msmq.wire.properties.machine import OperatingSystem
from msmq.wire.properties.queue import Scope
from msmq.wire.variant import VT, Value, Variant

CONTENTS: Final[Mapping[Content, ContentDecoder]] = {
    **WIRE_CONTENTS,
    Content.SECURITY_DESCRIPTOR: decode_security_property,
}
"""How the blobs of properties are checked here, where descriptors can be decoded."""

PROPID_Q_OBJ_SECURITY: Final = 1102
SECURITY_PROPIDS: Final = frozenset({1101, PROPID_Q_OBJ_SECURITY, 1103, 1201, 234, 237})
"""Descriptors have their own events and rights."""


@dataclass(frozen=True, slots=True)
class Shown:
    """How an attribute is shown as a property, and a property stored as an attribute."""

    attribute: str
    show: Callable[[Any], Value] = lambda value: value
    take: Callable[[Any], Any] = lambda value: value


QUEUE: Final[Mapping[int, Shown]] = {
    101: Shown("identifier"),
    102: Shown("type"),
    103: Shown("pathname"),
    104: Shown("journaling", int, bool),
    105: Shown("quota_kb"),
    106: Shown("base_priority"),
    107: Shown("journal_quota_kb"),
    108: Shown("label"),
    109: Shown("create_time"),
    110: Shown("modify_time"),
    111: Shown("authentication", int, bool),
    112: Shown("privacy_level", int, QueuePrivacyLevel),
    113: Shown("transactional", int, bool),
    114: Shown(
        "scope",
        lambda scope: Scope.MQDS_SITESCOPE if scope is QueueScope.SITE else Scope.MQDS_ENTERPRISESCOPE,
    ),
    121: Shown("full_path", lambda text: text or None),
    124: Shown("qualified_pathname"),
    125: Shown("multicast_address", lambda address: address, lambda text: text or None),
    126: Shown("directory_path", lambda text: text or None),
}
"""PROPID_Q_*. PROPID_Q_QMID (115) is the queue manager's own identifier."""

PROPID_Q_QMID: Final = 115
UNCHANGING: Final = frozenset({113, 114})
"""Properties that are fixed when the queue is created: whether it is transactional, and its scope."""

_SYSTEMS: Final = {
    OperatingSystemType.FOREIGN: OperatingSystem.MSMQ_OS_FOREIGN,
    OperatingSystemType.WIN95: OperatingSystem.MSMQ_OS_95,
    OperatingSystemType.WIN_CLIENT: OperatingSystem.MSMQ_OS_NTW,
    OperatingSystemType.WIN_SERVER: OperatingSystem.MSMQ_OS_NTS,
    OperatingSystemType.WIN_ENT: OperatingSystem.MSMQ_OS_NTE,
    OperatingSystemType.OTHER: OperatingSystem.MSMQ_OS_NONE,
}

MACHINE: Final[Mapping[int, Shown]] = {
    201: Shown("site_identifier_list", lambda sites: sites[0] if sites else None),
    202: Shown("identifier"),
    203: Shown("computer_name"),
    207: Shown("connected_network_identifier_list"),
    208: Shown("out_routing_server_identifier_list"),
    209: Shown("in_routing_server_identifier_list"),
    214: Shown("queue_manager_quota_kb"),
    215: Shown("journal_quota_kb"),
    217: Shown("create_time"),
    218: Shown("modify_time"),
    219: Shown("foreign_system", int),
    220: Shown("operating_system_type", _SYSTEMS.__getitem__),
    221: Shown("full_path", lambda text: text or None),
    222: Shown("site_identifier_list"),
    227: Shown("routing_server", int),
    228: Shown("directory_server", int),
    229: Shown("supporting_server", int),
    233: Shown("qualified_computer_name"),
    238: Shown("public_encryption_key_list", lambda keys: keys or None),
    239: Shown("public_signing_key_list", lambda keys: keys or None),
    242: Shown("clustered", int),
}
"""PROPID_QM_*."""

SETTABLE_ON_MACHINE: Final = frozenset({208, 209, 214, 215})
"""The properties that an administrator may change; the others follow from the host and the directory."""


def read_queue(
    queue: Queue, queue_manager: QueueManagerRecord, propids: Sequence[int]
) -> tuple[Variant, ...]:
    """The properties of a queue, in the order asked for."""
    check_array_sizes(ObjectType.QUEUE, propids, propids)
    return tuple(
        Variant(VT.CLSID, queue_manager.identifier)
        if propid == PROPID_Q_QMID
        else _read(ObjectType.QUEUE, QUEUE, queue, propid)
        for propid in propids
    )


def read_machine(queue_manager: QueueManagerRecord, propids: Sequence[int]) -> tuple[Variant, ...]:
    """The properties of the queue manager, in the order asked for."""
    check_array_sizes(ObjectType.MACHINE, propids, propids)
    return tuple(_read(ObjectType.MACHINE, MACHINE, queue_manager, propid) for propid in propids)


def _read(object_type: ObjectType, table: Mapping[int, Shown], item: object, propid: int) -> Variant:
    row = lookup(object_type, propid)
    if Use.GET not in row.uses or propid in SECURITY_PROPIDS:
        raise PropertyNotallowedError(f"{row.name} cannot be read like this.")
    shown = table.get(propid)
    if shown is None:
        return row.default_variant or Variant(VT.EMPTY)
    value = shown.show(getattr(item, shown.attribute))
    return Variant(VT.EMPTY) if value is None else Variant(row.vt, value)
