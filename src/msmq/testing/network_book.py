"""A record of what was sent over the simulated network and what became of it, with the guarantees that must hold.

The applications of all hosts write into the book. It identifies a message by the number in its body; numbers rise in
the order of sending, and for transactional messages in the order of commit. It records every arrival and every read as
it happens; when a host crashes, it forgets what nobody outside that host can have seen.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from msmq.wire.classes import MessageClass
from msmq.wire.headers import INFINITE
from msmq.wire.identifiers import MessageIdentifier
from msmq.wire.message import UserMessage
from msmq.wire.packets import FinalAckBody, order_ack_body

REFUSED: Final = 0x8000
QueueKey = tuple[str, str]
"""The address of a host and the name of a queue."""


def body_of(number: int, size: int) -> bytes:
    """Make the body of the message with a number."""
    return (b"%d " % number).ljust(size, b".")


def number_in(packet: UserMessage) -> int:
    """Return the number of a message."""
    return int(bytes(packet.body[:12]).partition(b" ")[0])


class Broken(AssertionError):  # noqa: N818 - a promise is
    """A guarantee was not kept."""


class Kind(Enum):
    EXPRESS = "express"
    RECOVERABLE = "recoverable"
    TRANSACTIONAL = "transactional"


class Sending(Enum):
    """How far the sending of a message has come."""

    ASKED = "nobody was promised anything"
    CONFIRMED = "the sender was told that it is kept"
    UNCERTAIN = "the host of the sender crashed before it told the sender"


@dataclass(slots=True)
class Sent:
    """A message as an application sent it."""

    number: int
    kind: Kind
    source: str
    target: QueueKey
    group: int
    """The number of the first message of its transaction."""
    time_to_reach_queue_s: int = INFINITE
    time_to_be_received_s: int = INFINITE
    positive_journaling: bool = False
    negative_journaling: bool = False
    acknowledgments: int = 0
    by_computer_name: bool = False
    """True if its sender names the queue by the name of its host, not by its address."""
    by_way_of: str = ""
    """The routing server between source and target, if there is one."""
    answered_at_target: bool = False
    """True if its administration queue is on the host that it is sent to, not on its sender's."""
    answered_nowhere: bool = False
    """True if its administration queue does not exist, so that nobody can be told what becomes of it."""
    purged: bool = False
    """True if it was in its queue when that was purged or deleted, or on its way to a queue that was deleted."""
    refused: bool = False
    """True if its queue may not have existed when it arrived, of which nobody is told."""
    given_up: bool = False
    """True if it was purged while it waited to be sent: it may have arrived nevertheless."""
    damaged: bool = False
    """True if some disk has damaged it, or what somebody was to be told of it: it may be lost without a word."""
    state: Sending = Sending.ASKED
    source_life: int = 0
    target_life: int = 0
    way_life: int = 0
    """How often each of these hosts had been started when it was sent."""

    @property
    def may_expire(self) -> bool:
        return self.time_to_reach_queue_s != INFINITE or self.time_to_be_received_s != INFINITE

    @property
    def may_end_unread(self) -> bool:
        return self.may_expire or self.purged or self.damaged

    @property
    def in_doubt(self) -> bool:
        """True if its sender may give it up without knowing that it arrived; transactional messages exclude that."""
        return self.kind is not Kind.TRANSACTIONAL and (self.may_expire or self.given_up)


@dataclass(slots=True)
class Log:
    """What a destination queue has seen, as far as it is still true after a crash."""

    seen: list[int] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    """Numbers that applications have received; that was durable when they were told."""
    reading: list[int] = field(default_factory=list)
    """Numbers that are being received; a crash may put them back."""
    stored: set[int] = field(default_factory=set)
    """Numbers whose arrival is durable."""
    doubtful: set[int] = field(default_factory=set)
    """Numbers for which a crash came when neither arrival nor reading was known to be durable: both are, or neither."""
    expired: set[int] = field(default_factory=set)
    expiring: set[int] = field(default_factory=set)
    """Numbers that have left the queue unread, durable some time later: expired, purged, or deleted with their
    queue.
    """
    held: set[int] = field(default_factory=set)
    """Numbers that were held for an application, so that others may have been received before them."""
    lives: dict[int, list[int]] = field(default_factory=dict)
    """How often the host had been started when each copy of a message without a transaction arrived."""

    @property
    def gone(self) -> set[int]:
        """Numbers that have left the queue unread."""
        return self.expired | self.expiring


@dataclass(slots=True)
class Ends:
    """Where copies of messages were found in the end, by number."""

    dead: Counter[int] = field(default_factory=Counter)
    journaled: Counter[int] = field(default_factory=Counter)
    told: dict[int, Counter[int]] = field(default_factory=dict)
    """The classes of the acknowledgments that have come for a message."""


class Book:
    """Everything that was sent, and the log of each destination queue."""

    def __init__(self) -> None:
        self.sent: dict[int, Sent] = {}
        self.logs: dict[QueueKey, Log] = {}
        self.lives: Counter[str] = Counter()
        self.arrivals = 0
        self.silent = False
        """True if a host could not send an acknowledgment because its disk was full."""
        self.identifiers: dict[bytes, int] = {}
        """The numbers of messages by their identifiers, with which acknowledgments name them."""

    # Events as they happen.

    def add(self, sent: Sent) -> None:
        sent.source_life, sent.target_life = self.lives[sent.source], self.lives[sent.target[0]]
        sent.way_life = self.lives[sent.by_way_of]
        self.sent[sent.number] = sent

    @property
    def all_can_be_told(self) -> bool:
        """True if the administration queue of every message exists."""
        return not any(sent.answered_nowhere for sent in self.sent.values())

    def number_of(self, packet: UserMessage) -> int | None:
        """Return the number of a message, or of the one that an acknowledgment is about. An OrderAck is about all
        messages so far, and can be lost without harm: None."""
        own, about = self.own_number(packet), packet.properties.correlation_id
        if own is not None:
            return own
        if not any(about):
            body = order_ack_body(packet)
            if not isinstance(body, FinalAckBody):
                return None
            about = MessageIdentifier(body.source_guid, body.message_id).encode()
        return self.identifiers[about]

    def own_number(self, packet: UserMessage) -> int | None:
        """Return the number of a message; None for what queue managers tell each other."""
        known = self.identifiers.get(packet.identifier.encode())
        # After a crash an acknowledgment may have the identifier of a message that has never left.
        return known if known is not None and bytes(packet.body).startswith(b"%d " % known) else None

    def log(self, key: QueueKey) -> Log:
        return self.logs.setdefault(key, Log())

    def arrived(self, key: QueueKey, number: int) -> None:
        """Record that a message was put into its queue."""
        self.arrivals += 1
        sent = self.sent.get(number)
        if sent is None or sent.target != key:
            raise Broken(f"message {number} at {key} was never sent there")
        log = self.log(key)
        if sent.kind is Kind.TRANSACTIONAL:
            if number in log.seen:
                raise Broken(f"transactional message {number} came twice to {key}")
            later = [other for other in log.seen if other > number and self._same_stream(sent, other)]
            if later:
                raise Broken(f"transactional message {number} came to {key} after {later}")
        else:
            life, copies = self.lives[key[0]], log.lives.setdefault(number, [])
            if life in copies:
                raise Broken(f"message {number} came twice to {key}, which has forgotten nothing")
            copies.append(life)
        log.doubtful.discard(number)
        log.seen.append(number)

    def refused(self, key: QueueKey, number: int) -> None:
        """Record that a queue has refused a message. A host that has taken a transactional message drops other copies
        in silence; so what was in doubt about one that is refused has not happened."""
        if self.sent[number].kind is Kind.TRANSACTIONAL:
            log = self.log(key)
            if number in log.seen:
                raise Broken(f"transactional message {number} was refused at {key}, where it is")
            log.doubtful.discard(number)

    def _same_stream(self, sent: Sent, number: int) -> bool:
        """True if two messages are of one stream; order is kept for each name that a sender uses for a queue."""
        other = self.sent[number]
        named_alike = other.by_computer_name == sent.by_computer_name
        return other.source == sent.source and named_alike and other.kind is Kind.TRANSACTIONAL

    def taken(self, key: QueueKey, number: int) -> None:
        """Record that an application is receiving a message."""
        log = self.log(key)
        sent = self.sent[number]
        if sent.kind is Kind.TRANSACTIONAL:
            before = log.read + log.reading
            if number in before:
                raise Broken(f"transactional message {number} was received twice at {key}")
            later = [other for other in before if other > number and self._same_stream(sent, other)]
            if later and number not in log.held:
                raise Broken(f"transactional message {number} was received at {key} after {later}")
        log.reading.append(number)

    def given(self, key: QueueKey, number: int) -> None:
        """Record that an application holds a message, which it may keep or give back."""
        log = self.log(key)
        sent = self.sent.get(number)
        if sent is None or sent.target != key:
            raise Broken(f"message {number} is given out at {key} and was never sent there")
        if sent.kind is Kind.TRANSACTIONAL and number in log.read + log.reading:
            raise Broken(f"transactional message {number} is given out at {key} after it was received")

    def kept(self, key: QueueKey, number: int) -> None:
        """Record that an application keeps a message that it held."""
        log = self.log(key)
        if self.sent[number].kind is Kind.TRANSACTIONAL and number in log.read + log.reading:
            raise Broken(f"transactional message {number} was received twice at {key}")
        log.reading.append(number)

    def deleted(self, key: QueueKey) -> None:
        """Record that a queue was deleted and created again: whatever was sent to it so far may end unread."""
        for sent in self.sent.values():
            if sent.target == key:
                sent.purged = sent.refused = True

    def given_up(self, packet: UserMessage) -> None:
        """Record that a message is purged that waits to be sent, or what somebody was to be told of one."""
        number, about = self.own_number(packet), self.number_of(packet)
        if number is not None:
            self.sent[number].purged = self.sent[number].given_up = True
        elif about is not None:
            self.sent[about].damaged = True

    def read(self, key: QueueKey, number: int) -> None:
        """Record that the reading of a message is durable."""
        log = self.log(key)
        log.reading.remove(number)
        log.read.append(number)

    def given_back(self, key: QueueKey, number: int) -> None:
        self.log(key).reading.remove(number)

    def restarted(self, address: str, standing: dict[str, list[int]]) -> None:
        """Record that a host is back; ``standing`` is what it found in its queues, in order."""
        self.lives[address] += 1
        for sent in self.sent.values():
            if sent.source == address and sent.state is Sending.ASKED:
                sent.state = Sending.UNCERTAIN
        for (host, name), log in self.logs.items():
            if host == address:
                self._resolve((host, name), log, standing.get(name, []))

    def _resolve(self, key: QueueKey, log: Log, standing: list[int]) -> None:
        for number in log.reading:
            if number in standing or self.sent[number].kind is Kind.EXPRESS:
                continue
            if number in log.stored:
                log.read.append(number)
            else:
                log.doubtful.add(number)
        log.reading.clear()
        log.expired |= (log.expiring & log.stored) - set(standing)
        log.expiring.clear()
        log.stored.update(standing)
        ordered = [number for number in log.seen if number in standing]
        transactional = [number for number in standing if self.sent[number].kind is Kind.TRANSACTIONAL]
        if [number for number in ordered if number in transactional] != transactional:
            raise Broken(f"after a restart {key} holds {transactional}, not {ordered}")
        done = [number for number in log.seen if number in log.read or number in log.expired]
        log.seen = done + standing

    # The check at the end.

    def check(self, ends: Ends) -> None:
        """Check that every message has ended as it should, when nothing more will happen."""
        for log in self.logs.values():
            log.read += sorted(log.doubtful)
        for sent in self.sent.values():
            read = self.log(sent.target).read.count(sent.number)
            if sent.kind is Kind.TRANSACTIONAL:
                self._check_transactional(sent, read, ends)
            elif sent.kind is Kind.RECOVERABLE:
                self._check_recoverable(sent, read, ends)
            else:
                self._check_express(sent, read)
        self._check_transactions(ends)

    def _check_transactional(self, sent: Sent, read: int, ends: Ends) -> None:
        number = sent.number
        dead, journaled = ends.dead[number], ends.journaled[number]
        if read + dead > 1 or journaled > read:
            raise Broken(f"{sent}: read {read}, dead {dead}, journaled {journaled} times")
        if read and journaled != sent.positive_journaling and not sent.damaged:
            raise Broken(f"{sent}: read, and {journaled} times in the journal")
        if dead and not (sent.negative_journaling and sent.may_end_unread):
            raise Broken(f"{sent}: in the dead-letter queue")
        if sent.state is Sending.CONFIRMED and not read:
            if not sent.may_end_unread:
                raise Broken(f"{sent}: lost")
            if sent.negative_journaling and not dead and not sent.damaged:
                raise Broken(f"{sent}: expired, and not in the dead-letter queue")
        self._check_told(sent, read, ends)

    def _check_recoverable(self, sent: Sent, read: int, ends: Ends) -> None:
        number = sent.number
        if read > max(1, self._copies(sent)):
            raise Broken(f"{sent}: received {read} times")
        if sent.state is Sending.CONFIRMED and not read and not sent.may_end_unread:
            raise Broken(f"{sent}: lost")
        if ends.dead[number] and not (sent.negative_journaling and sent.may_end_unread):
            raise Broken(f"{sent}: in the dead-letter queue")
        # Every host that has it when it expires makes a dead letter: its sender, who was not told yet that it arrived,
        # the routing server, and the host where it arrives late. These two may have forgotten that after a crash, when
        # it comes again (ruling B12).
        most_dead = 2 + self.lives[sent.target[0]] - sent.target_life
        if sent.by_way_of:
            most_dead += 1 + self.lives[sent.by_way_of] - sent.way_life
        if ends.journaled[number] > sent.positive_journaling or ends.dead[number] > most_dead:
            raise Broken(f"{sent}: {ends.journaled[number]} times journaled, {ends.dead[number]} dead")
        self._check_told(sent, read, ends)

    def _was_disturbed(self, sent: Sent) -> bool:
        """True if the target, or the host in between, was restarted."""
        return self.lives[sent.target[0]] != sent.target_life or self.lives[sent.by_way_of] != sent.way_life

    def _copies(self, sent: Sent) -> int:
        """Return how often a message without a transaction arrived. A host remembers what has come, but a crash may
        take that and leave the message (ruling B12); then each copy has an end of its own."""
        return len(self.log(sent.target).lives.get(sent.number, ()))

    def _check_express(self, sent: Sent, read: int) -> None:
        undisturbed = self.lives[sent.source] == sent.source_life and not self._was_disturbed(sent)
        if undisturbed and read != 1 and not (sent.may_end_unread and not read):
            raise Broken(f"{sent}: received {read} times, and no host was restarted")

    def _check_told(self, sent: Sent, read: int, ends: Ends) -> None:
        """Check that the sender was told what it asked for, once, and correctly."""
        told = ends.told.get(sent.number, Counter())
        if sent.answered_nowhere:
            if told:
                raise Broken(f"{sent}: somebody was told {sorted(map(hex, told))}")
            return
        doubled = [MessageClass(kind).name for kind, count in told.items() if count > 1]
        disturbed = self.lives[sent.source] != sent.source_life
        if (
            sent.answered_at_target
        ):  # where an acknowledgment may come twice, as any plain message after a crash
            disturbed = disturbed or self.lives[sent.target[0]] != sent.target_life
        if sent.kind is not Kind.TRANSACTIONAL:
            disturbed = disturbed or self._was_disturbed(sent)
        if doubled and not disturbed and not sent.in_doubt:
            raise Broken(f"{sent}: was told {doubled} more than once")
        classes = set(told)
        arrived = sent.number in self.log(sent.target).seen
        final = {kind for kind in classes if kind != MessageClass.ACK_REACH_QUEUE}
        copies = max(1, self._copies(sent))
        if len(final) > copies and not sent.in_doubt:
            raise Broken(f"{sent}: was told {sorted(map(hex, classes))}")
        negative = [kind for kind in final if kind & REFUSED and kind != MessageClass.ACK_RECEIVE]
        if read and negative and read + len(negative) > copies and not sent.in_doubt:
            raise Broken(f"{sent}: was received, and its sender was told {sorted(map(hex, final))}")
        if sent.state is not Sending.CONFIRMED or sent.damaged or self.silent:
            return
        wants = sent.acknowledgments
        if wants & 0x1 and arrived and MessageClass.ACK_REACH_QUEUE not in classes:
            raise Broken(f"{sent}: arrived, and its sender was not told")
        if wants & 0x2 and read and MessageClass.ACK_RECEIVE not in classes:
            raise Broken(f"{sent}: received, and its sender was not told")
        if wants & 0xC == 0xC and not read and not negative and not sent.refused:
            raise Broken(f"{sent}: gone, and its sender was not told")

    def _check_transactions(self, ends: Ends) -> None:
        """Check that of each transaction all messages were sent, or none."""
        groups: dict[int, list[Sent]] = {}
        for sent in self.sent.values():
            if sent.kind is Kind.TRANSACTIONAL and not sent.may_end_unread:
                groups.setdefault(sent.group, []).append(sent)
        for group in groups.values():
            read = [self.log(sent.target).read.count(sent.number) for sent in group]
            if any(read) and not all(read):
                raise Broken(f"a transaction was sent in part: {group}")
