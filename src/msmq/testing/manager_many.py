"""Steps of the manager's simulator that read many messages at once, and end such reads."""

from __future__ import annotations

from collections.abc import Iterable

from msmq.manager.mailbox import Found
from msmq.manager.queue import OpenQueueDescriptor
from msmq.testing.manager_host import Held, SimulatedHost
from msmq.testing.manager_model import Change
from msmq.wire.message import UserMessage


class ReadingMany(SimulatedHost):
    """A queue manager whose readers have no time."""

    def receive_many(self) -> None:
        """Several messages at once, taken or held."""
        path = self._any_place()
        if path is None:
            return
        most, held = self.rng.randint(1, 8), self.rng.random() < 0.5
        descriptor = self._descriptor(path)
        most_bytes = self.rng.choice((1, 2000, 1 << 20))
        with self._perhaps_full():
            found = self.manager.reading.take(descriptor, most, most_bytes, two_phase_read=held)
            self._forget_damaged()
            self._check_found(path, found, most)
            if held:
                self.held.update((lookup_id, Held(descriptor=descriptor)) for lookup_id in found.ids)
            else:
                self._received_together(found.ids)

    def _check_found(self, path: str, found: Found, most: int) -> None:
        readable, ids = self._readable(path), list(found.ids)
        assert ids == readable[: len(ids)], "not the first messages"
        assert len(ids) == len(found) <= most
        assert ids or not readable
        for lookup_id, data in zip(ids, found.packets, strict=True):
            assert UserMessage.decode(data).body == self._message(lookup_id).text

    def _received_together(self, ids: Iterable[int]) -> None:
        """One event took them; each goes to the journal while there is room."""
        changes: list[Change] = []
        used: dict[str, int] = {}
        for lookup_id in ids:
            item = self._message(lookup_id)
            journal = self._journal_of(item, used.get(item.place, 0))
            if journal is None:
                changes += self._gone(lookup_id)
            else:
                if lookup_id not in self.express:  # those stand in the journal already
                    used[item.place] = used.get(item.place, 0) + item.size
                changes += self._moved(lookup_id, journal)
        self._happened(changes)

    def _begun(self) -> tuple[OpenQueueDescriptor, list[int]] | None:
        """Somebody who reads in two phases, and what it holds."""
        descriptors = [held.descriptor for held in self.held.values() if held.descriptor is not None]
        if not descriptors:
            return None
        descriptor = self.rng.choice(descriptors)
        begun = [lookup_id for lookup_id, held in self.held.items() if held.descriptor is descriptor]
        return descriptor, sorted(begun)

    def keep_many(self) -> None:
        """Some of what a reader holds is its own."""
        begun = self._begun()
        if begun is None:
            return
        descriptor, ids = begun
        chosen = sorted(self.rng.sample(ids, self.rng.randint(1, len(ids))))
        with self._perhaps_full():
            assert self.manager.reading.keep(descriptor, chosen) == len(chosen)
            purged = [lookup_id for lookup_id in chosen if self.held[lookup_id].purged]
            self._received_together(lookup_id for lookup_id in chosen if lookup_id not in purged)
            self._happened([change for lookup_id in purged for change in self._let_go(lookup_id)])

    def give_back_many(self) -> None:
        """Some of what a reader holds comes back."""
        begun = self._begun()
        if begun is None:
            return
        descriptor, ids = begun
        chosen = sorted(self.rng.sample(ids, self.rng.randint(1, len(ids))))
        with self._perhaps_full():
            assert self.manager.reading.give_back(descriptor, chosen) == len(chosen)
            purged = [lookup_id for lookup_id in chosen if self.held[lookup_id].purged]
            rest = [lookup_id for lookup_id in chosen if lookup_id not in purged]
            for group in (purged, rest):
                self._happened([change for lookup_id in group for change in self._let_go(lookup_id)])
