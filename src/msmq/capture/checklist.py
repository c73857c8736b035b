"""Judge a capture of the page "Try it against Windows" by the rows of its checklist.

The two scripts of that page give each message a label that begins with its row, such as ``row 3 57``. For each row the
judge looks for its messages, how they were sent and in which order, whether they were acknowledged, and what became of
them, by the packets alone: bodies are not needed, so a scrubbed capture gives the same verdicts.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msmq.capture.inputs import Origin
from msmq.wire.classes import MessageClass, class_name
from msmq.wire.delivery import format_name
from msmq.wire.describe import Description
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import SessionHeader, TransactionHeader
from msmq.wire.packets import FinalAckBody, OrderAckBody, SessionAck, order_ack_body

LABEL: Final = re.compile(r"row (\d{1,2})(, \d{1,8} bytes)?( \d{1,4})?")
"""The labels of the scripts. They hold no secret."""


class Row(NamedTuple):
    """What a row of the checklist sends, and which acknowledgments have to come back for each of its messages."""

    number: int
    queue: str
    manner: str
    messages: int = 1
    fates: frozenset[MessageClass] = frozenset()


_NEGATIVE: Final = 0x8000
"""The bit of the classes that say why a message was not delivered or not received."""
_NO_QUEUE: Final = frozenset({MessageClass.NACK_BAD_DST_Q})
_WRONG_KIND: Final = frozenset({MessageClass.NACK_NOT_TRANSACTIONAL_Q})
_READ: Final = frozenset({MessageClass.ACK_REACH_QUEUE, MessageClass.ACK_RECEIVE})
ROWS: Final = (
    Row(1, "try", "express"),
    Row(2, "try", "recoverable", 100),
    Row(3, "try-tx", "transactional", 100),
    Row(4, "try", "transactional", fates=_WRONG_KIND),
    Row(5, "nobody", "transactional", fates=_NO_QUEUE),
    Row(6, "try", "recoverable", fates=_READ),
    Row(7, "try", "express"),
    Row(8, "try", "recoverable", 100),
    Row(9, "try-tx", "transactional", 100),
    Row(10, "nobody", "transactional", fates=_NO_QUEUE),
    Row(12, "try", "recoverable", 3),
)
"""The rows that the scripts send. The others want somebody who pulls a cable or looks at a screen."""


class Verdict(NamedTuple):
    """What a capture shows of a row; ``good`` is None if nothing of it is in the capture."""

    row: int
    good: bool | None
    words: str


class _Way(NamedTuple):
    """One direction of a connection."""

    stream: int | None
    from_initiator: bool

    @property
    def back(self) -> _Way:
        return _Way(self.stream, not self.from_initiator)


class _Name(NamedTuple):
    """A message: who sent it, and its number there."""

    source: bytes
    number: int


@dataclass(slots=True)
class _Sent:
    """A message of a row, and where in its sessions it was sent."""

    manner: str
    queue: str
    place: TransactionHeader | None
    counts: list[tuple[_Way, int]] = field(default_factory=list)


class Checklist:
    """Takes the packets of a capture in their order and judges the rows."""

    def __init__(self) -> None:
        self._rows: defaultdict[int, dict[_Name, _Sent]] = defaultdict(dict)
        self._counted: Counter[_Way] = Counter()
        self._acknowledged: Counter[_Way] = Counter()
        self._in_order: dict[int, int] = {}
        self._fates: defaultdict[_Name, set[int]] = defaultdict(set)

    def take(self, description: Description, origin: Origin) -> None:
        packet, way = description.decoded, _Way(origin.stream, origin.from_initiator)
        if isinstance(packet, SessionAck):
            self._session(packet.session, way)
        elif isinstance(packet, UserMessage):
            self._counted[way] += 1
            if packet.session is not None:
                self._session(packet.session, way)
            if description.packet == "UserMessage":
                self._message(packet, way)
            else:
                self._order(packet)

    def _session(self, header: SessionHeader, way: _Way) -> None:
        """Note how many messages of the other direction have arrived; the header has the lower 16 bits."""
        known = self._acknowledged[way.back]
        more = (header.ack_sequence_number - known) & 0xFFFF
        if more < 0x8000:
            self._acknowledged[way.back] = known + more

    def _message(self, message: UserMessage, way: _Way) -> None:
        if message.message_class != MessageClass.NORMAL:
            correlation = bytes(message.properties.correlation_id)
            name = _Name(correlation[:16], int.from_bytes(correlation[16:], "little"))
            self._fates[name].add(message.message_class)
            return
        labelled = LABEL.fullmatch(message.label)
        if labelled is None:
            return
        sent = self._rows[int(labelled[1])].setdefault(
            _Name(message.source, message.number),
            _Sent(_manner(message), _queue(message), message.transaction),
        )
        sent.counts.append((way, self._counted[way]))

    def _order(self, message: UserMessage) -> None:
        body = order_ack_body(message)
        if isinstance(body, OrderAckBody):
            known = self._in_order.get(body.tx_sequence_id, 0)
            self._in_order[body.tx_sequence_id] = max(known, body.tx_sequence_number)
        elif isinstance(body, FinalAckBody):
            self._fates[_Name(body.source_guid, body.message_id)].add(message.message_class)

    def verdicts(self) -> list[Verdict]:
        return [self._verdict(row) for row in ROWS]

    def _verdict(self, row: Row) -> Verdict:
        sent = self._rows.get(row.number)
        if not sent:
            return Verdict(row.number, None, "not in this capture")
        what = f"{len(sent)} {row.manner} to {row.queue}"
        problems = list(self._problems(row, sent))
        if problems:
            return Verdict(row.number, False, f"{what}: {'; '.join(problems)}")
        fates = "".join(f", {class_name(fate)}" for fate in sorted(row.fates))
        return Verdict(row.number, True, f"{what}, acknowledged{fates}")

    def _problems(self, row: Row, sent: dict[_Name, _Sent]) -> list[str]:
        problems = [] if len(sent) == row.messages else [f"{row.messages} were to be sent"]
        for found in sorted({each.queue for each in sent.values()} - {row.queue}):
            problems.append(f"found for {found}")
        for found in sorted({each.manner for each in sent.values()} - {row.manner}):
            problems.append(f"found {found}")
        if late := sum(not self._arrived(each) for each in sent.values()):
            problems.append(f"{late} not acknowledged in their session")
        problems += self._sequence_problems(list(sent.values()))
        for name in sent:
            for fate in sorted(row.fates - self._fates[name]):
                problems.append(f"no {class_name(fate)} for message {name.number}")
            for code in sorted(code for code in self._fates[name] - row.fates if code & _NEGATIVE):
                problems.append(f"{class_name(code) or f'class {code:#06x}'} for message {name.number}")
        return problems

    def _arrived(self, sent: _Sent) -> bool:
        return any(number <= self._acknowledged[way] for way, number in sent.counts)

    def _sequence_problems(self, sent: list[_Sent]) -> list[str]:
        """What is wrong with the numbers of transactional messages, in the order in which they were first sent."""
        places = [(each.place.tx_sequence_id, each.place.tx_sequence_number) for each in sent if each.place]
        problems = [] if places == sorted(places) else ["the sequence numbers do not rise"]
        for sequence in sorted({sequence for sequence, _ in places}):
            last = max(number for each, number in places if each == sequence)
            if self._in_order.get(sequence, 0) < last:
                problems.append(f"no OrderAck up to number {last}")
        return problems


def _manner(message: UserMessage) -> str:
    if message.transactional:
        return "transactional"
    return "recoverable" if message.recoverable else "express"


def _queue(message: UserMessage) -> str:
    user = message.user
    name = format_name(user, user.destination_reference, user.destination_queue) or ""
    return name.rpartition("\\")[2].lower()
