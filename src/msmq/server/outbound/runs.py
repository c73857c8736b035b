"""Runs: messages that leave together, which a drain chooses, a link sends and a session counts.

A run is a group of neighbouring messages of one outgoing queue, all with consecutive places in a sequence or all
without. A message that is late or is to be encrypted is a run of one. Every operation on messages under way is done
for a run or a part of one, in a few steps that cost the same for one message and for hundreds.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import compress, groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from msmq.manager.mailbox.contents import Found
from msmq.manager.messages.message import SenderMessageClass
from msmq.transfer.final_ack import Fate
from msmq.wire.classes import MessageClass
from msmq.wire.headers import INFINITE, USER_JN, USER_JP, USER_RECOVERABLE, USER_TH, BaseHeader, UserHeader
from msmq.wire.layout import TRANSACTION, class_of, reader, user_end

if TYPE_CHECKING:
    from msmq.server.outbound.drain import Drain

_look: Final = reader(
    (BaseHeader, {"time_to_reach_queue_s"}),
    (UserHeader, {"source_queue_manager", "time_to_be_received_s", "sent_time", "flags"}),
)
"""TimeToReachQueue, SourceQueueManager, TimeToBeReceived, SentTime and UserHeader.Flags of a packet."""
_identity: Final = reader((BaseHeader, ()), (UserHeader, {"message_id", "flags"}))
_FINAL_ACK: Final = 0x02
"""TransactionHeader.Flags.FA."""
_FLAGS: Final = TRANSACTION["flags"]
_JOURNALED: Final = USER_JN | USER_JP
_PASSING, LATE, PRIVATE = 1 << 32, 1 << 33, 1 << 34
"""The bits of a message's *kind*, by which messages are grouped: Flags.TH, in transit, late, to be encrypted."""
PASSING_TH: Final = _PASSING | USER_TH


class Awaited(NamedTuple):
    """A message of an outgoing queue whose FinalAck is awaited."""

    drain: Drain
    lookup_id: int


class Ending(NamedTuple):
    """The result of a FinalAck for a message."""

    lookup_id: int
    fate: Fate
    parked: bool
    message_class: int


@dataclass(eq=False, slots=True)
class Run:
    """Messages of an outgoing queue, with their packets while these are needed."""

    drain: Drain
    lookup_ids: array[int]
    number: int = 0
    """The TxSequenceNumber of the first message, the others follow; 0 if they have no transaction."""
    express: bytes | None = None
    """For each message 1 if it is express and 0 if not; None if none is."""
    packets: list[bytes] | None = None
    durable_at: int = 0
    """The mark of the store up to which everything must be durable before any of them leaves."""

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
            None if self.express is None else self.express[start:stop],
            None if self.packets is None else self.packets[start:stop],
            self.durable_at,
        )

    def parts(self, wanted: Iterable[object]) -> Iterator[Run]:
        """The parts that are left when only the messages stay for which ``wanted`` is true."""
        start = 0
        for index, stays in enumerate(wanted):
            if not stays:
                if start < index:
                    yield self.part(start, index)
                start = index + 1
        if start < len(self):
            yield self.part(start, len(self))


def runs_of(drain: Drain, places: Iterable[tuple[int, int]], durable_at: int) -> list[Run]:
    """Make runs of messages that have their places, given as (number, lookup identifier) in order of the numbers."""
    runs: list[Run] = []
    for number, lookup_id in places:
        if runs and number == runs[-1].number + len(runs[-1]):
            runs[-1].lookup_ids.append(lookup_id)
        else:
            runs.append(Run(drain, array("Q", (lookup_id,)), number, durable_at=durable_at))
    return runs


def together(runs: Iterable[Run]) -> list[Run]:
    """Join runs with consecutive numbers. The results have no packets."""
    merged: list[Run] = []
    for run in runs:
        last = merged[-1] if merged else None
        if last is not None and last.number and run.number == last.number + len(last):
            last.lookup_ids.extend(run.lookup_ids)
        else:
            merged.append(Run(run.drain, run.lookup_ids[:], run.number, run.express))
    return merged


def limits_of(
    messages: Iterable[tuple[int, bytes]], own_guids: Collection[bytes]
) -> tuple[array[int], array[int], bool]:
    """The messages that have to leave in time, given as (lookup identifier, packet): their lookup identifiers and last
    seconds; and whether any message at all is transactional."""
    ids, last_seconds, transactional = array("Q"), array("Q"), False
    for lookup_id, packet in messages:
        ttrq_s, source, ttbr_s, sent_time, flags = _look(packet)
        transactional = transactional or bool(flags & USER_TH)
        limit_s = min(ttrq_s, ttbr_s)
        # A transactional message in transit is refused by its receiver, which ends it.
        if limit_s != INFINITE and not (flags & USER_TH and source not in own_guids):
            ids.append(lookup_id)
            last_seconds.append(sent_time + limit_s)
    return ids, last_seconds, transactional


def _kind(each: tuple[int, bytes, int, int, int], own_guids: Collection[bytes], now_s: int) -> int:
    ttrq_s, source, ttbr_s, sent_time, flags = each
    kind = flags & USER_TH if source in own_guids else flags & USER_TH | _PASSING
    age_s = now_s - sent_time
    # INFINITE is more than any age; a transactional message in transit is for its receiver to refuse.
    if (age_s > ttrq_s or age_s > ttbr_s) and kind & PASSING_TH != PASSING_TH:
        kind |= LATE
    return kind


def runs_in(
    drain: Drain, found: Found, own_guids: Collection[bytes], now_s: int
) -> Iterator[tuple[Run, int, list[int]]]:
    """Divide messages into runs, each with its kind and with the messages that are journaled on arrival: those of this
    host whose senders want it and that have no transaction."""
    # Messages that were sent in the same second have the same values here, so only few are examined.
    looks = list(map(_look, found.packets))
    kind_of = {each: _kind(each, own_guids, now_s) for each in set(looks)}
    kinds = [kind_of[each] for each in looks]
    for index, local in found.local.items():
        if local.private:
            kinds[index] |= PRIVATE
    start = 0
    for kind, group in groupby(kinds):
        stop = start + len(list(group))
        size = 1 if kind & (LATE | PRIVATE) else stop - start
        for first in range(start, stop, size):
            yield _run(drain, found, range(first, first + size), kind, looks)
        start = stop


def _run(
    drain: Drain, found: Found, places: range, kind: int, looks: list[tuple[int, bytes, int, int, int]]
) -> tuple[Run, int, list[int]]:
    start, stop = places.start, places.stop
    flags = [each[-1] for each in looks[start:stop]]
    express = bytes(not each & USER_RECOVERABLE for each in flags)
    ids = found.ids[start:stop]
    packets = found.packets[start:stop]
    kept = []
    if not kind & PASSING_TH:
        wanted = map(USER_JP.__and__, flags)
        kept = [one for one, packet in compress(zip(ids, packets, strict=True), wanted) if journaled(packet)]
    return Run(drain, ids, 0, express if 1 in express else None, packets), kind, kept


def awaited(packets: list[bytes]) -> Iterator[tuple[int, int, int]]:
    """The transactional messages that ask for a FinalAck, or are journaled by it, as index, MessageID and the flags of
    their UserHeaders."""
    for index, packet in enumerate(packets):
        message_id, flags = _identity(packet)
        if flags & _JOURNALED or packet[user_end(packet) + _FLAGS] & _FINAL_ACK:
            yield index, message_id, flags


def journaled(packet: bytes) -> bool:
    """Whether source journaling applies, which it does not to messages between queue managers (MS-MQMQ note 3)."""
    number = class_of(packet)
    return number == MessageClass.NORMAL or number not in _FATES


_FATES: frozenset[int] = frozenset(int(number) for number in (*MessageClass, *SenderMessageClass))
