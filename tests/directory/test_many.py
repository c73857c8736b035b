"""Ten thousand public queues: what is asked grows with the pages of an answer, and never with the queues."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from random import Random

import pytest

from msmq.directory.query import find_all
from msmq.manager.core import Environment
from msmq.manager.directory import DirectoryResult, Expression, ObjectClass, Relation, by_identifier
from msmq.manager.queue_manager import Identity, QueueManager, Settings
from msmq.manager.queues.queues import QueueRequest
from msmq.store import Store, StoreOptions
from msmq.testing.disk import SimulatedDisk
from scripts.samba_dc import Copy, DomainController
from tests.directory.support import Domain, domain_of
from tests.manager.domain import KeyBox

FEW, MANY = 1_000, 10_000
SUCCESS = DirectoryResult.SUCCESS


class Crowd:
    """A host with very many public queues, which are in the directory too."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.name = domain.computer()
        self.disk = SimulatedDisk()
        self.random = Random(1)
        self.pages_of = domain.directory.connection.settings.page_size
        self.count = 0
        self.start(provisioning=True)
        self.first = domain.queue(self.name, "pattern").attributes["full_path"]

    def start(self, *, provisioning: bool = False) -> None:
        environment = Environment(time.time, self.random.randbytes, KeyBox())
        self.store = Store.open(self.disk, StoreOptions())
        self.manager = QueueManager(
            self.store,
            environment,
            lambda: Identity(self.name, "msmq.test"),
            Settings(directory_integrated=True),
            self.domain.directory,
        )
        self.manager.start(provisioning=provisioning)

    def restart(self) -> None:
        self.manager.stop()
        self.store.close()
        self.start()

    def grow(self, count: int) -> None:
        """Have so many of them; the identifiers are those that the host chose."""
        queues = self.manager.queues
        copies = []
        for number in range(self.count, count):
            made = queues.create(QueueRequest(f".\\q{number}", label=f"l{number}"), skip_directory=True)
            copies.append(Copy(f"q{number}", made.identifier, {"mSMQLabelEx": f"new {number}"}))
        self.domain.controller.multiply(self.first, copies)
        self.count = count

    def requests(self, action: Callable[[], object]) -> int:
        """How many requests something takes."""
        self.domain.trace.clear()
        action()
        return len(self.domain.trace.operations)

    @property
    def pages(self) -> int:
        return -(-(self.count + 1) // self.pages_of)

    # --- what is measured -----------------------------------------------------------------------------------

    def found(self, attribute: str, value: str) -> int:
        condition = (Expression(attribute, Relation.EQUALS, value),)
        result, found = find_all(self.domain.directory, ObjectClass.QUEUE, condition)
        assert result is SUCCESS
        return len(found)

    def find_by_label(self) -> None:
        assert self.found("label", f"new {self.count - 1}") == 1

    def find_by_path(self) -> None:
        assert self.found("pathname", f"{self.name}\\q{self.count - 1}") == 1

    def read_by_identifier(self) -> None:
        queue = self.manager.core.by_path[f"{self.name}\\q{self.count - 1}".lower()]
        result, item = self.domain.directory.read(ObjectClass.QUEUE, by_identifier(queue.identifier), None)
        assert item is not None, result
        assert item.attributes["label"] == f"new {self.count - 1}"

    def list_all(self) -> None:
        result, found = find_all(self.domain.directory, ObjectClass.QUEUE, None, ("pathname", "label"))
        assert (result, len(found)) == (SUCCESS, self.count + 1)

    def come_online(self) -> None:
        """After an outage: what was changed meanwhile is taken over."""
        self.manager.directory.went_away()
        self.manager.directory.check_online()
        assert not self.manager.core.directory_offline
        for number in (0, self.count - 1):
            queue = self.manager.core.by_path[f"{self.name}\\q{number}".lower()]
            assert queue.label == f"new {number}"


@pytest.fixture
def crowd(own_domain_controller: DomainController) -> Iterator[Crowd]:
    """On a controller of its own: others list all queues, too."""
    for domain in domain_of(own_domain_controller):
        yield Crowd(domain)


def test_nothing_is_asked_for_each_of_ten_thousand_queues(crowd: Crowd) -> None:
    constant: list[dict[str, int]] = []
    paged: list[dict[str, int]] = []
    for count in (FEW, MANY):
        crowd.grow(count)
        constant.append(
            {
                action.__name__: crowd.requests(action)
                for action in (
                    crowd.find_by_label,
                    crowd.find_by_path,
                    crowd.read_by_identifier,
                    crowd.restart,
                )
            }
        )
        paged.append(
            {
                action.__name__: crowd.requests(action) - crowd.pages
                for action in (crowd.list_all, crowd.come_online)
            }
        )
    assert constant[0] == constant[1]
    assert paged[0] == paged[1]
    assert max(constant[0].values()) < 20
    assert max(paged[0].values()) < 10
