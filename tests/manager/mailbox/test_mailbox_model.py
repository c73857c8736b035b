"""The mailbox against a model that a child understands: a queue is a sorted list of messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from msmq.manager.mailbox.positions import START
from msmq.manager.queues.queue import Queue
from msmq.wire.classes import MessageClass
from msmq.wire.trailers import host_in
from tests.manager.support import Host, message

KINDS = st.fixed_dictionaries(
    {
        "priority": st.integers(0, 7),
        "recoverable": st.booleans(),
        "time_to_be_received_s": st.sampled_from([0, 3, 0xFFFFFFFF, 0xFFFFFFFF]),
        "source": st.sampled_from(["", "", "10.0.0.1"]),
        "authentication_level": st.sampled_from([0, 0, 5]),
        "allow_peek_when_locked": st.booleans(),
    }
)


@dataclass
class Kept:
    """What the model knows of a message."""

    body: bytes
    kind: dict[str, Any]
    expiry: float
    place: str = "orders"
    held: bool = False
    overdue: bool = False

    @property
    def disappears(self) -> bool:
        return not self.kind["recoverable"]


class Mailboxes(RuleBasedStateMachine):
    """Batches go in, are looked at, held, given back, kept, moved and thrown away, and time passes."""

    def __init__(self) -> None:
        super().__init__()
        self.host = Host(seed=2)
        self.host.manager.queues.subqueue(self.host.queue(), "sub")
        self.kept: dict[int, Kept] = {}
        self.bodies = 0
        self.reader = self.host.open(self.host.find())

    def queue(self, place: str) -> Queue:
        root = self.host.find()
        return root if place == "orders" else root.subqueue_collection["sub"]

    def standing(self, place: str, *, free: bool = False) -> list[int]:
        return sorted(
            one for one, each in self.kept.items() if each.place == place and not (free and each.held)
        )

    @rule(kinds=st.lists(KINDS, min_size=1, max_size=6))
    def put(self, kinds: list[dict[str, Any]]) -> None:
        now = int(self.host.now)
        messages = []
        for kind in kinds:
            self.bodies += 1
            messages.append(message(b"%d" % self.bodies, sent_time=now, **kind))
        ids = self.host.manager.mailbox.put(self.queue("orders"), self.host.batch(*messages))
        assert len(set(ids)) == len(kinds)
        for lookup_id, one, kind in zip(ids, messages, kinds, strict=True):
            assert lookup_id >> 56 == 7 - kind["priority"]
            limit = kind["time_to_be_received_s"]
            if limit:
                expiry = float("inf") if limit == 0xFFFFFFFF else now + limit
                self.kept[lookup_id] = Kept(bytes(one.packet.body), kind, expiry)

    @rule(place=st.sampled_from(["orders", "sub"]), most=st.integers(1, 5))
    def look(self, place: str, most: int) -> None:
        found = self.host.manager.mailbox.look(self.queue(place), START, most, 1 << 20)
        assert [*found.ids] == self.standing(place, free=True)[:most]
        for index, one in enumerate(found.messages):
            kept = self.kept[one.lookup_id]
            assert bytes(one.packet.body) == kept.body
            assert one.local.authentication_level == kept.kind["authentication_level"]
            assert (str(host_in(one.source)) if one.source else "") == kept.kind["source"]
            assert (index in found.local) == one.local.has_any

    @rule(most=st.integers(1, 5))
    def hold(self, most: int) -> None:
        found = self.host.reading.take(self.reader, most, 1 << 20, two_phase_read=True)
        assert [*found.ids] == self.standing("orders", free=True)[:most]
        for lookup_id in found.ids:
            self.kept[lookup_id].held = True

    @rule(data=st.data())
    def keep(self, data: st.DataObject) -> None:
        chosen = self._some_held(data)
        assert self.host.reading.keep(self.reader, chosen) == len(chosen)
        for lookup_id in chosen:
            del self.kept[lookup_id]

    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        chosen = self._some_held(data)
        assert self.host.reading.give_back(self.reader, chosen) == len(chosen)
        for lookup_id in chosen:
            self.kept[lookup_id].held = False
            if self.kept[lookup_id].overdue:
                del self.kept[lookup_id]

    def _some_held(self, data: st.DataObject) -> list[int]:
        held = [lookup_id for lookup_id, each in self.kept.items() if each.held]
        return data.draw(st.lists(st.sampled_from(held), unique=True)) if held else []

    @rule(data=st.data(), place=st.sampled_from(["orders", "sub"]))
    def remove(self, data: st.DataObject, place: str) -> None:
        free = self.standing(place, free=True)
        chosen = data.draw(st.lists(st.sampled_from(free), unique=True)) if free else []
        removed = self.host.manager.mailbox.remove(self.queue(place), chosen, MessageClass.NACK_Q_PURGED)
        assert removed == len(chosen)
        for lookup_id in chosen:
            del self.kept[lookup_id]

    @rule(data=st.data(), back=st.booleans())
    def move(self, data: st.DataObject, back: bool) -> None:
        source, target = ("sub", "orders") if back else ("orders", "sub")
        free = self.standing(source, free=True)
        chosen = data.draw(st.lists(st.sampled_from(free), unique=True)) if free else []
        assert self.host.manager.mailbox.move(self.queue(source), chosen, self.queue(target)) == len(chosen)
        for lookup_id in chosen:
            self.kept[lookup_id].place = target

    @rule(seconds=st.integers(1, 2))
    def wait(self, seconds: int) -> None:
        self.host.advance(seconds)
        for lookup_id, each in list(self.kept.items()):
            if each.expiry <= self.host.now:
                each.overdue = True
                if not each.held:
                    del self.kept[lookup_id]

    @rule(compact=st.booleans())
    def kill(self, compact: bool) -> None:
        if compact:
            self.host.store.compact(self.host.manager.cleaning)
        self.host.kill()
        self.kept = {one: each for one, each in self.kept.items() if not each.disappears}
        for each in self.kept.values():
            each.held = False
        self.reader = self.host.open(self.host.find())
        self.host.advance(0)
        self.kept = {one: each for one, each in self.kept.items() if each.expiry > self.host.now}

    @invariant()
    def queues_are_lists(self) -> None:
        core = self.host.manager.core
        for place in ("orders", "sub"):
            queue, standing = self.queue(place), self.standing(place)
            assert [entry.lookup_id for entry in queue.positions] == standing
            assert self.host.contents(queue) == [self.kept[one].body for one in standing]
            assert set(queue.volatile) == {one for one in standing if self.kept[one].disappears}
            peekable = {one for one in standing if self.kept[one].kind["allow_peek_when_locked"]}
            assert queue.peekable_when_locked == peekable
            assert queue.overdue == {one for one in standing if self.kept[one].overdue}
        express = sum(
            entry.size
            for place in ("orders", "sub")
            for entry in self.queue(place).positions
            if not entry.address
        )
        assert core.express_bytes == express
        assert core.total_bytes == sum(self.queue(place).total_bytes for place in ("orders", "sub"))


Mailboxes.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestMailboxes = pytest.mark.spec("DMPR-3.1.1.2-t")(Mailboxes.TestCase)
