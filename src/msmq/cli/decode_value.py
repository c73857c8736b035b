"""``msmq decode --as``: decode one structure from an RPC call or a directory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from enum import IntFlag
from typing import Any, Final

from msmq.capture.format import Format
from msmq.capture.hextext import read_blocks
from msmq.capture.inputs import Source
from msmq.capture.problems import UnreadableError
from msmq.cli.decode import DAMAGED, UNREADABLE
from msmq.cli.output import cell, print_json, print_sheet
from msmq.errors import DecodeError, MQError
from msmq.security.access import GENERIC_MAPPINGS
from msmq.security.descriptor import SecurityDescriptor
from msmq.security.sddl import format_sddl
from msmq.security.sid import Sid
from msmq.wire.access_masks import (
    ConnectedNetworkAccessMask,
    EnterpriseAccessMask,
    QueueAccessMask,
    QueueManagerAccessMask,
    SiteAccessMask,
)
from msmq.wire.addresses import decode_addresses
from msmq.wire.names import DirectName, Protocol, SingleName
from msmq.wire.properties import BY_NAME, Content, ObjectType, Property, check_value, value_texts
from msmq.wire.queue_format_ndr import decode_queue_format
from msmq.wire.variant import decode_variant, vt_name

_LARGEST: Final = 1 << 20
"""Larger than any structure that a call carries."""

_MASKS: Final[Mapping[ObjectType, type[IntFlag]]] = {
    ObjectType.QUEUE: QueueAccessMask,
    ObjectType.MACHINE: QueueManagerAccessMask,
    ObjectType.SITE: SiteAccessMask,
    ObjectType.CONNECTED_NETWORK: ConnectedNetworkAccessMask,
    ObjectType.ENTERPRISE: EnterpriseAccessMask,
}
"""The bits of the specific rights, which depend on the kind of object."""


def run_value(path: str, form: Format, kind: str, *, ndr64: bool, as_json: bool) -> int:
    """Print one structure on standard output. Returns the exit status."""
    name = "standard input" if path == "-" else path
    try:
        show = shower(kind)
        data = _read(path, form)
    except UnreadableError as error:
        print(f"msmq decode: {name}: {error}", file=sys.stderr)
        return UNREADABLE
    try:
        found = show(data, ndr64)
    except (DecodeError, MQError) as error:
        print(f"msmq decode: {name}: {error}", file=sys.stderr)
        return DAMAGED
    if as_json:
        print_json(found)
    else:
        print_sheet((title, _lines(value)) for title, value in found.items())
    return 0


def shower(kind: str) -> Callable[[bytes, bool], dict[str, Any]]:
    """The function that decodes a structure of this kind."""
    if kind == "propvariant":
        return show_variant
    if kind == "queue-format":
        return show_queue_format
    if kind in BY_NAME:
        return lambda data, ndr64: show_property(kind, data, ndr64)
    raise UnreadableError(f"--as takes propvariant, queue-format or the name of a property, not {kind!r}")


def show_variant(data: bytes, ndr64: bool) -> dict[str, Any]:
    """A PROPVARIANT (MS-MQMQ 2.2.13) as RPC carries it."""
    variant = decode_variant(data, ndr64)
    return {"type": vt_name(variant.vt), "values": value_texts(variant)}


def show_queue_format(data: bytes, ndr64: bool) -> dict[str, Any]:
    """A QUEUE_FORMAT (MS-MQMQ 2.2.7) as RPC carries it, and the format name that it stands for."""
    found = decode_queue_format(data, ndr64)
    named = {"m_qft": found.type.name, "suffix": found.suffix.name, "flags": found.flags.name}
    name = found.to_name()
    return {**named, "format_name": str(name), **_place(name)}


def _place(name: SingleName) -> dict[str, Any]:
    """The target of a direct name, in the terms of its protocol."""
    if not isinstance(name, DirectName):
        return {}
    if name.protocol is Protocol.IPX:
        network, node = name.ipx
        return {"network": network.hex(), "node": node.hex()}
    port = name.http_port
    return {"host": name.host} if port is None else {"host": name.host, "port": port}


def show_property(name: str, data: bytes, ndr64: bool) -> dict[str, Any]:
    """The value of a property, checked by the property's rules, and the contents of its bytes."""
    object_type, row = BY_NAME[name]
    variant = decode_variant(data, ndr64)
    check_value(row, variant)
    found = {"property": row.name, "id": row.id, "of": object_type.value, "type": vt_name(variant.vt)}
    found["values"] = value_texts(variant, row)
    if isinstance(variant.value, bytes):
        found.update(_contents(object_type, row, variant.value))
    return {**found, "meaning": row.doc}


def _contents(object_type: ObjectType, row: Property, data: bytes) -> dict[str, Any]:
    match row.content:
        case Content.SECURITY_DESCRIPTOR:
            return _descriptor(SecurityDescriptor.decode(data), _MASKS.get(object_type))
        case Content.SID:
            return {"sid": str(Sid.decode(data))}
        case Content.ADDRESSES:
            return {"addresses": [f"{each.type.name} {each}" for each in decode_addresses(data)]}
    return {}


def _descriptor(descriptor: SecurityDescriptor, mask: type[IntFlag] | None) -> dict[str, Any]:
    entries = [
        f"{ace.type.name} {ace.sid}: {', '.join(rights_in(ace.mask, mask))}"
        for ace in (descriptor.dacl.aces if descriptor.dacl else ())
    ]
    return {"sddl": format_sddl(descriptor), "entries": entries}


def rights_in(bits: int, mask: type[IntFlag] | None) -> list[str]:
    """The names of the rights in a mask for an object; generic rights are replaced by what they stand for."""
    if mask is None:
        return [f"{bits:#x}"]
    mapped = GENERIC_MAPPINGS[mask].map(bits)
    names = [f"MQSEC_{member.name}" for member in mask if member & mapped]
    rest = mapped & ~sum(int(member) for member in mask)
    return [*names, f"{rest:#x}"] if rest else names


def _read(path: str, form: Format) -> bytes:
    with Source.open(path) as source:
        if form is Format.AUTO:
            form = source.detect()
        if form is Format.PCAP:
            raise UnreadableError("a capture holds packets; give the bytes of the structure alone")
        if form is Format.HEX:
            data = b"".join(piece for piece in read_blocks(source, source.head) if piece is not None)
        else:
            data = source.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise UnreadableError(f"no structure has more than {_LARGEST:,} bytes")
    return data


def _lines(value: Any) -> str:
    return "; ".join(map(cell, value)) if isinstance(value, list | tuple) else str(value)
