"""The server on its socket: calls that wait, handles, limits, and peers that go."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from msmq.admission.gate import Crowding
from msmq.admission.guesses import Guesses
from msmq.errors import MQError
from msmq.rpc.channel import Limits
from msmq.rpc.client import RpcClient
from msmq.rpc.connection import Connection
from msmq.rpc.interface import Call, Interface, Operation, Promise
from msmq.rpc.mgmt import Nothing
from msmq.rpc.pdu import AuthLevel, AuthType, Syntax
from msmq.rpc.security import Credentials, Identity, SecurityContext
from msmq.rpc.server import RpcServer, ServerConfig
from msmq.rpc.status import FaultStatus, RpcBindError, RpcConnectionError, RpcFault
from tests.rpc.echo import (
    CLOSE,
    CRASH,
    ECHO,
    ECHOES,
    FAIL,
    OPEN,
    OTHER,
    RELEASE,
    UNSERVED,
    USE,
    WAIT,
    WHOAMI,
    Data,
    Handle,
    Number,
)
from tests.rpc.support import ALICE, HOST, PASSWORD, Running, eventually, serving

ALICES = Credentials("alice", PASSWORD, AuthType.NTLM, AuthLevel.INTEGRITY)
CONNECTED = Credentials("alice", PASSWORD, AuthType.NTLM, AuthLevel.CONNECT)
BOBS = Credentials("bob", PASSWORD, AuthType.NTLM, AuthLevel.INTEGRITY)


async def connect(running: Running, who: Credentials | None = ALICES, group: int = 0) -> RpcClient:
    return await RpcClient.connect(HOST, running.port, ECHOES, who, association_group_id=group)


async def status_of(client: RpcClient, operation: Operation, request: object) -> int:  # type: ignore[type-arg]
    with pytest.raises(RpcFault) as refused:
        await client.call(operation, request)  # type: ignore[arg-type]
    return refused.value.status


async def body_waiting() -> None:
    async with serving() as running, await connect(running) as client:
        waits = [asyncio.create_task(client.call(WAIT, Number(n))) for n in range(20)]
        await eventually(lambda: len(running.echoes.waiting) == 20)
        assert (await client.call(ECHO, Data(3, b"abc"))).data == b"abc"
        for n in reversed(range(20)):
            await client.call(RELEASE, Number(n))
            assert (await waits[n]).number == n


async def body_cancel() -> None:
    async with serving() as running, await connect(running) as client:
        wait = asyncio.create_task(client.call(WAIT, Number(5)))
        await eventually(lambda: 5 in running.echoes.waiting)
        client.cancel_calls()
        assert (await wait).number == 6
        assert running.echoes.cancelled == [5]


async def body_orphan() -> None:
    async with serving() as running, await connect(running) as client:
        wait = asyncio.create_task(client.call(WAIT, Number(5)))
        await eventually(lambda: 5 in running.echoes.waiting)
        wait.cancel()
        await eventually(lambda: running.echoes.dropped == [5])
        assert (await client.call(ECHO, Data(1, b"x"))).data == b"x"


async def body_lost() -> None:
    """The calls of a lost connection end before its handles are run down."""
    async with serving() as running:
        client = await connect(running)
        await client.call(OPEN, Number(9))
        wait = asyncio.create_task(client.call(WAIT, Number(5)))
        await eventually(lambda: 5 in running.echoes.waiting)
        client.abort()
        with pytest.raises(RpcConnectionError):
            await wait
        await eventually(lambda: running.echoes.run_down == [9])
        assert running.echoes.dropped == [5]
        with pytest.raises(RpcConnectionError):
            await client.call(ECHO, Data(0, b""))


async def body_groups() -> None:
    async with serving() as running:
        first = await connect(running)
        handle = (await first.call(OPEN, Number(42))).handle
        second = await connect(running, group=first.association_group_id)
        assert second.association_group_id == first.association_group_id
        assert (await second.call(USE, Handle(handle))).number == 42
        stranger = await connect(running)
        other_user = await connect(running, BOBS, group=first.association_group_id)
        for client in (stranger, other_user):
            assert await status_of(client, USE, Handle(handle)) == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH
        await first.bind(OTHER)
        assert (
            await status_of(first, OTHER.operations[0], Handle(handle))
            == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH
        )
        await first.close()
        await other_user.close()
        assert (await second.call(USE, Handle(handle))).number == 42
        assert running.echoes.run_down == []
        await second.close()
        await eventually(lambda: running.echoes.run_down == [42])
        with pytest.raises(RpcBindError):
            await connect(running, group=second.association_group_id)
        await stranger.close()


async def body_handles() -> None:
    async with serving() as running, await connect(running) as client:
        handle = (await client.call(OPEN, Number(1))).handle
        results = await asyncio.gather(
            *(client.call(CLOSE, Handle(handle)) for _ in range(2)), return_exceptions=True
        )
        faults = [result for result in results if isinstance(result, RpcFault)]
        assert [fault.status for fault in faults] == [FaultStatus.NCA_FAULT_CONTEXT_MISMATCH]
        await client.close()
        await eventually(lambda: not running.server.connections)
        assert running.echoes.run_down == []


async def body_faults() -> None:
    async with serving() as running, await connect(running) as client:
        assert await status_of(client, FAIL, Nothing()) == 0xC00E0003
        assert await status_of(client, UNSERVED, Nothing()) == FaultStatus.NCA_OP_RANGE_ERROR
        told: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
        assert await status_of(client, CRASH, Nothing()) == FaultStatus.NCA_FAULT_UNSPECIFIED
        (context,) = told
        assert "failed" in context["message"], "whoever owns the loop knows of it"
        assert not isinstance(context["exception"], RpcFault | MQError)
        assert (await client.call(ECHO, Data(1, b"x"))).data == b"x"


async def body_who() -> None:
    async with serving(minimum=AuthLevel.INTEGRITY) as running:
        async with await connect(running) as client:
            told = await client.call(WHOAMI, Nothing())
            assert (told.sid, told.principal, told.level) == (str(ALICE), "alice", AuthLevel.INTEGRITY)
        for who in (None, Credentials("alice", PASSWORD, AuthType.NTLM, AuthLevel.CONNECT)):
            async with await connect(running, who) as client:
                assert await status_of(client, WHOAMI, Nothing()) == FaultStatus.ACCESS_DENIED
        async with await connect(
            running, Credentials("alice", "wrong", AuthType.NTLM, AuthLevel.PRIVACY)
        ) as client:
            assert await status_of(client, WHOAMI, Nothing()) == FaultStatus.ACCESS_DENIED


async def body_crowds() -> None:
    """Silent connections give way to newcomers, then idle ones of the same address; calls that wait do not."""
    async with serving(crowding=Crowding(per_address=3, opening=2)) as running:
        silent = [await asyncio.open_connection(HOST, running.port) for _ in range(2)]
        await eventually(lambda: running.server.connections == 2)
        first = await connect(running, None)
        assert (await first.call(ECHO, Data(1, b"x"))).data == b"x"
        assert await silent[0][0].read() == b""
        second = await connect(running, None)
        wait = asyncio.create_task(second.call(WAIT, Number(1)))
        await eventually(lambda: 1 in running.echoes.waiting)
        third = await connect(running, None)
        assert await silent[1][0].read() == b""
        waits = [wait, asyncio.create_task(third.call(WAIT, Number(2)))]
        await eventually(lambda: 2 in running.echoes.waiting)
        fourth = await connect(running, None)
        await first.closed
        waits.append(asyncio.create_task(fourth.call(WAIT, Number(3))))
        await eventually(lambda: 3 in running.echoes.waiting)
        with pytest.raises(RpcConnectionError):
            await connect(running, None)
        for number, each in enumerate(waits, 1):
            running.echoes.gate(number).set()
            await each
        for client in (second, third, fourth):
            await client.close()
        for _, writer in silent:
            writer.close()


async def body_guesses() -> None:
    """Whoever guesses has to wait, even with the right password; others and other addresses do not."""
    now_s, told = [0.0], list[str]()
    async with serving(guesses=Guesses(lambda: now_s[0], told.append), minimum=AuthLevel.CONNECT) as running:

        async def let_in(name: str, password: str, kind: AuthType = AuthType.NTLM) -> bool:
            credentials = Credentials(name, password, kind, AuthLevel.INTEGRITY)
            try:
                async with await connect(running, credentials) as client:
                    return (await client.call(ECHO, Data(1, b"x"))).data == b"x"
            except (RpcBindError, RpcFault):
                return False

        for kind in (AuthType.NTLM, AuthType.NEGOTIATE, AuthType.NTLM):
            assert not await let_in("alice", "wrong-guess", kind)
        assert not await let_in("Alice", PASSWORD)
        assert await let_in("bob", PASSWORD)
        now_s[0] += 1
        assert await let_in("alice", PASSWORD, AuthType.NEGOTIATE)
    assert [line.split(":")[0] for line in told] == [
        *(f"'alice' at {HOST} is not let in, attempt {number}" for number in (1, 2, 3)),
        f"'alice' at {HOST} is let in, after 3 wrong attempts",
    ]
    assert "unknown user name or wrong password" in told[0]
    assert not any("wrong-guess" in line or PASSWORD in line for line in told)


async def body_half_open() -> None:
    config = ServerConfig(idle_timeout_s=0.05)
    async with serving(config, crowding=Crowding(opening_s=0.05)) as running:
        reader, writer = await asyncio.open_connection(HOST, running.port)
        assert await reader.read() == b""
        writer.close()
        with suppress(RpcConnectionError):  # on a busy computer it is closed while it binds
            await (await connect(running)).closed
        running.server.gate.crowding = Crowding()
        idle = await connect(running)
        assert (await idle.call(ECHO, Data(1, b"x"))).data == b"x"
        busy = await connect(running)
        await busy.call(OPEN, Number(1))
        await idle.closed
        assert (await busy.call(ECHO, Data(1, b"x"))).data == b"x"
        await busy.close()


async def body_limits() -> None:
    config = ServerConfig(Limits(max_unknown_stub=1000, max_stub=20_000, max_calls=3))
    async with serving(config) as running:
        async with await connect(running, None) as client:
            size = 2000
            assert (
                await status_of(client, ECHO, Data(size, bytes(size)))
                == FaultStatus.NCA_FAULT_REMOTE_NO_MEMORY
            )
        async with await connect(running) as client:
            size = 10_000
            assert (await client.call(ECHO, Data(size, bytes(size)))).length == size
            waits = [asyncio.create_task(client.call(WAIT, Number(n))) for n in range(3)]
            await eventually(lambda: len(running.echoes.waiting) == 3)
            assert await status_of(client, ECHO, Data(0, b"")) == FaultStatus.NCA_SERVER_TOO_BUSY
            for n, wait in enumerate(waits):
                running.echoes.gate(n).set()
                await wait


async def body_unread() -> None:
    """Someone who asks and does not read is not read either; the memory for the answers is bounded."""
    config = ServerConfig(Limits(max_calls=5), max_unread=50_000)
    async with serving(config) as running, await connect(running) as client:
        size = 40_000
        for _ in range(30):
            answers = [client.call(ECHO, Data(size, bytes(size))) for _ in range(5)]
            assert {answer.length for answer in await asyncio.gather(*answers)} == {size}


SIZE = 1 << 20


async def asking_and_not_reading(running: Running, calls: int) -> RpcClient:
    """A client that asks for much, all at once, and reads nothing."""
    client = await connect(running)
    assert client._transport is not None
    client._transport.pause_reading()
    asked = [asyncio.ensure_future(client.call(ECHO, Data(1, b"x"))) for _ in range(calls)]
    for each in asked:
        each.add_done_callback(lambda done: done.cancelled() or done.exception())
    return client


def large_answers(running: Running) -> list[int]:
    """Have ECHO answer with a megabyte; gives how often it did."""
    made: list[int] = []

    def answer(call: Call, request: Data) -> Data:
        made.append(1)
        return Data(SIZE, bytes(SIZE))

    running.server.register(ECHOES, {0: answer})
    return made


async def body_unread_bytes() -> None:
    """One read brings many calls: their answers are not made before there is room, and all come in the end."""
    async with serving(ServerConfig(max_unread=SIZE)) as running:
        made = large_answers(running)
        client = await connect(running)
        assert client._transport is not None
        client._transport.pause_reading()
        answers = [asyncio.ensure_future(client.call(ECHO, Data(1, b"x"))) for _ in range(100)]
        await eventually(lambda: running.server.unread.total)
        async with await connect(running) as other:
            assert (await other.call(ECHO, Data(1, b"x"))).length == SIZE
        assert len(made) < 30, "what the buffers of two sockets hold, and some more"
        client._transport.resume_reading()
        assert {answer.length for answer in await asyncio.gather(*answers)} == {SIZE}
        await eventually(lambda: not running.server.unread.total)
        await client.close()


async def body_unread_promises() -> None:
    """Answers that were promised are made when there is room, in the order in which they could be, and all come."""
    async with serving(ServerConfig(max_unread=SIZE)) as running:
        promises: list[Promise] = []
        made: list[int] = []

        def wait(call: Call, request: Data) -> Promise:
            promises.append(Promise())
            return promises[-1]

        def make(number: int) -> None:
            made.append(number)
            promises[number].answer(Data(SIZE, bytes([number]) * SIZE))

        running.server.register(ECHOES, {0: wait})
        client = await asking_and_not_reading(running, 0)
        answers = [asyncio.ensure_future(client.call(ECHO, Data(1, b"x"))) for _ in range(50)]
        await eventually(lambda: len(promises) == 50)
        answers[40].cancel()
        await eventually(lambda: promises[40].over)
        for number, promise in enumerate(promises):
            promise.when_room(partial(make, number))
        assert made == list(range(len(made)))
        assert len(made) < 30, "what the buffers of two sockets hold, and some more"
        assert client._transport is not None
        client._transport.resume_reading()
        rest = [number for number in range(50) if number != 40]
        assert [(await answers[number]).data[0] for number in rest] == made == rest
        await client.close()


async def body_unread_held() -> None:
    """Calls that had to wait until it was known who calls are not all answered in that moment."""
    asked, known = threading.Event(), threading.Event()
    finish = SecurityContext._finish
    identities: dict[SecurityContext, Identity | None] = {}

    def prove_a_name(context: SecurityContext) -> None:
        finish(context)
        identities[context], context.identity = context.identity, None

    def look_up(context: SecurityContext) -> None:
        asked.set()
        known.wait(60)
        context.identity = identities[context]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SecurityContext, "_finish", prove_a_name)
        patch.setattr(SecurityContext, "look_up", look_up)
        async with serving(ServerConfig(max_unread=SIZE)) as running:
            made = large_answers(running)
            client = await asking_and_not_reading(running, 0)
            answers = [asyncio.ensure_future(client.call(ECHO, Data(1, b"x"))) for _ in range(50)]
            await eventually(asked.is_set)
            known.set()
            await eventually(lambda: running.server.unread.total)
            assert len(made) < 30, "what the buffers of two sockets hold, and some more"
            assert client._transport is not None
            client._transport.resume_reading()
            assert {answer.length for answer in await asyncio.gather(*answers)} == {SIZE}
            await client.close()


async def body_internal_errors() -> None:
    """What the server does for a connection by itself, while nothing is read, costs it the connection if it fails."""
    finish = SecurityContext._finish

    def prove_a_name(context: SecurityContext) -> None:
        finish(context)
        context.identity = None

    def fail(*values: object) -> None:
        raise ZeroDivisionError

    for what in ("looking up who calls", "writing a late answer", "watching idle connections"):
        told: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))  # noqa: B023
        with pytest.MonkeyPatch.context() as patch:
            if what == "looking up who calls":
                patch.setattr(SecurityContext, "_finish", prove_a_name)
                patch.setattr(SecurityContext, "look_up", fail)
            async with serving(ServerConfig(idle_timeout_s=0.5)) as running:
                client = await connect(running)
                call = asyncio.create_task(client.call(WAIT, Number(5)))
                if what != "looking up who calls":
                    await eventually(lambda: 5 in running.echoes.waiting)
                    (connection,) = running.server._connections
                    assert isinstance(connection, Connection)
                if what == "writing a late answer":
                    patch.setattr(Connection, "_flush", fail)
                    running.echoes.gate(5).set()
                elif what == "watching idle connections":
                    patch.setattr(Connection, "idle_since_s", property(fail))
                with pytest.raises(RpcConnectionError):
                    await call
                await eventually(lambda: told)  # noqa: B023
                assert isinstance(told[0]["exception"], ZeroDivisionError)


async def body_run_down_error() -> None:
    """Nobody waits for the end of a connection, so the owner of the loop is told."""
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))

    def fail(*values: object) -> None:
        raise ZeroDivisionError

    async with serving() as running:
        client = await connect(running)
        await client.call(OPEN, Number(9))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(running.server.groups, "leave", fail)
            await client.close()
            await eventually(lambda: told)
        assert isinstance(told[0]["exception"], ZeroDivisionError)
        assert "future" not in told[0], "it is told when it comes, and not when nobody has looked at the task"


async def body_unread_of_many() -> None:
    """Whoever does so on many connections loses those that owe most; others are served."""
    config = ServerConfig(max_unread=SIZE, max_unread_per_address=5 * SIZE)
    async with serving(config) as running:
        large_answers(running)
        greedy = [await asking_and_not_reading(running, 30) for _ in range(10)]
        await eventually(lambda: running.server.connections < 7)
        assert running.server.unread.total <= 5 * SIZE
        async with await connect(running) as client:
            assert (await client.call(ECHO, Data(1, b"x"))).length == SIZE
        for each in greedy:
            each.abort()
        await eventually(lambda: not running.server.connections)
        assert running.server.unread.total == 0


async def body_stop_while_nobody_calls() -> None:
    async with serving() as running:
        client = await connect(running)
        await client.call(OPEN, Number(3))
    assert (running.echoes.run_down, running.server.connections) == ([3], 0)
    await client.closed


async def body_stop() -> None:
    running_server: RpcServer
    async with serving() as running:
        running_server = running.server
        client = await connect(running)
        await client.call(OPEN, Number(3))
        wait = asyncio.create_task(client.call(WAIT, Number(5)))
        await eventually(lambda: 5 in running.echoes.waiting)
    assert running.echoes.run_down == [3]
    assert running_server.connections == 0
    with pytest.raises(RpcConnectionError):
        await wait
    await client.closed


async def body_versions() -> None:
    async with serving() as running:
        for version, served in (
            ((1, 0), True),
            ((1, 2), True),
            ((1, 3), False),
            ((2, 0), False),
            ((0, 0), False),
        ):
            interface = Interface("echoes", Syntax(ECHOES.syntax.uuid, *version), ECHOES.operations)
            if served:
                await (await RpcClient.connect(HOST, running.port, interface)).close()
            else:
                with pytest.raises(RpcBindError):
                    await RpcClient.connect(HOST, running.port, interface)


def at_once(running: Running) -> list[Promise]:
    """Have ECHO answered without a task, and WAIT by a promise; gives those, which keep what becomes of them."""
    promises: list[Promise] = []
    echoes = running.echoes

    def wait(call: Call, request: Number) -> Promise:
        promises.append(
            Promise(
                lambda: echoes.dropped.append(request.number), lambda: echoes.cancelled.append(request.number)
            )
        )
        return promises[-1]

    def opened(call: Call, request: Number) -> Handle:
        return Handle(call.open_handle(request.number, echoes.run_down.append))

    running.server.register(ECHOES, {0: lambda call, request: request, 2: wait, 4: opened})
    return promises


async def body_together() -> None:
    """Answers that are known at once are written together, in the order of the calls."""
    async with serving() as running:
        at_once(running)
        async with await connect(running, None) as client:
            before = running.server.statistics.packets_out
            calls = [client.call(ECHO, Data(1, bytes((n,)))) for n in range(8)]
            assert [answer.data[0] for answer in await asyncio.gather(*calls)] == list(range(8))
            assert running.server.statistics.packets_out - before <= 2


async def body_promises() -> None:
    async with serving() as running:
        promises = at_once(running)
        async with await connect(running) as client:
            waits = [asyncio.create_task(client.call(WAIT, Number(n))) for n in range(3)]
            await eventually(lambda: len(promises) == 3)
            assert (await client.call(ECHO, Data(1, b"x"))).data == b"x"
            client.cancel_calls()
            await eventually(lambda: running.echoes.cancelled == [0, 1, 2])
            promises[1].answer(Number(7))
            assert (await waits[1]).number == 7
            promises[0].answer(RpcFault(FaultStatus.ACCESS_DENIED))
            with pytest.raises(RpcFault):
                await waits[0]
            waits[2].cancel()
            await eventually(lambda: running.echoes.dropped == [2])
            promises[2].answer(Number(2))
            assert (await client.call(ECHO, Data(1, b"y"))).data == b"y"


async def body_lost_promises() -> None:
    """They are abandoned before the handles are run down."""
    async with serving() as running:
        promises = at_once(running)
        client = await connect(running)
        await client.call(OPEN, Number(9))
        wait = asyncio.create_task(client.call(WAIT, Number(5)))
        await eventually(lambda: len(promises) == 1)
        assert running.echoes.run_down == []
        client.abort()
        with pytest.raises(RpcConnectionError):
            await wait
        await eventually(lambda: running.echoes.dropped == [5])
        await eventually(lambda: running.echoes.run_down == [9])
        promises[0].answer(Number(5))


BODIES = {
    "a call that waits keeps no other waiting": body_waiting,
    "a cancel asks for an early answer": body_cancel,
    "an orphaned call is stopped": body_orphan,
    "a lost connection": body_lost,
    "answers that are known at once": body_together,
    "promises": body_promises,
    "promises of a lost connection": body_lost_promises,
    "association groups": body_groups,
    "closing a handle twice": body_handles,
    "faults": body_faults,
    "who calls and how well that is known": body_who,
    "connections are bounded": body_crowds,
    "guessing": body_guesses,
    "half-open and idle connections are closed": body_half_open,
    "stubs and calls are bounded": body_limits,
    "answers that nobody reads": body_unread,
    "answers are not made before there is room": body_unread_bytes,
    "promised answers are not made before there is room": body_unread_promises,
    "nor those of calls that had to wait for a directory": body_unread_held,
    "internal errors": body_internal_errors,
    "an internal error while a connection is run down": body_run_down_error,
    "answers that nobody reads on many connections": body_unread_of_many,
    "a stop ends everything": body_stop,
    "a stop runs down what idle clients have open": body_stop_while_nobody_calls,
    "versions": body_versions,
}


@pytest.mark.parametrize("body", BODIES)
def test_server(body: str) -> None:
    asyncio.run(asyncio.wait_for(BODIES[body](), 240))
