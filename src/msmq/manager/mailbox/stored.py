"""A message as a queue keeps it: the packet it travels in, and what this host knows about it beside the packet.

Wire form is disk form. A recoverable message is one record of the store: a short envelope, the address of the host it
came from if it came from one, its local attributes, which few messages have, and the packet's bytes as they came. An
express message is the same bytes in memory.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from msmq.manager.mailbox.positions import PositionMark
from msmq.wire.headers import INFINITE
from msmq.wire.message import UserMessage
from msmq.wire.trailers import HOST_ADDRESS_SIZE

if TYPE_CHECKING:
    from msmq.manager.mailbox.positions import Entry
    from msmq.manager.queues.queue import Queue

_PREFIX: Final = struct.Struct("<II")
ENVELOPE_SIZE: Final = _PREFIX.size
"""Bytes at the front of every record of a message: how long its local attributes are, and the arrival time."""
FRONTS: Final = bytes(
    ENVELOPE_SIZE + HOST_ADDRESS_SIZE * bool(marks & PositionMark.HAS_SOURCE) for marks in range(256)
)
"""For ``bytes.translate``: by a message's marks, the bytes in front of its local attributes and its packet."""
CUTS: Final = bytes(
    ENVELOPE_SIZE if marks & PositionMark.HAS_LOCAL else FRONTS[marks] for marks in range(256)
)
"""For ``bytes.translate``: by a message's marks, where its record is cut to be read: in front of its packet, or of its
local attributes if it has any."""
LARGEST_FRONT: Final = ENVELOPE_SIZE + HOST_ADDRESS_SIZE
LARGEST_ENVELOPE: Final = 4096
"""More than local attributes ever take: each is a name of a queue or a number."""


@dataclass(slots=True)
class LocalAttributes:
    """Attributes of Message (MS-MQDMPR 3.1.1.12) that no header carries. Messages share them, so nobody sets one:
    :meth:`changed` makes others."""

    allow_peek_when_locked: bool = False
    application_deadletter_queue: str = ""
    authentication_level: int = 0
    """The signature type that was verified here; the packet's own claim is never believed."""
    private: bool = False
    """Whether the body came encrypted, or is to be encrypted before it leaves; on this host it is clear."""
    transaction_status_queue: str = ""
    direct_session: bool = False
    """Whether a FinalAck goes to the address that the message came from, because its session knew no GUIDs. For a
    message in a queue a mark says so."""
    dead_letter_class: int = 0
    """Why a message is in a dead-letter queue; 0 for every other message."""

    @property
    def has_any(self) -> bool:
        """Whether there is anything to keep; most messages have nothing."""
        return bool(
            self.allow_peek_when_locked
            or self.application_deadletter_queue
            or self.authentication_level
            or self.private
            or self.transaction_status_queue
            or self.direct_session
            or self.dead_letter_class
        )

    def changed(self, **changes: Any) -> LocalAttributes:
        """A copy with some other values."""
        return LocalAttributes(**(asdict(self) | changes))


class _NoAttributes(LocalAttributes):
    """Shared by all messages that have nothing to keep, so nobody may add to it."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalAttributes) and not other.has_any

    def __setattr__(self, name: str, value: object) -> None:
        if value:
            raise AttributeError(f"{name} is set on a LocalAttributes of the message's own")
        object.__setattr__(self, name, value)


NO_ATTRIBUTES: Final[LocalAttributes] = _NoAttributes()


@dataclass(eq=False, slots=True)
class StoredMessage:
    """A message with the identifier of its place and the second of its arrival."""

    packet: UserMessage
    local: LocalAttributes = NO_ATTRIBUTES
    lookup_id: int = 0
    arrival_time: int = 0
    transaction: bytes | None = None
    """The identifier of the local transaction that sends it and has not ended yet."""
    source: bytes = b""
    """The address of the host it came from, see :func:`msmq.wire.trailers.host_address`; b"" if it was sent here."""

    @property
    def size(self) -> int:
        """Bytes of headers and body: what quotas count."""
        return self.packet.base.packet_size

    @property
    def recoverable(self) -> bool:
        return self.packet.recoverable

    def same_place(self, lookup_id: int) -> StoredMessage:
        """A copy with another lookup identifier."""
        return StoredMessage(self.packet, self.local, lookup_id, self.arrival_time, source=self.source)

    @property
    def expiry(self) -> int | None:
        """The second after which the message may no longer be received, or None for never. A dead letter does not
        expire."""
        if self.local.dead_letter_class:
            return None
        user = self.packet.user
        limit_s = user.time_to_be_received_s
        return None if limit_s == INFINITE else user.sent_time + limit_s


_ATTRIBUTES: Final = tuple(each.name for each in fields(LocalAttributes))
_values: Final = attrgetter(*_ATTRIBUTES)


def local_bytes(local: LocalAttributes) -> bytes:
    """Local attributes in the form they have in front of a packet in its record; b"" if there are none."""
    return b"" if local is NO_ATTRIBUTES or not local.has_any else _written(_values(local))


@lru_cache(maxsize=1024)
def _written(values: tuple[object, ...]) -> bytes:
    """Encode local attributes. Cached, because messages that come together usually have the same."""
    pairs = zip(_ATTRIBUTES, values, strict=True)
    return json.dumps({name: value for name, value in pairs if value}).encode()


@lru_cache(maxsize=1024)
def _read(text: bytes) -> LocalAttributes:
    """Decode local attributes. Unknown names were written by other versions and are ignored."""
    found = json.loads(text)
    return LocalAttributes(**{name: found[name] for name in _ATTRIBUTES if name in found})


def arrival_times_of(beginnings: Iterable[bytes]) -> list[int]:
    """What the beginnings of records say of the arrival of their messages."""
    return [arrived for _, arrived in map(_PREFIX.unpack_from, beginnings)]


def unpacked(beginning: bytes, rest: bytes, marks: int) -> tuple[int, bytes, bytes, LocalAttributes]:
    """Arrival time, packet, source and local attributes in the payload of the record of a message with such marks, cut
    as ``CUTS`` says; the store has checked its checksum."""
    length, arrival_time = _PREFIX.unpack_from(beginning)
    if not marks & PositionMark.HAS_LOCAL:
        return arrival_time, rest, beginning[ENVELOPE_SIZE:], NO_ATTRIBUTES
    middle = HOST_ADDRESS_SIZE if marks & PositionMark.HAS_SOURCE else 0
    start = middle + length
    local = _read(rest[middle:start]) if length else NO_ATTRIBUTES
    return arrival_time, rest[start:], rest[:middle], local


def marked(local: LocalAttributes, marks: int) -> LocalAttributes:
    """Local attributes completed by the marks of a message."""
    if not marks & PositionMark.DIRECT_SESSION:
        return local
    return local.changed(direct_session=True) if local.has_any else LocalAttributes(direct_session=True)


def from_record(payload: bytes, lookup_id: int, marks: int) -> StoredMessage:
    """The message in the payload of a record."""
    cut = payload[:ENVELOPE_SIZE], payload[ENVELOPE_SIZE:]
    arrival_time, packet, source, local = unpacked(*cut, marks | PositionMark.HAS_LOCAL)
    return StoredMessage(
        UserMessage.route(packet), marked(local, marks), lookup_id, arrival_time, source=source
    )


def allows_peek_when_locked(queue: Queue, entry: Entry) -> bool:
    return entry.lookup_id in queue.peekable_when_locked
