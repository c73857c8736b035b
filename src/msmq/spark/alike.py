"""Messages that look alike, read column by column.

What somebody sends to a queue is nearly always the same but for number, time, properties, label, extension and body.
Once one packet was decoded to the end, a :class:`Shape` says which bytes the next ones must share with it, and which
rules the others must keep, so that decoding them would give the same but for those. Their fields are then taken out of
the bytes as they stand, without making headers of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from struct import Struct
from typing import Any, Final, Self

from msmq.errors import DecodeError
from msmq.wire.declare import text_of
from msmq.wire.headers import BASE_DH, BASE_SH, MAX_LABEL_LENGTH, USER_AH, USER_HH, USER_MQ
from msmq.wire.message import UserMessage

_BASE_RARE: Final = BASE_DH | BASE_SH
_USER_RARE: Final = USER_AH | USER_HH | USER_MQ
_FLAGS_OFFSET: Final = 60
_HEADERS: Final = "<8sI40sII{}s"
"""BaseHeader and UserHeader: up to PacketSize; that; up to SentTime; that; MessageID; Flags and the names of queues."""
_TRANSACTION: Final = "I8xII"
"""TransactionHeader: Flags, TxSequenceNumber, PreviousTxSequenceNumber."""
_TRANSACTION_SIZE: Final = 20
_PROPERTIES: Final = "{}sxBH20sIIII12sI"
"""SecurityHeader as it is. MessagePropertiesHeader: label length, class, correlation, body type, application tag, the
two sizes of the body, the algorithms, the size of the extension."""
_PROPERTIES_SIZE: Final = 56
_SENT_TIME, _MESSAGE_ID, _TRANSACTION_FLAGS = 3, 4, 6
_LABEL, _CLASS, _CORRELATION, _BODY_TYPE, _TAG, _BODY, _ROOM, _, _EXTENSION = range(-9, 0)
_COMMON: Final = itemgetter(0, 2, 5, -10, -2)
"""The fields that messages share."""
_CG_OR_FA: Final = 0x3
"""Flags of a TransactionHeader of which the first makes it longer."""
_LARGEST_U32: Final = 0xFFFFFFFF


@lru_cache(maxsize=256)
def _fields(names: int, transactional: bool, security: int) -> Struct:
    return Struct(
        _HEADERS.format(names) + (_TRANSACTION if transactional else "") + _PROPERTIES.format(security)
    )


class Shape:
    """What messages like one have in common. Make one with :meth:`of`."""

    __slots__ = ("_fields", "_flags", "_wanted", "properties_end", "sample")

    def __init__(self, sample: UserMessage) -> None:
        self.sample = sample
        transactional = sample.transactional
        names = sample.user_end - _FLAGS_OFFSET
        security = sample.properties_offset - sample.user_end - (_TRANSACTION_SIZE if transactional else 0)
        self._fields = _fields(names, transactional, security)
        self._wanted = _COMMON(self._fields.unpack_from(sample.data))
        self._flags = 0 if sample.transaction is None else sample.transaction.flags & _CG_OR_FA
        self.properties_end = sample.properties_offset + _PROPERTIES_SIZE

    @classmethod
    def of(cls, data: bytes) -> Self | None:
        """The shape of a packet; None if it has headers that take a closer look, or cannot be read at all."""
        try:
            sample = UserMessage.decode(data)
        except DecodeError:
            return None
        transaction = sample.transaction
        longer = transaction is not None and transaction.has_connector_qm_guid
        if longer or sample.base.flags & _BASE_RARE or sample.user.flags & _USER_RARE:
            return None
        return cls(sample)

    def rows(self, packets: Sequence[bytes], start: int = 0) -> list[tuple[Any, ...]]:
        """The fields of the packets from ``start`` on that look like the sample, up to the first that does not."""
        unpack, wanted, least = self._fields.unpack_from, self._wanted, self._fields.size
        properties_end, transactional = self.properties_end, self.sample.transactional
        rows: list[tuple[Any, ...]] = []
        for data in islice(packets, start, None):
            if len(data) < least:
                break
            row = unpack(data)
            label, room = row[_LABEL], row[_ROOM]
            label_end = properties_end + 2 * label
            if (
                _COMMON(row) != wanted
                or row[1] != len(data)
                or label > MAX_LABEL_LENGTH
                or row[_BODY] > room
                or label_end + row[_EXTENSION] + room + 3 & ~3 != len(data)
                or (label and (data[label_end - 1] or data[label_end - 2]))
                or (transactional and not self._is_in_order(*row[6:9]))
            ):
                break
            rows.append(row)
        return rows

    def _is_in_order(self, flags: int, number: int, previous: int) -> bool:
        """Whether a TransactionHeader is one that can be read."""
        return flags & _CG_OR_FA == self._flags and number != 0 and previous != _LARGEST_U32


class Alike:
    """Packets of one shape, as columns."""

    def __init__(self, shape: Shape, packets: Sequence[bytes], rows: Sequence[tuple[Any, ...]]) -> None:
        self.sample = shape.sample
        self.packets = packets
        self._columns = tuple(zip(*rows, strict=True))
        self._end = shape.properties_end

    @property
    def sent_times(self) -> Sequence[int]:
        return self._columns[_SENT_TIME]

    @property
    def message_ids(self) -> Sequence[int]:
        return self._columns[_MESSAGE_ID]

    @property
    def transaction_flags(self) -> Sequence[int]:
        return self._columns[_TRANSACTION_FLAGS]

    @property
    def classes(self) -> Sequence[int]:
        return self._columns[_CLASS]

    @property
    def correlation_ids(self) -> Sequence[bytes]:
        return self._columns[_CORRELATION]

    @property
    def body_types(self) -> Sequence[int]:
        return self._columns[_BODY_TYPE]

    @property
    def application_tags(self) -> Sequence[int]:
        return self._columns[_TAG]

    @property
    def labels(self) -> list[str]:
        start = self._end
        found = [
            data[start : start + 2 * length - 2] if length else b""
            for data, length in zip(self.packets, self._columns[_LABEL], strict=True)
        ]
        texts = {text: text_of(text).partition("\0")[0] for text in set(found)}
        return [texts[text] for text in found]

    @property
    def extensions(self) -> list[bytes]:
        if not any(self._columns[_EXTENSION]):
            return [b""] * len(self.packets)
        return [
            data[start : start + size]
            for data, start, size in zip(
                self.packets, self._extension_starts, self._columns[_EXTENSION], strict=True
            )
        ]

    @property
    def bodies(self) -> list[bytes]:
        columns = self._columns
        return [
            data[start + extension : start + extension + size]
            for data, start, extension, size in zip(
                self.packets, self._extension_starts, columns[_EXTENSION], columns[_BODY], strict=True
            )
        ]

    @property
    def _extension_starts(self) -> list[int]:
        end = self._end
        return [end + 2 * length for length in self._columns[_LABEL]]
