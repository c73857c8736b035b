"""Steps of the manager's simulator in which applications read as real ones do.

They prefetch, acknowledge in groups, reject, disconnect, walk over a queue with a cursor, read parts of it, and take
several messages at once.
"""

from __future__ import annotations

from typing import Final

from msmq.errors import IoTimeoutError
from msmq.manager.mailbox.retries import NO_RETRY, Retry
from msmq.manager.queues.queue import ReadResult
from msmq.store import StoreFullError
from msmq.testing.manager_book import Held
from msmq.testing.manager_channel import Reader
from msmq.testing.manager_follow import LATE, PURGED
from msmq.testing.manager_host import SimulatedHost
from msmq.testing.manager_model import QueueWritten, root_of
from msmq.wire.message import UserMessage

SUBQUEUES: Final = ("a", "b")
MOST_READERS: Final = 4
_LAST: Final = (1 << 64) - 1


class Readers(SimulatedHost):
    """A queue manager and the applications that read from it."""

    def commit(self) -> None:
        """Make everything durable."""
        self.store.commit()
        self._confirm()

    # --- several at once ------------------------------------------------------------------------------------

    def receive_many(self) -> None:
        """Take or hold several messages at once."""
        path = self._any_place()
        if path is None:
            return
        most, held = self.rng.randint(1, 8), self.rng.random() < 0.5
        descriptor, reading = self._descriptor(path), self.manager.reading
        try:
            taken = reading.take(descriptor, most, self.rng.choice((1, 2000, 1 << 20)), two_phase_read=held)
        except StoreFullError:
            assert self.disk.capacity is not None
            self._forget_damaged()
            return
        self.damaged.difference_update(taken.ids)  # the log held an older, sound copy
        self._forget_damaged()
        readable, found = self._readable(path), list(taken.ids)
        assert found == readable[: len(found)], "not the first messages"
        assert len(found) <= most
        assert found or not readable
        for message in taken.messages:
            assert bytes(message.packet.body) == self._message(message.lookup_id).text
            if held:
                self.held[message.lookup_id] = Held(descriptor=descriptor)
        if not held:
            self._happened(self._received(*found))

    # --- readers that hold messages -------------------------------------------------------------------------

    def connect(self) -> None:
        """Open a queue for a reader: one with messages, or one where it will have to wait."""
        places = [path for path in (self._any_place() for _ in range(4)) if path is not None]
        choose = max if self.rng.random() < 0.6 else min
        path = choose(places, key=lambda each: len(self._readable(each)), default=None)
        if path is not None and len(self.readers) < MOST_READERS:
            self._descriptor(path)  # an empty subqueue disappears when nobody has it open
            with self._perhaps_full():
                self.readers.append(self.channel.reader(path, self._any_policy(path)))

    def _any_policy(self, path: str) -> Retry:
        """Choose what a reader wants to happen to the messages that it rejects."""
        rng = self.rng
        if path not in self.current.queues or rng.random() < 0.5:
            return NO_RETRY
        delay_ms, most = rng.choice((0, 2_500, 50_500)), rng.choice((0, 1, 2, 3))
        subqueue = rng.choice(SUBQUEUES) if most else ""
        if subqueue:
            self._make_subqueue(path, subqueue)
        return Retry(delay_ms, most, subqueue)

    def prefetch(self) -> None:
        """Let a reader ask for messages, even if it has not settled those it has."""
        if self._any_reader() is None or self.rng.random() < 0.3:
            self.connect()
        reader = self._any_reader()
        if reader is None:
            return
        most, waited = self.rng.choice((1, 3, 10, 50)), reader.waits
        before, readable = set(reader.begun), self._readable(reader.path)
        reader.prefetch(most, wait=self.rng.random() < 0.6)
        self._forget_damaged()
        found, left = sorted(reader.begun - before), self.current.messages.keys() | self.express.keys()
        assert found == [each for each in readable if each in left][:most], "not the first messages"
        assert not found or not waited, "it has waited although there was a message"
        for lookup_id in found:
            self.held[lookup_id] = Held(reader=reader)

    def cancel(self) -> None:
        """Let an application give up waiting."""
        waiting = [reader for reader in self.readers if reader.waits]
        if waiting:
            reader = self.rng.choice(waiting)
            reader.prefetch(0)
            assert not reader.waits

    def _readable(self, path: str, *, peek: bool = False) -> list[int]:
        self._notice_what_came()
        return super()._readable(path, peek=peek)

    def _notice_what_came(self) -> list[int]:
        """Take into the model what applications have got for which they had waited. Returns what they have and the
        model does not know, or not there: in the middle of a step it may not know what has just happened."""
        unknown = []
        messages = self.current.messages | self.express
        for reader in self.readers if any(reader.begun for reader in self.readers) else ():
            for lookup_id in reader.begun - self.held.keys() if reader.open else ():
                if lookup_id in messages and messages[lookup_id].place == reader.path:
                    self.held[lookup_id] = Held(reader=reader)
                elif self._queue(reader.path).positions.get(lookup_id) is not None:
                    unknown.append(lookup_id)
        return unknown

    def check(self) -> None:
        self.channel.go_on()
        self._forget_damaged()
        assert not self._notice_what_came(), "an application was given what is not there"
        for reader in self.readers:
            assert not reader.waits or not self._readable(reader.path), (
                "one waits although there is a message"
            )
        super().check()

    def acknowledge(self) -> None:
        """Acknowledge a group of messages, which leave the queue together."""
        reader, group = self._any_group()
        if reader is None:
            return
        reader.acknowledge(group)
        queue = self._queue(reader.path)
        if any(queue.positions.get(lookup_id) is not None for lookup_id in group):
            assert self.disk.capacity is not None, "a reader could not acknowledge what it holds"
            return
        purged = [lookup_id for lookup_id in group if self.held[lookup_id].purged]
        kept = self._received(*(each for each in group if each not in purged), last=not purged)
        for lookup_id in purged:
            self.held.pop(lookup_id)
        gone = self._left([(lookup_id, PURGED) for lookup_id in purged])
        self._happened([*kept, *(change for changes in gone for change in changes)])

    def reject(self) -> None:
        """Give messages back, or move them to a subqueue."""
        reader, group = self._any_group()
        if reader is None or (reader.waits and self.disk.capacity is not None):
            return
        path, subqueue = root_of(reader.path), ""
        waited = reader.waits
        with self._perhaps_full():
            if reader.path == path and self.rng.random() < 0.4:
                subqueue = self.rng.choice(SUBQUEUES)
                self._make_subqueue(path, subqueue)
            reader.reject(group, subqueue)
            # What comes back may come to the same application again at once.
            done = [lookup_id for lookup_id in group if waited or lookup_id not in reader.begun]
            self._rejected(reader, group, done, subqueue and f"{path};{subqueue}")

    def _rejected(self, reader: Reader, group: list[int], done: list[int], target: str) -> None:
        if len(done) < len(group):
            assert self.disk.capacity is not None, "a reader could not give back what it holds"
            # The channel has given them up in any case; they come back when the reader disconnects.
            self.stuck.update(set(group) - set(done))
        aside = [lookup_id for lookup_id in done if target and not self.held[lookup_id].purged]
        if not target:
            target, aside = self._failed(reader, done)
        self._happened(*(self._moved(lookup_id, target) for lookup_id in aside))
        late = [(each, LATE) for each in aside if self._has_gone(each, self._message(each))]
        back = [lookup_id for lookup_id in done if lookup_id not in aside and lookup_id not in self.paused]
        fates = [(each, PURGED if self.held[each].purged else LATE) for each in back if self._ends(each)]
        for lookup_id in back:
            self.held.pop(lookup_id)
        self._happened(*self._left(late + fates))

    def _failed(self, reader: Reader, done: list[int]) -> tuple[str, list[int]]:
        """Apply the reader's policy to messages that it has rejected. Returns where poison goes, and which messages are
        poison; the others are back, or back after a pause."""
        retry, poison = reader.retry, []
        for lookup_id in done:
            if self.held[lookup_id].purged:
                continue
            if retry.max_deliveries:
                self.failures[lookup_id] += 1
            if retry.max_deliveries and self.failures[lookup_id] >= retry.max_deliveries:
                poison.append(lookup_id)
            elif retry.delay_ms:
                self.paused[lookup_id] = self.now + retry.delay_ms / 1_000
                self.held[lookup_id].reader = None
        return f"{root_of(reader.path)};{retry.poison_subqueue}", poison

    def _after_pauses(self) -> list[tuple[int, int]]:
        """Make messages readable whose pause is over. Returns those that were purged or have expired meanwhile."""
        fates = []
        for lookup_id, until in sorted(self.paused.items()):
            if until <= self.now:
                if (
                    self.disk.capacity is not None
                    and lookup_id in self._queue(self._message(lookup_id).place).paused
                ):
                    continue  # the full disk refused it, and it is tried again
                del self.paused[lookup_id]
                held = self.held.pop(lookup_id, None)
                if held is not None and (held.purged or self._has_gone(lookup_id, self._message(lookup_id))):
                    fates.append((lookup_id, PURGED if held.purged else LATE))
        return fates

    def _ends(self, lookup_id: int) -> bool:
        """True if a message that is given back has gone for good."""
        return self.held[lookup_id].purged or self._has_gone(lookup_id, self._message(lookup_id))

    def _make_subqueue(self, path: str, name: str) -> None:
        traits = self.current.queues[path]
        if name not in traits.subqueues:
            self.manager.queues.subqueue(self._queue(path), name)
            self._happened([QueueWritten(path, traits._replace(subqueues=traits.subqueues | {name}))])

    def disconnect(self) -> None:
        """Disconnect a reader; the messages that it held come back."""
        reader = self._any_reader()
        if reader is None:
            return
        held = sorted(lookup_id for lookup_id, held in self.held.items() if held.reader is reader)
        with self._perhaps_full():
            reader.disconnect()
        self.readers.remove(reader)
        if any(lookup_id in reader.begun for lookup_id in held):
            assert self.disk.capacity is not None
            self.free_disk()
        for lookup_id in reader.begun & set(held):
            self.held[lookup_id].reader = None
        self._happened(*self._let_go(*(lookup_id for lookup_id in held if lookup_id not in reader.begun)))

    def _any_reader(self) -> Reader | None:
        self.readers = [reader for reader in self.readers if reader.open]
        return self.rng.choice(self.readers) if self.readers else None

    def _any_group(self) -> tuple[Reader | None, list[int]]:
        """Choose a reader and some of the messages that it holds, in any order. A reader that holds none asks for some
        first."""
        self._forget_damaged()
        holding = [held.reader for held in self.held.values() if held.reader is not None and held.reader.open]
        if not holding:
            self.prefetch()
        reader = self.rng.choice(holding) if holding else self._any_reader()
        begun = [lookup_id for lookup_id, held in self.held.items() if held.reader is reader]
        begun = [lookup_id for lookup_id in begun if lookup_id not in self.damaged | self.stuck]
        if reader is None or not begun:
            return None, []
        count = self.rng.choice((len(begun), self.rng.randint(1, len(begun))))
        return reader, self.rng.sample(sorted(begun), count)

    def hear(self) -> None:
        """Deliver the replies that have become durable to the applications."""
        self.channel.became_durable()
        for reader in self.readers:
            for lookup_id, data in reader.deliveries():
                item = self.held.get(lookup_id)
                if item is not None:
                    self._is_the_message(lookup_id, data)

    def _is_the_message(self, lookup_id: int, data: bytes) -> None:
        packet, item = UserMessage.decode(data), self._message(lookup_id)
        assert packet.body == item.text, "another message's body"
        assert packet.identifier.encode() == item.wishes.identifier, "another message"

    # --- looking --------------------------------------------------------------------------------------------

    def read_span(self) -> None:
        """Read a part of a queue, and leave it as it is."""
        path = self._any_place()
        if path is None:
            return
        readable = self._readable(path)
        after = self.rng.choice([0, *readable])
        upto = self.rng.choice([_LAST, *readable])
        if any(lookup_id in self.damaged for lookup_id in readable):
            return
        self._descriptor(path)
        found = self.channel.span(path, after, upto, self.commit)
        assert [lookup_id for lookup_id, _ in found] == [each for each in readable if after < each <= upto]
        for lookup_id, data in found:
            self._is_the_message(lookup_id, data)

    def look_through(self) -> None:
        """Walk over a queue with a cursor, and perhaps take the message on which it stands."""
        path = self._any_place()
        if path is None or any(lookup_id in self.damaged for lookup_id in self._readable(path, peek=True)):
            return
        descriptor, reading = self._descriptor(path), self.manager.reading
        cursor = reading.open_cursor(descriptor)
        assert cursor is not None
        expected = self._readable(path, peek=True)
        results: list[ReadResult] = []
        steps = self.rng.randint(1, len(expected) + 1)
        reading.peek(descriptor, results.append, timeout_s=0, cursor=cursor)
        while len(results) < steps and results[-1].position is not None:
            reading.peek_next(descriptor, results.append, cursor, timeout_s=0)
        seen = [result.position.lookup_id for result in results if result.position is not None]
        assert seen == expected[: len(seen)], "not in the order of the queue"
        assert len(seen) == len(results) or (
            len(seen) == len(expected) and results[-1].status == IoTimeoutError.code
        )
        free = seen and len(seen) == len(results) and seen[-1] in self._readable(path)
        if free and self.rng.random() < 0.3:
            taken: list[ReadResult] = []
            reading.dequeue(descriptor, taken.append, timeout_s=0, cursor=cursor)
            if taken[0].status == StoreFullError.code:
                assert self.disk.capacity is not None
            else:
                assert taken[0].position is not None
                assert taken[0].position.lookup_id == seen[-1], "not the message under the cursor"
                self._happened(self._received(seen[-1]))
        reading.close_cursor(cursor)
