"""Controllers that are stopped, frozen and slow, in front of one that works: behind doors of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from msmq.directory import race
from msmq.directory.active_directory import ActiveDirectory
from msmq.directory.query import find_all
from msmq.directory.settings import Password, Server, Settings
from msmq.manager.directory import DirectoryResult, ObjectClass
from scripts.samba_dc import ADMINISTRATOR, HOST, PASSWORD
from tests.directory.relay import Mode, Relay, relay
from tests.directory.support import Domain

PATIENCE_S = 30
SUCCESS, NOT_CONNECTED = DirectoryResult.SUCCESS, DirectoryResult.DIRECTORY_NOT_CONNECTED


@pytest.fixture
def doors(domain: Domain) -> Iterator[tuple[Relay, Relay]]:
    """Two controllers, as far as a client can tell."""
    with ExitStack() as stack:
        place = (domain.controller.address, domain.controller.ports["ldap"])
        yield stack.enter_context(relay(*place)), stack.enter_context(relay(*place))


def behind(*doors: Relay, **options: Any) -> ActiveDirectory:
    """Our directory by way of the doors; tickets are made out to one name, so the others are told apart by case."""
    names = (HOST, HOST.upper())
    servers = tuple(Server(name, "127.0.0.1", door.port) for name, door in zip(names, doors, strict=False))
    settings = Settings(servers, Password(ADMINISTRATOR, PASSWORD), mechanism="ntlm", receive_timeout_s=4)
    return ActiveDirectory(replace(settings, **options))


def read(directory: ActiveDirectory) -> DirectoryResult:
    return directory.read(ObjectClass.ENTERPRISE, None, ("name", "identifier"))[0]


@pytest.mark.parametrize("mode", [Mode.CLOSED, Mode.FROZEN])
def test_another_controller_takes_over_and_is_remembered(doors: tuple[Relay, Relay], mode: Mode) -> None:
    bad, good = doors
    bad.become(mode)
    directory = behind(bad, good)
    assert directory.initialize()
    before = bad.connections
    for _ in range(3):  # each with a connection of its own
        assert read(directory) is SUCCESS
    assert bad.connections == before
    # The other one is asked again when this one goes away.
    bad.become(Mode.OPEN)
    good.become(Mode.CLOSED)
    assert read(directory) is SUCCESS
    assert bad.connections > before


def test_a_controller_that_freezes_in_the_middle(doors: tuple[Relay, Relay]) -> None:
    """The connection is open and nothing comes: the question goes to the other one."""
    first, second = doors
    directory = behind(first, second)
    with directory.held():
        assert directory.initialize()
        first.become(Mode.FROZEN)
        assert read(directory) is SUCCESS
        assert second.connections == 1
        second.become(Mode.FROZEN)
        assert read(directory) is NOT_CONNECTED
        second.become(Mode.OPEN)
        first.become(Mode.CLOSED)
        while read(directory) is not SUCCESS:  # what timed out is not tried again at once
            assert directory.last_failure


def test_a_controller_that_freezes_in_a_search_of_many(doors: tuple[Relay, Relay]) -> None:
    """Such a search may take minutes; one that hangs is told from one that works by asking it for something else."""
    first, second = doors
    # Nothing but the attempt to get in by another door ends a wait of an hour within the time of this test.
    directory = behind(first, second, search_timeout_s=3600)
    with directory.held():
        assert directory.initialize()
        first.become(Mode.FROZEN)
        assert find_all(directory, ObjectClass.SITE, None, ("name",))[0] is SUCCESS
        assert second.connections == 1
        second.become(Mode.FROZEN)
        assert find_all(directory, ObjectClass.SITE, None, ("name",))[0] is NOT_CONNECTED


def test_a_search_that_takes_long_is_waited_for(doors: tuple[Relay, Relay]) -> None:
    """The controller is silent for longer than an answer may take, and lets others in."""
    slow, _ = doors
    directory = behind(slow, receive_timeout_s=4, connect_timeout_s=30)
    with directory.held():
        assert directory.initialize()
        before = slow.connections
        slow.hold_back()
        found = directory.connection.search(
            directory.objects.configuration_naming_context,
            attributes=["cn"],
            subtree=True,
            conditions="(objectClass=site)",
        )
        assert found
        assert slow.connections > before


def test_a_slow_controller_is_used_all_the_same(doors: tuple[Relay, Relay]) -> None:
    slow, _ = doors
    slow.become(Mode.SLOW)
    directory = behind(slow, receive_timeout_s=30, connect_timeout_s=30)
    assert directory.initialize()
    assert read(directory) is SUCCESS


def test_nobody_answers(doors: tuple[Relay, Relay]) -> None:
    for door in doors:
        door.become(Mode.FROZEN)
    directory = behind(*doors, connect_timeout_s=1.5)
    assert not directory.initialize()
    assert directory.connection.last_trouble.count("timed out") == 2


def test_a_dns_that_is_silent_is_not_waited_for(domain: Domain) -> None:
    """Nobody answers on a port that takes packets and says nothing."""
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        settings = Settings(
            (),
            Password(ADMINISTRATOR, PASSWORD),
            domain="msmq.test",
            name_servers=(silent.getsockname(),),
            connect_timeout_s=1,
        )
        directory = ActiveDirectory(settings)
        assert not directory.initialize()
        assert "the DNS has no controllers of msmq.test" in directory.connection.last_trouble


def test_a_slow_controller_is_left_for_one_that_is_not(
    doors: tuple[Relay, Relay], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers, so nothing times out; an operation of ten requests would take ten times as long."""
    monkeypatch.setattr(race, "HEAD_START_S", PATIENCE_S)  # a busy machine is no slow controller
    slow, quick = doors
    directory = behind(slow, quick, receive_timeout_s=PATIENCE_S)
    with directory.held():
        assert directory.initialize()
        slow.become(Mode.SLOW)
        assert read(directory) is SUCCESS
        assert quick.connections == 0
        assert read(directory) is SUCCESS
        assert (quick.connections, slow.connections) == (1, 1)
        # From now on nothing goes by way of the slow one: it may as well be frozen.
        slow.become(Mode.FROZEN)
        assert read(directory) is SUCCESS
        assert (quick.connections, slow.connections) == (1, 1)


def test_when_nobody_is_quicker_a_slow_controller_is_kept(
    doors: tuple[Relay, Relay], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(race, "HEAD_START_S", 0.2)
    slow, frozen = doors
    directory = behind(slow, frozen, receive_timeout_s=PATIENCE_S)
    with directory.held():
        assert directory.initialize()
        slow.become(Mode.SLOW)
        frozen.become(Mode.FROZEN)
        for _ in range(3):
            assert read(directory) is SUCCESS
        assert (slow.connections, frozen.connections) == (1, 1)  # and nobody knocks at each request


def test_a_list_is_read_to_its_end_where_it_was_begun(
    doors: tuple[Relay, Relay], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next page is known to that controller alone, however slow it is."""
    monkeypatch.setattr(race, "HEAD_START_S", PATIENCE_S)
    slow, quick = doors
    directory = behind(slow, quick, receive_timeout_s=PATIENCE_S, page_size=100)
    with directory.held():
        assert directory.initialize()
        base = f"CN=Schema,{directory.objects.configuration_naming_context}"
        pages = directory.connection.pages(base, attributes=["cn"], conditions="(objectClass=classSchema)")
        assert len(next(pages)) == 100
        slow.become(Mode.SLOW)
        assert read(directory) is SUCCESS
        slow.become(Mode.OPEN)
        assert sum(map(len, pages)) > 100
        assert quick.connections == 0
        assert read(directory) is SUCCESS
        assert quick.connections == 1
