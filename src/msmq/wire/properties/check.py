"""Look up properties and check arrays of them (MS-MQMQ 2.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from msmq.errors import (
    MQ_OK,
    DecodeError,
    IllegalMqqmpropsError,
    IllegalMqqueuepropsError,
    IllegalPropertyValueError,
    IllegalPropertyVtError,
    IllegalPropidError,
    Information,
    InsufficientPropertiesError,
    InvalidParameterError,
    MQError,
    PropertyNotallowedError,
    TooManyPropertiesError,
)
from msmq.wire.addresses import decode_addresses
from msmq.wire.certificates import UserSignCerts
from msmq.wire.identifiers import SequenceInfo
from msmq.wire.keys import DSPublicKeys
from msmq.wire.names import MsmqVersion, QueueKind, QueuePath
from msmq.wire.properties.computer import COMPUTER
from msmq.wire.properties.deletion import DELETION
from msmq.wire.properties.enterprise import ENTERPRISE
from msmq.wire.properties.link import ROUTING_LINK
from msmq.wire.properties.machine import MACHINE
from msmq.wire.properties.management import MANAGEMENT_MACHINE, MANAGEMENT_QUEUE
from msmq.wire.properties.model import Content, ObjectType, Property, Use
from msmq.wire.properties.mquser import MQUSER
from msmq.wire.properties.network import CONNECTED_NETWORK
from msmq.wire.properties.queue import QUEUE
from msmq.wire.properties.settings import SETTINGS
from msmq.wire.properties.site import SITE
from msmq.wire.properties.user import USER
from msmq.wire.variant import Variant, vt_name

MAX_PROPERTIES: Final = 128
"""The most properties in one call."""

PROPID_Q_PATHNAME: Final = 103

TABLES: Final[Mapping[ObjectType, Mapping[int, Property]]] = {
    object_type: {row.id: row for row in table}
    for object_type, table in {
        ObjectType.QUEUE: QUEUE,
        ObjectType.MACHINE: MACHINE,
        ObjectType.SITE: SITE,
        ObjectType.CONNECTED_NETWORK: CONNECTED_NETWORK,
        ObjectType.ENTERPRISE: ENTERPRISE,
        ObjectType.USER: USER,
        ObjectType.ROUTING_LINK: ROUTING_LINK,
        ObjectType.SETTINGS: SETTINGS,
        ObjectType.MQUSER: MQUSER,
        ObjectType.COMPUTER: COMPUTER,
        ObjectType.MANAGEMENT_MACHINE: MANAGEMENT_MACHINE,
        ObjectType.MANAGEMENT_QUEUE: MANAGEMENT_QUEUE,
        ObjectType.DELETION: DELETION,
    }.items()
}

BY_NAME: Final[Mapping[str, tuple[ObjectType, Property]]] = {
    row.name: (object_type, row) for object_type, table in TABLES.items() for row in table.values()
}

ContentDecoder: TypeAlias = Callable[[int, bytes], object]
"""Decodes the blob of the property with this identifier; refuses it with DecodeError or a status of its own."""

WIRE_CONTENTS: Final[Mapping[Content, ContentDecoder]] = {
    Content.PUBLIC_KEYS: lambda _propid, data: DSPublicKeys.decode(data),
    Content.USER_CERTIFICATES: lambda _propid, data: UserSignCerts.decode(data),
    Content.ADDRESSES: lambda _propid, data: decode_addresses(data),
    Content.SEQUENCE_INFO: lambda _propid, data: _sequence_info(data),
}
"""The blobs that this room can decode. Rooms above add decoders for descriptors, SIDs and certificates."""

_EMPTY_ARRAY: Final[Mapping[ObjectType, type[MQError]]] = {
    ObjectType.QUEUE: IllegalMqqueuepropsError,
    ObjectType.MACHINE: IllegalMqqmpropsError,
}


@dataclass(frozen=True, slots=True)
class Checked:
    """An array that passed the checks: the properties to act on, and a status (MQ_OK or an information) for each
    element."""

    accepted: tuple[tuple[Property, Variant], ...]
    statuses: tuple[int, ...]


def lookup(object_type: ObjectType, propid: int, version: MsmqVersion = MsmqVersion.V6) -> Property:
    """Return the property with this identifier; raises if the version does not know it."""
    row = TABLES[object_type].get(propid)
    if row is None or row.since > version:
        raise IllegalPropidError(f"A {object_type.value} has no property {propid} in MSMQ {version}.0.")
    return row


def check_properties(
    object_type: ObjectType,
    operation: Use,
    propids: Sequence[int],
    values: Sequence[Variant],
    *,
    version: MsmqVersion = MsmqVersion.V6,
    private: bool = False,
    contents: Mapping[Content, ContentDecoder] = WIRE_CONTENTS,
) -> Checked:
    """Check the parallel arrays of a call that writes properties; the first fault is raised.

    ``private`` says that the queue is a private one; at creation its path name tells. If an identifier is given twice,
    the first one counts, and the others get the status for duplicates.
    """
    check_array_sizes(object_type, propids, values)
    private = private or _creates_private_queue(object_type, operation, propids, values)
    accepted: dict[int, tuple[Property, Variant]] = {}
    statuses = []
    for propid, variant in zip(propids, values, strict=True):
        row = _check_use(object_type, operation, propid, version)
        check_value(row, variant, version=version, contents=contents)
        if propid in accepted:
            statuses.append(int(Information.MQ_INFORMATION_DUPLICATE_PROPERTY))
        elif row.public_only and private:
            statuses.append(int(Information.MQ_INFORMATION_PROPERTY_IGNORED))
        else:
            accepted[propid] = (row, variant)
            statuses.append(MQ_OK)
    if operation is Use.CREATE:
        _check_required(object_type, accepted)
    return Checked(tuple(accepted.values()), tuple(statuses))


def check_array_sizes(object_type: ObjectType, propids: Sequence[int], values: Sequence[object]) -> None:
    """Refuse arrays that are empty, too long or of different lengths."""
    if len(propids) != len(values):
        raise InvalidParameterError(f"{len(propids)} identifiers came with {len(values)} values.")
    if not propids:
        raise _EMPTY_ARRAY.get(object_type, InsufficientPropertiesError)()
    if len(propids) > MAX_PROPERTIES:
        raise TooManyPropertiesError(f"{len(propids)} came in one call.")


def check_value(
    row: Property,
    variant: Variant,
    *,
    version: MsmqVersion = MsmqVersion.V6,
    contents: Mapping[Content, ContentDecoder] = WIRE_CONTENTS,
) -> None:
    """Refuse a value of the wrong type or range, or a blob that does not decode."""
    if variant.vt != row.vt:
        raise IllegalPropertyVtError(f"{row.name} is {vt_name(row.vt)}, not {vt_name(variant.vt)}.")
    if variant.value is None:
        raise IllegalPropertyValueError(f"{row.name} cannot be a null pointer.")
    if row.rule is not None:
        row.rule.check(variant.value, version)
    decode = contents.get(row.content) if row.content is not None else None
    if decode is not None:
        assert isinstance(variant.value, bytes)
        try:
            decode(row.id, variant.value)
        except DecodeError as error:
            raise IllegalPropertyValueError(f"{row.name}: {error}") from error


def _check_use(object_type: ObjectType, operation: Use, propid: int, version: MsmqVersion) -> Property:
    row = lookup(object_type, propid, version)
    if operation not in row.uses:
        raise PropertyNotallowedError(f"{row.name} cannot be used with {operation.name}.")
    return row


def _check_required(object_type: ObjectType, accepted: Mapping[int, object]) -> None:
    for row in TABLES[object_type].values():
        if row.required and row.id not in accepted:
            raise InsufficientPropertiesError(f"{row.name} is missing.")


def _creates_private_queue(
    object_type: ObjectType, operation: Use, propids: Sequence[int], values: Sequence[Variant]
) -> bool:
    if object_type is not ObjectType.QUEUE or operation is not Use.CREATE or PROPID_Q_PATHNAME not in propids:
        return False
    return is_private_path(values[list(propids).index(PROPID_Q_PATHNAME)])


def is_private_path(path: Variant) -> bool:
    """True if a value of PROPID_Q_PATHNAME names a private queue; False also for text that is no path."""
    try:
        return isinstance(path.value, str) and QueuePath.parse(path.value).kind is QueueKind.PRIVATE
    except MQError:
        return False


def _sequence_info(data: bytes) -> SequenceInfo:
    if len(data) != SequenceInfo.SIZE:
        raise DecodeError(f"SEQUENCE_INFO has {SequenceInfo.SIZE} bytes, not {len(data)}")
    return SequenceInfo.decode(data)
