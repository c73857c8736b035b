"""The endpoint mapper: on which port an interface is served (C706 appendix L, O; MS-RPCE 2.2.1.2).

An `EndpointMap` lists the endpoints; `serve_endpoint_mapper` opens port 135 for it, where that is allowed and free. A
*tower* is an address of an interface, one floor for each layer: interface, transfer syntax, protocol, port, host.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address
from typing import Annotated, Any, Final

from msmq.admission.gate import Gate
from msmq.errors import DecodeError
from msmq.rpc.interface import Call, Interface, Operation
from msmq.rpc.mgmt import IfId, register_management
from msmq.rpc.ndr import (
    NULL_HANDLE,
    Array,
    Full,
    Octets,
    Parameters,
    Silent,
    Struct,
    Text,
    context_handle,
    declare,
    guid,
    u32,
)
from msmq.rpc.pdu import Syntax
from msmq.rpc.ports import ENDPOINT_MAPPER_PORT
from msmq.rpc.server import RpcServer, ServerConfig
from msmq.rpc.syntaxes import NDR
from msmq.wire.guid import NULL_GUID, guid_from_text

_log = logging.getLogger(__name__)

NOT_REGISTERED: Final = 0x16C9A0D6
"""EPT_S_NOT_REGISTERED."""
MAX_TOWER: Final = 2_000
MAX_ANSWERS: Final = 500
_ANNOTATION: Final = 64
_UUID_FLOOR: Final = 0x0D
_NCACN: Final = 0x0B
_TCP: Final = 0x07
_IP: Final = 0x09
_FLOORS: Final = 5


@declare
class Tower(Struct):
    """twr_t."""

    tower_length: u32
    tower_octet_string: Annotated[bytes, Octets(size_is="tower_length", max_count=MAX_TOWER)]


@declare
class Entry(Struct):
    """ept_entry_t."""

    object: guid
    tower: Annotated[Tower | None, Full(Tower)]
    annotation: Annotated[bytes, Text(_ANNOTATION)]


@declare
class EptLookup(Parameters):
    inquiry_type: u32
    object: Annotated[bytes | None, Full(guid)]
    interface_id: Annotated[IfId | None, Full(IfId)]
    vers_option: u32
    entry_handle: context_handle
    max_ents: u32


@declare
class EptLookupReply(Parameters):
    entry_handle: context_handle
    num_ents: u32
    entries: Annotated[list[Entry], Array(Entry, length_is="num_ents", announced="max_ents")]
    status: u32
    max_ents: Annotated[Any, Silent()] = None


@declare
class EptMap(Parameters):
    object: Annotated[bytes | None, Full(guid)]
    map_tower: Annotated[Tower | None, Full(Tower)]
    entry_handle: context_handle
    max_towers: u32


@declare
class EptMapReply(Parameters):
    entry_handle: context_handle
    num_towers: u32
    towers: Annotated[list[Tower | None], Array(Full(Tower), length_is="num_towers", announced="max_towers")]
    status: u32
    max_towers: Annotated[Any, Silent()] = None


EPT_LOOKUP = Operation(2, "ept_lookup", EptLookup, EptLookupReply)
EPT_MAP = Operation(3, "ept_map", EptMap, EptMapReply)
EPM: Final = Interface(
    "epm", Syntax(guid_from_text("e1af8308-5d1f-11c9-91a4-08002b14a0fa"), 3, 0), (EPT_LOOKUP, EPT_MAP)
)


def build_tower(interface: Syntax, port: int, address: str) -> bytes:
    """The tower of ``interface`` over TCP. The host floor knows IPv4 only and is zero for any other address."""
    host = ip_address(address) if address else IPv4Address(0)
    packed = host.packed if isinstance(host, IPv4Address) else bytes(4)
    floors = (
        *(
            (bytes((_UUID_FLOOR,)) + syntax.uuid + _u16(syntax.major), _u16(syntax.minor))
            for syntax in (interface, NDR)
        ),
        (bytes((_NCACN,)), bytes(2)),
        (bytes((_TCP,)), port.to_bytes(2, "big")),
        (bytes((_IP,)), packed),
    )
    parts = [_u16(len(floors))]
    for left, right in floors:
        parts.append(_u16(len(left)) + left + _u16(len(right)) + right)
    return b"".join(parts)


def _u16(value: int) -> bytes:
    return value.to_bytes(2, "little")


@dataclass(frozen=True, slots=True)
class TowerTarget:
    """The contents of a tower: the interface, and for TCP the port and host."""

    interface: Syntax
    protocols: tuple[int, ...]
    port: int
    host: str


def read_tower(data: bytes) -> TowerTarget:
    """Decode a tower."""
    if len(data) < 2:
        raise DecodeError("a tower has no floors")
    floors: list[tuple[bytes, bytes]] = []
    offset = 2
    for _ in range(min(int.from_bytes(data[:2], "little"), _FLOORS + 1)):
        sides = []
        for _ in range(2):
            length = int.from_bytes(data[offset : offset + 2], "little")
            if len(data) < offset + 2 + length:
                raise DecodeError("a floor ends before it should", offset)
            sides.append(data[offset + 2 : offset + 2 + length])
            offset += 2 + length
        floors.append((sides[0], sides[1]))
    if len(floors) < 3 or len(floors[0][0]) != 19 or floors[0][0][0] != _UUID_FLOOR or len(floors[0][1]) != 2:
        raise DecodeError("a tower does not begin with an interface")
    uuid, major = floors[0][0][1:17], int.from_bytes(floors[0][0][17:], "little")
    interface = Syntax(uuid, major, int.from_bytes(floors[0][1], "little"))
    protocols = tuple(left[0] if left else 0 for left, _ in floors[2:])
    port, host = 0, ""
    for left, right in floors[3:]:
        if left == bytes((_TCP,)) and len(right) == 2:
            port = int.from_bytes(right, "big")
        elif left == bytes((_IP,)) and len(right) == 4:
            host = str(IPv4Address(right))
    return TowerTarget(interface, protocols, port, host)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an interface is served. An ``address`` of 0.0.0.0 is told as the one at which the client asked."""

    interface: Syntax
    port: int
    address: str = "0.0.0.0"
    annotation: str = ""


class EndpointMap:
    """The endpoints of this host."""

    def __init__(self) -> None:
        self.endpoints: list[Endpoint] = []

    def add(self, endpoint: Endpoint) -> None:
        if endpoint not in self.endpoints:
            self.endpoints.append(endpoint)

    def remove(self, endpoint: Endpoint) -> None:
        self.endpoints.remove(endpoint)

    def matching(self, wanted: Syntax) -> list[Endpoint]:
        """The endpoints that serve ``wanted``: of the same major version and at least its minor one."""
        return [
            endpoint
            for endpoint in self.endpoints
            if endpoint.interface[:2] == wanted[:2] and endpoint.interface.minor >= wanted.minor
        ]


def _tower(endpoint: Endpoint, local: str) -> Tower:
    address = local if ip_address(endpoint.address).is_unspecified else endpoint.address
    octets = build_tower(endpoint.interface, endpoint.port, address)
    return Tower(len(octets), octets)


def _selected(endpoints: Sequence[Endpoint], request: EptLookup) -> list[Endpoint]:
    """The endpoints that an inquiry asks for (C706 appendix O: 0 all, 1 by interface, 2 by object, 3 by both).

    Nothing is registered for an object here, so inquiries by object find nothing unless they name the null object.
    """
    found = list(endpoints)
    if request.inquiry_type in (2, 3) and request.object not in (None, NULL_GUID):
        return []
    if request.inquiry_type in (1, 3) and request.interface_id is not None:
        asked = request.interface_id
        found = [e for e in found if e.interface.uuid == asked.uuid]
        if request.vers_option in (2, 3, 4):
            found = [e for e in found if e.interface.major == asked.vers_major]
        if request.vers_option == 3:
            found = [e for e in found if e.interface.minor == asked.vers_minor]
        elif request.vers_option == 2:
            found = [e for e in found if e.interface.minor >= asked.vers_minor]
        elif request.vers_option == 5:
            found = [e for e in found if e.interface[1:] <= (asked.vers_major, asked.vers_minor)]
    return found


def register_endpoint_mapper(server: RpcServer, endpoints: EndpointMap) -> None:
    """Serve the interface on ``server``."""

    def go_on(
        call: Call, handle: bytes, fresh: Sequence[Endpoint], limit: int
    ) -> tuple[bytes, list[Endpoint]]:
        """The next part of an answer, and the handle for the rest, which is null if nothing is left."""
        found = fresh if handle == NULL_HANDLE else call.close_handle(handle)
        part, rest = list(found[:limit]), found[limit:]
        return (call.open_handle(rest) if rest and part else NULL_HANDLE), part

    async def lookup(call: Call, request: EptLookup) -> EptLookupReply:
        fresh = _selected(endpoints.endpoints, request)
        limit = min(request.max_ents, MAX_ANSWERS)
        handle, part = go_on(call, request.entry_handle, fresh, limit)
        entries = [
            Entry(
                NULL_GUID, _tower(e, call.local), e.annotation.encode("ascii", "replace")[: _ANNOTATION - 1]
            )
            for e in part
        ]
        status = 0 if entries else NOT_REGISTERED
        return EptLookupReply(handle, len(entries), entries, status, request.max_ents)

    async def map_(call: Call, request: EptMap) -> EptMapReply:
        fresh: list[Endpoint] = []
        if request.map_tower is not None:
            try:
                asked = read_tower(request.map_tower.tower_octet_string)
            except DecodeError:
                asked = None
            if asked is not None and asked.protocols[:2] == (_NCACN, _TCP):
                fresh = endpoints.matching(asked.interface)
        limit = min(request.max_towers, MAX_ANSWERS)
        handle, part = go_on(call, request.entry_handle, fresh, limit)
        towers: list[Tower | None] = [_tower(endpoint, call.local) for endpoint in part]
        status = 0 if towers else NOT_REGISTERED
        return EptMapReply(handle, len(towers), towers, status, request.max_towers)

    server.register(EPM, {EPT_LOOKUP.opnum: lookup, EPT_MAP.opnum: map_})


async def serve_endpoint_mapper(
    address: str,
    endpoints: EndpointMap,
    config: ServerConfig | None = None,
    port: int = ENDPOINT_MAPPER_PORT,
    gate: Gate | None = None,
) -> RpcServer | None:
    """Serve the endpoint mapper alone. Returns None if the port cannot be opened; then clients must know our port."""
    server = RpcServer(config, gate=gate)
    register_endpoint_mapper(server, endpoints)
    register_management(server)
    try:
        await server.listen(address, port)
    except OSError as error:
        _log.warning("no endpoint mapper on %s port %d: %s", address, port, error)
        return None
    return server
