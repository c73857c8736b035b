"""Distinguished names (MS-MQDSSM 2.2.1, RFC 4514) and the names of queues in them (2.2.5, 3.1.6.1.2.5).

A name is escaped once, when it becomes part of a distinguished name, and unescaped once, when it is taken out of one;
elsewhere it is the plain name. The escaping that the specification describes for queue names is that of the
distinguished name, not a second one.

A common name has at most 64 characters, a queue name 124. Names from 64 characters on are cut: the first 55, a dash
and a hash of the whole name are the common name, the rest is kept in an attribute of its own. Characters are UTF-16
units, as Windows counts them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from msmq.errors import DecodeError, EncodeError
from msmq.wire.guid import guid_text

MAX_PLAIN_NAME: Final = 63
_KEPT: Final = 55
_SHORTENED: Final = 64
_HASHED: Final = 9

_POLYNOMIAL: Final = 0x9B619023
_SPECIAL: Final = frozenset('"+,;<>\\=#/')
"""Characters that are always escaped; RFC 4514 leaves ``=``, ``#`` and ``/`` to the writer."""


def _table() -> tuple[int, ...]:
    """The table of 2.2.5: a reflected CRC-32 with its own polynomial. The printed entry 87 is a misprint."""
    entries = []
    for index in range(256):
        value = index
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        entries.append(value)
    return tuple(entries)


HASH_TABLE: Final = _table()


def _units(text: str) -> list[int]:
    data = text.encode("utf-16-le", "surrogatepass")
    return [data[index] | data[index + 1] << 8 for index in range(0, len(data), 2)]


def _text(units: list[int]) -> str:
    data = b"".join(unit.to_bytes(2, "little") for unit in units)
    try:
        return data.decode("utf-16-le")
    except UnicodeDecodeError:
        raise EncodeError("a queue name cannot be cut inside a character of two UTF-16 units") from None


def queue_name_hash(name: str) -> str:
    """The hash string of 2.2.5, in which upper and lower case are the same."""
    value = 0
    for unit in _units(name):
        lower = chr(unit).lower()
        unit = ord(lower) if len(lower) == 1 and ord(lower) < 0x10000 else unit
        for byte in (unit >> 8, unit & 0xFF):
            value = value >> 8 ^ HASH_TABLE[byte ^ value & 0xFF]
    return f"{value:08x}"


def split_queue_name(name: str) -> tuple[str, str]:
    """The common name of a queue, and its value of mSMQQueueNameExt."""
    units = _units(name)
    if len(units) <= MAX_PLAIN_NAME:
        return name, ""
    return f"{_text(units[:_KEPT])}-{queue_name_hash(name)}", _text(units[_KEPT:])


def join_queue_name(common_name: str, extension: str) -> str:
    """The inverse of :func:`split_queue_name`."""
    units = _units(common_name)
    if len(units) != _SHORTENED:
        return common_name
    return _text(units[: _SHORTENED - _HASHED]) + extension


def split_pathname(pathname: str) -> tuple[str, str]:
    """The computer and the queue of ``computer\\queue``."""
    computer, separator, queue = pathname.partition("\\")
    if not (separator and computer and queue):
        raise EncodeError("the path name of a public queue is a computer, a backslash and a queue")
    return computer, queue


# --- distinguished names ------------------------------------------------------------------------------------


def escape(value: str) -> str:
    """An attribute value escaped for a distinguished name (RFC 4514 2.4)."""
    if not value:
        raise EncodeError("a name in the directory is not empty")
    parts = []
    for character in value:
        if character in _SPECIAL:
            parts.append("\\" + character)
        elif ord(character) < 0x20 or ord(character) == 0x7F:
            parts.append(f"\\{ord(character):02X}")
        else:
            parts.append(character)
    for edge in {0, len(value) - 1}:
        if value[edge] == " ":
            parts[edge] = "\\20"
    return "".join(parts)


def child(name: str, parent: str) -> str:
    return f"CN={escape(name)},{parent}"


def split(dn: str) -> tuple[str, str]:
    """The first element of a distinguished name, still escaped, and the rest."""
    escaped = quoted = False
    for index, character in enumerate(dn):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == '"':
            quoted = not quoted
        elif character == "," and not quoted:
            return _trim(dn[:index]), dn[index + 1 :].lstrip(" ")
    return _trim(dn), ""


def _trim(text: str) -> str:
    """Remove the blanks around a text, except for an escaped one at its end."""
    text = text.lstrip(" ")
    bare = text.rstrip(" ")
    escaped = (len(bare) - len(bare.rstrip("\\"))) % 2
    return text[: len(bare) + escaped]


def parent(dn: str) -> str:
    return split(dn)[1]


def first_value(dn: str) -> str:
    """The value of the first element of a distinguished name, unescaped."""
    element, _ = split(dn)
    kind, separator, value = element.partition("=")
    if not separator or not kind or not value:
        raise DecodeError("a distinguished name has an element without a value")
    return _unescape(_trim(value))


def _unescape(value: str) -> str:
    data = bytearray()
    index = 0
    while index < len(value):
        if value[index] != "\\":
            data += value[index].encode()
            index += 1
            continue
        pair = value[index + 1 : index + 3]
        if len(pair) == 2 and all(digit in "0123456789abcdefABCDEF" for digit in pair):
            data.append(int(pair, 16))
            index += 3
        elif pair:
            data += pair[0].encode()
            index += 2
        else:
            raise DecodeError("a distinguished name ends with a backslash")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise DecodeError("a distinguished name is not UTF-8") from None


@dataclass(frozen=True, slots=True)
class Names:
    """The distinguished names of objects (2.2.1), below the root of the domain."""

    root: str
    configuration_root: str
    moved: Mapping[str, str] = field(default_factory=dict)
    """Distinguished names of computers that are not in their usual place, by name in lower case."""

    def computer(self, computer: str) -> str:
        moved = self.moved.get(computer.lower())
        return moved or child(computer, f"CN=Computers,{self.root}")

    def queue_manager(self, computer: str) -> str:
        return child("msmq", self.computer(computer))

    def queue(self, pathname: str) -> str:
        computer, queue = split_pathname(pathname)
        return child(split_queue_name(queue)[0], self.queue_manager(computer))

    def user(self, name: str) -> str:
        return child(name, f"CN=Users,{self.root}")

    @property
    def sites(self) -> str:
        return f"CN=Sites,{self.configuration_root}"

    def site(self, name: str) -> str:
        return child(name, self.sites)

    @property
    def services(self) -> str:
        return f"CN=Services,{self.configuration_root}"

    @property
    def enterprise(self) -> str:
        return f"CN=MsmqServices,{self.services}"

    def server(self, computer: str, site: str) -> str:
        return child(computer, f"CN=Servers,{self.site(site)}")

    def settings(self, computer: str, site: str) -> str:
        return child("MSMQ Settings", self.server(computer, site))


def routing_link_name(site1: bytes, site2: bytes) -> str:
    """The common name of a link (3.1.6.1.4.2): the hexadecimal digits of both sites' identifiers."""
    return (guid_text(site1) + guid_text(site2)).replace("-", "")


def dns_name(dn: str) -> str:
    """The DNS name of a domain: ``corp.example`` of ``DC=corp,DC=example``."""
    labels = []
    while dn:
        labels.append(first_value(dn))
        dn = parent(dn)
    return ".".join(labels)
