"""The directory against a real domain controller: what we add to bare LDAP, and how it grows with the number of queues.

Run: ``python bench/directory.py [--queues 10000]`` as root (or ``make bench``); it starts a Samba of its own. What
counts are the ratios to bare ldap3 calls of the same run on a connection of the same kind (SPNEGO with NTLM, sealed):
the bare side sends the same requests with the same attributes and looks at no answer.

* **create, read, write, delete** a queue, one after the other.
* **find** a queue by its label among all of them, and **list** all of them.
* **start** of a queue manager with so many public queues, in requests and seconds: it must not ask for each queue.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msmq.directory.active_directory import ActiveDirectory
from msmq.directory.connection import CachedConnection
from msmq.directory.objects import by_guid
from msmq.directory.reading import ldap_names
from msmq.directory.schema import QUEUE
from msmq.directory.settings import Password, Server, Settings
from msmq.directory.threads import find_all
from msmq.manager.directory import (
    DirectoryObject,
    DirectoryResult,
    Expression,
    ObjectClass,
    Relation,
    by_identifier,
)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from scripts.samba_dc import ADMINISTRATOR, HOST, PASSWORD, lease

ROUNDS = 4
SINGLE = 60
BLOCK = 1_000
FINDS = 20
COMPUTER = "bench"


def seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def compare(
    what: str, count: int, ours: Callable[[], object], bare: Callable[[], object], rounds: int = ROUNDS
) -> None:
    """Take turns, because disks and neighbours change by the second, and let the best round of each count."""
    times = [(seconds(ours), seconds(bare)) for _ in range(rounds)]
    ours_s, bare_s = min(first for first, _ in times), min(second for _, second in times)
    ratio = bare_s / ours_s
    print(f"{what:28} {count / ours_s:10,.0f} /s   bare {count / bare_s:10,.0f} /s   {ratio:5.2f} of it")


class Bench:
    """Our directory and the same connection without it."""

    def __init__(self, settings: Settings) -> None:
        self.requests = 0
        self.ours = ActiveDirectory(settings, self._count)
        self.bare = CachedConnection(settings)
        assert self.ours.initialize(), self.ours.connection.last_trouble
        self.parent = self.ours.objects.names.queue_manager(COMPUTER)

    def _count(self, data: bytes) -> None:
        self.requests += 1

    def prepare(self) -> None:
        account = {"sAMAccountName": [f"{COMPUTER}$".encode()], "userAccountControl": [b"4096"]}
        with self.bare.use():
            self.bare.add(self.ours.objects.names.computer(COMPUTER), "computer", account)
        item = DirectoryObject(
            ObjectClass.QUEUE_MANAGER, {"computer_name": COMPUTER, "site_identifier_list": ()}
        )
        assert self.ours.create(item, None, None)[0] is DirectoryResult.SUCCESS, self.ours.last_failure

    # --- one object after the other -------------------------------------------------------------------------

    def single(self) -> None:
        names = [f"single{number}" for number in range(SINGLE)]
        items = [DirectoryObject(ObjectClass.QUEUE, {"pathname": f"{COMPUTER}\\{name}"}) for name in names]
        wanted = list(ldap_names(QUEUE, QUEUE.names))
        computer = self.ours.objects.names.computer(COMPUTER)
        guids: dict[str, str] = {}

        def create() -> None:
            for item in items:
                _, item.attributes["identifier"] = self.ours.create(item, None, None)

        def bare_create() -> None:
            for name in names:
                self.bare.search(self.parent, attributes=["objectClass"])
                self.bare.add(f"CN=bare{name},{self.parent}", "mSMQQueue", {})
                (made,) = self.bare.search(f"CN=bare{name},{self.parent}", attributes=["objectGUID"])
                guids[name] = by_guid(made.get("objectGUID")[0])

        def read() -> None:
            for item in items:
                assert self.ours.read(ObjectClass.QUEUE, by_identifier(item.identifier), None)[1]

        def bare_read() -> None:
            for name in names:
                self.bare.search(guids[name], attributes=wanted)
                self.bare.search(computer, attributes=["dNSHostName", "objectGUID", "distinguishedName"])

        def write(round_: int) -> None:
            for item in items:
                item.attributes["label"] = f"label {round_}"
                assert self.ours.write(item, ("label",), None) is DirectoryResult.SUCCESS

        def bare_write(round_: int) -> None:
            for name in names:
                dn = f"CN=bare{name},{self.parent}"
                self.bare.search(guids[name], attributes=["distinguishedName"])
                self.bare.search(dn, attributes=["objectClass"])
                self.bare.replace(dn, {"mSMQLabelEx": [b"label %d" % round_]})

        def delete() -> None:
            for item in items:
                assert self.ours.delete(item, None) is DirectoryResult.SUCCESS

        def bare_delete() -> None:
            for name in names:
                dn = f"CN=bare{name},{self.parent}"
                self.bare.search(guids[name], attributes=["distinguishedName"])
                self.bare.search(self.parent, attributes=["objectClass"])
                self.bare.search(dn, attributes=["objectClass"])
                self.bare.delete(dn)

        compare("create", SINGLE, create, bare_create, 1)
        compare("read", SINGLE, read, bare_read)
        turns = iter(range(4 * ROUNDS))
        compare("write", SINGLE, lambda: write(next(turns)), lambda: bare_write(next(turns)))
        compare("delete", SINGLE, delete, bare_delete, 1)

    # --- very many ------------------------------------------------------------------------------------------

    def many(self, count: int) -> None:
        wanted = list(ldap_names(QUEUE, ("pathname", "label", "identifier", "base_priority")))
        root = self.ours.objects.root_domain_naming_context

        def find() -> None:
            label = (Expression("label", Relation.EQUALS, f"label {count // 2}"),)
            _, found = find_all(self.ours, ObjectClass.QUEUE, label, ("pathname", "label"))
            assert len(found) == 1

        def bare_find() -> None:
            self.bare.search(root, attributes=["objectClass"])
            condition = f"(&(objectClass=mSMQQueue)(mSMQLabelEx=label {count // 2}))"
            found = self.bare.search(root, attributes=wanted, subtree=True, conditions=condition)
            assert len(found) == 1

        def listing() -> None:
            listed = ("pathname", "label", "identifier", "base_priority")
            _, found = find_all(self.ours, ObjectClass.QUEUE, None, listed)
            assert len(found) == count

        def bare_listing() -> None:
            self.bare.search(root, attributes=["objectClass"])
            found: Any = self.bare.search(
                root, attributes=wanted, subtree=True, conditions="(objectClass=mSMQQueue)"
            )
            assert len(found) == count

        compare(
            f"find one of {count:,}",
            FINDS,
            lambda: [find() for _ in range(FINDS)],
            lambda: [bare_find() for _ in range(FINDS)],
        )
        compare(f"list {count:,}", count, listing, bare_listing, 2)
        self.requests = 0
        took_s = seconds(lambda: self.ours.queues_of(COMPUTER))
        print(
            f"{'own queues at a start':28} {took_s:10.2f} s    {self.requests} requests for {count:,} queues"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queues", type=int, default=10_000)
    queues = parser.parse_args().queues
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch,
        lease(Path(scratch)) as controller,
    ):
        server = Server(HOST, controller.address, controller.ports["ldap"])
        bench = Bench(Settings((server,), Password(ADMINISTRATOR, PASSWORD), mechanism="ntlm"))
        bench.prepare()
        with bench.ours.held(), bench.bare.use():
            bench.single()
            for count in (queues // 10, queues):
                begun = 0 if count < queues else queues // 10
                for first in range(begun, count, BLOCK):
                    controller.load(
                        "\n".join(
                            f"dn: CN=q{number},{bench.parent}\nobjectClass: mSMQQueue\n"
                            f"mSMQLabelEx: label {number}\n"
                            for number in range(first, min(first + BLOCK, count))
                        )
                    )
                bench.many(count)


if __name__ == "__main__":
    main()
