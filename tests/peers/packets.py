"""Packets of MS-MQMQ 2.2 and MS-MQQB 2.2, written and read from the text of the specifications alone.

Nothing of this project is imported. A message is a plain dictionary, with GUIDs and other bytes as they are on the
wire. A queue is named by a tuple: ``("direct", text)``, ``("public", guid)``, ``("private", guid, number)``,
``("source", number)``, ``("destination", number)``, ``("admin's host", number)``, ``("same",)``, or None.
"""

from __future__ import annotations

import struct
from typing import Any

NULL = bytes(16)
INFINITE = 0xFFFFFFFF
PREFIX = struct.Struct("<BBHIII")  # BaseHeader (2.2.19.1)
USER = struct.Struct("<16s16sIIII")  # UserHeader (2.2.19.2), up to its names
PROPERTIES = struct.Struct("<BBH20sIIIIIIII")  # MessagePropertiesHeader (2.2.19.3)
TRANSACTION = struct.Struct("<IQII")  # 2.2.20.5
SECURITY = struct.Struct("<HHHHII")  # 2.2.20.6
SESSION = struct.Struct("<HHIHHHH")  # 2.2.20.4
FORMS = ("none", "same", "source", "destination", "admin's host", "public", "private", "direct")
"""What the three bits of DQ, AQ and RQ mean, by their number."""
LISTS = ((0x0064, "destination_list"), (0x00C8, "admin_list"), (0x012C, "response_list"))


def base(flags: int, size: int, time_to_reach_queue: int = INFINITE) -> bytes:
    return PREFIX.pack(0x10, 0, flags, 0x524F494C, size, time_to_reach_queue)


def wide(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")


def text(data: bytes) -> str:
    return data.decode("utf-16-le", "surrogatepass")


def pad(data: bytes, unit: int = 4) -> bytes:
    return data + bytes(-len(data) % unit)


# --- names ---------------------------------------------------------------------------------------------------------


def form_of(name: tuple[Any, ...] | None) -> int:
    return FORMS.index("none" if name is None else name[0])


def write_name(name: tuple[Any, ...] | None, offset: int) -> bytes:
    """A name that begins so many bytes behind the start of the UserHeader (2.2.18.1.5)."""
    if name is None or name[0] == "same":
        return b""
    if name[0] == "direct":
        characters = wide(name[1]) + b"\0\0"
        data = struct.pack("<H", len(characters)) + characters
        return data + bytes(-(offset + len(data)) % 4)
    if name[0] == "public":
        return bytes(name[1])
    if name[0] == "private":
        return name[1] + struct.pack("<I", name[2])
    return struct.pack("<I", name[1])


def read_name(form: int, data: bytes, at: int, start: int) -> tuple[tuple[Any, ...] | None, int]:
    kind = FORMS[form]
    if kind == "none":
        return None, at
    if kind == "same":
        return ("same",), at
    if kind == "direct":
        (size,) = struct.unpack_from("<H", data, at)
        end = at + 2 + size
        return ("direct", text(data[at + 2 : end - 2])), end + -(end - start) % 4
    if kind == "public":
        return ("public", data[at : at + 16]), at + 16
    if kind == "private":
        return ("private", data[at : at + 16], *struct.unpack_from("<I", data, at + 16)), at + 20
    return (kind, *struct.unpack_from("<I", data, at)), at + 4


# --- lists of names (2.2.20.1 to .3) -----------------------------------------------------------------------

PUBLIC, PRIVATE, DIRECT, DISTRIBUTION = 1, 2, 3, 6


def write_list(number: int, names: list[tuple[Any, ...]]) -> bytes:
    body = b""
    for name in names:
        offset = 12 + len(body)
        if name[0] == "direct":
            body += struct.pack("<H", DIRECT) + wide(name[1]) + b"\0\0"
            continue
        kind = {"public": PUBLIC, "private": PRIVATE, "list": DISTRIBUTION}[name[0]]
        tail = name[1] + (struct.pack("<I", name[2]) if kind == PRIVATE else b"")
        body += struct.pack("<H", kind) + bytes(-(offset + 2) % 4) + tail
    return pad(struct.pack("<IHHI", 12 + len(body), number, 0, len(names)) + body)


def read_list(data: bytes, at: int) -> tuple[list[tuple[Any, ...]], int]:
    size, _, _, count = struct.unpack_from("<IHHI", data, at)
    names: list[tuple[Any, ...]] = []
    place = at + 12
    for _ in range(count):
        place += place % 2
        (kind,) = struct.unpack_from("<H", data, place)
        place += 2
        if kind == DIRECT:
            end = place
            while data[end : end + 2] != b"\0\0":
                end += 2
            names.append(("direct", text(data[place:end])))
            place = end + 2
            continue
        place += -(place - at) % 4
        guid, place = data[place : place + 16], place + 16
        if kind == PRIVATE:
            names.append(("private", guid, *struct.unpack_from("<I", data, place)))
            place += 4
        else:
            names.append(("public" if kind == PUBLIC else "list", guid))
    return names, at + size + -size % 4


# --- messages ------------------------------------------------------------------------------------------------------


def write_message(said: dict[str, Any]) -> bytes:
    """A UserMessage packet (2.2.20) without a SessionHeader. What is not said has its usual value."""
    get = said.get
    names = [get("destination"), get("admin"), get("response")]
    lists = [get(name) or [] for _, name in LISTS]
    transaction, security, soap = get("transaction"), get("security"), get("soap")
    connector, trace = get("connector_type"), get("trace")
    flags = (get("hops", 0)) | get("recoverable", False) << 5 | get("dead_letter", False) << 8
    flags |= get("journal", False) << 9 | form_of(names[0]) << 10 | form_of(names[1]) << 13
    flags |= form_of(names[2]) << 16 | (security is not None) << 19 | (transaction is not None) << 20
    flags |= 1 << 21 | (connector is not None) << 22 | any(lists) << 23 | (soap is not None) << 28
    packet = USER.pack(
        said["source"], get("address", NULL), get("time_to_be_received", INFINITE), said["sent_time"],
        said["number"], flags,
    )  # fmt: skip
    for name in names:
        packet += write_name(name, len(packet))
    packet += connector or b""
    if transaction is not None:
        packet += _write_transaction(transaction)
    if security is not None:
        packet += _write_security(security)
    label, extension, body = get("label", ""), get("extension", b""), get("body", b"")
    ending = wide(label) + b"\0\0" if label else b""
    room = len(body) + get("spare_room", 0)
    packet += PROPERTIES.pack(
        get("acknowledgements", 0), len(ending) // 2, get("message_class", 0), get("correlation", bytes(20)),
        get("body_type", 0), get("tag", 0), len(body), room, 0, *get("algorithms", (0x8004, 0x6801)),
        len(extension),
    )  # fmt: skip
    packet += pad(ending + extension + body + bytes(room - len(body)))
    if trace is not None:
        packet += struct.pack("<HH", bool(trace), 0) + trace
    if soap is not None:
        for number, part in zip((0x0320, 0x0384), soap, strict=True):
            characters = wide(part) + b"\0\0" if part else b""
            packet += pad(struct.pack("<HHI", number, 0, len(characters) // 2) + characters)
    if any(lists):
        packet += b"".join(write_list(number, each) for (number, _), each in zip(LISTS, lists, strict=True))
        packet += struct.pack("<HHI", 0x015E, 0, 0)
    priority = 0 if transaction is not None else get("priority", 3)
    front = priority | (trace is not None) << 5 | get("traced", False) << 8
    return base(front, 16 + len(packet), get("time_to_reach_queue", INFINITE)) + packet


def _write_transaction(said: dict[str, Any]) -> bytes:
    connector = said.get("connector", b"")
    flags = bool(connector) | said.get("final_ack", False) << 1 | said["first"] << 2 | said["last"] << 3
    return (
        TRANSACTION.pack(flags | said["id"] << 4, said["sequence"], said["number"], said["previous"])
        + connector
    )


def _write_security(said: dict[str, Any]) -> bytes:
    sender, certificate = said.get("sender", b""), said.get("certificate", b"")
    flags = said.get("sender_type", 0) | bool(certificate) << 7
    return SECURITY.pack(flags, len(sender), 0, 0, len(certificate), 0) + pad(sender) + pad(certificate)


def read_message(data: bytes) -> dict[str, Any]:
    """The same dictionary from a packet, with every key that the packet says something about."""
    _, _, front, _, size, reach = PREFIX.unpack_from(data)
    source, address, receive, sent, number, flags = USER.unpack_from(data, 16)
    said: dict[str, Any] = {
        "source": source, "address": address, "time_to_be_received": receive, "sent_time": sent, "number": number,
        "time_to_reach_queue": reach, "priority": front & 7, "traced": bool(front >> 8 & 1), "hops": flags & 31,
        "recoverable": bool(flags >> 5 & 1), "dead_letter": bool(flags >> 8 & 1), "journal": bool(flags >> 9 & 1),
    }  # fmt: skip
    at = 16 + USER.size
    for name, shift in (("destination", 10), ("admin", 13), ("response", 16)):
        said[name], at = read_name(flags >> shift & 7, data, at, 16)
    if flags >> 22 & 1:
        said["connector_type"], at = data[at : at + 16], at + 16
    if flags >> 20 & 1:
        bits, sequence, order, previous = TRANSACTION.unpack_from(data, at)
        at += TRANSACTION.size
        said["transaction"] = {
            "sequence": sequence, "number": order, "previous": previous, "final_ack": bool(bits >> 1 & 1),
            "first": bool(bits >> 2 & 1), "last": bool(bits >> 3 & 1), "id": bits >> 4 & 0xFFFFF,
            "connector": data[at : at + 16] if bits & 1 else b"",
        }  # fmt: skip
        at += 16 * (bits & 1)
    if flags >> 19 & 1:
        bits, *sizes = SECURITY.unpack_from(data, at)
        at += SECURITY.size
        items = []
        for length in sizes:
            items.append(data[at : at + length])
            at += length + -length % 4
        said["security"] = {"sender_type": bits & 15, "sender": items[0], "certificate": items[3]}
    asked, characters, kind, correlation, body_type, tag, length, room, _, digest, cipher, extra = (
        PROPERTIES.unpack_from(data, at)
    )
    at += PROPERTIES.size
    said["label"] = text(data[at : at + 2 * characters])[:-1]
    said["extension"] = data[at + 2 * characters :][:extra]
    body = at + 2 * characters + extra
    said |= {
        "acknowledgements": asked, "message_class": kind, "correlation": correlation, "body_type": body_type,
        "tag": tag, "algorithms": (digest, cipher), "body": data[body : body + length],
    }  # fmt: skip
    at = body + room + -(body + room - at) % 4
    return said | _read_rest(data, at, front, flags, size)


def _read_rest(data: bytes, at: int, front: int, flags: int, size: int) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if front >> 5 & 1:
        named = struct.unpack_from("<H", data, at)[0] & 3
        said["trace"], at = data[at + 4 : at + 4 + 16 * named], at + 4 + 16 * named
    if flags >> 28 & 1:
        parts = []
        for _ in range(2):
            (characters,) = struct.unpack_from("<I", data, at + 4)
            parts.append(text(data[at + 8 : at + 8 + 2 * characters])[:-1])
            at += 8 + 2 * characters + -(2 * characters) % 4
        said["soap"] = tuple(parts)
    if flags >> 23 & 1:
        for _, name in LISTS:
            said[name], at = read_list(data, at)
        at += 8 + struct.unpack_from("<I", data, at + 4)[0]
    assert at == size, f"the headers end at {at}, the packet at {size}"
    return said
