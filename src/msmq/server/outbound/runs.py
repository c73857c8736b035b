"""Messages that leave together: what a drain chooses, a link sends and a session counts is a run.

A run are messages of one outgoing queue that stand side by side and need the same: all express or all recoverable, all
with consecutive places in a sequence or all without, nothing to be done for any of them on arrival but to forget it, or
something for each. A message that needs something of its own is a run of one. So whatever happens to messages on their
way happens to a run or to a part of one, in a few steps that cost the same for one message and for hundreds.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from msmq.manager.mailbox.contents import Found
from msmq.manager.mailbox.stored import StoredMessage
from msmq.manager.messages.message import SenderMessageClass
from msmq.transfer.final_ack import Fate
from msmq.wire.classes import MessageClass
from msmq.wire.headers import USER_JN, USER_JP, USER_RECOVERABLE, USER_TH, BaseHeader, UserHeader
from msmq.wire.layout import TRANSACTION, reader, user_end, user_flags

if TYPE_CHECKING:
    from msmq.server.outbound.drain import Drain

look: Final = reader(
    (BaseHeader, {"time_to_reach_queue_s"}),
    (UserHeader, {"source_queue_manager", "time_to_be_received_s", "sent_time", "flags"}),
)
"""TimeToReachQueue, SourceQueueManager, TimeToBeReceived, SentTime and UserHeader.Flags of a packet."""
_FINAL_ACK: Final = 0x02
"""TransactionHeader.Flags.FA."""
_FLAGS: Final = TRANSACTION["flags"]
_JOURNALED: Final = USER_JN | USER_JP
_KIND: Final = USER_RECOVERABLE | USER_TH | USER_JP
_PASSING, LATE, ODD = 1 << 32, 1 << 33, 1 << 34
"""What makes messages alike, their *kind*: some of their flags; and that they are another host's, late, not plain."""
PASSING_TH: Final = _PASSING | USER_TH


class Parcel(NamedTuple):
    """One message of an outgoing queue, for whoever speaks of it alone."""

    drain: Drain
    lookup_id: int


class Ending(NamedTuple):
    """What a FinalAck of some class says of a message."""

    lookup_id: int
    fate: Fate
    parked: bool
    message_class: int


@dataclass(eq=False, slots=True)
class Run:
    """Messages of an outgoing queue, and while they are at hand anyway their packets."""

    drain: Drain
    lookup_ids: array[int]
    number: int = 0
    """TxSequenceNumber of the first, the others follow; 0 when they have no transaction."""
    recoverable: bool = True
    simple: bool = False
    """Nothing is to be done when they have arrived but to forget them."""
    packets: list[bytes] | None = None
    durable_at: int = 0
    """What has to be durable before any of them leaves, as a number of the store."""

    def __len__(self) -> int:
        return len(self.lookup_ids)

    @property
    def numbers(self) -> range:
        """The TxSequenceNumbers."""
        return range(self.number, self.number + len(self.lookup_ids)) if self.number else range(0)

    def part(self, start: int, stop: int) -> Run:
        """The messages from ``start`` up to, not including, ``stop``."""
        if stop - start == len(self.lookup_ids):
            return self
        return Run(
            self.drain,
            self.lookup_ids[start:stop],
            self.number + start if self.number else 0,
            self.recoverable,
            self.simple,
            None if self.packets is None else self.packets[start:stop],
            self.durable_at,
        )

    def parts(self, wanted: Iterable[object]) -> Iterator[Run]:
        """What is left of it when only those stay for which ``wanted`` is true."""
        start = 0
        for index, stays in enumerate(wanted):
            if not stays:
                if start < index:
                    yield self.part(start, index)
                start = index + 1
        if start < len(self):
            yield self.part(start, len(self))


def runs_of(drain: Drain, places: Iterable[tuple[int, int]], durable_at: int) -> list[Run]:
    """Runs of messages that have their places already, given as (number, lookup identifier) in the order of the
    numbers."""
    runs: list[Run] = []
    for number, lookup_id in places:
        if runs and number == runs[-1].number + len(runs[-1]):
            runs[-1].lookup_ids.append(lookup_id)
        else:
            runs.append(Run(drain, array("Q", (lookup_id,)), number, durable_at=durable_at))
    return runs


def together(runs: Iterable[Run]) -> list[Run]:
    """The same messages, those with consecutive numbers as one run. They have no packets any more."""
    merged: list[Run] = []
    for run in runs:
        last = merged[-1] if merged else None
        if last is not None and last.number and run.number == last.number + len(last):
            last.lookup_ids.extend(run.lookup_ids)
        else:
            merged.append(Run(run.drain, run.lookup_ids[:], run.number, run.recoverable, run.simple))
    return merged


def _kind(each: tuple[int, bytes, int, int, int], own_guid: bytes, now_s: int) -> int:
    ttrq_s, source, ttbr_s, sent_time, flags = each
    kind = flags & _KIND if source == own_guid else flags & _KIND | _PASSING
    age_s = now_s - sent_time
    # INFINITE is more than any age; what passes through in a sequence is for its receiver to refuse.
    if (age_s > ttrq_s or age_s > ttbr_s) and kind & PASSING_TH != PASSING_TH:
        kind |= LATE
    return kind


def alike(found: Found, own_guid: bytes, now_s: int) -> Iterator[tuple[int, int, int]]:
    """Where stretches of messages begin and end that need the same, and their kind. One that is late or not plain is
    alone."""
    # Messages that were sent in the same second say the same here, so only a few of them are looked at closely.
    looks = list(map(look, found.packets))
    kind_of = {each: _kind(each, own_guid, now_s) for each in set(looks)}
    if len(kind_of) == 1 and not found.local:
        (kind,) = kind_of.values()
        if not kind & LATE:
            yield 0, len(looks), kind
            return
    kinds = [kind_of[each] for each in looks]
    for index in found.local:
        kinds[index] |= ODD
    start = 0
    for kind, group in groupby(kinds):
        stop = start + len(list(group))
        if kind & (LATE | ODD):
            yield from ((index, index + 1, kind) for index in range(start, stop))
        else:
            yield start, stop, kind
        start = stop


def run_of(drain: Drain, found: Found, start: int, stop: int, kind: int) -> Run:
    """Messages of one kind as a run."""
    return Run(
        drain,
        found.ids[start:stop],
        0,
        bool(kind & USER_RECOVERABLE),
        is_simple(kind),
        found.packets[start:stop],
    )


def is_simple(kind: int) -> bool:
    """Whether nothing is to be done for messages on arrival but to forget them. A host that passes
    transactional messages on wants to hear when they have gone."""
    journaled = kind & (USER_JP | USER_TH) == USER_JP
    return not kind & ODD and not journaled and kind & PASSING_TH != PASSING_TH


def awaited(packets: list[bytes]) -> list[int]:
    """Which of these transactional messages may want to hear of their FinalAck, or be journaled by it."""
    return [
        index
        for index, packet in enumerate(packets)
        if user_flags(packet)[0] & _JOURNALED or packet[user_end(packet) + _FLAGS] & _FINAL_ACK
    ]


def journaled(message: StoredMessage) -> bool:
    """Whether source journaling applies: not to what queue managers tell each other (MS-MQMQ note 3)."""
    number = message.packet.properties.message_class
    return number == MessageClass.NORMAL or number not in _FATES


_FATES: frozenset[int] = frozenset(int(number) for number in (*MessageClass, *SenderMessageClass))
