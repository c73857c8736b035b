"""From names to next hops: public and private names, lists, sites, a directory that is away (MS-MQQB 3.1.5.2.1)."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from msmq.directory.local import DirectoryFileError
from msmq.errors import DsError, UnsupportedFormatnameOperationError
from msmq.manager.directory import DirectoryResult, ObjectClass
from msmq.manager.mailbox.batch import Batch
from msmq.manager.mailbox.stored import LocalAttributes, StoredMessage
from msmq.manager.model import ConnectionStatus, OutgoingState, QueueAccessType
from msmq.manager.queues.queue import OutgoingQueue
from msmq.manager.queues.queues import QueueRequest
from msmq.server.outbound.next_hop import (
    Addressing,
    Hop,
    NoWayError,
    check_way,
    destination_of,
    resolve,
    resolve_with,
)
from msmq.wire.guid import guid_text
from msmq.wire.names import parse_format_name
from tests.server.enterprise import (
    BY_WAY_OF_BOB,
    enterprise,
    identifier_of,
    outgoing,
    peers,
    post,
    private_name,
)
from tests.server.support import ALICE, BOB, CAROL, DORA, Node, Peer, eventually, name_of, neighbourhood

SEND = QueueAccessType.SEND
NEXT_HOPS, STATE = 12, 11
TOGETHER = {"ALICE": "", "BOB": "", "CAROL": ""}


def addressing(node: Node) -> Addressing:
    return node.daemon.addressing


def public_name(node: Node, path: str) -> str:
    (item,) = [
        item
        for item in node.daemon._directory.objects  # type: ignore[union-attr]
        if item.attributes.get("pathname") == path
    ]
    return f"PUBLIC={guid_text(item.identifier)}"


@pytest.mark.spec(
    "MQQB-3.1.7.4-b", "MQQB-3.1.7.4-c", "MQQB-3.1.1.3.1.3-a", "MQQB-3.1.1.3.1-ad"
)  # fmt: skip
async def test_a_public_queue(tmp_path: Path) -> None:
    queues = '[[queues]]\npath = "BOB\\\\orders"\n'
    async with neighbourhood(tmp_path, **enterprise(tmp_path, TOGETHER, queues)) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        orders = bob.manager.queues.create(QueueRequest(".\\orders"))
        name = public_name(alice, "BOB\\orders")
        assert name == f"PUBLIC={guid_text(orders.identifier)}"
        post(alice, name, b"x")
        await eventually(lambda: bob.bodies(orders) == [b"x"])
        (packet,) = bob.packets(orders)
        bobs = bob.core.record.identifier
        assert packet.user.queue_manager_address == bobs == identifier_of(alice, "BOB")
        assert packet.user.hop_count == 0
        queue = outgoing(alice, name)
        assert queue.destination_queue_manager == bobs
        assert queue.next_hops == (BOB,)
        assert await addressing(alice).hops(bobs) == [Hop(BOB, "BOB", bobs)]
        (connection,) = alice.own_connections
        assert (connection.peer, connection.session.remote_guid) == (BOB, bobs)
        key = destination_of(parse_format_name(name))
        assert key is not None
        assert addressing(alice).destination(key) == bobs
        with pytest.raises(NoWayError):
            addressing(alice).destination(parse_format_name(f"PUBLIC={guid_text(bytes(range(16)))}"))  # type: ignore[arg-type]
        with pytest.raises(UnsupportedFormatnameOperationError):
            alice.manager.queues.open(f"PUBLIC={guid_text(bytes(range(16)))}", SEND)
        with pytest.raises(NoWayError):
            addressing(alice).next_hops(bytes(range(16)))
        connector = parse_format_name(name.replace("PUBLIC", "CONNECTOR"))
        assert addressing(alice).destination(destination_of(connector)) == bobs  # type: ignore[arg-type]


@pytest.mark.spec("MQQB-3.1.7.4-d", "MQQB-3.1.5.2.1-e", "MQMQ-2.1.4-c", "DMPR-3.1.1.3-c", "MQQB-3.1.1.3.1-s")
async def test_a_private_queue_of_a_host_that_only_the_directory_knows(tmp_path: Path) -> None:
    asked: list[str] = []

    async def look_up(host: str) -> list[str]:
        asked.append(host)
        return [BOB]

    hosts = {"ALICE": "", "BOB": 'dns_name = "bob.example.com"\n'}
    options = enterprise(tmp_path, hosts)
    file = Path(options["directory"].file)
    file.write_text(file.read_text().replace(f'addresses = ["{BOB}"]', ""))
    async with neighbourhood(tmp_path, **options) as here:
        alice, bob = await here.node(ALICE, resolve=look_up), await here.node(BOB)
        orders = bob.queue()
        name = private_name(bob, orders)
        reads: list[tuple[ObjectClass, Any]] = []
        directory = alice.daemon._directory
        assert directory is not None
        real = directory.read

        def read(object_class: ObjectClass, conditions: Any, attributes: Any) -> Any:
            reads.append((object_class, conditions))
            return real(object_class, conditions, attributes)

        directory.read = read  # type: ignore[method-assign]
        descriptor = alice.manager.queues.open(name, SEND)
        assert isinstance(descriptor.queue, OutgoingQueue)
        assert descriptor.queue.next_hops is None
        alice.send(name, b"1")
        alice.send(name, b"2")
        await eventually(lambda: bob.bodies(orders) == [b"1", b"2"])
        assert asked == ["bob.example.com"]
        bobs = bob.core.record.identifier
        assert [found for found, _ in reads] == [ObjectClass.QUEUE_MANAGER]
        assert reads[0][1][0].value == bobs
        assert descriptor.queue.next_hops == (BOB,)
        assert alice.management(descriptor.queue, NEXT_HOPS) == (f"IP={BOB}",)
        assert alice.management(descriptor.queue, STATE) == "CONNECTED"
        assert peers(alice) == {bobs}


@pytest.mark.spec("MQQB-1.3.7-a", "MQQB-3.1.7.5-a")
async def test_straight_or_by_way_of_a_server(tmp_path: Path) -> None:
    for hosts, hop in ((TOGETHER, "CAROL"), (BY_WAY_OF_BOB, "BOB")):
        async with neighbourhood(tmp_path, **enterprise(tmp_path, hosts)) as here:
            alice, _, carol = await here.node(ALICE), await here.node(BOB), await here.node(CAROL)
            inbox = carol.queue(hop)
            there = carol.core.record.identifier
            assert [machine.computer_name for machine in addressing(alice).next_hops(there)] == [hop]
            alice.send(private_name(carol, inbox), b"x")
            await eventually(lambda inbox=inbox, carol=carol: carol.bodies(inbox) == [b"x"])  # type: ignore[misc]
            assert peers(alice) == {identifier_of(alice, hop)}
            with pytest.raises(NoWayError):
                addressing(alice).next_hops(bytes(range(16)))


@pytest.mark.spec("MQQB-3.1.5.2.1-b", "MQQB-3.1.5.2.1-c")
async def test_no_way(tmp_path: Path) -> None:
    """The directory is away, then it is back; nobody routes to another site."""
    sites = '[[sites]]\nname = "Paris"\n[[sites]]\nname = "Rome"\n'
    hosts = {"ALICE": "", "BOB": "", "CAROL": 'sites = ["Rome"]'}
    async with neighbourhood(tmp_path, **enterprise(tmp_path, hosts, sites)) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        orders = bob.queue()
        name = private_name(bob, orders)
        directory: Any = alice.daemon._directory
        real_read, real_begin = directory.read, directory.read_begin
        away = DirectoryResult.DIRECTORY_NOT_CONNECTED, None
        directory.read = directory.read_begin = lambda *arguments: away
        alice.send(name, b"x", recoverable=True)
        queue = outgoing(alice, name)
        await eventually(lambda: len(queue.connection_history) >= 2)
        assert queue.state is OutgoingState.NEED_VALIDATION
        assert {entry.status for entry in queue.connection_history} == {
            ConnectionStatus.ROUTING_DATA_NOT_AVAILABLE
        }
        directory.read, directory.read_begin = real_read, real_begin
        await eventually(lambda: bob.bodies(orders) == [b"x"])
        assert alice.management(queue, STATE) == "CONNECTED"
        to_rome = f"PRIVATE={guid_text(identifier_of(alice, 'CAROL'))}\\00000005"
        alice.send(to_rome, b"x")
        rome = outgoing(alice, to_rome)
        await eventually(lambda: len(rome.connection_history) >= 2)
        assert rome.state is OutgoingState.NEED_VALIDATION
        alice.manager.pause_queue(rome)
        await eventually(lambda: alice.management(rome, STATE) == "ONHOLD")


@pytest.mark.spec("DMPR-3.1.1.1-m", "MQMQ-2.3.2.8-a")
async def test_in_routing_servers(tmp_path: Path) -> None:
    hosts = {"ALICE": "", "BOB": "routing_server = true", "CAROL": 'in_routing_servers = ["BOB"]'}
    async with neighbourhood(tmp_path, **enterprise(tmp_path, hosts)) as here:
        alice, bob, carol = await here.node(ALICE), await here.node(BOB), await here.node(CAROL)
        orders = carol.queue()
        alice.send(private_name(carol, orders), b"x")
        await eventually(lambda: carol.bodies(orders) == [b"x"])
        assert peers(alice) == {bob.core.record.identifier}
        assert [server.computer_name for server in carol.core.in_routing_servers] == ["BOB"]
        answers = carol.queue("answers")
        back = alice.queue("back")
        carol.send(private_name(alice, back), b"y")
        await eventually(lambda: alice.bodies(back) == [b"y"])
        assert len(answers.positions) == 0
        assert carol.core.record.identifier in peers(alice), "the way back is direct"
        bound = {"out_routing_server_identifier_list": (bob.core.record.identifier,)}
        for attribute, value in bound.items():
            setattr(carol.core.record, attribute, value)
        hops = addressing(carol).next_hops(alice.core.record.identifier)
        assert [hop.computer_name for hop in hops] == ["BOB"], "the out list, and nobody else"


@pytest.mark.parametrize(("cost", "hops"), [(5, 2), (1, 1)], ids=["by way of Rome", "straight"])
async def test_site_gates_on_the_cheapest_way(tmp_path: Path, cost: int, hops: int) -> None:
    sites = "".join(f'[[sites]]\nname = "{name}"\n' for name in ("Paris", "Rome", "Oslo"))
    links = f"""
[[links]]
sites = ["Paris", "Rome"]
gates = ["BOB", "CAROL"]
[[links]]
sites = ["Rome", "Oslo"]
gates = ["CAROL", "DORA"]
[[links]]
sites = ["Oslo", "Paris"]
cost = {cost}
gates = ["BOB", "DORA"]
"""
    hosts = {
        "ALICE": "",
        "BOB": "routing_server = true",
        "CAROL": 'sites = ["Rome"]\nrouting_server = true',
        "DORA": 'sites = ["Oslo"]\nrouting_server = true',
    }
    async with neighbourhood(tmp_path, **enterprise(tmp_path, hosts, sites + links)) as here:
        alice, _, _, dora = [await here.node(address) for address in (ALICE, BOB, CAROL, DORA)]
        orders = dora.queue("orders", transactional=True)
        alice.send_together(private_name(dora, orders), b"1", b"2", negative_journaling_requested=True)
        await eventually(lambda: dora.bodies(orders) == [b"1", b"2"])
        assert {packet.user.hop_count for packet in dora.packets(orders)} == {hops}
        dora.receive(orders)
        dora.receive(orders)
        queue = outgoing(alice, private_name(dora, orders))
        await eventually(lambda: not len(queue.positions))


@pytest.mark.spec("DMPR-3.1.1.8-c")
async def test_a_link_joins_what_its_identifiers_say(tmp_path: Path) -> None:
    """Its sites and gates are looked up by the identifiers, so that they follow every change of these."""
    hosts = {
        "BOB": "routing_server = true",
        "CAROL": 'sites = ["Rome"]\nrouting_server = true',
        "DORA": 'sites = ["Rome"]\nrouting_server = true',
        "ERIN": 'sites = ["Rome"]',
    }
    sites = "".join(f'[[sites]]\nname = "{name}"\n' for name in ("Paris", "Rome", "Oslo"))

    def written(sites_of_link: str, gates: str) -> dict[str, Any]:
        link = f"[[links]]\nsites = [{sites_of_link}]\ngates = [{gates}]\n"
        return enterprise(tmp_path, hosts, sites + link)

    async with neighbourhood(tmp_path, **written('"Paris", "Rome"', '"BOB", "CAROL"')) as here:
        bob = await here.node(BOB)
        erin = identifier_of(bob, "ERIN")

        def by_way_of() -> list[str]:
            return [hop.computer_name for hop in addressing(bob).next_hops(erin)]

        assert by_way_of() == ["CAROL"]
        for gates in ("DORA", "CAROL"):
            written('"Rome", "Paris"', f'"BOB", "{gates}"')
            assert bob.daemon.reload(bob.config) == []
            assert by_way_of() == [gates]
        written('"Paris", "Oslo"', '"BOB"')
        assert bob.daemon.reload(bob.config) == []
        with pytest.raises(NoWayError):
            by_way_of()


async def test_the_next_hop_when_the_first_does_not_answer(tmp_path: Path) -> None:
    """Carol does not listen yet; Bob, who routes, keeps the message for her."""
    hosts = {"ALICE": "", "BOB": "routing_server = true", "CAROL": ""}
    async with neighbourhood(tmp_path, **enterprise(tmp_path, hosts)) as here:
        carol = await here.node(CAROL)
        orders = carol.queue()
        name = private_name(carol, orders)
        await carol.stop()
        alice, bob = await here.node(ALICE), await here.node(BOB)
        alice.send(name, b"x", recoverable=True)
        await eventually(lambda: name.lower() in bob.core.outgoing)
        assert outgoing(alice, name).next_hops == (CAROL, BOB)
        await eventually(lambda: not len(outgoing(alice, name).positions))
        await carol.start()
        await eventually(lambda: carol.bodies(carol.find()) == [b"x"])


async def test_lists_reach_all_their_members(tmp_path: Path) -> None:
    more = f"""
[[queues]]
path = "CAROL\\\\news"
[[lists]]
name = "readers"
members = ["DIRECT=TCP:{BOB}\\\\private$\\\\news"]
"""
    async with neighbourhood(tmp_path, **enterprise(tmp_path, TOGETHER, more)) as here:
        alice, bob, carol = await here.node(ALICE), await here.node(BOB), await here.node(CAROL)
        (readers,) = alice.daemon._directory.lists  # type: ignore[union-attr]
        bobs = bob.queue("news")
        carols = carol.manager.queues.create(QueueRequest(".\\news"))
        news = public_name(alice, "CAROL\\news")
        post(alice, f"DL={guid_text(readers)},{news}", b"today")
        await eventually(lambda: bob.bodies(bobs) == carol.bodies(carols) == [b"today"])


@pytest.mark.spec("DMPR-3.1.1.3-d", "MQQB-3.1.7.12-a")
async def test_what_the_binary_protocol_leaves_alone(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        packet = Peer().message(b"x")
        alice.manager.queues.outgoing.check_way = lambda name: None
        multicast = alice.manager.queues.open("MULTICAST=224.1.1.1:8001", SEND).queue
        assert isinstance(multicast, OutgoingQueue)
        assert multicast.multicast
        http = alice.manager.queues.open(f"DIRECT=HTTP://{BOB}/msmq\\private$\\q", SEND).queue
        held = alice.manager.queues.open(name_of(BOB, "held"), SEND).queue
        locked = alice.manager.queues.open(name_of(BOB, "locked"), SEND).queue
        assert isinstance(http, OutgoingQueue)
        assert isinstance(held, OutgoingQueue)
        assert isinstance(locked, OutgoingQueue)
        alice.manager.pause_queue(held)
        locked.state = OutgoingState.LOCKED
        inbox = bob.queue("inbox")
        for queue in (multicast, http, held, locked):
            alice.manager.mailbox.put(queue, Batch.of((StoredMessage(packet, LocalAttributes()),), b""))
        own = alice.queue("own")
        alice.manager.mailbox.put(own, Batch.of((StoredMessage(packet, LocalAttributes()),), b""))
        assert own.number not in alice.daemon.outgoing.drains
        for queue in (multicast, http):
            assert queue.number not in alice.daemon.outgoing.drains
            assert queue.connection_history == []
        alice.send(name_of(BOB, "inbox"), b"through")
        await eventually(lambda: bob.bodies(inbox) == [b"through"])
        for queue in (multicast, http, held, locked):
            assert len(queue.positions) == 1
        assert multicast.next_hops is None


@pytest.mark.parametrize(
    "name",
    [
        "DIRECT=HTTP://host/msmq\\private$\\q",
        "DIRECT=HTTPS://host/msmq\\private$\\q",
        "DIRECT=IPX:00000012:00a0234f7500\\private$\\q",
        "MULTICAST=234.1.1.1:8001",
        "CONNECTOR=00112233-4455-6677-8899-aabbccddeeff",
    ],
    ids=["http", "https", "ipx", "multicast", "connector"],
)
async def test_names_without_a_way_are_refused_when_they_are_opened(tmp_path: Path, name: str) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        with pytest.raises(UnsupportedFormatnameOperationError, match=r"DIRECT=(TCP|OS)"):
            alice.manager.queues.open(name, SEND)
        assert alice.core.outgoing == {}


def test_other_names_are_not_refused() -> None:
    for name in ("DIRECT=OS:host\\q", "DIRECT=TCP:10.0.0.1\\q", f"PUBLIC={guid_text(bytes(16))}"):
        check_way(parse_format_name(name))


async def test_a_table_of_addresses_comes_before_the_resolver() -> None:
    async def nobody(host: str) -> list[str]:
        raise socket.gaierror(host)

    look_up = resolve_with({"bob": [BOB]}, nobody)
    assert await look_up("BOB") == [BOB]
    with pytest.raises(OSError, match="carol"):
        await look_up("carol")
    assert ALICE in await resolve(ALICE)


async def test_a_host_that_is_somebody_else_does_not_start(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        own = guid_text(alice.core.record.identifier)
        await alice.stop()
        with pytest.raises(DsError, match=own):
            await here.node(ALICE, **enterprise(tmp_path, TOGETHER))
        again = await here.node(ALICE, **enterprise(tmp_path, {"ALICE": f'guid = "{own}"'}))
        assert guid_text(again.core.record.identifier) == own
        assert again.core.record.site_identifier_list


@pytest.mark.spec("DMPR-3.1.1.1-l")
async def test_connected_networks_do_not_decide(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path, **enterprise(tmp_path, BY_WAY_OF_BOB)) as here:
        alice = await here.node(ALICE)
        assert alice.core.record.connected_network_identifier_list == ()
        carol = identifier_of(alice, "CAROL")
        before = [hop.identifier for hop in addressing(alice).next_hops(carol)]
        alice.core.record.connected_network_identifier_list = (b"n" * 16,)
        assert [hop.identifier for hop in addressing(alice).next_hops(carol)] == before


@pytest.mark.spec("MQQB-3.1.5.8.5-a")
async def test_names_of_this_host_in_a_packet(tmp_path: Path) -> None:
    queues = '[[queues]]\npath = "ALICE\\\\open"\n'
    async with neighbourhood(tmp_path, **enterprise(tmp_path, TOGETHER, queues)) as here:
        alice = await here.node(ALICE)
        public, private = alice.manager.queues.create(QueueRequest(".\\open")), alice.queue()
        own = alice.core.record.identifier
        peer = Peer()
        await peer.connect(ALICE, here.port, source=DORA)
        peer.send(peer.message(b"public", public.identifier, queue_manager_address=own))
        peer.send(peer.message(b"number", private.private_queue_number, queue_manager_address=own))
        peer.send(peer.message(b"direct", "OS:alice\\private$\\orders"))
        await eventually(lambda: len(private.positions) == 2)
        assert alice.bodies(public) == [b"public"]
        assert alice.bodies(private) == [b"number", b"direct"]
        await peer.close()


async def test_many_destinations_by_way_of_one_server_share_a_session(tmp_path: Path) -> None:
    others = {f"HOST{number}": "" for number in range(8)}
    async with neighbourhood(tmp_path, **enterprise(tmp_path, {**BY_WAY_OF_BOB, **others})) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        names = [f"PRIVATE={guid_text(identifier_of(alice, name))}\\00000005" for name in others]
        for name in names:
            alice.send(name, b"x", recoverable=True)
        await eventually(lambda: all(name.lower() in bob.core.outgoing for name in names))
        await eventually(lambda: not any(len(queue.positions) for queue in alice.core.outgoing.values()))
        assert len(bob.daemon.listener.connections) == 1
        assert {alice.management(outgoing(alice, name), STATE) for name in names} == {"CONNECTED"}
        alice.cut()
        for name in names:
            alice.send(name, b"y", recoverable=True)
        await eventually(lambda: all(len(outgoing(bob, name).positions) == 2 for name in names))
        await bob.stop()
        await eventually(lambda: not alice.daemon.outgoing.connections)
        for name in names:
            alice.send(name, b"z", recoverable=True)
        await bob.start()
        await eventually(lambda: all(len(outgoing(bob, name).positions) == 3 for name in names))


async def test_a_clock_that_is_set_back_makes_nothing_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the directory has not known a moment ago is asked for again, not in an hour."""
    async with neighbourhood(tmp_path, **enterprise(tmp_path, BY_WAY_OF_BOB)) as here:
        alice = await here.node(ALICE)
        where, stranger = addressing(alice), b"\x33" * 16
        asked: list[object] = []
        read = alice.manager.directory.read

        def counting(*arguments: Any) -> Any:
            asked.append(arguments)
            return read(*arguments)

        monkeypatch.setattr(alice.manager.directory, "read", counting)
        for _ in range(2):
            assert where.machine(stranger) is None
        assert len(asked) == 1
        now = alice.core.environment.now
        monkeypatch.setattr(alice.core, "_now", lambda: now() - 3_600)
        assert where.machine(stranger) is None
        assert len(asked) == 2


async def test_a_directory_file_that_changes_while_running(tmp_path: Path) -> None:
    options = enterprise(tmp_path, {"ALICE": "", "BOB": ""})
    async with neighbourhood(tmp_path, **options) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        before = list(alice.daemon._directory.objects)  # type: ignore[union-attr]
        enterprise(tmp_path, {"ALICE": "", "BOB": ""}, '[[queues]]\npath = "NOBODY\\\\orders"\n')
        with pytest.raises(DirectoryFileError, match="NOBODY"):
            alice.daemon.reload(alice.config)
        assert alice.daemon._directory.objects == before  # type: ignore[union-attr]
        with pytest.raises(DsError):
            bob.manager.queues.create(QueueRequest(".\\orders"))

        queues = '[[queues]]\npath = "BOB\\\\orders"\n'
        enterprise(tmp_path, {"ALICE": "", "BOB": "routing_server = true", "CAROL": ""}, queues)
        for node in (alice, bob):
            assert node.daemon.reload(node.config) == []
        assert bob.core.record.routing_server
        orders = bob.manager.queues.create(QueueRequest(".\\orders"))
        name = public_name(alice, "BOB\\orders")
        assert name == f"PUBLIC={guid_text(orders.identifier)}"
        post(alice, name, b"x")
        await eventually(lambda: bob.bodies(orders) == [b"x"])
        carol = await here.node(CAROL)
        queue = carol.queue()
        post(alice, private_name(carol, queue), b"y")
        await eventually(lambda: carol.bodies(queue) == [b"y"])
        # What was kept says the same after a restart.
        await bob.restart()
        assert bob.core.record.routing_server
