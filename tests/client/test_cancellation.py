"""Every call of the client, cancelled wherever it waits: nothing is lost, and nothing stays behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import msmq
from msmq.api.callers import token_digest
from msmq.client.queue import Seek
from msmq.errors import IoTimeoutError, MsmqError, OperationCancelledError
from msmq.server.daemon import Daemon
from tests.api.authority import Authority
from tests.api.support import address, daemon
from tests.server.support import eventually

QUEUE = ".\\private$\\q"
BOOKS = ".\\private$\\books"
"""A transactional queue."""


class Interrupted(Coroutine[Any, Any, Any]):
    """A coroutine whose task is cancelled when it waits for the n-th time: at once, or at the moment when it could go
    on but has not yet."""

    def __init__(self, inner: Coroutine[Any, Any, Any], wait: int, late: bool) -> None:
        self._inner = inner
        self._wait = wait
        self._late = late
        self.waits = 0
        self.task: asyncio.Task[Any]

    def send(self, value: Any) -> Any:
        return self._waited(self._inner.send(value))

    def throw(self, *error: Any) -> Any:
        return self._waited(self._inner.throw(*error))

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Any:
        raise NotImplementedError

    def _waited(self, future: asyncio.Future[Any] | None) -> Any:
        self.waits += 1
        if self.waits == self._wait:
            if self._late and future is not None:
                future.add_done_callback(lambda _: self.task.cancel())
            else:
                asyncio.get_running_loop().call_soon(lambda: self.task.cancel())
        return future


async def interrupted(call: Coroutine[Any, Any, Any], wait: int, *, late: bool) -> tuple[bool, Any]:
    """Run a call and cancel it; whether it came to its end all the same, and what it gave."""
    coroutine = Interrupted(call, wait, late)
    coroutine.task = asyncio.get_running_loop().create_task(coroutine)
    try:
        given = await asyncio.wait_for(asyncio.shield(coroutine.task), 120)
    except asyncio.CancelledError:
        assert coroutine.task.cancelled()
        return False, None
    return coroutine.waits < wait, given


@asynccontextmanager
async def two(directory: Path, *, tls: bool = False) -> AsyncIterator[tuple[Daemon, Any, Any]]:
    """A daemon, the connection that is tried, and one that looks what came of it."""
    authority = Authority(directory / "authority")
    certificate, key = authority.issue("localhost")
    api: dict[str, Any] = {
        "listen": (f"unix:{directory / 'api'}", "tls:localhost:0"),
        "certificate": str(certificate),
        "private_key": str(key),
        "tokens": {token_digest("sesame"): "S-1-5-32-544"},
    }
    trust = msmq.Tls(authorities=authority.file)
    async with (
        daemon(directory, **api) as running,
        msmq.connect(address(running, "tls" if tls else "unix"), token="sesame", tls=trust) as tried,
        msmq.connect(address(running)) as other,
    ):
        await other.create_queue(QUEUE)
        await other.create_queue(BOOKS, transactional=True)
        yield running, tried, other


def nothing_stays(running: Daemon, *names: str) -> Callable[[], object]:
    """Whether nobody but the one who sends has a queue open, and no transaction is under way."""

    def check() -> bool:
        queues = [running.manager.core.by_path[f"host\\private$\\{name}"] for name in names]
        return not running.manager.transactions.collection and not any(
            len(queue.open_descriptors) > 1 for queue in queues
        )

    return check


# --- calls that take messages -----------------------------------------------------------------------------------------


async def receive(mq: msmq.Connection) -> list[bytes]:
    return [(await mq.queue(QUEUE).receive(10)).body]


async def receive_and_reject(mq: msmq.Connection) -> list[bytes]:
    async with mq.queue(QUEUE).receiver() as receiver:
        message = await receiver.receive(10)
        await message.reject()
    return []


async def loop_over(mq: msmq.Connection) -> list[bytes]:
    async for message in mq.queue(QUEUE):
        body = message.body
        await message.acknowledge()
        return [body]
    return []


async def take_by_id(mq: msmq.Connection) -> list[bytes]:
    return [(await mq.queue(QUEUE).lookup(seek=Seek.FIRST, receive=True)).body]


async def take_at_cursor(mq: msmq.Connection) -> list[bytes]:
    cursor = await mq.queue(QUEUE).cursor(receive=True).__aenter__()
    try:
        await cursor.next()
        return [(await cursor.take()).body]
    finally:
        cursor.leave()


async def receive_in_transaction(mq: msmq.Connection) -> list[bytes]:
    async with mq.transaction() as tx:
        message = await tx.receive(BOOKS, 10)
    return [message.body]


async def take_by_id_in_transaction(mq: msmq.Connection) -> list[bytes]:
    async with mq.transaction() as tx:
        taken = await mq.queue(BOOKS).lookup(seek=Seek.FIRST, receive=True, transaction=tx)
    return [taken.body]


async def take_at_cursor_in_transaction(mq: msmq.Connection) -> list[bytes]:
    async with mq.transaction() as tx, mq.queue(BOOKS).cursor(receive=True) as cursor:
        await cursor.next()
        taken = await cursor.take(tx)
    return [taken.body]


@pytest.mark.parametrize("late", [False, True], ids=["at once", "just before it goes on"])
@pytest.mark.parametrize("tls", [False, True], ids=["unix", "tls"])
@pytest.mark.parametrize(
    ("call", "queue"),
    [
        (receive, QUEUE),
        (take_by_id, QUEUE),
        (take_at_cursor, QUEUE),
        (receive_and_reject, QUEUE),
        (loop_over, QUEUE),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_message_is_returned_or_in_its_queue(
    tmp_path: Path,
    call: Callable[[Any], Coroutine[Any, Any, list[bytes]]],
    queue: str,
    tls: bool,
    late: bool,
) -> None:
    async with two(tmp_path, tls=tls) as (running, tried, other):
        done, wait = False, 0
        while not done:
            wait += 1
            await other.queue(queue).send(b"%d" % wait)
            done, given = await interrupted(call(tried), wait, late=late)
            if call is loop_over and not done:  # the acknowledgment may have been on its way
                await eventually(nothing_stays(running, "q"))
            left = [message.body for message in await everything(other, queue)]
            assert (given or []) + left in ([b"%d" % wait], []), wait
            if call is not loop_over:
                assert (given or []) + left == [b"%d" % wait], f"lost when it waited for the {wait}. time"
            await eventually(nothing_stays(running, "q"))
        assert wait > 2


async def everything(mq: msmq.Connection, queue: str) -> list[msmq.ReceivedMessage]:
    """Take all there is, and all that is on its way back."""
    found = []
    while True:
        try:
            found.append(await mq.queue(queue).receive(0 if found else 0.3))
        except IoTimeoutError:
            return found


@pytest.mark.parametrize("late", [False, True], ids=["at once", "just before it goes on"])
@pytest.mark.parametrize(
    "call",
    [receive_in_transaction, take_by_id_in_transaction, take_at_cursor_in_transaction],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_transaction_is_whole(
    tmp_path: Path, call: Callable[[Any], Coroutine[Any, Any, list[bytes]]], late: bool
) -> None:
    """Cancelled before the commit was asked for, it never was; behind that, it was."""

    async with two(tmp_path) as (running, tried, other):
        done, wait, asked = False, 0, False
        while not done:
            wait += 1
            await other.queue(BOOKS).send(b"%d" % wait)
            done, given = await interrupted(call(tried), wait, late=late)
            await eventually(nothing_stays(running, "books"))
            left = [message.body for message in await everything(other, BOOKS)]
            assert (given or []) + left in ([b"%d" % wait], [])
            assert not (asked and left), "once the commit is on its way it stays so"
            asked = asked or not left
        assert wait > 4


# --- a transaction whose receive was cancelled ------------------------------------------------------------------------


@pytest.mark.parametrize("late", [False, True], ids=["at once", "just before it goes on"])
@pytest.mark.parametrize("take", ["receive", "lookup", "cursor"])
@pytest.mark.parametrize("again", [False, True], ids=["commit", "receive again"])
async def test_a_commit_loses_nothing_that_a_cancelled_receive_had_taken(
    tmp_path: Path, take: str, again: bool, late: bool
) -> None:
    async with two(tmp_path) as (running, tried, other):
        done, wait = False, 0
        while not done:
            wait += 1
            await other.queue(BOOKS).send(b"%d" % wait)
            got: list[bytes] = []
            refused = False
            async with tried.queue(BOOKS).cursor(receive=True) as cursor:
                await cursor.next()
                try:
                    async with tried.transaction() as tx:
                        taking = {
                            "receive": lambda: tx.receive(BOOKS, 10),
                            "lookup": lambda: tried.queue(BOOKS).lookup(
                                seek=Seek.FIRST, receive=True, transaction=tx
                            ),
                            "cursor": lambda: cursor.take(tx),
                        }[take]
                        done, message = await interrupted(taking(), wait, late=late)
                        if message is None and again and take == "receive":
                            message = await tx.receive(BOOKS, 10)
                        got = [message.body] if message is not None else []
                except OperationCancelledError:
                    refused, got = True, []
            await eventually(nothing_stays(running, "books"))
            left = [message.body for message in await everything(other, BOOKS)]
            assert got + left == [b"%d" % wait], (wait, refused)
            assert not (refused and again and take == "receive")


# --- all other calls --------------------------------------------------------------------------------------------------

ALL: dict[str, Callable[[Any], Awaitable[object]]] = {}


def tried(call: Callable[[Any], Awaitable[object]]) -> Callable[[Any], Awaitable[object]]:
    ALL[call.__name__] = call
    return call


@tried
async def send(mq: msmq.Connection) -> object:
    return await mq.queue(QUEUE).send(b"x")


@tried
async def send_many(mq: msmq.Connection) -> object:
    return await mq.queue(QUEUE).send_many([b"x"] * 300)


@tried
async def send_in_transaction(mq: msmq.Connection) -> object:
    async with mq.transaction() as tx:
        return await tx.send(BOOKS, b"x")


@tried
async def abort(mq: msmq.Connection) -> None:
    with suppress(ZeroDivisionError):
        async with mq.transaction() as tx:
            await tx.send(BOOKS, b"x")
            raise ZeroDivisionError


@tried
async def peek(mq: msmq.Connection) -> None:
    with pytest.raises(IoTimeoutError):
        await mq.queue(".\\private$\\books").peek()


@tried
async def browse(mq: msmq.Connection) -> object:
    return [message async for message in mq.queue(QUEUE).browse()]


@tried
async def watch(mq: msmq.Connection) -> None:
    async with mq.queue(QUEUE).receiver(mode=msmq.Mode.PEEK) as receiver:
        await receiver.receive(0)
        with pytest.raises(IoTimeoutError):
            await receiver.receive(0)


@tried
async def survey_and_span(mq: msmq.Connection) -> object:
    everywhere = [(0, 2**64 - 1)]
    await mq.queue(QUEUE).survey(everywhere)
    return [batch async for batch in mq.queue(QUEUE).span(*everywhere[0])]


@tried
async def move_and_purge(mq: msmq.Connection) -> None:
    await mq.queue(QUEUE).move([1, 2], f"{QUEUE};sub")
    await mq.queue(QUEUE).remove([1, 2])
    await mq.queue(QUEUE).purge()


@tried
async def administration(mq: msmq.Connection) -> None:
    await mq.queues()
    await mq.manager()
    await mq.set_queue(QUEUE, label="tried")
    async for _ in mq.statistics(0.1, 2):
        pass


@tried
async def create_and_delete(mq: msmq.Connection) -> None:
    if not await mq.queue_exists(".\\private$\\new"):
        await mq.create_queue(".\\private$\\new")
    await mq.delete_queue(".\\private$\\new")


@tried
async def open_and_close(mq: msmq.Connection) -> None:
    async with msmq.connect(mq.address) as another:
        await another.queue(QUEUE).send(b"x")


@pytest.mark.parametrize("late", [False, True], ids=["at once", "just before it goes on"])
@pytest.mark.parametrize("name", sorted(ALL))
async def test_nothing_stays_behind_a_call_that_was_cancelled(tmp_path: Path, name: str, late: bool) -> None:
    async with two(tmp_path) as (running, used, other):
        assert running.door is not None
        relay, *_ = running.door._relays
        await used.queue(QUEUE).send(b"first")
        await used.queue(BOOKS).send(b"first")
        await other.queue(BOOKS).receive(60)
        await eventually(lambda: len(relay._serving()) == 2)
        lines = len(relay._open)
        done, wait = False, 0
        while not done:
            wait += 1
            done, _ = await interrupted(ALL[name](used), wait, late=late)  # type: ignore[arg-type]
            await eventually(lambda: len(relay._serving()) <= 2 and len(relay._open) == lines)
            assert not running.manager.transactions.collection
            assert await used.manager(), "the connection goes on"
        assert wait > 1


async def test_a_receive_with_a_time_out_of_asyncio_loses_nothing(tmp_path: Path) -> None:
    async with two(tmp_path) as (_, used, other):
        count = 60
        for number in range(count):
            await other.queue(QUEUE).send(b"%d" % number)
        found = set()
        for number in range(3 * count):
            try:
                message = await asyncio.wait_for(used.queue(QUEUE).receive(), (number % 7) / 1000)
            except TimeoutError:
                continue
            found.add(message.body)
        found |= {message.body for message in await everything(other, QUEUE)}
        assert len(found) == count


async def test_a_send_that_is_cancelled_before_it_leaves_is_not_sent(tmp_path: Path) -> None:
    async with two(tmp_path) as (_, used, other):
        task = asyncio.ensure_future(used.queue(QUEUE).send(b"not sent"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        await used.queue(QUEUE).send(b"sent")
        assert [message.body for message in await everything(other, QUEUE)] == [b"sent"]


async def test_those_that_are_cancelled_among_others_that_leave_together_are_not_sent(tmp_path: Path) -> None:
    async with two(tmp_path) as (_, used, other):
        bodies = [b"%d" % number for number in range(300)]
        tasks = [asyncio.ensure_future(used.queue(QUEUE).send(body)) for body in bodies]
        await asyncio.sleep(0)
        for task in tasks[::3]:
            task.cancel()
        given = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in given[::3])
        sent = {body: task.result() for body, task in zip(bodies, tasks, strict=True) if not task.cancelled()}
        found = await everything(other, QUEUE)
        assert {message.body: message.message_id for message in found} == {
            body: receipt.message_id for body, receipt in sent.items()
        }


async def test_errors_are_told_as_before(tmp_path: Path) -> None:
    async with two(tmp_path) as (_, used, _other):
        with pytest.raises(MsmqError):
            await used.queue(QUEUE).lookup(1, receive=True)
        with pytest.raises(MsmqError):
            await used.queue(".\\private$\\none").receive(1)
        with pytest.raises(IoTimeoutError):
            await used.queue(QUEUE).receive(0)
