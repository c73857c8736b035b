"""Messages that arrive over a session, in columns.

One read of a connection brings many messages. Each is checked once, to its exact end, and the values that a receiver
needs of every message are collected on the way: these are the columns. The decoded message is kept for code that needs
more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from msmq.errors import DecodeError
from msmq.wire.algorithms import PrivacyLevel
from msmq.wire.headers import BASE_SH, USER_AH, USER_MQ
from msmq.wire.layout import FIXED_SIZE, USER
from msmq.wire.message import UserMessage

_ENCRYPTED: Final = 0x20
"""Flags.EB of a SecurityHeader."""
_PRIVACY_LEVELS: Final = frozenset(int(level) for level in PrivacyLevel)


class Sequel(NamedTuple):
    """The place of a transactional message in its sequence, from its TransactionHeader."""

    flags: int
    tx_sequence_id: int
    tx_sequence_number: int
    previous_tx_sequence_number: int


Row = tuple[int, int, bytes, bytes, int, int, int, int, bytes, int, Sequel | None, bool, UserMessage]
"""The values of one message in all columns."""


def row_of(data: bytes) -> Row:
    """Check a packet and return its row, which holds nothing of a SessionHeader. A message that claims to have come
    over HTTP (UserHeader.Flags.AH) is refused: the binary protocol carries none."""
    message = UserMessage.decode(data)
    base, user, transaction, security = message.base, message.user, message.transaction, message.security
    if user.flags & USER_AH:
        raise DecodeError("Flags.AH marks a message of another protocol", USER["flags"])
    sequel = None
    if transaction is not None:
        sequel = Sequel(
            transaction.flags,
            transaction.tx_sequence_id,
            transaction.tx_sequence_number,
            transaction.previous_tx_sequence_number,
        )
    proof = message.properties.privacy_level not in _PRIVACY_LEVELS or (
        security is not None
        and bool(security.signature_size or security.flags & _ENCRYPTED or user.flags & USER_MQ)
    )
    return (
        base.flags & ~BASE_SH,
        base.time_to_reach_queue_s,
        user.source_queue_manager,
        user.queue_manager_address,
        user.time_to_be_received_s,
        user.sent_time,
        user.message_id,
        user.flags,
        data[FIXED_SIZE : message.user_end],
        message.properties.flags,
        sequel,
        proof,
        message,
    )


class Incoming:
    """Messages in the order of their arrival, as columns of equal length."""

    __slots__ = (
        "addresses",
        "asks",
        "base_flags",
        "decoded",
        "message_ids",
        "names",
        "packets",
        "proofs",
        "sent_times",
        "sequels",
        "sources",
        "times_to_be_received_s",
        "times_to_reach_queue_s",
        "user_flags",
    )

    packets: Sequence[bytes]
    """The packets without their SessionHeaders."""
    base_flags: Sequence[int]
    times_to_reach_queue_s: Sequence[int]
    sources: Sequence[bytes]
    """SourceQueueManager."""
    addresses: Sequence[bytes]
    """QueueManagerAddress."""
    times_to_be_received_s: Sequence[int]
    sent_times: Sequence[int]
    message_ids: Sequence[int]
    user_flags: Sequence[int]
    names: Sequence[bytes]
    """The names of destination, administration and response queue, as bytes of the packet."""
    asks: Sequence[int]
    """MessagePropertiesHeader.Flags: the acknowledgments that are asked for."""
    sequels: Sequence[Sequel | None]
    """None for messages without a transaction."""
    proofs: Sequence[bool]
    """True if there is a signature to verify, a body to decrypt, or a privacy level to refuse."""
    decoded: Sequence[UserMessage]
    """The decoded messages, perhaps still with their SessionHeaders; see :meth:`message`."""

    def __init__(self, packets: Sequence[bytes], rows: Sequence[Row]) -> None:
        self.packets = packets
        (
            self.base_flags,
            self.times_to_reach_queue_s,
            self.sources,
            self.addresses,
            self.times_to_be_received_s,
            self.sent_times,
            self.message_ids,
            self.user_flags,
            self.names,
            self.asks,
            self.sequels,
            self.proofs,
            self.decoded,
        ) = zip(*rows, strict=True)

    @classmethod
    def of(cls, packets: Sequence[bytes]) -> Incoming:
        """Make columns of packets; raises DecodeError for the first malformed one."""
        return cls(packets, list(map(row_of, packets)))

    def __len__(self) -> int:
        return len(self.packets)

    @property
    def size(self) -> int:
        """The bytes of all packets together."""
        return sum(map(len, self.packets))

    def message(self, index: int) -> UserMessage:
        """Return one of the messages, without a SessionHeader."""
        decoded, packet = self.decoded[index], self.packets[index]
        return decoded if decoded.data is packet else UserMessage.kept(packet)

    @property
    def messages(self) -> list[UserMessage]:
        return list(map(self.message, range(len(self))))

    def only(self, chosen: Sequence[int]) -> Incoming:
        """Return the columns of the messages with these indices."""
        part = object.__new__(Incoming)
        for name in self.__slots__:
            column = getattr(self, name)
            setattr(part, name, [column[index] for index in chosen])
        return part
