"""Format names (MS-MQMQ 2.1.2 to 2.1.7): a class for each prefix, and the parser of them all."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from msmq.errors import EncodeError, IllegalFormatnameError, IllegalPropertyValueError
from msmq.wire.guid import GUID_LENGTH, GUID_PATTERN, guid_from_text, guid_text
from msmq.wire.names.common import BadNameError, MsmqVersion, SuffixType, check_ascii
from msmq.wire.names.direct import DirectName, is_ipv4, parse_direct


@dataclass(frozen=True, slots=True)
class PublicName:
    """PublicName (MS-MQMQ 2.1.3): ``PUBLIC=<queue guid>``, with ``;JOURNAL`` as 2.2.7 allows for it."""

    queue: bytes
    suffix: SuffixType = SuffixType.NONE

    def __str__(self) -> str:
        return f"PUBLIC={guid_text(self.queue)}{_suffix_text(self.suffix)}"


@dataclass(frozen=True, slots=True)
class PrivateName:
    """PrivateName (MS-MQMQ 2.1.4): ``PRIVATE=<computer guid>\\<queue number in hexadecimal>``."""

    computer: bytes
    queue_id: int
    suffix: SuffixType = SuffixType.NONE

    def __str__(self) -> str:
        return f"PRIVATE={guid_text(self.computer)}\\{self.queue_id:08X}{_suffix_text(self.suffix)}"


@dataclass(frozen=True, slots=True)
class DistributionListName:
    """DistributionListName (MS-MQMQ 2.1.5): ``DL=<group guid>``, optionally ``@domain``."""

    guid: bytes
    domain: str | None = None

    @property
    def suffix(self) -> SuffixType:
        return SuffixType.NONE

    def __str__(self) -> str:
        return f"DL={guid_text(self.guid)}" + ("" if self.domain is None else f"@{self.domain}")


@dataclass(frozen=True, slots=True)
class MachineName:
    """Machine (MS-MQMQ 2.1.6): ``MACHINE=<computer guid>``; it needs a suffix to name a queue (2.2.7)."""

    computer: bytes
    suffix: SuffixType = SuffixType.NONE

    def __str__(self) -> str:
        return f"MACHINE={guid_text(self.computer)}{_suffix_text(self.suffix)}"


@dataclass(frozen=True, slots=True)
class ConnectorName:
    """Connector (MS-MQMQ 2.1.6): ``CONNECTOR=<guid>``; with ``;XACTONLY`` it is the transactional queue."""

    guid: bytes
    suffix: SuffixType = SuffixType.NONE

    def __str__(self) -> str:
        return f"CONNECTOR={guid_text(self.guid)}{_suffix_text(self.suffix)}"


@dataclass(frozen=True, slots=True)
class MulticastName:
    """Multicast (MS-MQMQ 2.1.6): ``MULTICAST=234.1.1.1:8001`` means every queue bound to that address and port."""

    address: str
    port: int

    @classmethod
    def parse_address(cls, text: str) -> MulticastName:
        """Parse ``234.1.1.1:8001``, the value of PROPID_Q_MULTICAST_ADDRESS (MS-MQMQ 2.3.1.23)."""
        try:
            return _parse_multicast(text, MsmqVersion.V6)
        except BadNameError as problem:
            raise IllegalPropertyValueError(str(problem)) from None

    @property
    def address_text(self) -> str:
        """The address as PROPID_Q_MULTICAST_ADDRESS holds it."""
        return f"{self.address}:{self.port}"

    @property
    def suffix(self) -> SuffixType:
        return SuffixType.NONE

    def __str__(self) -> str:
        return f"MULTICAST={self.address_text}"


SingleName: TypeAlias = (
    DirectName | PublicName | PrivateName | DistributionListName | MachineName | ConnectorName | MulticastName
)


@dataclass(frozen=True, slots=True)
class MultipleElementName:
    """MultipleElementName (MS-MQMQ 2.1.7): destinations joined by commas."""

    elements: tuple[SingleName, ...]

    @classmethod
    def parse(cls, text: str, *, version: MsmqVersion = MsmqVersion.V6) -> MultipleElementName:
        """Parse one or more elements; a MACHINE= name and a read-only queue are illegal here."""
        try:
            return cls(tuple(_parse_element(part, version) for part in _COMMA.split(text)))
        except BadNameError as problem:
            raise IllegalFormatnameError(str(problem)) from None

    def __str__(self) -> str:
        return ",".join(map(str, self.elements))


FormatName: TypeAlias = SingleName | MultipleElementName


def parse_format_name(text: str, *, version: MsmqVersion = MsmqVersion.V6) -> FormatName:
    """Parse any format name; anything outside the grammar is MQ_ERROR_ILLEGAL_FORMATNAME."""
    if _COMMA.search(text):
        return MultipleElementName.parse(text, version=version)
    try:
        return _parse_single(text, version)
    except BadNameError as problem:
        raise IllegalFormatnameError(str(problem)) from None


def check(name: FormatName, *, version: MsmqVersion = MsmqVersion.V6) -> None:
    """Refuse a value whose text does not parse back to it, such as one with a comma in its queue name."""
    parse = MultipleElementName.parse if isinstance(name, MultipleElementName) else parse_format_name
    try:
        same = parse(str(name), version=version) == name
    except EncodeError as problem:
        raise IllegalFormatnameError(str(problem)) from None
    if not same:
        raise IllegalFormatnameError(f"The parts of this {type(name).__name__} do not make one")


def _suffix_text(suffix: SuffixType) -> str:
    return "" if suffix is SuffixType.NONE else f";{suffix.name}"


@lru_cache(maxsize=256)  # the same few names come again and again
def _parse_single(text: str, version: MsmqVersion) -> SingleName:
    check_ascii(text)
    prefix, equals, rest = text.partition("=")
    parser = _PARSERS.get(prefix.upper()) if equals else None
    if parser is None:
        raise BadNameError(f"A format name starts with one of {', '.join(f'{p}=' for p in _PARSERS)}")
    return parser(rest, version)


def _parse_element(text: str, version: MsmqVersion) -> SingleName:
    name = _parse_single(text, version)
    if isinstance(name, MachineName):
        raise BadNameError("A MACHINE= name cannot be an element of a list")
    if name.suffix not in (SuffixType.NONE, SuffixType.XACTONLY):
        raise BadNameError(
            "Journals and dead-letter queues can only be read and cannot be elements of a list"
        )
    return name


_GUID_AND_REST = re.compile(rf"({GUID_PATTERN})(.*)", re.DOTALL)
_PRIVATE_ID = re.compile(r"\\([0-9A-Fa-f]{1,8})(.*)", re.DOTALL)
_DOMAIN = re.compile(r"[\x21-\x7E]{1,255}")
_PORT = re.compile(r"0|[1-9][0-9]{0,4}")

# A host or domain name may contain a comma; only a comma that is followed by a prefix separates two elements.
_COMMA = re.compile(
    r",(?=(?:DIRECT|PUBLIC|PRIVATE|DL|MACHINE|CONNECTOR|MULTICAST)=)", re.ASCII | re.IGNORECASE
)


def _split_guid(text: str) -> tuple[bytes, str]:
    if not _GUID_AND_REST.fullmatch(text):
        raise BadNameError("The prefix is followed by a GUID: 8-4-4-4-12 hexadecimal digits, without braces")
    return guid_from_text(text[:GUID_LENGTH]), text[GUID_LENGTH:]


def _parse_suffix(text: str, *allowed: SuffixType) -> SuffixType:
    """Parse an optional suffix; nothing else may follow."""
    if not text:
        return SuffixType.NONE
    for suffix in allowed:
        if text.upper() == f";{suffix.name}":
            return suffix
    raise BadNameError(f"After the identifier only {' or '.join(f';{s.name}' for s in allowed)} may follow")


def _parse_public(text: str, _version: MsmqVersion) -> PublicName:
    queue, rest = _split_guid(text)
    return PublicName(queue, _parse_suffix(rest, SuffixType.JOURNAL))


def _parse_private(text: str, _version: MsmqVersion) -> PrivateName:
    computer, rest = _split_guid(text)
    found = _PRIVATE_ID.fullmatch(rest)
    if found is None:
        raise BadNameError("The computer's GUID is followed by a backslash and 1 to 8 hexadecimal digits")
    return PrivateName(computer, int(found[1], 16), _parse_suffix(found[2], SuffixType.JOURNAL))


def _parse_distribution_list(text: str, _version: MsmqVersion) -> DistributionListName:
    guid, rest = _split_guid(text)
    if not rest:
        return DistributionListName(guid)
    domain = rest[1:]
    if rest[0] != "@" or not _DOMAIN.fullmatch(domain):
        raise BadNameError("After the list's GUID only @ and 1 to 255 printable ASCII characters may follow")
    return DistributionListName(guid, domain)


def _parse_machine(text: str, _version: MsmqVersion) -> MachineName:
    computer, rest = _split_guid(text)
    return MachineName(
        computer, _parse_suffix(rest, SuffixType.JOURNAL, SuffixType.DEADLETTER, SuffixType.DEADXACT)
    )


def _parse_connector(text: str, _version: MsmqVersion) -> ConnectorName:
    guid, rest = _split_guid(text)
    return ConnectorName(guid, _parse_suffix(rest, SuffixType.XACTONLY))


def _parse_multicast(text: str, version: MsmqVersion) -> MulticastName:
    if version < MsmqVersion.V3:
        raise BadNameError(f"Multicast names exist from MSMQ 3.0 on, not in MSMQ {version}.0")
    address, colon, port = text.partition(":")
    if not is_ipv4(address) or not 224 <= int(address.partition(".")[0]) <= 239:
        raise BadNameError("A multicast address is an IPv4 address from 224.0.0.0 to 239.255.255.255")
    if not colon or not _PORT.fullmatch(port) or int(port) > 0xFFFF:
        raise BadNameError("A multicast address is followed by a colon and a port from 0 to 65535")
    return MulticastName(address, int(port))


_PARSERS: dict[str, Callable[[str, MsmqVersion], SingleName]] = {
    "DIRECT": parse_direct,
    "PUBLIC": _parse_public,
    "PRIVATE": _parse_private,
    "DL": _parse_distribution_list,
    "MACHINE": _parse_machine,
    "CONNECTOR": _parse_connector,
    "MULTICAST": _parse_multicast,
}
