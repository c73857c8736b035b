"""Messages that look alike, recognized without being read one by one.

What a host sends to a queue is nearly always the same but for number, time, properties and body. Once one message was
decoded to the end, a :class:`Shape` says which bytes the next ones must share with it and which rules the others must
keep, so that each of them would be decoded without fault, to the same headers but for a few fields. A row of such
packets is a :class:`Run`; the fields in which they differ and that matter to a receiver are its columns.

A message that looks like no other is a run, too, of one and without columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from struct import Struct
from typing import Any, Final

from msmq.wire.headers import (
    BASE_DH,
    BASE_IN,
    BASE_SH,
    BASE_TR,
    MAX_PACKET_SIZE,
    USER_AH,
    USER_HH,
    USER_MQ,
    USER_SH,
)
from msmq.wire.message import UserMessage

_BASE_SPECIAL: Final = BASE_IN | BASE_SH | BASE_DH | BASE_TR
_USER_SPECIAL: Final = USER_SH | USER_AH | USER_HH | USER_MQ
_FLAGS_OFFSET: Final = 60
_HEADERS: Final = "<8sI40sII{}s"
"""BaseHeader and UserHeader: up to PacketSize; that; up to SentTime; that; MessageID; Flags and the names of queues."""
_TRANSACTION: Final = "I8sII"
"""TransactionHeader: Flags, TxSequenceID, TxSequenceNumber, PreviousTxSequenceNumber."""
_PROPERTIES: Final = "4s28xII16s"
"""MessagePropertiesHeader: flags, label length and class; the two sizes of the body; the rest behind them. Between is
what an application may fill in as it likes."""
_CG_OR_FA: Final = 0x3
"""Flags of a TransactionHeader that make it longer, or ask for more than a place in the sequence."""


class Run:
    """Messages that arrived one behind the other. What the headers of ``sample`` say holds for all of them but for the
    columns, and for what only the receiving application looks at."""

    __slots__ = ("_messages", "first_number", "message_ids", "packets", "sample", "sent_times", "size")

    def __init__(
        self,
        sample: UserMessage,
        packets: Sequence[bytes],
        sent_times: Sequence[int],
        message_ids: Sequence[int],
        first_number: int = 0,
    ) -> None:
        self.sample = sample
        self.packets = packets
        self.sent_times = sent_times
        self.message_ids = message_ids
        self.first_number = first_number
        """TxSequenceNumber of the first if they are transactional. The others count on from it, each names the one
        before as PreviousTxSequenceNumber, and TxSequenceID is the sample's."""
        self.size = sum(map(len, packets))
        self._messages: list[UserMessage] | None = None

    @classmethod
    def of(cls, message: UserMessage) -> Run:
        """A message that is not said to look like others."""
        run = cls(message, (message.data,), (), ())
        run._messages = [message]
        return run

    def __len__(self) -> int:
        return len(self.packets)

    @property
    def alike(self) -> bool:
        """Whether its messages were recognized by a shape, and there are columns."""
        return bool(self.message_ids)

    @property
    def messages(self) -> list[UserMessage]:
        """All of them, decoded."""
        if self._messages is None:
            self._messages = list(map(UserMessage.decode, self.packets))
        return self._messages

    def split(self, count: int) -> tuple[Run, Run]:
        """Its first messages, and the others."""
        number = self.first_number
        ahead, behind = slice(count), slice(count, None)
        return (
            Run(self.sample, self.packets[ahead], self.sent_times[ahead], self.message_ids[ahead], number),
            Run(
                self.sample,
                self.packets[behind],
                self.sent_times[behind],
                self.message_ids[behind],
                number + count if number else 0,
            ),
        )


_COMMON: Final = itemgetter(0, 2, 5, -4, -1)
_COMMON_IN_ORDER: Final = itemgetter(0, 2, 5, 7, -4, -1)
"""Which of the fields messages share."""


@lru_cache(maxsize=256)
def _fields(names: int, transactional: bool) -> Struct:
    """How to take messages apart that name their queues in so many bytes."""
    return Struct(_HEADERS.format(names) + (_TRANSACTION if transactional else "") + _PROPERTIES)


class Shape:
    """What messages like one have in common. Make one with :meth:`of`."""

    __slots__ = ("_body", "_common", "_fields", "_label_end", "_sizes", "_unpack", "_wanted", "sample")

    def __init__(self, sample: UserMessage) -> None:
        self.sample = sample
        self._fields = _fields(sample.user_end - _FLAGS_OFFSET, sample.transactional)
        self._unpack = self._fields.unpack_from
        self._common = _COMMON_IN_ORDER if sample.transactional else _COMMON
        fields = self._unpack(sample.data)
        self._wanted = self._common(fields)
        self._sizes = (fields[1], fields[-2])
        self._body = sample.body_offset
        self._label_end = sample.extension_offset if sample.properties.label_length else 0

    @classmethod
    def of(cls, message: UserMessage) -> Shape | None:
        """The shape of a message that was decoded; None if it has headers that take a closer look."""
        if message.base.flags & _BASE_SPECIAL or message.user.flags & _USER_SPECIAL:
            return None
        transaction = message.transaction
        if transaction is not None and transaction.flags & _CG_OR_FA:
            return None
        return cls(message)

    def run(self, packets: Sequence[bytes], start: int = 0) -> Run | None:
        """The packets from ``start`` on that look like the sample, up to the first that does not; transactional ones
        only as far as they follow each other. None when there are none."""
        unpack, common, wanted, least = self._unpack, self._common, self._wanted, self._fields.size
        usual_size, usual_room = self._sizes
        label_end, transactional = self._label_end, self.sample.transactional
        rows: list[tuple[Any, ...]] = []
        for data in islice(packets, start, None):
            if len(data) < least:
                break
            row = unpack(data)
            size, room = row[1], row[-2]
            if (
                common(row) != wanted
                or size != len(data)
                or row[-3] > room
                or ((size != usual_size or room != usual_room) and not self._holds(size, room))
                or (label_end and (data[label_end - 1] or data[label_end - 2]))
            ):
                break
            if transactional:
                flags, number, previous = row[6], row[8], row[9]
                if flags & _CG_OR_FA or previous != number - 1 or (rows and previous != rows[-1][8]):
                    break
            rows.append(row)
        if not rows:
            return None
        found = packets[start : start + len(rows)]
        columns = tuple(zip(*rows, strict=True))
        return Run(self.sample, found, columns[3], columns[4], rows[0][8] if transactional else 0)

    def _holds(self, size: int, room: int) -> bool:
        """Whether a packet of another size ends where its body does."""
        return size <= MAX_PACKET_SIZE and (self._body + room + 3) & ~3 == size
