"""The consequences of a message's fate: acknowledgments, copies and dead letters, as its sender asked for them.

This is the part of the model of :mod:`msmq.testing.manager_sim` that says what senders must get. It is written from the
rules (MS-MQQB 3.1.7.15, MS-MQDMPR 3.1.1.12) and shares no code with the queue manager.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from enum import Enum
from typing import Final, NamedTuple

from msmq.errors import IllegalFormatnameError
from msmq.manager.core import Core
from msmq.manager.mailbox.stored import StoredMessage
from msmq.manager.messages.serialize import deserialize
from msmq.wire.names import DirectName, PrivateName, parse_format_name

ARRIVED: Final = 0x0002
RECEIVED: Final = 0x4000
NO_ROOM: Final = 0x8003
DELETED: Final = 0xC000
PURGED: Final = 0xC001
LATE: Final = 0xC002
NEGATIVE: Final = 0x8000
BURIED: Final = frozenset({PURGED, LATE, NO_ROOM})
"""Fates after which a message becomes a dead letter if its sender asked for that."""


class Wishes(NamedTuple):
    """What the sender of a message wants to follow from its fate."""

    identifier: bytes = b""
    acknowledgements: int = 0
    admin: tuple[str, ...] = ()
    """The format names of the queues that get its acknowledgments."""
    journal: bool = False
    dead_letter: bool = False
    grave: str = ""
    """The path of a dead-letter queue of the application's own."""
    transactional: bool = False
    peekable: bool = False

    def wants(self, fate: int) -> bool:
        """True if the sender wants to be told of a fate."""
        if fate == ARRIVED:
            bit = 0x1
        elif fate == RECEIVED:
            bit = 0x2
        else:
            bit = 0x8 if fate & 0xC000 == 0xC000 else 0x4
        return bool(self.acknowledgements & bit)

    def sent_by(self, host: bytes) -> bool:
        """True if the message was sent by ``host``, which then makes the copies that its sender wants."""
        return not self.identifier or self.identifier.startswith(host)


NO_WISHES: Final = Wishes()


class Kind(Enum):
    ACKNOWLEDGMENT = "acknowledgment"
    COPY = "copy"
    DEAD_LETTER = "dead letter"


class Due(NamedTuple):
    """A message that must appear because something happened to another one."""

    kind: Kind
    place: str
    fate: int
    about: bytes
    """The identifier of the other message; empty if nobody was told it."""
    text: bytes
    certain: bool = True
    """True if it must appear. Others may find no room, or the rules do not decide about them."""
    reason: int = 0
    """Why the message of which it is a copy was a dead letter already, if it was."""

    def is_met_by(self, place: str, message: StoredMessage) -> bool:
        packet = message.packet
        if place != self.place or bytes(packet.body) != self.text:
            return False
        if self.kind is Kind.ACKNOWLEDGMENT:
            properties = packet.properties
            return properties.message_class == self.fate and self.about in (b"", properties.correlation_id)
        reason = self.fate if self.kind is Kind.DEAD_LETTER else self.reason
        same = self.about in (b"", packet.identifier.encode())
        return same and message.local.dead_letter_class == reason


def wishes_in(message: StoredMessage) -> Wishes:
    """Read what the sender of a stored message wants."""
    said, local = deserialize(message.packet), message.local
    admin = said.administration_queue_format_name
    several = said.administration_multi_queue_format_name
    named = bool(message.packet.user.admin_reference)
    return Wishes(
        identifier=said.identifier.encode(),
        acknowledgements=int(said.acknowledgements_requested),
        admin=admin_queues(named, admin or "", several),
        journal=said.positive_journaling_requested,
        dead_letter=said.negative_journaling_requested,
        grave=local.application_deadletter_queue.lower(),
        transactional=message.packet.transactional,
        peekable=local.allow_peek_when_locked,
    )


def admin_queues(named: bool, admin: str, several: Sequence[str]) -> tuple[str, ...]:
    """Return where acknowledgments go. A list counts only beside a name, which may be a mere number. A queue that is
    listed twice is told once; our lists are never too long."""
    if not named:
        return ()
    return tuple(dict.fromkeys(several)) or ((admin,) if admin else ())


def admin_place(text: str, core: Core, queues: Container[str]) -> str | None:
    """Return where acknowledgments for an administration queue stand; None if no packet can go there. ``queues`` are
    those of the host."""
    try:
        name = parse_format_name(text)
    except IllegalFormatnameError:  # a packet from another host may hold any name
        return None
    if isinstance(name, DirectName) and name.address.lower() == "host":
        path = f"host\\private$\\{name.queue}".lower()
        return path if path in queues else None
    if isinstance(name, PrivateName) and name.computer == core.record.identifier:
        queue = core.by_private_number.get(name.queue_id)
        return None if queue is None else queue.pathname.lower()
    if isinstance(name, DirectName) or (isinstance(name, PrivateName) and any(name.computer)):
        return str(name).lower()
    return None
