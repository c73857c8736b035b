"""A host and its directory through everything that can happen to them, at random (Hypothesis).

The directory goes away and comes back, the host stops, starts, loses its data or gets an older copy of it back, its
clock is set, it is taken out of the directory and joined again; objects are deleted, made, changed and brought back
from an older copy by others. In every state the check tells exactly what a model that knows both sides tells, and an
ordinary start and the repairs lead back to a host without differences. A message is gone only when its queue was
deleted by choice or its data was lost.

The directory is one in memory here; tests/directory/test_lifecycles.py walks on a real controller. ``make lifecycles``
walks longer on both and tells how far it is.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from msmq.errors import MachineNotFoundError, MQError, NoDsError
from msmq.manager.differences import Choice, Kind
from msmq.manager.directory import DirectoryObject, ObjectClass, queue_object
from msmq.manager.model import QueueType
from msmq.manager.queues.queue import Queue
from msmq.manager.queues.queues import QueueRequest
from msmq.testing.disk import SimulatedDisk
from tests.manager.domain import DomainHost, guid

SLICE = 20
"""A campaign is made of so many walks at a time: Hypothesis grows slow with all that it remembers of a long one."""
NAMES = st.sampled_from(["a", "b", "c"])
LABELS = st.sampled_from(["red", "green", "blue"])
REPAIRS = {
    Kind.ONLY_HERE: (Choice.PUBLISH, Choice.DELETE_HERE),
    Kind.ONLY_THERE: (Choice.ADOPT, Choice.DELETE_THERE),
    Kind.OTHER_IDENTIFIER: (Choice.ADOPT,),
    Kind.OTHER_VALUES: (Choice.TAKE_THEIRS, Choice.WRITE_OURS),
}


class World:
    """One host and its directory, which is in memory: what others do to it, and what it has."""

    def __init__(self) -> None:
        self.host: DomainHost = DomainHost()
        self.computer = "HOST"
        self._older: list[DirectoryObject] | None = None

    def end(self) -> None:
        """Nothing is left behind."""

    @property
    def connected(self) -> bool:
        return self.host.directory.connected

    @connected.setter
    def connected(self, connected: bool) -> None:
        self.host.directory.connected = connected

    @property
    def _objects(self) -> list[DirectoryObject]:
        return self.host.directory.objects

    def queue(self, name: str) -> DirectoryObject | None:
        """What the directory has of a queue."""
        return next(
            (
                item
                for item in self._objects
                if item.object_class is ObjectClass.QUEUE
                and item.attributes["pathname"].lower() == f"host\\{name}"
            ),
            None,
        )

    def own(self) -> DirectoryObject | None:
        """What the directory has of the host."""
        return self.host.directory.find(ObjectClass.QUEUE_MANAGER, computer_name="HOST")

    def create(self, name: str, label: str) -> None:
        queue = Queue(0, f"HOST\\{name}", QueueType.PUBLIC, guid(), label=label)
        self.host.directory.put(queue_object(queue))

    def delete(self, item: DirectoryObject) -> None:
        self._objects.remove(item)

    def change(self, item: DirectoryObject, label: str) -> None:
        item.attributes["label"] = label

    def leave(self) -> None:
        for item in [*self._objects]:
            if item.object_class in (ObjectClass.QUEUE, ObjectClass.QUEUE_MANAGER):
                self._objects.remove(item)

    def join(self) -> None:
        """What `msmq directory join` makes: an object without keys."""
        values = {
            "identifier": guid(), "computer_name": "HOST", "site_identifier_list": (),
            "public_encryption_key_list": b"", "public_signing_key_list": b"",
        }  # fmt: skip
        self.host.directory.put(DirectoryObject(ObjectClass.QUEUE_MANAGER, values))

    def from_an_older_copy(self, keep: bool) -> None:
        """A controller is backed up, or brought back from its backup."""
        if keep or self._older is None:
            self._older = deepcopy(self._objects)
        else:
            self._objects[:] = deepcopy(self._older)


class Lifecycles(RuleBasedStateMachine):
    """One host and its directory."""

    make_world: ClassVar[Callable[[], World]] = World

    @initialize()
    def begin(self) -> None:
        self.world = type(self).make_world()
        self.host = self.world.host
        self.running = True
        self.sent = 0
        self.bodies: dict[str, list[bytes]] = {}
        """What each queue must hold."""
        self.older: tuple[Any, dict[str, list[bytes]]] | None = None
        self.blank = False
        """Whether the host has lost its data and not started since."""

    # --- the two sides ----------------------------------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        return self.world.connected

    def here(self, name: str) -> Queue | None:
        return self.host.core.by_path.get(f"{self.world.computer}\\{name}".lower())

    def teardown(self) -> None:
        self.world.end()

    def is_online(self) -> bool:
        return self.running and self.connected and not self.host.core.directory_offline

    # --- what an application does -----------------------------------------------------------------------------------

    @precondition(is_online)
    @rule(name=NAMES, label=LABELS)
    def create(self, name: str, label: str) -> None:
        known, taken = self.here(name) is not None, self.world.queue(name) is not None
        try:
            self.host.manager.queues.create(QueueRequest(f".\\{name}", label=label))
        except MQError:
            assert known or taken or self.world.own() is None
        else:
            assert not known
            assert not taken
            self.bodies[name] = []

    @precondition(lambda self: self.running)
    @rule(name=NAMES)
    def send(self, name: str) -> None:
        queue = self.here(name)
        if queue is not None:
            self.sent += 1
            body = b"%d" % self.sent
            self.host.send(queue, body, recoverable=True)
            self.bodies[name].append(body)

    @precondition(is_online)
    @rule(name=NAMES)
    def send_to_what_only_the_directory_has(self, name: str) -> None:
        """By its public name, as a message of another host comes: the queue is adopted."""
        item = self.world.queue(name)
        if item is not None and item.identifier not in self.host.core.by_identifier:
            queue = self.host.manager.mending.adopt_by_identifier(item.identifier)
            assert queue is not None
            self.bodies.setdefault(name, [])
            self.send(name)

    @precondition(lambda self: self.running)
    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        queue = self.here(name)
        if queue is None:
            return
        item = self.world.queue(name)
        if not self.connected or item is None or item.identifier != queue.identifier:
            return  # refused, see the module's other tests
        self.host.manager.queues.delete(queue)
        del self.bodies[name]

    # --- what others do ---------------------------------------------------------------------------------------------

    @rule(name=NAMES)
    def others_delete(self, name: str) -> None:
        item = self.world.queue(name)
        if item is not None:
            self.world.delete(item)

    @precondition(lambda self: self.world.own() is not None)
    @rule(name=NAMES, label=LABELS)
    def others_create(self, name: str, label: str) -> None:
        if self.world.queue(name) is None:
            self.world.create(name, label)

    @rule(name=NAMES, label=LABELS)
    def others_change(self, name: str, label: str) -> None:
        item = self.world.queue(name)
        if item is not None:
            self.world.change(item, label)

    @rule(keep=st.booleans())
    def the_directory_from_an_older_copy(self, keep: bool) -> None:
        self.world.from_an_older_copy(keep)

    @precondition(is_online)
    @rule()
    def look_what_others_did(self) -> None:
        """What the daemon does from time to time, and at SIGHUP."""
        mending = self.host.manager.mending
        mending.catch_up(mending.published())
        for name in ("a", "b", "c"):
            item = self.world.queue(name)
            if item is not None:
                queue = self.here(name)
                assert queue is not None
                assert (queue.identifier, queue.label) == (item.identifier, item.attributes["label"])
                self.bodies.setdefault(name, [])

    @rule()
    def leave(self) -> None:
        """Its object is deleted with its queues, by `leave --with-queues` or by mistake."""
        if self.world.own() is not None:
            self.world.leave()

    @rule()
    def join(self) -> None:
        if self.world.own() is None:
            self.world.join()

    # --- outages, stops and starts ----------------------------------------------------------------------------------

    @rule()
    def disconnect(self) -> None:
        self.world.connected = False
        if self.running:
            self.host.manager.directory.read(ObjectClass.SITE, None)

    @rule()
    def connect(self) -> None:
        self.world.connected = True
        if self.running:
            self.host.manager.directory.check_online()

    @precondition(lambda self: self.running)
    @rule()
    def stop(self) -> None:
        self.host.manager.stop()
        self.host.store.close()
        self.running = False

    @precondition(lambda self: not self.running)
    @rule()
    def start(self) -> None:
        self.host.provision = self.blank
        try:
            self.host.start()
        except MachineNotFoundError:
            assert self.connected
            assert self.world.own() is None
            self.host.store.close()
            return
        except NoDsError:
            assert self.blank, "only the first start needs the directory"
            assert not self.connected
            self.host.store.close()
            return
        self.running, self.blank = True, False

    @precondition(lambda self: not self.running)
    @rule()
    def copy_data(self) -> None:
        if not self.blank:
            self.older = (deepcopy(self.host.disk), {name: [*held] for name, held in self.bodies.items()})

    @precondition(lambda self: not self.running and self.older is not None)
    @rule()
    def restore_older_copy(self) -> None:
        assert self.older is not None
        disk, bodies = self.older
        self.host.disk = deepcopy(disk)
        self.bodies = {name: [*held] for name, held in bodies.items()}
        self.blank = False

    @precondition(lambda self: not self.running)
    @rule()
    def lose_data(self) -> None:
        self.host.disk = SimulatedDisk()
        self.bodies = {}
        self.blank = True

    @rule(hours=st.sampled_from([-48, -1, 1, 48]))
    def set_the_clock(self, hours: int) -> None:
        """Forward or back, as by somebody who set it wrong or right; timers run as they would."""
        self.host.now += hours * 3600
        if self.running:
            self.host.manager.run_timers()

    # --- what must hold ---------------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_lost(self) -> None:
        if not self.running:
            return
        found = {
            queue.pathname.partition("\\")[2].lower(): self.host.contents(queue)
            for queue in self.host.manager.mending.public
        }
        assert found == self.bodies

    @invariant()
    def the_check_tells_the_truth(self) -> None:
        if not self.is_online():
            return
        told = {
            each.queue.partition("\\")[2].lower(): each.kind
            for each in self.host.manager.mending.differences()
        }
        expected = {}
        for name in ("a", "b", "c"):
            own, other = self.here(name), self.world.queue(name)
            if own is None and other is None:
                continue
            if own is None:
                expected[name] = Kind.ONLY_THERE
            elif other is None:
                expected[name] = Kind.ONLY_HERE
            elif own.identifier != other.identifier:
                expected[name] = Kind.OTHER_IDENTIFIER
            elif own.label != other.attributes["label"]:
                expected[name] = Kind.OTHER_VALUES
        assert told == expected

    @precondition(lambda self: self.connected)
    @rule(data=st.data())
    def back_to_health(self, data: st.DataObject) -> None:
        """From whatever state: join if there is no object, start, repair as an operator chooses."""
        self.join()
        if self.running:
            self.stop()
        self.start()
        assert self.running
        own = self.world.own()
        assert own is not None
        assert self.host.core.record.identifier == own.identifier
        keys = self.host.manager.keys.public_encryption_key_list()
        assert own.attributes["public_encryption_key_list"] == keys
        mending = self.host.manager.mending
        for each in mending.differences():
            name = each.queue.partition("\\")[2].lower()
            choice = data.draw(st.sampled_from(REPAIRS[each.kind]))
            mending.mend(each.queue, choice, discard=True)
            if choice is Choice.DELETE_HERE:
                del self.bodies[name]
            elif choice is Choice.ADOPT:
                self.bodies.setdefault(name, [])
        assert mending.differences() == []


def walks(count: int, steps: int) -> settings:
    return settings(
        max_examples=count,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )


Lifecycles.TestCase.settings = walks(50, 25)
TestLifecycles = Lifecycles.TestCase


def campaign(machine: type[Lifecycles], walks_in_all: int, steps: int, first_seed: int) -> None:
    """Walk for long, and tell how far it is; a failure comes back with its seed."""
    began, done = time.monotonic(), 0
    while done < walks_in_all:
        count, number = min(SLICE, walks_in_all - done), first_seed + done // SLICE
        print(f"seed {number}: ", end="", flush=True)
        run_state_machine_as_test(seed(number)(machine), settings=walks(count, steps))  # type: ignore[no-untyped-call]
        done += count
        print(f"{done:,} of {walks_in_all:,} walks, {time.monotonic() - began:,.0f} s", flush=True)


def arguments(walks_in_all: int) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Walk a host and its directory through many random lives.")
    parser.add_argument("--walks", type=int, default=walks_in_all)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1, help="the first one; each slice has the next")
    return parser.parse_args()


if __name__ == "__main__":
    given = arguments(2_000)
    campaign(Lifecycles, given.walks, given.steps, given.seed)
