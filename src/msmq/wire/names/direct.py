"""Direct format names (MS-MQMQ 2.1.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from ipaddress import AddressValueError, IPv6Address

from msmq.errors import DecodeError, IllegalFormatnameError
from msmq.wire.names.common import (
    JOURNAL_MARK,
    PRIVATE_MARK,
    SYSTEM_MARK,
    BadNameError,
    MsmqVersion,
    QueueKind,
    SuffixType,
    check_ascii,
    check_computer,
    check_queue_name,
    check_subqueue,
)

DIRECT_PREFIX = "DIRECT="


class Protocol(Enum):
    """The protocol: the token before the colon."""

    TCP = "TCP"
    OS = "OS"
    HTTP = "HTTP"
    HTTPS = "HTTPS"
    IPX = "IPX"
    SPX = "SPX"
    """Not in the grammar of direct names, but received in the order queue names of MS-MQQB 2.2.4 and 2.2.5."""


@dataclass(frozen=True, slots=True)
class DirectName:
    """DirectName: a queue by the address of its computer, without the directory.

    ``address`` is the IP address, computer name, ``net:node`` pair or HTTP host. ``queue`` is empty for the
    three machine queues, whose ``kind`` is SYSTEM and whose ``suffix`` says which one it is. ``port`` is the
    port of an HTTP or HTTPS name that gives one.
    """

    protocol: Protocol
    address: str
    kind: QueueKind
    queue: str
    subqueue: str | None = None
    suffix: SuffixType = SuffixType.NONE
    port: int | None = None

    @classmethod
    def parse(cls, text: str, *, version: MsmqVersion = MsmqVersion.V6) -> DirectName:
        """Parse ``DIRECT=...``; anything outside the grammar is MQ_ERROR_ILLEGAL_FORMATNAME."""
        try:
            check_ascii(text)
            if text[: len(DIRECT_PREFIX)].upper() != DIRECT_PREFIX:
                raise BadNameError("A direct name starts with DIRECT=")
            return parse_direct(text[len(DIRECT_PREFIX) :], version)
        except BadNameError as problem:
            raise IllegalFormatnameError(str(problem)) from None

    @classmethod
    def from_wire_text(cls, text: str) -> DirectName:
        """Parse a received DirectQueueFormatName, which has no prefix and may begin with SPX:."""
        try:
            return parse_direct(text, MsmqVersion.V6, received=True)
        except BadNameError as problem:
            raise DecodeError(str(problem)) from None

    @property
    def wire_text(self) -> str:
        """The name as packets and QUEUE_FORMAT hold it: without "DIRECT=" and without the terminating null."""
        place = f"{self.protocol.value}:{self.address_specification}\\"
        if self.kind is QueueKind.SYSTEM:
            return f"{place}{SYSTEM_MARK.upper()}{self.suffix.name}"
        mark = PRIVATE_MARK.upper() if self.kind is QueueKind.PRIVATE else ""
        subqueue = "" if self.subqueue is None else f";{self.subqueue}"
        journal = JOURNAL_MARK if self.suffix is SuffixType.JOURNAL else ""
        return f"{place}{mark}{self.queue}{subqueue}{journal}"

    def __str__(self) -> str:
        return DIRECT_PREFIX + self.wire_text

    @property
    def address_specification(self) -> str:
        """ProtocolAddressSpecification: the address in the form of its protocol."""
        if self.protocol not in HTTP_DEFAULT_PORT:
            return self.address
        port = "" if self.port is None else f":{self.port}"
        return f"//{self.address}{port}/MSMQ"

    @property
    def host(self) -> str:
        """The host to be resolved; "." is this computer."""
        return self.address.strip("[]") if self.protocol in HTTP_DEFAULT_PORT else self.address

    @property
    def http_port(self) -> int | None:
        """The port of an HTTP or HTTPS name, by default 80 or 443; None for other protocols."""
        return HTTP_DEFAULT_PORT.get(self.protocol) if self.port is None else self.port

    @property
    def ipx(self) -> tuple[bytes, bytes]:
        """The network number and node of an IPX or SPX address."""
        if self.protocol not in (Protocol.IPX, Protocol.SPX):
            raise ValueError(f"a {self.protocol.value} name has no IPX address")
        return bytes.fromhex(self.address[:8]), bytes.fromhex(self.address[9:])


HTTP_DEFAULT_PORT = {Protocol.HTTP: 80, Protocol.HTTPS: 443}

_PROTOCOLS = {protocol.value: protocol for protocol in Protocol}

_MACHINE_SUFFIXES = {s.name: s for s in (SuffixType.JOURNAL, SuffixType.DEADLETTER, SuffixType.DEADXACT)}

_DEC_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = re.compile(rf"{_DEC_OCTET}(?:\.{_DEC_OCTET}){{3}}")
_IPX = re.compile(r"[0-9A-Fa-f]{8}:[0-9A-Fa-f]{12}")
_SPX = re.compile(r"[0-9A-Fa-f]{8}[.:][0-9A-Fa-f]{12}")

# The specification has a backslash after /MSMQ; queue URLs are often typed with a slash there.
_HTTP = re.compile(
    r"//(?P<host>\[[0-9A-Fa-f:.]{2,45}\]|[\x21-\x2E\x30-\x39\x3B-\x5A\x5E-\x7E]{1,256})"
    r"(?::(?P<port>[0-9]*))?/MSMQ(?P<separator>[\\/])(?P<queue>.*)",
    re.ASCII | re.IGNORECASE | re.DOTALL,
)


def parse_direct(text: str, version: MsmqVersion, *, received: bool = False) -> DirectName:
    """Parse a direct name after "DIRECT="; raises `BadNameError`."""
    check_ascii(text)
    token, _, rest = text.partition(":")
    protocol = _PROTOCOLS.get(token.upper())
    if protocol is None or (protocol is Protocol.SPX and not received):
        raise BadNameError("A direct name needs a protocol: TCP:, OS:, HTTP://, HTTPS:// or IPX:")

    port = None
    if protocol in HTTP_DEFAULT_PORT:
        address, port, queue = _parse_http(rest)
    else:
        address, backslash, queue = rest.partition("\\")
        if not backslash:
            raise BadNameError("A direct name needs a backslash between address and queue")
        _check_address(protocol, address)

    start = queue[: len(PRIVATE_MARK)].lower()
    if start.startswith(SYSTEM_MARK):
        suffix = _MACHINE_SUFFIXES.get(queue[len(SYSTEM_MARK) :].upper())
        if suffix is None:
            raise BadNameError("SYSTEM$; is followed by JOURNAL, DEADLETTER or DEADXACT")
        return DirectName(protocol, address, QueueKind.SYSTEM, "", None, suffix, port)
    kind = QueueKind.PUBLIC
    if start == PRIVATE_MARK:
        kind, queue = QueueKind.PRIVATE, queue[len(PRIVATE_MARK) :]
    name, subqueue, suffix = _parse_queue(queue, version)
    return DirectName(protocol, address, kind, name, subqueue, suffix, port)


def _parse_queue(text: str, version: MsmqVersion) -> tuple[str, str | None, SuffixType]:
    """Parse QueueName [";" Subqueue] [";JOURNAL"]. The journal comes first, or it would be taken for a subqueue."""
    suffix = SuffixType.NONE
    if text[-len(JOURNAL_MARK) :].upper() == JOURNAL_MARK:
        suffix, text = SuffixType.JOURNAL, text[: -len(JOURNAL_MARK)]
    name, semicolon, subqueue = text.partition(";")
    check_queue_name(name, version)
    if not semicolon:
        return name, None, suffix
    check_subqueue(subqueue, version)
    if subqueue.upper() == "JOURNAL":
        raise BadNameError("A journal has no journal: ;JOURNAL may stand only once")
    return name, subqueue, suffix


def _parse_http(rest: str) -> tuple[str, int | None, str]:
    """Split ``//host[:port]/MSMQ\\queue``; the queue is returned with backslashes."""
    found = _HTTP.fullmatch(rest)
    if found is None:
        raise BadNameError("An HTTP address looks like //HOST/MSMQ\\QUEUE or //HOST:PORT/MSMQ\\QUEUE")
    host, digits, separator, queue = found["host"], found["port"], found["separator"], found["queue"]
    if host[0] == "[" and not is_ipv6(host[1:-1]):
        raise BadNameError("The host in brackets is no IPv6 address")
    if separator == "/":
        queue = queue.replace("/", "\\")
    if not digits:
        return host, None, queue
    port = int(digits) if len(digits) <= 5 else 0x10000
    if port > 0xFFFF:
        raise BadNameError("A port is a number from 0 to 65535")
    return host, port, queue


def _check_address(protocol: Protocol, address: str) -> None:
    match protocol:
        case Protocol.TCP:
            if not is_ipv4(address) and not is_ipv6(address):
                raise BadNameError("TCP: is followed by a numeric IP address; use OS: for a computer name")
        case Protocol.IPX:
            if not _IPX.fullmatch(address):
                raise BadNameError("IPX: is followed by 8 and 12 hexadecimal digits joined by a colon")
        case Protocol.SPX:
            if not _SPX.fullmatch(address):
                raise BadNameError("SPX: is followed by 8 and 12 hexadecimal digits joined by a dot")
        case _:
            check_computer(address)


def is_ipv4(text: str) -> bool:
    """True for an IPv4address of RFC 3986: four decimal octets without leading zeros."""
    return _IPV4.fullmatch(text) is not None


def is_ipv6(text: str) -> bool:
    """True for an IPv6address of RFC 3986, which has no zone."""
    if len(text) > 45 or "%" in text:
        return False
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True
