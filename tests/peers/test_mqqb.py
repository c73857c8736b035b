"""The full variety of messages between a stranger's end of MS-MQQB and a real ``msmq serve``: no difference."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, closing
from itertools import product
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

import msmq
from msmq.client.message import ReceivedMessage
from msmq.client.records import to_record
from msmq.testing.traffic import Delivery, Door, Draft, Surroundings, Traffic, client_message
from msmq.wire.guid import guid_text
from tests import ready
from tests.mail import ENDINGS, check_properties
from tests.peers.mqqb import Acceptor, Initiator, ping
from tests.peers.packets import INFINITE, NULL, read_message, write_message
from tests.ready import AwaitedFork
from tests.remote_read import impacket_peer as rpc
from tests.server.support import ALICE, BOB, free_port

STRANGER = bytes(range(16))
LONGEST_S = 345_600
"""No message takes longer to its queue, whatever its sender asks for."""
DRAFTS = 150
EVERYBODY = "D:(A;;0x10000000;;;WD)(A;;0x10000000;;;AN)"
EXPECTED = ("body", "body_type", "label", "extension", "message_class")


class Served:
    """``msmq serve`` and a client of it."""

    def __init__(self, mq: msmq.Connection, port: int, ping_port: int, rpc_port: int) -> None:
        self.mq = mq
        self.port = port
        self.ping_port = ping_port
        self.rpc_port = rpc_port


@asynccontextmanager
async def served(directory: Path) -> AsyncIterator[Served]:
    port, ping_port, rpc_port, api = free_port(), free_port(), free_port(), f"unix:{directory / 'api'}"
    command = ["serve", "--data", str(directory / "data"), "--name", "ALICE"]
    command += ["--listen", ALICE, "--port", str(port), "--ping-port", str(ping_port), "--api", api]
    config = directory / "doors.toml"
    config.write_text(
        "enable_ping_service = true\n"
        f'[rpc]\nport = {rpc_port}\nendpoint_mapper_port = 0\nminimum_level = "none"\n'
    )
    with (directory / "log").open("wb") as log:
        process = AwaitedFork(ready.start("msmq", *command, "--config", str(config), stderr=log))
    try:
        async with asyncio.timeout(60):
            assert (await process.readline()).startswith(b"ready")
        async with msmq.connect(api) as mq:
            yield Served(mq, port, ping_port, rpc_port)
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 120))


# --- what a draft is in the stranger's words --------------------------------------------------------------------


def named(name: str) -> tuple[Any, ...] | None:
    """A format name as the stranger has it, with nothing left out."""
    kind, _, rest = name.partition("=")
    if not name:
        return None
    if kind == "DIRECT":
        return ("direct", rest)
    guid, _, number = rest.partition("\\")
    identifier = UUID(guid).bytes_le
    if kind == "PRIVATE":
        return ("private", identifier, int(number, 16))
    return ("public" if kind == "PUBLIC" else "list", identifier)


def meant(said: dict[str, Any], name: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    """A name with everything that the packet says about it elsewhere."""
    if name is None or name[0] in ("direct", "public", "private", "list"):
        return name
    if name[0] == "same":
        return meant(said, said["admin"])
    if name[0] == "admin's host":
        admin = meant(said, said["admin"])
        assert admin is not None
        return ("private", admin[1], name[1])
    return ("private", said["source" if name[0] == "source" else "address"], name[1])


def limit(given_s: int | None) -> int:
    return INFINITE if given_s is None else given_s


def said_of(draft: Draft, number: int, sequence: int) -> dict[str, Any]:
    security = draft.security
    said: dict[str, Any] = {
        "source": STRANGER,
        "sent_time": int(time.time()),
        "number": number,
        "destination": named(draft.destination),
        "admin": named(draft.admin_queue),
        "response": named(draft.response_queue),
        "recoverable": draft.delivery is not Delivery.EXPRESS,
        "priority": draft.priority,
        "acknowledgements": draft.acknowledgements,
        "journal": draft.journal,
        "dead_letter": draft.dead_letter,
        "tag": draft.application_tag,
        "time_to_reach_queue": limit(draft.time_to_reach_queue_s),
        "time_to_be_received": limit(draft.time_to_be_received_s),
        "correlation": draft.correlation_id,
        "hops": draft.hops,
        "spare_room": draft.spare_room,
        "traced": draft.trace,
        "destination_list": list(map(named, draft.destination_list)),
        "admin_list": list(map(named, draft.admin_list)),
        "response_list": list(map(named, draft.response_list)),
        **{name: getattr(draft, name) for name in EXPECTED},
    }
    for name, given in zip(("admin", "response"), draft.numbers, strict=True):
        if given:
            said[name] = ("destination", given)
    if draft.trace or any(draft.tracing_queue):
        said["trace"] = draft.tracing_queue if any(draft.tracing_queue) else b""
    if any(draft.connector_type):
        said["connector_type"] = draft.connector_type
    if draft.algorithms is not None:
        said["algorithms"] = draft.algorithms
    if any(draft.soap):
        said["soap"] = draft.soap
    if security.sender or security.certificate:
        kind = (2 if security.sender_is_queue_manager else 1) if security.sender else 0
        said["security"] = {
            "sender_type": kind, "sender": security.sender, "certificate": security.certificate,
        }  # fmt: skip
    if draft.transactional:
        said["transaction"] = {
            "id": number & 0xFFFFF, "sequence": 7 << 32 | 1, "number": sequence, "previous": sequence - 1,
            "first": True, "last": True, "final_ack": draft.final_ack_required,
            "connector": draft.connector_queue_manager if any(draft.connector_queue_manager) else b"",
        }  # fmt: skip
    return said


def drafts(door: Door, seed: int, destination: Callable[[Delivery], str]) -> list[Draft]:
    world = Surroundings(
        STRANGER, STRANGER, computer="ALICE", unreachable="127.0.0.99", largest_body=6_000,
        listeners=(f"DIRECT=TCP:{ALICE}\\private$\\acks",),
    )  # fmt: skip
    rng = Random(seed)
    traffic = Traffic(rng, world, door, everything=True, without=ENDINGS)
    kinds = [rng.choice(list(Delivery)) for _ in range(DRAFTS)]
    made = [traffic.draft(destination=destination(kind), delivery=kind) for kind in kinds]
    large = {Delivery.EXPRESS: 1_000_000, Delivery.RECOVERABLE: 4_190_000}
    return made + [
        Draft(destination(kind), rng.randbytes(size), delivery=kind) for kind, size in large.items()
    ]


# --- tests ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", ["packets.py", "mqqb.py"])
def test_the_stranger_knows_nothing_of_us(module: str) -> None:
    tree = ast.parse((Path(__file__).parent / module).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {
        name
        for node in imports
        for name in (
            [node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]
        )
    }
    assert not any(name.split(".")[0] == "msmq" for name in names)


@pytest.mark.parametrize("door", [Door.WIRE, Door.FORWARDED])
def test_every_draft_survives_what_the_stranger_makes_of_it(door: Door) -> None:
    for number, draft in enumerate(drafts(door, 1, lambda kind: "DIRECT=OS:q"), 1):
        said = said_of(draft, number, number)
        found = read_message(write_message(said))
        for name, value in said.items():
            if name == "priority" and draft.transactional:
                assert found["priority"] == 0
            elif name != "spare_room":
                assert found.get(name, []) == value, name


@pytest.mark.parametrize("door", [Door.WIRE, Door.FORWARDED])
async def test_everything_that_a_stranger_sends_arrives_as_it_was(door: Door, tmp_path: Path) -> None:
    """Nothing of any packet has changed, the client tells what the draft says, and so does what strangers read."""

    async with served(tmp_path) as host:
        await host.mq.create_queue(".\\private$\\mail", sddl=EVERYBODY)
        await host.mq.create_queue(".\\private$\\orders", transactional=True, sddl=EVERYBODY)
        sent = drafts(door, 2, lambda kind: f"DIRECT=TCP:{ALICE}\\private$\\{queue_for(kind)}")
        packets = write_all(sent)
        with closing(Initiator(ALICE, host.port, STRANGER, BOB)) as stranger:
            for number, packet in enumerate(packets, 1):
                stranger.send(packet)
                if number % 16 == 0:
                    stranger.settle()
            stranger.settle()
            stranger.settle_order(sum(draft.transactional for draft in sent))
        found = {message.packet.user.message_id: message for message in await received(host)}
        read = await asyncio.to_thread(read_by_strangers, host.rpc_port)
    assert {bool(admin) + 2 * bool(response) for admin, response in (each.numbers for each in sent)} == {
        0, 1, 2, 3,
    }  # fmt: skip
    assert sorted(found) == list(range(1, len(sent) + 1))
    for number, (draft, packet) in enumerate(zip(sent, packets, strict=True), 1):
        assert found[number]._data == packet
        check_properties(draft, found[number])
        check_record(draft, found[number])
        assert as_read(read[number]) == as_read(read_message(packet))


async def test_every_form_of_a_name_is_shown_as_what_it_means(tmp_path: Path) -> None:
    """Numbers and references in a packet say the queue together with its other fields; a direct name does not say the
    GUID of its host, so that a number on it names nothing."""
    guid = UUID(int=7).bytes_le
    admins = [
        None,
        ("source", 5),
        ("destination", 6),
        ("public", guid),
        ("private", guid, 9),
        ("direct", "OS:a\\b"),
    ]
    responses = [*admins, ("same",), ("admin's host", 11)]

    async with served(tmp_path) as host:
        await host.mq.create_queue(".\\private$\\orders", transactional=True)
        info = await host.mq.queue_info(await host.mq.create_queue(".\\private$\\mail"))
        with closing(Initiator(ALICE, host.port, STRANGER, BOB)) as stranger:
            own = ("destination", int(info.format_name.rpartition("\\")[2], 16)), stranger.peer
            direct = ("direct", f"TCP:{ALICE}\\private$\\mail"), NULL
            sent = [
                {
                    "source": STRANGER, "sent_time": 1, "number": number, "destination": destination,
                    "address": address, "admin": admin, "response": response, "recoverable": True,
                    "body": b"x", "correlation": bytes(20),
                }
                for number, ((destination, address), admin, response) in enumerate(
                    product((own, direct), admins, responses), 1
                )
                if admin is not None or response is None or response[0] not in ("same", "admin's host")
            ]  # fmt: skip
            for number, said in enumerate(sent, 1):
                stranger.send(write_message(said))
                if number % 16 == 0:
                    stranger.settle()
            stranger.settle()
        found = {message.packet.user.message_id: message for message in await received(host)}
    assert len(found) == len(sent)
    for said in sent:
        message = found[said["number"]]
        assert message._data == write_message(said)
        assert message.admin_queue == shown(said, said["admin"]), said
        assert message.response_queue == shown(said, said["response"]), said
        record = to_record(message)
        assert (record["admin_queue"], record["response_queue"]) == (
            message.admin_queue,
            message.response_queue,
        )


async def test_people_see_no_name_where_a_packet_tells_none(tmp_path: Path) -> None:
    """What they read from the queue, and what they decode, of numbers on the host of a direct name. They used to see a
    private queue of a host with a null GUID."""
    told = f"PRIVATE={guid_text(STRANGER)}\\00000005"
    untold = "on a host whose GUID the packet does not tell"
    cases = {("destination", 6): ("", untold), ("source", 5): (told, told)}
    packets = [
        write_message(
            {
                "source": STRANGER, "sent_time": 1, "number": number, "body": b"x", "recoverable": True,
                "destination": ("direct", f"TCP:{ALICE}\\private$\\mail"), "admin": name, "response": name,
            }
        )
        for number, name in enumerate(cases, 1)
    ]  # fmt: skip

    async with served(tmp_path) as host:
        await host.mq.create_queue(".\\private$\\mail")
        with closing(Initiator(ALICE, host.port, STRANGER, BOB)) as stranger:
            for packet in packets:
                stranger.send(packet)
            stranger.settle()
        server = ("--server", f"unix:{tmp_path / 'api'}")
        peeked = await asyncio.to_thread(msmq_says, *server, "peek", ".\\private$\\mail", "--all", "--json")
    records = map(json.loads, peeked.splitlines())
    for record, (shown_as, _) in zip(records, cases.values(), strict=True):
        assert (record["admin_queue"], record["response_queue"]) == (shown_as, shown_as)
    (tmp_path / "packets").write_bytes(b"".join(packets))
    decoded = msmq_says("decode", str(tmp_path / "packets"))
    for _, meaning in cases.values():
        found = [line for line in decoded.splitlines() if line.rstrip().endswith(meaning)]
        assert [line.split()[0] for line in found] == ["AdminQueue", "ResponseQueue"]


def msmq_says(*arguments: str) -> str:
    command = [ready.msmq(), *arguments]
    wide = os.environ | {"COLUMNS": "200"}
    done = subprocess.run(command, capture_output=True, timeout=60, check=True, encoding="utf-8", env=wide)
    return done.stdout


def shown(said: dict[str, Any], name: tuple[Any, ...] | None) -> str:
    """A name as applications write it."""
    if name is None or (name[0] == "destination" and said["destination"][0] == "direct"):
        return ""
    kind, *rest = name
    if kind == "same":
        return shown(said, said["admin"])
    if kind == "direct":
        return f"DIRECT={rest[0]}"
    if kind == "public":
        return f"PUBLIC={UUID(bytes_le=rest[0])}".upper()
    if kind == "admin's host":
        host = shown(said, said["admin"]).partition("=")[2].partition("\\")
        return f"PRIVATE={host[0]}\\{rest[0]:08X}" if len(host[0]) == 36 and host[1] else ""
    guids = {"source": said["source"], "destination": said["address"]}
    return f"PRIVATE={UUID(bytes_le=guids[kind] if kind in guids else rest[0])}\\{rest[-1]:08X}".upper()


def queue_for(kind: Delivery) -> str:
    return "orders" if kind is Delivery.TRANSACTIONAL else "mail"


def write_all(sent: list[Draft]) -> list[bytes]:
    sequence, packets = 0, []
    for number, draft in enumerate(sent, 1):
        sequence += draft.transactional
        packets.append(write_message(said_of(draft, number, sequence)))
    return packets


async def received(host: Served) -> list[ReceivedMessage]:
    names = (".\\private$\\mail", ".\\private$\\orders")
    return [message for name in names async for message in host.mq.queue(name).browse()]


def read_by_strangers(port: int) -> dict[int, dict[str, Any]]:
    """All messages of both queues by their numbers: impacket receives them by remote read, and what they say is read
    by the stranger."""
    found: dict[int, dict[str, Any]] = {}
    dce = rpc.connect(port, host=ALICE)
    try:
        for queue in ("mail", "orders"):
            request = rpc.open_request(rpc.R_OpenQueue(), f"TCP:{ALICE}\\private$\\{queue}", 1)
            handle = dce.request(request, checkError=False)["pphContext"]
            start = rpc.start_request(rpc.R_StartReceive(), handle, 0)
            end = rpc.R_EndReceive()
            end["phContext"], end["dwAck"], end["dwRequestId"] = handle, 2, 1
            while not (answer := dce.request(start, checkError=False))["ErrorCode"]:
                (packet,) = rpc.sections(answer)
                said = read_message(packet)
                found[said["number"]] = said
                dce.request(end, checkError=False)
    finally:
        dce.disconnect()
    return found


def as_read(said: dict[str, Any]) -> dict[str, Any]:
    """Without what remote read says otherwise: until when a message may be on its way, and where it came from (MS-MQRR
    2.2.5.1, 3.1.4.7)."""
    return {name: value for name, value in said.items() if name not in ("time_to_reach_queue", "address")}


def check_record(draft: Draft, message: ReceivedMessage) -> None:
    record = to_record(message)
    assert record["response_queue"] == draft.response_queue
    for name, given_s in (
        ("time_to_reach_queue", draft.time_to_reach_queue_s),
        ("time_to_be_received", draft.time_to_be_received_s),
    ):
        assert record[name] == (None if limit(given_s) == INFINITE else given_s), name
    assert record["connector_type"] == (guid_text(draft.connector_type) if any(draft.connector_type) else "")


async def test_everything_that_a_client_sends_reaches_a_stranger_as_it_was(tmp_path: Path) -> None:
    async with served(tmp_path) as host:
        name = f"DIRECT=TCP:{BOB}\\PRIVATE$\\strange"
        sent = drafts(Door.CLIENT, 3, lambda kind: name)
        numbers = {}
        with closing(Acceptor(BOB, host.port, STRANGER)) as acceptor:
            for draft in sent:
                receipt = await host.mq.queue(name).send(client_message(draft))
                numbers[receipt.ordinal] = draft
            found = await asyncio.to_thread(gathered, acceptor, set(numbers))
    for number, draft in numbers.items():
        check_said(draft, found[number])


def gathered(acceptor: Acceptor, wanted: set[int]) -> dict[int, dict[str, Any]]:
    """Messages by their numbers, until all that are wanted have come."""
    found: dict[int, dict[str, Any]] = {}
    with closing(acceptor.accept()) as session:
        while not wanted <= found.keys():
            session.handle()
            session.acknowledge()
            found |= {said["number"]: said for said in session.messages}
            session.messages.clear()
    return found


def check_said(draft: Draft, said: dict[str, Any]) -> None:
    for name in EXPECTED:
        assert said[name] == getattr(draft, name), name
    assert said["tag"] == draft.application_tag
    assert said["correlation"] == draft.correlation_id
    assert said["priority"] == (0 if draft.transactional else draft.priority)
    assert said["recoverable"] == (draft.delivery is not Delivery.EXPRESS)
    assert ("transaction" in said) == draft.transactional
    assert said["acknowledgements"] == draft.acknowledgements
    assert meant(said, said["admin"]) == named(draft.admin_queue)
    assert meant(said, said["response"]) == named(draft.response_queue)
    assert said["destination"] == named(draft.destination)
    assert (said["journal"], said["dead_letter"]) == (draft.journal, draft.dead_letter)
    assert said.get("connector_type", NULL) == draft.connector_type
    assert said["traced"] == draft.trace
    assert said["time_to_reach_queue"] == min(limit(draft.time_to_reach_queue_s), LONGEST_S)
    assert said["time_to_be_received"] == limit(draft.time_to_be_received_s)
    certificate = draft.security.certificate
    assert (said["security"]["certificate"] if "security" in said else b"") == certificate


async def test_a_stranger_pings(tmp_path: Path) -> None:
    async with served(tmp_path) as host:
        flags, cookie, guid = await asyncio.to_thread(ping, ALICE, host.ping_port, 4711)
        with closing(Initiator(ALICE, host.port, STRANGER, BOB)) as stranger:
            assert (flags, cookie, guid) == (0, 4711, stranger.peer)
