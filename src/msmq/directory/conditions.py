"""Search conditions as people write them: NAME=VALUE, with the names of the data model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, TypeVar

from msmq.directory import values
from msmq.directory.schema import KINDS, Use
from msmq.directory.values import Codec
from msmq.errors import MsmqError
from msmq.manager.directory import Expression, Filter, ObjectClass, Relation
from msmq.manager.model import OperatingSystemType, QueuePrivacyLevel
from msmq.security.sid import Sid
from msmq.wire.guid import guid_from_text

_Member = TypeVar("_Member", bound=Enum)


class ConditionError(MsmqError):
    """A condition cannot be used; the message says why."""


def conditions_of(object_class: ObjectClass, texts: Iterable[str]) -> Filter:
    """The filter of texts like ``label=Orders``.

    Raises:
        ConditionError: an attribute does not exist or cannot be searched for, or a value is of the wrong kind.
    """
    return [_condition(object_class, text) for text in texts]


def _condition(object_class: ObjectClass, text: str) -> Expression:
    name, equals, value = text.partition("=")
    kind = KINDS[object_class]
    entry = kind.find(name)
    searchable = sorted(entry.name for entry in kind.attributes if entry.use & Use.FILTER)
    if not equals or not name:
        raise ConditionError(f"{text} is no condition; one looks like {searchable[0]}=VALUE.")
    if entry is None:
        raise ConditionError(
            f"{name} is no attribute of a {object_class.value}; try {', '.join(searchable)}."
        )
    if not entry.use & Use.FILTER:
        raise ConditionError(f"{name} cannot be searched for; try {', '.join(searchable)}.")
    read = _BY_NAME.get(name) or (_text if entry.codec is None else _BY_CODEC.get(id(entry.codec), _text))
    try:
        return Expression(name, Relation.EQUALS, read(value))
    except (ValueError, ArithmeticError, MsmqError) as error:
        raise ConditionError(f"{name}={value}: {error}") from error


def _text(text: str) -> str:
    if not text:
        raise ValueError("a value is needed")
    return text


def _flag(text: str) -> bool:
    try:
        return {"true": True, "yes": True, "false": False, "no": False}[text.lower()]
    except KeyError:
        raise ValueError("it is true or false") from None


def _number(text: str) -> int:
    if not text.removeprefix("-").isdecimal() or not -(1 << 31) <= int(text) < 1 << 32:
        raise ValueError("it is a number of 32 bits")
    return int(text)


def _member(members: type[_Member]) -> Callable[[str], _Member]:
    def read(text: str) -> _Member:
        for member in members:
            if text.lower() == member.name.lower():
                return member
        raise ValueError(f"it is one of {', '.join(member.name.lower() for member in members)}")

    return read


def _blob(text: str) -> bytes:
    return bytes.fromhex(_text(text))


_CODECS: Final[tuple[tuple[Codec, Callable[[str], Any]], ...]] = (
    (values.BOOLEAN, _flag),
    (values.FLAG, _flag),
    (values.YES_NO, _flag),
    (values.VERSION, _flag),
    (values.INTEGER, _number),
    (values.DWORD, _number),
    (values.TIME, _number),
    (values.GUID, guid_from_text),
    (values.GUIDS, guid_from_text),
    (values.OCTETS, _blob),
    (values.PRIVACY, _member(QueuePrivacyLevel)),
    (values.OPERATING_SYSTEM, _member(OperatingSystemType)),
)
_BY_CODEC: Final[Mapping[int, Callable[[str], Any]]] = {id(codec): read for codec, read in _CODECS}
_BY_NAME: Final[Mapping[str, Callable[[str], Any]]] = {
    "security_identifier": lambda text: Sid.parse(text).encode(),
    "site1_identifier": guid_from_text,
    "site2_identifier": guid_from_text,
}
