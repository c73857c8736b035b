"""A host and its directory through everything that can happen to them, at random, on a real domain controller.

It is the machine of tests/manager/test_lifecycles.py, and here its directory is Samba, behind a door that closes and
opens: joining and leaving is what `msmq directory` does, others create, change and delete objects by LDAP, the host
starts, stops, loses its data or gets an older copy of it back, and its clock is set. Two things stay with the directory
in memory: a controller that is brought back from an older copy of its database, because all tests of a run share this
one, and very many walks, because each step here is a dozen requests. A clock that is wrong keeps nobody from logging
on, for the host does it by NTLM; that the check tells of such a clock is in tests/directory/test_join.py.

``make lifecycles`` walks longer.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from hypothesis.stateful import run_state_machine_as_test

from msmq.directory.active_directory import ActiveDirectory
from msmq.directory.join import Joining
from msmq.directory.settings import Password, Server, Settings
from msmq.manager.directory import DirectoryObject, DirectoryResult, Expression, Filter, ObjectClass, Relation
from msmq.manager.queue_manager import Identity
from msmq.manager.queue_manager import Settings as ManagerSettings
from scripts.samba_dc import ADMINISTRATOR, HOST, PASSWORD, lease
from tests.directory.relay import Mode, relay
from tests.directory.support import DEFAULT_SITE, Domain, domain_of
from tests.manager.domain import DOMAIN, DomainHost
from tests.manager.test_lifecycles import Lifecycles, World, arguments, campaign, walks


class HostInDomain(DomainHost):
    """A queue manager whose directory is the domain's; a start is a new process, which knows of no controller yet."""

    def __init__(self, computer: str, site: bytes, settings: Settings) -> None:
        self._computer = computer
        self._connection = settings
        self.kept = ExitStack()
        super().__init__(
            settings=ManagerSettings(
                directory_integrated=True,
                site_identifier=site,
                computer_sid=lambda name: self.active.computer_sid(name),
            )
        )

    def start(self) -> None:
        self.identity = Identity(self._computer, "msmq.test", DOMAIN)
        self.kept.close()
        self.active = ActiveDirectory(self._connection)
        self.kept.enter_context(self.active.held())
        self.active.initialize()
        self.directory = self.active  # type: ignore[assignment]  # the queue manager needs no more of it
        super().start()


class RealWorld(World):
    """A host of its own in the shared domain."""

    host: HostInDomain

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._open = ExitStack()
        controller = domain.controller
        self._door = self._open.enter_context(relay(controller.address, controller.ports["ldap"]))
        self.computer = domain.computer()
        self._joining = Joining(domain.directory, self.computer)
        self._joining.join(DEFAULT_SITE)
        settings = Settings(
            (Server(HOST, "127.0.0.1", self._door.port),), Password(ADMINISTRATOR, PASSWORD), mechanism="ntlm"
        )
        site = self._joining.site_identifier(DEFAULT_SITE)
        self.host = HostInDomain(self.computer, site, settings)

    def end(self) -> None:
        self.host.kept.close()
        self._open.close()

    @property
    def connected(self) -> bool:
        return self._door.mode is Mode.OPEN

    @connected.setter
    def connected(self, connected: bool) -> None:
        if connected is not self.connected:
            self._door.become(Mode.OPEN if connected else Mode.CLOSED)

    def _read(self, object_class: ObjectClass, path: str) -> DirectoryObject | None:
        named: Filter = (Expression("full_path", Relation.EQUALS, path),)
        result, item = self._domain.directory.read(object_class, named, None)
        assert result in (DirectoryResult.SUCCESS, DirectoryResult.OBJECT_NOT_FOUND)
        return item

    def queue(self, name: str) -> DirectoryObject | None:
        return self._read(
            ObjectClass.QUEUE, self._domain.directory.objects.names.queue(f"{self.computer}\\{name}")
        )

    def own(self) -> DirectoryObject | None:
        return self._read(
            ObjectClass.QUEUE_MANAGER, self._domain.directory.objects.names.queue_manager(self.computer)
        )

    def create(self, name: str, label: str) -> None:
        self._domain.queue(self.computer, name, label=label)

    def delete(self, item: DirectoryObject) -> None:
        self._domain.remove(item.attributes["full_path"])

    def change(self, item: DirectoryObject, label: str) -> None:
        self._domain.change(item.attributes["full_path"], mSMQLabelEx=label)

    def leave(self) -> None:
        self._joining.leave(with_queues=True)

    def join(self) -> None:
        self._joining.join(DEFAULT_SITE)


class LifecyclesInDomain(Lifecycles):
    """The machine without what a shared controller cannot be made to do."""

    the_directory_from_an_older_copy = None  # type: ignore[assignment]


def test_every_state_has_a_way_out_on_a_real_controller(
    domain: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LifecyclesInDomain, "make_world", partial(RealWorld, domain))
    run_state_machine_as_test(LifecyclesInDomain, settings=walks(3, 15))  # type: ignore[no-untyped-call]


def main() -> None:
    given = arguments(20)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as path, lease(Path(path)) as controller:
        for domain in domain_of(controller):
            LifecyclesInDomain.make_world = partial(RealWorld, domain)
            campaign(LifecyclesInDomain, given.walks, given.steps, given.seed)


if __name__ == "__main__":
    main()
