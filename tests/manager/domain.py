"""A queue manager in a domain: the host of :mod:`tests.manager.support` with a directory in memory."""

from __future__ import annotations

from functools import cache
from itertools import count, cycle
from random import Random

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from msmq.manager.access.keys import KEY_BITS, _short_key
from msmq.manager.core import Core, Environment
from msmq.manager.directory import Change, DirectoryObject, ObjectClass
from msmq.manager.model import Enterprise, Site
from msmq.manager.queue_manager import Identity, QueueManager, Settings
from msmq.store import Store, StoreOptions
from msmq.testing.directory import MemoryDirectory
from tests.manager.support import NOON, Host, Spy

DOMAIN = bytes(range(0xA0, 0xB0))
OTHER_DOMAIN = bytes(range(0xC0, 0xD0))
SITE = bytes(range(0x40, 0x50))
ENTERPRISE = bytes(range(0x60, 0x70))
_numbers = count(1)


def guid() -> bytes:
    """A fresh identifier, unlike those that the directory gives."""
    return b"\xee" * 12 + next(_numbers).to_bytes(4, "big")


@cache
def _keys(bits: int) -> tuple[RSAPrivateKey, ...]:
    random_bytes = Random(bits).randbytes
    return tuple(_short_key(bits, random_bytes) for _ in range(2 * list(KEY_BITS.values()).count(bits)))


class KeyBox:
    """Always the same few keys, because making them takes time; it counts how many were asked for."""

    def __init__(self) -> None:
        self._next = {bits: cycle(_keys(bits)) for bits in set(KEY_BITS.values())}
        self.made = 0

    def __call__(self, bits: int) -> RSAPrivateKey:
        self.made += 1
        return next(self._next[bits])


class DomainHost(Host):
    """A host that is provisioned in a directory, which has one site and an enterprise, and can be taken
    away."""

    def __init__(
        self,
        *,
        directory: MemoryDirectory | None = None,
        settings: Settings | None = None,
        provisioning: bool = True,
        notifications: bool = True,
    ) -> None:
        self.now = float(NOON)
        self.directory = directory or MemoryDirectory(lambda: self.now)
        if directory is None:
            self.directory.put(Site(SITE, "Berlin"))
            self.enterprise = self.directory.put(
                Enterprise(ENTERPRISE, "Corp", non_ldap_capable_queue_manager_notification=notifications)
            )
        self.identity = Identity("HOST", "corp.example", DOMAIN)
        self.key_box = KeyBox()
        self.notifications: list[tuple[Change, DirectoryObject]] = []
        self.provision = provisioning
        super().__init__(settings=settings or Settings(directory_integrated=True, site_identifier=SITE))

    def start(self) -> None:
        self.store = Store.open(self.disk, StoreOptions(smallest_segment_bytes=1 << 16))
        environment = Environment(lambda: self.now, self.random.randbytes, self.key_box)
        self.manager = QueueManager(
            self.store, environment, self.who, self.settings, self.directory, self._notified
        )
        self.spy = Spy(self)
        self.manager.subscribe(self.spy)
        provisioning, self.provision = self.provision, False
        self.manager.start(provisioning=provisioning)
        self.reading = self.manager.reading
        self.transactions = self.manager.transactions

    def who(self) -> Identity:
        return self.identity

    def _notified(self, change: Change, item: DirectoryObject) -> None:
        self.notifications.append((change, item))

    @property
    def core(self) -> Core:
        return self.manager.core

    @property
    def own(self) -> DirectoryObject:
        """Our own object as it lies in the directory."""
        found = self.directory.find(ObjectClass.QUEUE_MANAGER, computer_name="HOST")
        assert found is not None
        return found

    def lose_directory(self) -> None:
        """Cut the line and notice it."""
        self.directory.connected = False
        self.manager.directory.read(ObjectClass.SITE, None)
        assert self.core.directory_offline
