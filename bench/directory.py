"""The directory against a real domain controller: what we add to bare LDAP, and how it grows with the number of queues.

Run: ``python bench/directory.py [--queues 50000] [--rounds 3]`` as root (or ``make bench``); it starts a Samba of its
own. What counts are the ratios to bare ldap3 calls of the same run on a connection of the same kind (SPNEGO with NTLM,
sealed): the bare side has ldap3 send the same requests for the same attributes and looks at no answer.

* **create, read, write, delete** a queue, one after the other.
* **find** a queue by its label among all of them, and **list** all of them.
* **create many** in several threads over one connection, which does not wait for one answer before it sends the next
  request; the bare side makes the same three requests for each, and adds them without the other two, one after the
  other and in a pipeline. All of them take turns.
* **start** of a queue manager with so many public queues, in requests and seconds: it must not ask for each queue.
* **memory**: what listing all of them adds to the process at its peak, when they are taken one by one.

Both sides take turns, and a ratio is the median of those of all rounds; the range is that of the middle half.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import ldap3

from msmq.directory import exchange
from msmq.directory.active_directory import ActiveDirectory
from msmq.directory.connection import CachedConnection
from msmq.directory.objects import by_guid
from msmq.directory.query import find_all, find_each
from msmq.directory.read import ldap_names
from msmq.directory.schema import QUEUE
from msmq.directory.settings import Password, Server, Settings
from msmq.manager.directory import (
    DirectoryObject,
    DirectoryResult,
    Expression,
    ObjectClass,
    Relation,
    by_identifier,
)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from scripts.samba_dc import ADMINISTRATOR, HOST, PASSWORD, Copy, DomainController, lease

SINGLE = 15
THREADS = 16
PIPELINE = 50
PATIENCE_S = 600
FINDS = 8
COMPUTER = "bench"
GOAL = 0.7
LISTED = ("pathname", "label", "identifier", "base_priority")


class Turn(NamedTuple):
    """Something that both sides do; ``count`` of it in each round."""

    what: str
    count: int
    ours: Callable[[], object]
    bare: Callable[[], object]


def seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def compare(turns: list[Turn], rounds: int) -> None:
    """Take turns, each side first in every other round, because machines and neighbours change by the second."""
    times: dict[str, list[tuple[float, float]]] = {turn.what: [] for turn in turns}
    for number in range(rounds + 1):
        for turn in turns:
            if number % 2:
                ours_s, bare_s = seconds(turn.ours), seconds(turn.bare)
            else:
                bare_s, ours_s = seconds(turn.bare), seconds(turn.ours)
            if number:  # the first round warms up
                times[turn.what].append((ours_s, bare_s))
    for turn in turns:
        measured = times[turn.what]
        ratios = [bare_s / ours_s for ours_s, bare_s in measured]
        low, middle, high = statistics.quantiles(ratios, n=4)
        ours_s, bare_s = (statistics.median(side) for side in zip(*measured, strict=True))
        verdict = "" if middle >= GOAL else f"   below {GOAL}"
        print(
            f"{turn.what:22} {turn.count / ours_s:9,.0f} /s   bare {turn.count / bare_s:9,.0f} /s   "
            f"{middle:5.2f} of it ({low:.2f} to {high:.2f}){verdict}"
        )


class Bare:
    """ldap3 itself, on a connection that is sealed as ours is."""

    def __init__(self, settings: Settings) -> None:
        self._connection = CachedConnection(settings)
        self._page_size = settings.page_size

    @contextmanager
    def open(self) -> Iterator[None]:
        with self._connection.use():
            assert self._connection.handle is not None
            self.handle: Any = self._connection.handle
            yield

    def get(self, dn: str, attributes: list[str]) -> list[dict[str, Any]]:
        self.handle.search(dn, "(objectClass=*)", search_scope=ldap3.BASE, attributes=attributes)
        assert self.handle.result["result"] == 0, self.handle.result
        return list(self.handle.response)

    def search(self, base: str, conditions: str, attributes: list[str]) -> int:
        cookie, found = None, 0
        while True:
            self.handle.search(
                base,
                conditions,
                search_scope=ldap3.SUBTREE,
                attributes=attributes,
                paged_size=self._page_size,
                paged_cookie=cookie,
            )
            assert self.handle.result["result"] == 0, self.handle.result
            found += sum(answer["type"] == "searchResEntry" for answer in self.handle.response)
            cookie = self.handle.result["controls"]["1.2.840.113556.1.4.319"]["value"]["cookie"]
            if not cookie:
                return found

    def add(self, dn: str, ldap_class: str, attributes: dict[str, list[bytes]]) -> None:
        assert self.handle.add(dn, ldap_class, attributes), self.handle.result

    def add_together(self, made: Mapping[str, Mapping[str, list[bytes]]], ldap_class: str) -> None:
        """Many additions, each sent before the last is answered."""
        results = []
        requests = [exchange.add(dn, ldap_class, attributes) for dn, attributes in made.items()]
        exchange.exchange(self.handle, requests, lambda number, answer: results.append(answer.result))
        assert [each["result"] for each in results] == [0] * len(made), results[-1]

    def replace(self, dn: str, attributes: dict[str, list[bytes]]) -> None:
        changes = {name: [(ldap3.MODIFY_REPLACE, values)] for name, values in attributes.items()}
        assert self.handle.modify(dn, changes), self.handle.result

    def delete(self, dn: str) -> None:
        assert self.handle.delete(dn), self.handle.result


class Bench:
    """Our directory and the same connection without it."""

    def __init__(self, settings: Settings, controller: DomainController, rounds: int, by_ldap: bool) -> None:
        self.by_ldap = by_ldap
        self.controller = controller
        self.rounds = rounds
        self.requests = 0
        self.ours = ActiveDirectory(settings, self._count)
        self.bare = Bare(replace(settings, receive_timeout_s=PATIENCE_S))
        self.made = 0
        assert self.ours.initialize(), self.ours.connection.last_trouble
        self.parent = self.ours.objects.names.queue_manager(COMPUTER)

    def _count(self, data: bytes) -> None:
        self.requests += 1

    def prepare(self) -> None:
        account = {"sAMAccountName": [f"{COMPUTER}$".encode()], "userAccountControl": [b"4096"]}
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
                self.bare.get(self.parent, ["objectClass"])
                self.bare.add(f"CN=bare{name},{self.parent}", "mSMQQueue", {})
                (found,) = self.bare.get(f"CN=bare{name},{self.parent}", ["objectGUID"])
                guids[name] = by_guid(found["raw_attributes"]["objectGUID"][0])

        def read() -> None:
            for item in items:
                assert self.ours.read(ObjectClass.QUEUE, by_identifier(item.identifier), None)[1]

        def bare_read() -> None:
            for name in names:
                self.bare.get(guids[name], wanted)
                self.bare.get(computer, ["dNSHostName", "objectGUID", "distinguishedName"])

        def write() -> None:
            for item in items:
                item.attributes["label"] = f"label {uuid4()}"
                assert self.ours.write(item, ("label",), None) is DirectoryResult.SUCCESS

        def bare_write() -> None:
            for name in names:
                dn = f"CN=bare{name},{self.parent}"
                self.bare.get(guids[name], ["distinguishedName"])
                self.bare.get(dn, ["objectClass"])
                self.bare.replace(dn, {"mSMQLabelEx": [f"label {uuid4()}".encode()]})

        def delete() -> None:
            for item in items:
                assert self.ours.delete(item, None) is DirectoryResult.SUCCESS

        def bare_delete() -> None:
            for name in names:
                dn = f"CN=bare{name},{self.parent}"
                self.bare.get(guids[name], ["distinguishedName"])
                self.bare.get(self.parent, ["objectClass"])
                self.bare.get(dn, ["objectClass"])
                self.bare.delete(dn)

        turns = [
            Turn("create", SINGLE, create, bare_create),
            Turn("read", SINGLE, read, bare_read),
            Turn("write", SINGLE, write, bare_write),
            Turn("delete", SINGLE, delete, bare_delete),
        ]
        compare(turns, self.rounds)

    def together(self, count: int) -> None:
        """Many queues at once, ours and bare ones in turns of a few."""
        took_s: dict[str, list[float]] = {}
        made: list[str] = []

        def create(name: str) -> None:
            item = DirectoryObject(ObjectClass.QUEUE, {"pathname": f"{COMPUTER}\\{name}"})
            assert self.ours.create(item, None, None)[0] is DirectoryResult.SUCCESS

        def same(name: str) -> None:
            self.bare.get(self.parent, ["objectClass"])
            self.bare.add(self.dn(name), "mSMQQueue", {})
            self.bare.get(self.dn(name), ["objectGUID"])

        with ThreadPoolExecutor(THREADS) as pool:
            ways: dict[str, Callable[[list[str]], object]] = {
                "1 thread": lambda names: [create(name) for name in names],
                f"{THREADS} threads": lambda names: list(pool.map(create, names)),
                "the same by bare ldap3": lambda names: [same(name) for name in names],
                "bare adds alone": lambda names: [
                    self.bare.add(self.dn(name), "mSMQQueue", {}) for name in names
                ],
                "bare adds in a pipeline": lambda names: self.bare.add_together(
                    {self.dn(name): {} for name in names}, "mSMQQueue"
                ),
            }
            for turn in range(-(-count // PIPELINE)):
                for number, (way, perform) in enumerate(ways.items()):
                    names = [f"together{turn}of{number}and{each}" for each in range(PIPELINE)]
                    took_s.setdefault(way, []).append(
                        seconds(lambda: perform(names)) / PIPELINE  # noqa: B023
                    )
                    made += names
        told = ", ".join(f"{way} {1000 * statistics.median(each):.1f} ms" for way, each in took_s.items())
        print(f"{f'create {count:,}':22} each: {told}")
        for name in made:
            self.bare.delete(self.dn(name))

    def dn(self, name: str) -> str:
        return f"CN={name},{self.parent}"

    # --- very many ------------------------------------------------------------------------------------------

    def grow(self, count: int) -> None:
        """Have so many queues there."""
        if not self.made:
            first = DirectoryObject(ObjectClass.QUEUE, {"pathname": f"{COMPUTER}\\q0", "label": "label 0"})
            assert self.ours.create(first, None, None)[0] is DirectoryResult.SUCCESS, self.ours.last_failure
            self.made = 1
        if self.by_ldap:
            took_s = seconds(lambda: self._add_all(range(self.made, count)))
            how = "by LDAP, bare, in pipelines"
        else:
            copies = [
                Copy(f"q{number}", uuid4().bytes_le, {"mSMQLabelEx": f"label {number}"})
                for number in range(self.made, count)
            ]
            took_s = seconds(lambda: self.controller.multiply(f"CN=q0,{self.parent}", copies))
            how = "past LDAP, by Samba's own library"
        print(f"{f'grow to {count:,}':22} {took_s:9.0f} s    {how}")
        self.made = count

    def _add_all(self, numbers: range) -> None:
        for start in numbers[::PIPELINE]:
            some = range(start, min(start + PIPELINE, numbers.stop))
            made = {self.dn(f"q{each}"): {"mSMQLabelEx": [f"label {each}".encode()]} for each in some}
            self.bare.add_together(made, "mSMQQueue")

    def many(self, count: int) -> None:
        wanted = [*ldap_names(QUEUE, LISTED), "distinguishedName"]
        root = self.ours.objects.root_domain_naming_context
        label = f"label {count // 2}"

        def find() -> None:
            conditions = (Expression("label", Relation.EQUALS, label),)
            for _ in range(FINDS):
                _, found = find_all(self.ours, ObjectClass.QUEUE, conditions, LISTED)
                assert len(found) == 1

        def bare_find() -> None:
            for _ in range(FINDS):
                self.bare.get(root, ["objectClass"])
                conditions = f"(&(objectClass=mSMQQueue)(mSMQLabelEx={label}))"
                assert self.bare.search(root, conditions, wanted) == 1

        def listing() -> None:
            found = sum(1 for _ in find_each(self.ours, ObjectClass.QUEUE, None, LISTED))
            assert found == count

        def bare_listing() -> None:
            self.bare.get(root, ["objectClass"])
            assert self.bare.search(root, "(objectClass=mSMQQueue)", wanted) == count

        compare([Turn(f"find one of {count:,}", FINDS, find, bare_find)], self.rounds)
        compare([Turn(f"list {count:,}", count, listing, bare_listing)], max(2, self.rounds // 2))
        self.memory(count)
        self.requests = 0
        took_s = seconds(lambda: self.ours.queues_of(COMPUTER))
        print(
            f"{'own queues at a start':22} {took_s:9.2f} s    {self.requests} requests for {count:,} queues"
        )

    def memory(self, count: int) -> None:
        tracemalloc.start()
        try:
            found = sum(1 for _ in find_each(self.ours, ObjectClass.QUEUE, None, LISTED))
            assert found == count
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        whole = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        print(
            f"{f'memory to list {count:,}':22} {peak / 1e6:9.1f} MB   (the whole process {whole:,.0f} MB at its peak)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queues", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--created", type=int, default=200, help="queues that are created together")
    parser.add_argument(
        "--by-ldap",
        action="store_true",
        help="make all queues by LDAP, which takes an hour or two for 50,000; else by Samba's own library",
    )
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch,
        lease(Path(scratch)) as controller,
    ):
        server = Server(HOST, controller.address, controller.ports["ldap"])
        settings = Settings((server,), Password(ADMINISTRATOR, PASSWORD), mechanism="ntlm")
        bench = Bench(settings, controller, given.rounds, given.by_ldap)
        with bench.ours.held(), bench.bare.open():
            bench.prepare()
            bench.single()
            bench.together(given.created)
            for count in (given.queues // 10, given.queues):
                bench.grow(count)
                bench.many(count)


if __name__ == "__main__":
    main()
