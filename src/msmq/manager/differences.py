"""Differences between the public queues of a host and its directory.

One comparison serves `msmq directory check` and `status`, the repair, and the log of the daemon. Both sides are
directory objects, those of the host made from its queues.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from msmq.manager.directory import DirectoryObject
from msmq.wire.guid import guid_text

COMPARED: Final = (
    "label",
    "type",
    "journaling",
    "quota_kb",
    "journal_quota_kb",
    "authentication",
    "privacy_level",
    "transactional",
    "multicast_address",
    "base_priority",
)
"""The properties of a queue that others can see and change. Rights are left out: the two sides write them
differently."""


class Kind(StrEnum):
    """The kinds of differences."""

    ONLY_HERE = "only here"
    """The directory does not have the queue, so that nobody finds it."""
    ONLY_THERE = "only in the directory"
    """Others find the queue and send to it, but this host does not have it."""
    OTHER_IDENTIFIER = "another identifier"
    """The directory has another queue of this name."""
    OTHER_VALUES = "other values"
    """Its properties differ."""


class Choice(StrEnum):
    """The ways to resolve a difference."""

    PUBLISH = "publish"
    """Create the object in the directory again. It gets a new identifier; the old one still means the queue on this
    host."""
    DELETE_HERE = "delete-here"
    ADOPT = "adopt"
    """Create the directory's queue here, with its identifier and properties. A queue of this name keeps its
    messages."""
    DELETE_THERE = "delete-there"
    TAKE_THEIRS = "take-theirs"
    WRITE_OURS = "write-ours"


CHOICES: Final[Mapping[Kind, tuple[Choice, ...]]] = {
    Kind.ONLY_HERE: (Choice.PUBLISH, Choice.DELETE_HERE),
    Kind.ONLY_THERE: (Choice.ADOPT, Choice.DELETE_THERE),
    Kind.OTHER_IDENTIFIER: (Choice.ADOPT,),
    Kind.OTHER_VALUES: (Choice.TAKE_THEIRS, Choice.WRITE_OURS),
}


class Difference(NamedTuple):
    """A difference that concerns one queue."""

    kind: Kind
    queue: str
    """The path of the queue."""
    detail: str

    @property
    def choices(self) -> tuple[Choice, ...]:
        return CHOICES[self.kind]


def differences(here: Iterable[DirectoryObject], there: Iterable[DirectoryObject]) -> list[Difference]:
    """All differences between the public queues of a host and those that the directory has below it, by path."""
    ours = {_key(item): item for item in here}
    theirs = {_key(item): item for item in there}
    found = []
    for key in sorted(ours.keys() | theirs.keys()):
        own, other = ours.get(key), theirs.get(key)
        if other is None and own is not None:
            found.append(
                Difference(Kind.ONLY_HERE, own.attributes["pathname"], f"it was {guid_text(own.identifier)}")
            )
        elif own is None and other is not None:
            found.append(
                Difference(Kind.ONLY_THERE, other.attributes["pathname"], guid_text(other.identifier))
            )
        elif own is not None and other is not None:
            found += _compared(own, other)
    return found


def _compared(own: DirectoryObject, other: DirectoryObject) -> list[Difference]:
    path = own.attributes["pathname"]
    if own.identifier != other.identifier:
        detail = f"{guid_text(own.identifier)} here, {guid_text(other.identifier)} there"
        return [Difference(Kind.OTHER_IDENTIFIER, path, detail)]
    differing = [name for name in COMPARED if _plain(own, name) != _plain(other, name)]
    told = [f"{name} is {_plain(own, name)!r} here, {_plain(other, name)!r} there" for name in differing]
    return [Difference(Kind.OTHER_VALUES, path, "; ".join(told))] if told else []


def _key(item: DirectoryObject) -> str:
    return str(item.attributes["pathname"]).lower()


def _plain(item: DirectoryObject, name: str) -> Any:
    value = item.attributes.get(name)
    if name == "multicast_address":
        return value or ""
    if name == "type" and value:
        return guid_text(value)
    return int(value) if name == "privacy_level" and value is not None else value
