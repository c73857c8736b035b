"""Messages that are put into a queue, in columns; one message is a batch of one.

A batch is what one call of an application, one read of a socket or one event brings for one queue. Whatever is asked of
all messages is a column, so that asking costs little; what only few of them have (local attributes) is a dictionary
that is nearly always empty. Packets are the bytes that travel and that the store keeps; nobody looks into them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from typing import Final

from msmq.manager.mailbox.positions import PositionMark
from msmq.manager.mailbox.stored import LocalAttributes, StoredMessage
from msmq.wire.columns import picker
from msmq.wire.headers import (
    BASE_SH,
    INFINITE,
    USER_JN,
    USER_JP,
    USER_RECOVERABLE,
    USER_TH,
    MessagePropertiesHeader,
    UserHeader,
)
from msmq.wire.optional_headers import TransactionHeader

NEVER: Final = 0xFFFFFFFF
"""The expiry of messages without a time limit."""
RECOVERABLE: Final = USER_RECOVERABLE
NEGATIVE_JOURNALING: Final = USER_JN
POSITIVE_JOURNALING: Final = USER_JP
ADMIN_QUEUE: Final = UserHeader.mask("admin_reference")
"""Bits of UserHeader.Flags."""
FINAL_ACK: Final = TransactionHeader.mask("final_ack_required")
"""Flags.FA of a TransactionHeader."""
ASKS_ARRIVAL: Final = MessagePropertiesHeader.mask("positive_arrival_ack")
_ASKS_RECEIPT: Final = MessagePropertiesHeader.mask("positive_receive_ack")
_ASKS_LATER: Final = MessagePropertiesHeader.mask("positive_receive_ack", "negative_receive_ack")
"""Bits of MessagePropertiesHeader.Flags: acknowledge the arrival; that the message is received; whatever happens to it
in its queue."""
_JOURNALED: Final = NEGATIVE_JOURNALING | POSITIVE_JOURNALING
MARKING: Final = ADMIN_QUEUE | USER_TH | _JOURNALED
"""The bits of UserHeader.Flags that the marks of a message depend on."""
_OWES_NOTHING: Final = int(PositionMark.OWES_NOTHING)
_OWES_NO_RECEIPT: Final = int(PositionMark.OWES_NO_RECEIPT)
_KEPT_UNREAD: Final = int(PositionMark.KEPT_UNREAD)
_HAS_SOURCE: Final = int(PositionMark.HAS_SOURCE)
_DIRECT_SESSION: Final = int(PositionMark.DIRECT_SESSION)


@lru_cache(maxsize=4096)
def marks_of(
    user_flags: int,
    asks: int,
    *,
    ours: bool,
    final_ack: int = 0,
    sourced: bool = False,
    direct: bool = False,
) -> int:
    """The marks of a message. They tell whether its sender may have to be told what becomes of it after its arrival
    (at the address it came from, if it came over a ``direct`` session), whether it is to be kept if nobody reads it,
    and whether its source is stored with it.

    Senders who asked for acknowledgments are told, and so is another host that waits for the FinalAck of a
    transactional message. A transactional message of this host (``ours``) needs no FinalAck, but may have to become a
    dead letter.
    """
    asked = asks if user_flags & ADMIN_QUEUE else 0
    owes, receipt = asked & _ASKS_LATER, asked & _ASKS_RECEIPT
    marks = _HAS_SOURCE if sourced else 0
    if ours and user_flags & USER_TH and user_flags & NEGATIVE_JOURNALING:
        marks |= _KEPT_UNREAD
    elif not ours and user_flags & USER_TH and (user_flags & _JOURNALED or final_ack):
        owes = receipt = 1
        marks |= _DIRECT_SESSION if direct else 0
    if not receipt:
        marks |= _OWES_NO_RECEIPT
    return marks if owes else marks | _OWES_NOTHING


our_marks_of: Final = lru_cache(maxsize=4096)(partial(marks_of, ours=True))
"""The marks of a message that was sent here, given its flags and the acknowledgments it asks for."""


def second_after(sent_time: int, limit_s: int) -> int:
    """The second at which a time limit of a message ends, or NEVER."""
    return NEVER if limit_s == INFINITE else min(sent_time + limit_s, NEVER)


def seconds_after(sent_time: int, limits_s: Sequence[int]) -> list[int]:
    """Like :func:`second_after`, for many limits of messages that are sent at the same time."""
    longest_s = NEVER - sent_time
    return [sent_time + limit_s if limit_s < longest_s else NEVER for limit_s in limits_s]


class Batch:
    """Columns of equal length."""

    __slots__ = (
        "asks",
        "base_flags",
        "expiries",
        "local",
        "marks",
        "packets",
        "reach_by",
        "sizes",
        "sources",
        "user_flags",
    )

    def __init__(
        self,
        packets: Sequence[bytes],
        user_flags: Sequence[int],
        base_flags: Sequence[int],
        expiries: Sequence[int],
        reach_by: Sequence[int],
        asks: Sequence[int],
        marks: Sequence[int],
        local: dict[int, LocalAttributes] | None = None,
        sources: Sequence[bytes] | None = None,
    ) -> None:
        self.packets = packets
        """The packets, without a SessionHeader, which belongs to a session and not to the message."""
        self.user_flags = user_flags
        self.base_flags = base_flags
        self.expiries = expiries
        """The second from which a message may no longer be received, or NEVER."""
        self.reach_by = reach_by
        """The second by which a message must reach its queue, or NEVER."""
        self.asks = asks
        """MessagePropertiesHeader.Flags: the acknowledgments that are asked for."""
        self.marks = marks
        self.local = local or {}
        """The local attributes of messages that have any, by index."""
        self.sources = [b""] * len(packets) if sources is None else sources
        """The addresses of the hosts that messages came from, b"" for messages of this host."""
        self.sizes = list(map(len, packets))

    def __len__(self) -> int:
        return len(self.packets)

    @classmethod
    def of(cls, messages: Iterable[StoredMessage], *own_guids: bytes) -> Batch:
        """Make a batch of single messages; ``own_guids`` are the identifiers of this host."""
        given = list(messages)
        for message in given:
            if message.packet.base.flags & BASE_SH:
                message.packet = message.packet.with_session(None)
        packets = [message.packet for message in given]
        users = [packet.user for packet in packets]
        asks = [packet.properties.flags for packet in packets]
        transactions = [packet.transaction for packet in packets]
        return cls(
            [packet.data for packet in packets],
            [user.flags for user in users],
            [packet.base.flags for packet in packets],
            [NEVER if (expiry := message.expiry) is None else min(expiry, NEVER) for message in given],
            [second_after(packet.user.sent_time, packet.base.time_to_reach_queue_s) for packet in packets],
            asks,
            bytes(
                marks_of(
                    user.flags,
                    ask,
                    ours=user.source_queue_manager in own_guids,
                    final_ack=0 if transaction is None else transaction.flags & FINAL_ACK,
                    sourced=bool(message.source),
                )
                for message, user, ask, transaction in zip(given, users, asks, transactions, strict=True)
            ),
            {index: message.local for index, message in enumerate(given) if message.local.has_any},
            [message.source for message in given],
        )

    def like(self, packets: Sequence[bytes]) -> Batch:
        """A batch of packets with the columns of this batch's only message."""
        count = len(packets)
        return Batch(
            packets,
            [self.user_flags[0]] * count,
            [self.base_flags[0]] * count,
            [self.expiries[0]] * count,
            [self.reach_by[0]] * count,
            [self.asks[0]] * count,
            bytes(self.marks) * count,
        )

    def replace(self, index: int, message: StoredMessage) -> None:
        """Replace a message after its examination, by one with a clear body and other local attributes. Its flags
        stay."""
        packets = self.packets
        assert isinstance(packets, list)
        packets[index] = message.packet.data
        self.sizes[index] = len(message.packet.data)
        if message.local.has_any:
            self.local[index] = message.local

    def only(self, chosen: Sequence[int]) -> Batch:
        """The messages with these indices."""
        if len(chosen) == len(self.packets):
            return self
        local = {}
        if self.local:
            local = {new: self.local[old] for new, old in enumerate(chosen) if old in self.local}
        pick = picker(chosen)
        return Batch(
            pick(self.packets),
            pick(self.user_flags),
            pick(self.base_flags),
            pick(self.expiries),
            pick(self.reach_by),
            pick(self.asks),
            pick(self.marks),
            local,
            pick(self.sources),
        )
