"""Messages that look alike, recognized without being read one by one.

What a host sends to a queue is nearly always the same but for number, time, properties and body. Once one message was
decoded to the end, a :class:`Shape` says which bytes the next ones must share with it and which rules the others must
keep, so that each of them would be decoded without fault, to the same headers but for a few fields. A row of such
packets is a :class:`Run`; the fields in which they differ and that matter to a receiver are its columns.

Packets of one length are looked at in columns, too (:meth:`Shape.stretch`), without a step of Python for each; the
others one after another (:meth:`Shape.run`).

A message that looks like no other is a run, too, of one and without columns.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice
from operator import gt, itemgetter
from struct import Struct
from typing import Any, Final

from msmq.wire.framing import Stretch, leading
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
_WORD: Final = 4
_SENT_TIME: Final = 52
_MESSAGE_ID: Final = 56
_MESSAGE_SIZE: Final = 32
"""Where these are: in the packet, and in the MessagePropertiesHeader."""
_FEW: Final = 8
"""Packets that are too few for columns."""
_MOST_SHAPES: Final = 4
_CG_OR_FA: Final = 0x3
"""Flags of a TransactionHeader that make it longer, or ask for more than a place in the sequence."""


class Run:
    """Messages that arrived one behind the other. What the headers of ``sample`` say holds for all of them but for the
    columns, and for what only the receiving application looks at."""

    __slots__ = (
        "_messages",
        "_packets",
        "count",
        "first_number",
        "message_ids",
        "sample",
        "sent_times",
        "size",
        "stretch",
    )

    def __init__(
        self,
        sample: UserMessage,
        packets: Sequence[bytes] | Stretch,
        sent_times: Sequence[int],
        message_ids: Sequence[int],
        first_number: int = 0,
    ) -> None:
        self.sample = sample
        self.sent_times = sent_times
        self.message_ids = message_ids
        self.first_number = first_number
        """TxSequenceNumber of the first if they are transactional. The others count on from it, each names the one
        before as PreviousTxSequenceNumber, and TxSequenceID is the sample's."""
        self.count = len(packets)
        self.stretch: Stretch | None = None
        """Where they lie if they have one length."""
        self._packets: Sequence[bytes] | None = None
        self._messages: list[UserMessage] | None = None
        if isinstance(packets, Stretch):
            self.stretch = packets
            self.size = packets.length * packets.count
        else:
            self._packets = packets
            self.size = sum(map(len, packets))

    @classmethod
    def of(cls, message: UserMessage) -> Run:
        """A message that is not said to look like others."""
        run = cls(message, (message.data,), (), ())
        run._messages = [message]
        return run

    def __len__(self) -> int:
        return self.count

    @property
    def alike(self) -> bool:
        """Whether its messages were recognized by a shape, and there are columns."""
        return bool(self.message_ids)

    @property
    def packets(self) -> Sequence[bytes]:
        """The bytes of each."""
        if self._packets is None:
            assert self.stretch is not None
            self._packets = self.stretch.packets()
        return self._packets

    @property
    def sizes(self) -> Sequence[int]:
        """How long each packet is."""
        if self.stretch is not None:
            return array("I", (self.stretch.length,)) * self.count
        return list(map(len, self.packets))

    @property
    def messages(self) -> list[UserMessage]:
        """All of them, decoded."""
        if self._messages is None:
            self._messages = list(map(UserMessage.decode, self.packets))
        return self._messages

    def split(self, count: int) -> tuple[Run, Run]:
        """Its first messages, and the others."""
        return self._part(0, count), self._part(count, self.count)

    def _part(self, begin: int, end: int) -> Run:
        packets = (
            self.packets[begin:end]
            if self._packets is not None or self.stretch is None
            else self.stretch.part(begin, end)
        )
        number = self.first_number + begin if self.first_number else 0
        return Run(self.sample, packets, self.sent_times[begin:end], self.message_ids[begin:end], number)


_COMMON: Final = itemgetter(0, 2, 5, -4, -1)
_COMMON_IN_ORDER: Final = itemgetter(0, 2, 5, 7, -4, -1)
"""Which of the fields messages share."""


@lru_cache(maxsize=256)
def _fields(names: int, transactional: bool) -> Struct:
    """How to take messages apart that name their queues in so many bytes."""
    return Struct(_HEADERS.format(names) + (_TRANSACTION if transactional else "") + _PROPERTIES)


class _Columns:
    """The words of packets of one length, side by side: what each packet has at an offset is a slice."""

    __slots__ = ("_step", "_words", "count")

    def __init__(self, stretch: Stretch) -> None:
        self._words = array("I")
        self._words.frombytes(
            memoryview(stretch.data)[stretch.start : stretch.stop]
        )  # slices of views are slow
        self._step = stretch.length // _WORD
        self.count = stretch.count
        """How many of them look alike so far."""

    def column(self, word: int) -> array[int]:
        """One word of each of them."""
        column = self._words[word : self.count * self._step : self._step]
        if sys.byteorder == "big":
            column.byteswap()
        return column

    def require(self, constant: Iterable[tuple[int, bytes]]) -> None:
        """Go only as far as they have the same words in the same places."""
        words, step = self._words, self._step
        for word, wanted in constant:
            found = words[word : self.count * step : step].tobytes()
            if found != wanted * self.count:
                starts = range(0, len(found), _WORD)
                self.count = next(at for at in starts if found[at : at + _WORD] != wanted) // _WORD

    def follow(self, word: int, wanted: Iterable[int]) -> None:
        """Go only as far as the numbers there are these."""
        found, numbers = self.column(word).tolist(), list(wanted)
        if found != numbers:
            self.count = next(index for index, number in enumerate(numbers) if number != found[index])


class Shape:
    """What messages like one have in common. Make one with :meth:`of`."""

    __slots__ = (
        "_body",
        "_common",
        "_constant",
        "_fields",
        "_label_end",
        "_sizes",
        "_unpack",
        "_wanted",
        "sample",
    )

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
        self._constant: list[tuple[int, bytes]] | None = None

    @classmethod
    def of(cls, message: UserMessage) -> Shape | None:
        """The shape of a message that was decoded; None if it has headers that take a closer look."""
        if message.base.flags & _BASE_SPECIAL or message.user.flags & _USER_SPECIAL:
            return None
        transaction = message.transaction
        if transaction is not None and transaction.flags & _CG_OR_FA:
            return None
        return cls(message)

    def run(self, packets: Sequence[bytes | Stretch], start: int = 0) -> Run | None:
        """The packets from ``start`` on that look like the sample, up to the first that does not; transactional ones
        only as far as they follow each other. None when there are none."""
        unpack, common, wanted, least = self._unpack, self._common, self._wanted, self._fields.size
        usual_size, usual_room = self._sizes
        label_end, transactional = self._label_end, self.sample.transactional
        rows: list[tuple[Any, ...]] = []
        found: list[bytes] = []
        for data in islice(packets, start, None):
            if isinstance(data, Stretch) or len(data) < least:
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
            found.append(data)
        if not rows:
            return None
        columns = tuple(zip(*rows, strict=True))
        return Run(self.sample, found, columns[3], columns[4], rows[0][8] if transactional else 0)

    def _holds(self, size: int, room: int) -> bool:
        """Whether a packet of another size ends where its body does."""
        return size <= MAX_PACKET_SIZE and (self._body + room + 3) & ~3 == size

    def stretch(self, stretch: Stretch) -> Run | None:
        """As :meth:`run`, for packets that are as long as the sample."""
        if stretch.length != self._sizes[0]:
            return None
        if self._common(self._unpack(stretch.data, stretch.start)) != self._wanted:
            return None  # without looking at the others
        if self._constant is None:
            self._constant = self._constant_words()
        columns = _Columns(stretch)
        columns.require(self._constant)
        for offset in range(self._label_end - 2, self._label_end) if self._label_end else ():
            columns.count = min(columns.count, leading(stretch.column(offset), b"\0"))
        self._require_sizes(columns)
        number = self._follow_each_other(columns) if self.sample.transactional else 0
        if not columns.count:
            return None
        times, numbers = columns.column(_SENT_TIME // _WORD), columns.column(_MESSAGE_ID // _WORD)
        return Run(self.sample, stretch.part(0, columns.count), times, numbers, number)

    def _require_sizes(self, columns: _Columns) -> None:
        """Each message has to lie within its room, and the room has to end where the packet does."""
        word = (self.sample.properties_offset + _MESSAGE_SIZE) // _WORD
        sizes, rooms = columns.column(word), columns.column(word + 1)
        usual_size, usual_room = self._sizes
        if max(sizes, default=0) <= usual_room and rooms == array("I", (usual_room,)) * columns.count:
            return
        fitting = {room for room in set(rooms) if room == usual_room or self._holds(usual_size, room)}
        if not fitting.issuperset(rooms) or any(map(gt, sizes, rooms)):
            pairs = enumerate(zip(sizes, rooms, strict=True))
            columns.count = next(index for index, (size, room) in pairs if size > room or room not in fitting)

    def _constant_words(self) -> list[tuple[int, bytes]]:
        """Which words all of them have in common, and what they are."""
        sample = self.sample
        properties = sample.properties_offset
        parts = [range(_SENT_TIME), range(_FLAGS_OFFSET, sample.user_end), range(properties, properties + 4)]
        parts.append(range(properties + _MESSAGE_SIZE + 8, properties + _MESSAGE_SIZE + 24))
        if sample.transactional:
            parts.append(range(sample.user_end + 4, sample.user_end + 12))
        return [(at // _WORD, sample.data[at : at + _WORD]) for part in parts for at in part[::_WORD]]

    def _follow_each_other(self, columns: _Columns) -> int:
        """Transactional messages, only as far as they do; gives the number of the first."""
        header = self.sample.user_end // _WORD
        flags = columns.column(header)
        if any(map(_CG_OR_FA.__and__, flags)):
            columns.count = next(index for index, each in enumerate(flags) if each & _CG_OR_FA)
        numbers = columns.column(header + 3)
        number = numbers[0] if numbers else 0
        columns.follow(header + 3, range(number, number + columns.count))
        columns.follow(header + 4, range(number - 1, number - 1 + columns.count))
        return number


class Shapes:
    """The shapes of messages that came lately, the last one first."""

    __slots__ = ("_shapes",)

    def __init__(self) -> None:
        self._shapes: list[Shape] = []

    def remember(self, message: UserMessage) -> None:
        """A message was decoded that looked like none of them."""
        shape = Shape.of(message)
        if shape is not None:
            self._shapes.insert(0, shape)
            del self._shapes[_MOST_SHAPES:]

    def run(self, packets: list[bytes | Stretch], index: int) -> Run | None:
        """The packets from ``packets[index]`` on that look like one of them; see :func:`skip`."""
        given = packets[index]
        if isinstance(given, Stretch) and given.count < _FEW:
            packets[index : index + 1] = given.packets()
            given = packets[index]
        for shape in self._shapes:
            run = shape.stretch(given) if isinstance(given, Stretch) else shape.run(packets, index)
            if run is not None:
                if shape is not self._shapes[0]:
                    self._shapes.remove(shape)
                    self._shapes.insert(0, shape)
                return run
        return None


def first_of(given: bytes | Stretch) -> bytes:
    return given.first if isinstance(given, Stretch) else given


def skip(packets: list[bytes | Stretch], index: int, count: int) -> int:
    """So many packets from ``packets[index]`` on were taken; gives the index of the next one. If those of a stretch did
    not look alike for long, its others come one by one, so that none of them is looked at again and again."""
    given = packets[index]
    if not isinstance(given, Stretch):
        return index + count
    if count == given.count:
        return index + 1
    rest = given.part(count, given.count)
    packets[index : index + 1] = rest.packets() if 1 < count < rest.count // _FEW else [rest]
    return index
