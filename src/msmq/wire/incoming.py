"""Messages as they come over a session, in columns.

One read of a connection brings many messages. Each is checked to its exact end once, and what a receiver asks of every
message is taken out of it on the way: these are the columns. Whoever wants to know more of a message finds it decoded.
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
    """The place of a transactional message in its sequence, as its TransactionHeader has it."""

    flags: int
    tx_sequence_id: int
    tx_sequence_number: int
    previous_tx_sequence_number: int


Row = tuple[int, int, bytes, bytes, int, int, int, int, bytes, int, Sequel | None, bool, UserMessage]
"""What the columns have of one message."""


def row_of(data: bytes) -> Row:
    """Check a packet and give its row, which says nothing of a SessionHeader. A message that claims to have come over
    HTTP (UserHeader.Flags.AH) is refused: the binary protocol never carries one."""
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
    """Messages in the order in which they arrived: columns of equal length."""

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
    """Without their SessionHeaders."""
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
    """The names of destination, administration and response queue as they lie in the packet."""
    asks: Sequence[int]
    """MessagePropertiesHeader.Flags: the acknowledgments that are asked for."""
    sequels: Sequence[Sequel | None]
    """None for messages without a transaction."""
    proofs: Sequence[bool]
    """Whether there is a signature to verify, a body to decrypt, or a privacy level to refuse."""
    decoded: Sequence[UserMessage]
    """What was decoded of each, perhaps still with its SessionHeader; see :meth:`message`."""

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
        """Messages that are at hand as packets; raises DecodeError for the first one that is none."""
        return cls(packets, list(map(row_of, packets)))

    def __len__(self) -> int:
        return len(self.packets)

    @property
    def size(self) -> int:
        """Bytes of all of them."""
        return sum(map(len, self.packets))

    def message(self, index: int) -> UserMessage:
        """One of them, for those who want to look into it."""
        decoded, packet = self.decoded[index], self.packets[index]
        return decoded if decoded.data is packet else UserMessage.kept(packet)

    @property
    def messages(self) -> list[UserMessage]:
        return list(map(self.message, range(len(self))))

    def only(self, chosen: Sequence[int]) -> Incoming:
        """The messages with these indices."""
        part = object.__new__(Incoming)
        for name in self.__slots__:
            column = getattr(self, name)
            setattr(part, name, [column[index] for index in chosen])
        return part
