"""Steps of the manager's simulator that read many messages at once, and end such reads."""

from __future__ import annotations

from msmq.store import StoreFullError
from msmq.testing.manager_host import Held, SimulatedHost
from msmq.wire.message import UserMessage


class ReadingMany(SimulatedHost):
    """A queue manager whose readers have no time."""

    def receive_many(self) -> None:
        """Several messages at once, taken or held."""
        path = self._any_place()
        if path is None:
            return
        most, held = self.rng.randint(1, 8), self.rng.random() < 0.5
        descriptor, reading = self._descriptor(path), self.manager.reading
        results = reading.dequeue_many(
            descriptor, most, self.rng.choice((1, 2000, 1 << 20)), two_phase_read=held
        )
        self._forget_damaged()
        readable = self._readable(path)
        if results and results[0].status == StoreFullError.code:
            assert self.disk.capacity is not None
            return
        found = [result.position.lookup_id for result in results if result.position is not None]
        assert found == readable[: len(found)], "not the first messages"
        assert len(found) == len(results) <= most
        assert found or not readable
        for lookup_id, result in zip(found, results, strict=True):
            assert result.message is not None
            assert bytes(result.message.packet.body) == self._message(lookup_id).text
            if held:
                self.held[lookup_id] = Held(descriptor=descriptor)
            else:
                self._happened(self._received(lookup_id))

    def hold_many(self) -> None:
        """Several plain messages at once, with one step for all."""
        path = self._any_place()
        if path is None:
            return
        descriptor = self._descriptor(path)
        found = self.manager.bulk_reading.hold(descriptor, self.rng.randint(1, 8), 1 << 20)
        if found is None:
            return
        ids = list(found.lookup_ids)
        assert ids == self._readable(path)[: len(ids)], "not the first messages"
        for lookup_id, data in zip(ids, found.packets, strict=True):
            assert UserMessage.decode(data).body == self._message(lookup_id).text
            self.held[lookup_id] = Held(descriptor=descriptor)

    def keep_many(self) -> None:
        """Some of what a reader holds is done, with one step for all if they are plain."""
        descriptors = [held.descriptor for held in self.held.values() if held.descriptor is not None]
        if not descriptors:
            return
        descriptor = self.rng.choice(descriptors)
        begun = [lookup_id for lookup_id, held in self.held.items() if held.descriptor is descriptor]
        chosen = sorted(self.rng.sample(begun, self.rng.randint(1, len(begun))))
        with self._perhaps_full():
            if self.manager.bulk_reading.keep(descriptor, chosen):
                for lookup_id in chosen:
                    self._happened(self._received(lookup_id))

    def end_reads(self) -> None:
        """Whatever a reader holds is its own."""
        descriptors = [held.descriptor for held in self.held.values() if held.descriptor is not None]
        if not descriptors:
            return
        descriptor = self.rng.choice(descriptors)
        begun = [lookup_id for lookup_id, held in self.held.items() if held.descriptor is descriptor]
        queue = descriptor.queue
        assert queue is not None
        entries = [entry for entry in map(queue.positions.get, begun) if entry is not None]
        read = self.manager.placing.fetch_all(queue, entries)
        self._forget_damaged()
        with self._perhaps_full():
            assert self.manager.reading.end_all(descriptor, [message for _, message in read]) == len(read)
            purged = [entry for entry, _ in read if self.held[entry.lookup_id].purged]
            for entry, _ in read:  # those go last
                if entry not in purged:
                    self._happened(self._received(entry.lookup_id))
            for entry in purged:
                self._happened(self._let_go(entry.lookup_id))
