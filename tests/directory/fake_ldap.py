"""An LDAP server as strict as Active Directory is where Samba is lax: sizes, ranges, long names, owners.

It knows search with simple filters, add, modify and bind, and just enough of their encoding (RFC 4511). Objects are a
dictionary.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID

from msmq.directory.settings import Password, Protection, Server, Settings
from msmq.security.descriptor import SecurityDescriptor
from msmq.security.sid import Sid
from tests.directory.support import parts_of

MOST_RESULTS = 1_000
MOST_VALUES = 1_500
LONGEST_NAME = 64
_PAGED = "1.2.840.113556.1.4.319"
SUCCESS, SIZE_LIMIT_EXCEEDED, CONSTRAINT_VIOLATION, NO_SUCH_OBJECT = 0, 4, 19, 32

REQUESTER = Sid.parse("S-1-5-21-1-2-3-1104")
"""Whom it knows every client as: an account like that of a computer, in no group of administrators."""

Attributes = dict[str, list[bytes]]


@dataclass
class FakeServer:
    """What it has, and what it was asked."""

    port: int
    objects: dict[str, Attributes] = field(default_factory=dict)
    searches: list[tuple[str, int]] = field(default_factory=list)
    """Base of each search, and how many objects it was answered with."""

    @property
    def settings(self) -> Settings:
        server = Server("localhost", "127.0.0.1", self.port)
        return Settings((server,), Password("user", "secret"), Protection.NONE)

    # --- answers --------------------------------------------------------------------------------------------

    def answer(self, message: bytes) -> bytes:
        """The answers to one request; nothing for an unbind."""
        (_, number), (tag, body), *rest = parts_of(message)
        controls = _controls(rest[0][1]) if rest else {}
        if tag == 0x60:
            return _message(number, _tlv(0x61, _result(SUCCESS)))
        if tag == 0x63:
            return self._search(number, body, controls)
        if tag == 0x68:
            return _message(number, _tlv(0x69, _result(self._add(body))))
        if tag == 0x66:
            return _message(number, _tlv(0x67, _result(self._modify(body))))
        return b""

    def _modify(self, body: bytes) -> int:
        (_, dn), (_, changes) = parts_of(body)
        wanted: Attributes = {}
        for _, change in parts_of(changes):
            _, (_, modification) = parts_of(change)
            (_, name), (_, values) = parts_of(modification)
            wanted[name.decode()] = [value for _, value in parts_of(values)]
        if not _may_own(wanted):
            return CONSTRAINT_VIOLATION
        self.objects[dn.decode()] |= wanted
        return SUCCESS

    def _add(self, body: bytes) -> int:
        (_, dn), (_, given) = parts_of(body)
        attributes: Attributes = {}
        for _, attribute in parts_of(given):
            (_, name), (_, values) = parts_of(attribute)
            attributes[name.decode()] = [value for _, value in parts_of(values)]
        name = dn.decode().partition(",")[0].partition("=")[2]
        if len(name.replace("\\", "")) > LONGEST_NAME or not _may_own(attributes):
            return CONSTRAINT_VIOLATION
        attributes["objectGUID"] = [len(self.objects).to_bytes(16, "big")]
        self.objects[dn.decode()] = attributes
        return SUCCESS

    def _search(self, number: bytes, body: bytes, controls: dict[str, bytes]) -> bytes:
        (_, base), (_, scope), *_, conditions, (_, wanted) = parts_of(body)
        names = [name.decode() for _, name in parts_of(wanted)]
        dn = self._by_guid(base.decode())
        if not scope[0]:
            found = [dn] if dn in self.objects else []
        else:
            below = [known for known in self.objects if known and (not dn or known.endswith("," + dn))]
            found = [known for known in below if self._matches(known, *conditions)]
        end, code, after = len(found), SUCCESS, b""
        start = 0
        if _PAGED in controls:
            (_, size), (_, cookie) = parts_of(parts_of(controls[_PAGED])[0][1])
            start = int(cookie or b"0")
            end = start + min(int.from_bytes(size, "big"), MOST_RESULTS)
            after = b"%d" % end if end < len(found) else b""
        elif len(found) > MOST_RESULTS:
            end, code = MOST_RESULTS, SIZE_LIMIT_EXCEEDED
        elif not scope[0] and not found:
            code = NO_SUCH_OBJECT
        page = found[start:end]
        self.searches.append((dn, len(page)))
        entries = b"".join(
            _message(number, _tlv(0x64, _tlv(4, known.encode()) + _tlv(0x30, self._attributes(known, names))))
            for known in page
        )
        control = b""
        if _PAGED in controls:
            value = _tlv(0x30, _tlv(2, b"\0") + _tlv(4, after))
            control = _tlv(0xA0, _tlv(0x30, _tlv(4, _PAGED.encode()) + _tlv(4, value)))
        return entries + _message(number, _tlv(0x65, _result(code)) + control)

    def _by_guid(self, base: str) -> str:
        if not base.startswith("<GUID="):
            return base
        guid = UUID(base.removeprefix("<GUID=").removesuffix(">")).bytes_le
        return next((dn for dn, values in self.objects.items() if values.get("objectGUID") == [guid]), base)

    def _matches(self, dn: str, tag: int, body: bytes) -> bool:
        """And, or, equality; of an object that does not say its class every class is true."""
        if tag in (0xA0, 0xA1):
            each = (self._matches(dn, *part) for part in parts_of(body))
            return all(each) if tag == 0xA0 else any(each)
        if tag != 0xA3:
            return True
        (_, name), (_, value) = parts_of(body)
        given = self.objects[dn] | {"distinguishedName": [dn.encode()]}
        values = given.get(name.decode(), [value] if name == b"objectClass" else [])
        return value.lower() in [each.lower() for each in values]

    def _attributes(self, dn: str, names: list[str]) -> bytes:
        encoded = b""
        everything = self.objects[dn] | {"distinguishedName": [dn.encode()]}
        for asked in everything if names == ["*"] else names:
            name, _, ranged = asked.partition(";range=")
            values = everything.get(name, [])
            first = int(ranged.partition("-")[0] or 0) if ranged else 0
            if not values:
                continue
            shown = values[first : first + MOST_VALUES]
            if ranged or len(values) > MOST_VALUES:
                last = "*" if first + len(shown) == len(values) else str(first + len(shown) - 1)
                name = f"{name};range={first}-{last}"
            listed = b"".join(_tlv(4, value) for value in shown)
            encoded += _tlv(0x30, _tlv(4, name.encode()) + _tlv(0x31, listed))
        return encoded


def _may_own(attributes: Attributes) -> bool:
    """Active Directory takes no owner but the requester and administrators it belongs to (MS-ADTS 6.1.3.5)."""
    given = attributes.get("nTSecurityDescriptor")
    return not given or SecurityDescriptor.decode(given[0]).owner in (None, REQUESTER)


def _controls(listed: bytes) -> dict[str, bytes]:
    controls = {}
    for _, control in parts_of(listed):
        (_, kind), *rest = parts_of(control)
        controls[kind.decode()] = rest[-1][1] if rest else b""
    return controls


def _tlv(tag: int, content: bytes) -> bytes:
    return bytes([tag, 0x84]) + len(content).to_bytes(4, "big") + content


def _message(number: bytes, content: bytes) -> bytes:
    return _tlv(0x30, _tlv(2, number) + content)


def _result(code: int) -> bytes:
    return _tlv(0x0A, bytes([code])) + _tlv(4, b"") + _tlv(4, b"")


@contextmanager
def fake_ldap() -> Iterator[FakeServer]:
    """A server that runs; it has the root that names a forest."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = FakeServer(listener.getsockname()[1])
    root = "DC=fake"
    server.objects[""] = {
        "configurationNamingContext": [f"CN=Configuration,{root}".encode()],
        "rootDomainNamingContext": [root.encode()],
        "defaultNamingContext": [root.encode()],
        "tokenGroups": [REQUESTER.encode()],
    }
    server.objects[root] = {"objectGUID": [b"r" * 16], "objectClass": [b"domain"]}

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as reader:
                while (message := _next(reader)) is not None:
                    connection.sendall(server.answer(message))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(120)


def _next(reader: object) -> bytes | None:
    """The content of the next LDAPMessage."""
    read = reader.read  # type: ignore[attr-defined]
    head = read(2)
    if len(head) < 2:
        return None
    length = head[1]
    if length & 0x80:
        length = int.from_bytes(read(length & 0x7F), "big")
    content: bytes = read(length)
    return content
