"""An internal error ends the queue manager, and it comes back clean from its log."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count
from pathlib import Path

import grpc
import pytest
from google.protobuf.message import Message

import msmq
from msmq.api.administration import AdministrationCalls
from msmq.api.frames import CANCEL
from msmq.api.generated import msmq_pb2 as pb
from msmq.api.receive import ReceiveCalls, Receiver
from msmq.api.spans import SpanCalls
from msmq.client import ClientError
from msmq.errors import MQError
from msmq.manager.queues.queues import QueueRequest
from msmq.server.config import Config
from msmq.server.daemon import Daemon
from msmq.server.inbound.arrivals import Arrivals
from msmq.server.outbound.link import Link
from msmq.server.outbound.next_hop import Hop
from msmq.store import Store, StoreError
from msmq.testing.disk import SimulatedDisk
from msmq.testing.faults import Fault, Faults
from msmq.transfer.events import Event
from msmq.transfer.session import Session
from tests.api.support import METHODS, Caller, address, calling, daemon
from tests.api.test_line import Call, closing_all
from tests.client.support import QUEUE, Restartable
from tests.server.support import ALICE, BOB, PATIENCE_S, eventually, free_port, name_of, neighbourhood
from tests.server.test_daemon_processes import Process

CALLS = (1, 4, 12, 40, 100, 250, 600, 1500)
"""In which of the next calls into the queue manager and the store an error comes: soon, or after some messages."""


def beneath(function: Callable[..., object]) -> bool:
    """True if a function is under way."""
    code, frame = function.__code__, sys._getframe(1)  # type: ignore[attr-defined]
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None


@pytest.mark.parametrize("calls", CALLS)
async def test_nothing_goes_on_after_an_internal_error(
    tmp_path: Path, calls: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Whichever function it is that fails, of a message that is sent or of one that is received."""
    with caplog.at_level(logging.CRITICAL):
        faults = Faults()
        async with Restartable(tmp_path) as host:
            asked: set[bytes] = set()
            told: set[bytes] = set()
            gone: set[bytes] = set()
            async with msmq.connect(host.address, timeout=10) as mq:
                await mq.create_queue(QUEUE)
                queue = mq.queue(QUEUE)

                async def send(number: int) -> None:
                    asked.add(b"%d" % number)
                    await queue.send(b"%d" % number)
                    told.add(b"%d" % number)

                for number in range(20):
                    await send(number)
                faults.arm(calls)
                assert host.daemon is not None

                async def work() -> None:
                    for number in range(20, 100):
                        await send(number)
                        gone.add((await queue.receive(timeout=PATIENCE_S)).body)

                working = asyncio.create_task(work())
                async with asyncio.timeout(PATIENCE_S):
                    await host.daemon.stopping.wait()
                assert faults.raised == 1
                assert host.daemon.failure is not None
                # The answers that are under way come; the one that failed gets none.
                await host.stop()
                await asyncio.wait([working], timeout=1)
                working.cancel()
                with pytest.raises((ClientError, MQError, asyncio.CancelledError)):
                    await working
            await host.start()
            async with msmq.connect(host.address) as mq:
                left = [message.body async for message in mq.queue(QUEUE).browse()]
                assert len(set(left)) == len(left)
                assert told - gone <= set(left) <= asked, "nothing is lost, and no half of an event is there"
                assert len(gone & set(left)) <= 1, "the last one may come again"
    assert "an internal error" in caplog.text


@pytest.mark.parametrize("where", ["a value that is written alone", "the cleaning of the store"])
async def test_an_internal_error_outside_of_the_events_of_messages_ends_it_too(
    tmp_path: Path, where: str
) -> None:
    async with Restartable(tmp_path) as host:
        daemon = host.daemon
        assert daemon is not None
        if where == "the cleaning of the store":
            faults = Faults(lambda: beneath(Store.clean_step))
            faults.arm(1)
            asyncio.get_running_loop().call_soon(daemon._clean)
        else:
            faults = Faults(lambda: beneath(Store.append))
            faults.arm(1)
            with pytest.raises(Fault):
                daemon.manager.core.ledger.put_value("alone", 1)
        async with asyncio.timeout(PATIENCE_S):
            await daemon.stopping.wait()
        assert faults.raised == 1
        assert daemon.failure is not None


@pytest.mark.parametrize(
    ("method", "asked", "function"),
    [
        ("ListQueues", pb.ListQueuesRequest(), AdministrationCalls.list_queues),
        ("Survey", pb.SurveyRequest(queue=QUEUE), SpanCalls.survey),
        ("Receive", pb.ReceiveRequest(open=pb.OpenToReceive(queue=QUEUE)), ReceiveCalls.receive),
    ],
    ids=["one answer", "several answers", "a conversation"],
)
@pytest.mark.parametrize("door", ["a short line", "gRPC"])
@closing_all
async def test_an_internal_error_in_a_call_that_changes_nothing_ends_it_too(
    tmp_path: Path, door: str, method: str, asked: Message, function: Callable[..., object]
) -> None:
    async with daemon(tmp_path) as running:
        running.manager.queues.create(QueueRequest(QUEUE))
        faults = Faults(lambda: beneath(function))
        faults.arm(1)
        if door == "gRPC":
            async with calling(address(running)) as call:
                with pytest.raises(grpc.aio.AioRpcError):
                    await _ask_by_grpc(call, method, asked)
        else:
            line = await Call.open(running, method)
            line.put(asked)
            assert await line.get() == (CANCEL, b"")
        assert faults.raised == 1
        assert running.stopping.is_set()


@pytest.mark.parametrize("form", [pb.PACKET, pb.PROPERTIES], ids=["packets", "properties"])
@pytest.mark.parametrize("at_a_place", [False, True], ids=["the first", "one by its place"])
async def test_what_is_taken_out_and_cannot_be_handed_over_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: pb.Form, at_a_place: bool
) -> None:
    """The queue manager stops before the disk knows that the message was taken."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        sent = await call("Send", pb.SendRequest(queue=QUEUE, messages=[pb.Message(body=b"kept")]))
        for name in ("receive.write_packets", "receive.to_deliveries", "browse.to_delivered"):
            monkeypatch.setattr(f"msmq.api.{name}", fail)
        if at_a_place:
            reader = call.stream("Browse")
            await reader.write(pb.BrowseRequest(open=pb.OpenToBrowse(queue=QUEUE, receive=True, form=form)))
            (place,) = sent.lookup_ids
            await reader.write(pb.BrowseRequest(step=pb.Step(action=pb.Step.TAKE, lookup_id=place)))
        else:
            reader = call.stream("Receive")
            opened = pb.OpenToReceive(queue=QUEUE, mode=pb.TAKE, form=form)
            await reader.write(pb.ReceiveRequest(open=opened))
            await reader.write(pb.ReceiveRequest(credit=pb.Credit(messages=1)))
        async with asyncio.timeout(PATIENCE_S):
            await running.stopping.wait()
    monkeypatch.undo()
    async with daemon(tmp_path) as again, msmq.connect(address(again)) as mq:
        assert [message.body async for message in mq.queue(QUEUE).browse()] == [b"kept"]


@closing_all
async def test_an_internal_error_while_a_reader_is_let_go_ends_it_too(tmp_path: Path) -> None:
    """The application has gone, and nobody waits for the end of its call."""
    async with daemon(tmp_path) as running:
        running.manager.queues.create(QueueRequest(QUEUE))
        reader = await Call.open(running, "Receive")
        reader.put(pb.ReceiveRequest(open=pb.OpenToReceive(queue=QUEUE)))
        assert (await reader.message()).HasField("opened")
        faults = Faults(lambda: beneath(Receiver.close))
        faults.arm(1)
        reader.calls.writer.transport.abort()
        async with asyncio.timeout(PATIENCE_S):
            await running.stopping.wait()
        assert faults.raised == 1


async def _ask_by_grpc(call: Caller, method: str, request: Message) -> None:
    """Make a call, and read until it is broken off."""
    kind = METHODS[method].kind
    stream = call.stream(method, None if kind == "stream_stream" else request)
    if kind == "unary_unary":
        await stream
    if kind == "stream_stream":
        await stream.write(request)
    while await stream.read() is not grpc.aio.EOF:
        pass


@pytest.mark.parametrize("calls", [1, 5, 20, 60])
async def test_an_internal_error_that_a_packet_meets_ends_it_too(tmp_path: Path, calls: int) -> None:
    """A transport closes its connection after an error, and tells nobody else but the loop."""
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        bob.queue(transactional=True)
        alice.send_together(name_of(BOB), b"first")
        await eventually(lambda: bob.bodies(bob.find()) == [b"first"])
        faults = Faults(lambda: beneath(Arrivals.receive))
        faults.arm(calls)
        alice.send_together(name_of(BOB), b"second")
        async with asyncio.timeout(PATIENCE_S):
            await bob.daemon.stopping.wait()
        assert faults.raised == 1
        await bob.restart()
        await alice.restart()  # queue managers that share a loop hear of each other's errors
        await eventually(lambda: bob.bodies(bob.find()) == [b"first", b"second"])


async def test_an_internal_error_while_a_host_is_looked_for_ends_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its task is ours, and nobody waits for its end."""

    async def fail(link: Link) -> list[Hop]:
        raise ZeroDivisionError

    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        monkeypatch.setattr(Link, "_resolve", fail)
        alice.send_together(name_of(BOB), b"kept")
        async with asyncio.timeout(PATIENCE_S):
            await alice.daemon.stopping.wait()
        assert alice.daemon.failure is not None


async def test_an_error_in_what_reads_a_strangers_bytes_costs_the_connection_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but the session has changed by then, and it ends. The message comes again with the next one."""
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        bob.queue(transactional=True)
        alice.send_together(name_of(BOB), b"first")
        await eventually(lambda: bob.bodies(bob.find()) == [b"first"])
        receive, failed = Session.receive_data, []

        def fail_once(session: Session, data: bytes, now_ms: int) -> list[Event]:
            if not failed:
                failed.append(session)
                raise ZeroDivisionError
            return receive(session, data, now_ms)

        monkeypatch.setattr(Session, "receive_data", fail_once)
        alice.send_together(name_of(BOB), b"second")
        await eventually(lambda: bob.bodies(bob.find()) == [b"first", b"second"])
        assert failed
        assert bob.daemon.failure is alice.daemon.failure is None


async def test_an_internal_error_in_the_thread_that_writes_ends_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As large batches and those of slow disks are written."""
    monkeypatch.setattr(Store, "is_quick", False)
    main, now = threading.get_ident(), threading.Event()
    faults = Faults(lambda: now.is_set() and threading.get_ident() != main)
    faults.arm(1)
    async with Restartable(tmp_path) as host:
        assert host.daemon is not None
        async with msmq.connect(host.address, timeout=10) as mq:
            queue = await mq.create_queue(QUEUE)
            await queue.send(b"kept")
            now.set()
            sending = asyncio.create_task(queue.send(b"nobody was told"))
            async with asyncio.timeout(PATIENCE_S):
                await host.daemon.stopping.wait()
            assert faults.raised == 1
            await host.stop()
            sending.cancel()
        faults.disarm()
        await host.start()
        async with msmq.connect(host.address) as mq:
            left = [message.body async for message in mq.queue(QUEUE).browse()]
        assert left in ([b"kept"], [b"kept", b"nobody was told"])


async def test_an_internal_error_while_it_starts_leaves_nothing_half_written(tmp_path: Path) -> None:
    """Wherever it comes, the log has all that the first start writes or nothing, and the next start succeeds."""

    def written(disk: SimulatedDisk) -> list[int]:
        store = Store.open(disk)
        kinds = [kind for kind, *_ in store.recover()]
        store.abandon(StoreError("seen"))
        store.close()
        return kinds

    wanted: list[int] = []
    seen: list[list[int]] = []
    faults = Faults()
    for calls in count(1, 23):
        disk = SimulatedDisk()
        starting = Daemon(replace(Config(), name="HOST", port=0, ping_port=0), disk=disk)
        faults.arm(calls)
        try:
            await starting.start()
        except Fault:
            seen.append(written(disk))
        else:
            faults.disarm()
            starting.abandon(StoreError("seen"))
            await starting.stop()
            wanted = written(disk)
            break
        again = Daemon(replace(Config(), name="HOST", port=0, ping_port=0), disk=disk)
        await again.start()
        await again.stop()
    assert faults.raised == len(seen) > 10
    assert wanted
    assert all(kinds in ([], wanted) for kinds in seen)


async def test_an_internal_error_while_it_stops_does_not_keep_it_from_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last batch is never written, and nobody waits for it."""
    monkeypatch.setattr(Store, "is_quick", False)
    main, now = threading.get_ident(), threading.Event()
    faults = Faults(lambda: now.is_set() and threading.get_ident() != main)
    faults.arm(1)
    async with Restartable(tmp_path) as host:
        stopped = host.daemon
        assert stopped is not None
        stopped.manager.queues.create(QueueRequest(QUEUE))
        now.set()
        async with asyncio.timeout(PATIENCE_S):
            await host.stop()
        faults.disarm()
        assert faults.raised == 1
        assert stopped.failure is not None
        await host.start()


@pytest.mark.parametrize("calls", [1, 10, 60, 300, 1500])
async def test_a_process_ends_with_an_internal_error_and_comes_back_clean(tmp_path: Path, calls: int) -> None:
    """A reader with a prefetch acknowledges while another application sends; then the process is started again."""
    api = f"unix:{tmp_path}/api.sock"
    faulty = ("tests.server.faulty_daemon", str(calls))
    host = Process(tmp_path, "ALICE", ALICE, free_port(), api=api, program=faulty)
    await host.start()
    told: set[bytes] = set()
    gone: set[bytes] = set()
    asked: set[bytes] = set()
    async with msmq.connect(api) as mq:
        queue = await mq.create_queue(QUEUE)

        async def send(numbers: Iterable[int]) -> None:
            for number in numbers:
                await queue.send(b"%d" % number)
                told.add(b"%d" % number)

        async def read() -> None:
            async with queue.receiver(prefetch=8) as messages:
                async for message in messages:
                    asked.add(message.body)
                    await message.acknowledge()
                    gone.add(message.body)

        await send(range(20))
        host.process.send_signal(signal.SIGUSR1)
        work = [asyncio.create_task(send(count(20))), asyncio.create_task(read())]
        async with asyncio.timeout(60):
            assert await host.process.wait() != 0
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
    host.program = ("msmq",)
    await host.start()
    async with msmq.connect(api) as mq:
        left = [message.body async for message in mq.queue(QUEUE).browse()]
    await host.stop()
    assert len(set(left)) == len(left)
    assert told - asked <= set(left), "what was acknowledged to its sender is there"
    assert not gone & set(left), "what its reader has acknowledged does not come again"
