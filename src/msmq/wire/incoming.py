"""Messages that arrive over a session, in columns.

One read of a connection brings many messages. Each is checked once, to its exact end, and the values that a receiver
needs of every message are collected on the way: these are the columns. What else it says is read from the packet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msmq.errors import DecodeError
from msmq.wire.algorithms import PrivacyLevel
from msmq.wire.columns import picker
from msmq.wire.headers import BASE_SH, USER_AH, USER_MQ
from msmq.wire.layout import FIXED_SIZE, USER
from msmq.wire.message import UserMessage, check_front, check_rest
from msmq.wire.optional_headers import SessionHeader, TransactionHeader

_ENCRYPTED: Final = 0x20
"""Flags.EB of a SecurityHeader."""
_PRIVACY_LEVELS: Final = frozenset(int(level) for level in PrivacyLevel)


Row = tuple[int, int, bytes, bytes, int, int, int, int, bytes, int, TransactionHeader | None, bool]
"""The values of one message in all columns."""


def row_of(data: bytes) -> tuple[Row, SessionHeader | None]:
    """Check a packet and return its row, and beside it the SessionHeader. A message that claims to have come over HTTP
    (UserHeader.Flags.AH) is refused: the binary protocol carries none."""
    _, end, base_flags, reach_s, source, address, receive_s, sent_time, message_id, flags = check_front(data)
    transaction, security, _, session, _, _, asks, privacy_level = check_rest(data, base_flags, flags, end)
    if flags & USER_AH:
        raise DecodeError("Flags.AH marks a message of another protocol", USER["flags"])
    proof = privacy_level not in _PRIVACY_LEVELS or (
        security is not None
        and bool(security.signature_size or security.flags & _ENCRYPTED or flags & USER_MQ)
    )
    row = (
        base_flags & ~BASE_SH,
        reach_s,
        source,
        address,
        receive_s,
        sent_time,
        message_id,
        flags,
        data[FIXED_SIZE:end],
        asks,
        transaction,
        proof,
    )
    return row, session


class Incoming:
    """Messages in the order of their arrival, as columns of equal length."""

    __slots__ = (
        "addresses",
        "asks",
        "base_flags",
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
    sequels: Sequence[TransactionHeader | None]
    """The places of transactional messages in their sequences; None for others."""
    proofs: Sequence[bool]
    """True if there is a signature to verify, a body to decrypt, or a privacy level to refuse."""

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
        ) = zip(*rows, strict=True)

    @classmethod
    def of(cls, packets: Sequence[bytes]) -> Incoming:
        """Make columns of packets; raises DecodeError for the first malformed one."""
        return cls(packets, [row for row, _ in map(row_of, packets)])

    def __len__(self) -> int:
        return len(self.packets)

    @property
    def size(self) -> int:
        """The bytes of all packets together."""
        return sum(map(len, self.packets))

    def message(self, index: int) -> UserMessage:
        """Return one of the messages."""
        return UserMessage.kept(self.packets[index])

    @property
    def messages(self) -> list[UserMessage]:
        return list(map(UserMessage.kept, self.packets))

    def only(self, chosen: Sequence[int]) -> Incoming:
        """Return the columns of the messages with these indices."""
        part, pick = object.__new__(Incoming), picker(chosen)
        for name in self.__slots__:
            setattr(part, name, pick(getattr(self, name)))
        return part
