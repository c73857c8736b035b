"""``msmq demo``: the whole product in one story. The work is imported when it runs.

Two queue managers run in processes of their own, and a small relay is the link between them. Everything shown really
happens: the orders are sent while the link is cut, and at the end they are counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import msmq
    from msmq.client import ReceivedMessage

SHOP, STORE, LINK = "127.0.0.21", "127.0.0.22", "127.0.0.23"
"""Addresses of the two hosts, and the address of the link, by which the shop reaches the warehouse."""
ORDERS: Final = 30
BEFORE_THE_CUT: Final = 10
PATIENCE_S: Final = 40.0
_COFFEES: Final = ("espresso", "cappuccino", "flat white", "americano", "cortado")
_QUICK: Final = """
ping_port = 0
log_level = "warning"
[timers]
session_retry_connect_ms = 500
order_ack_timeout_ms = 100
"""


class DemoError(Exception):
    """The story cannot continue."""


# --- the link -----------------------------------------------------------------------------------------------------


class Relay:
    """A link that can be cut. Connections to it are forwarded to the other host while it is up."""

    def __init__(self, listen: tuple[str, int], target: tuple[str, int]) -> None:
        self._listen = listen
        self._target = target
        self._server: asyncio.Server | None = None
        self._carrying: set[asyncio.Task[None]] = set()

    async def restore(self) -> None:
        self._server = await asyncio.start_server(self._accept, *self._listen)

    async def cut(self) -> None:
        """Break all connections at once, in the middle of any transfer."""
        if self._server is not None:
            self._server.close()
            self._server = None
        broken = list(self._carrying)
        for task in broken:
            task.cancel()
        await asyncio.gather(*broken, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._carry(reader, writer))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)
        task.add_done_callback(lambda _: writer.transport.abort())  # even if it was cut before it began

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward both directions until either ends."""
        with contextlib.suppress(OSError):
            there, back = await asyncio.open_connection(*self._target)
            ways = [asyncio.ensure_future(_pump(reader, back)), asyncio.ensure_future(_pump(there, writer))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                back.transport.abort()
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


# --- the hosts ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def queue_manager(
    directory: Path, name: str, address: str, port: int
) -> AsyncIterator[AbstractAsyncContextManager[msmq.Connection]]:
    """Start a queue manager in a process of its own, and yield the context that connects to it once it is ready.

    Two steps, so that several queue managers start at the same time.
    """
    directory.mkdir(exist_ok=True)
    config, door = directory / f"{name}.toml", f"unix:{directory / name}.sock"
    config.write_text(_QUICK)
    command = [sys.executable, "-m", "msmq", "serve", "--name", name, "--data", str(directory / name)]
    command += ["--listen", address, "--port", str(port), "--rpc-port", "0", "--web", "none"]
    command += ["--api", door, "--config", str(config)]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        yield _connected(process, name, door)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


@asynccontextmanager
async def _connected(process: Process, name: str, door: str) -> AsyncIterator[msmq.Connection]:
    import msmq

    assert process.stdout is not None
    assert process.stderr is not None
    async with asyncio.timeout(PATIENCE_S):
        if not await process.stdout.readline():
            raise DemoError((await process.stderr.read()).decode().strip() or f"{name} did not start")
    async with msmq.connect(door) as mq:
        yield mq


def free_port(*addresses: str) -> int:
    """A TCP port that is free at all of these addresses."""
    for _ in range(100):
        with contextlib.ExitStack() as taken, contextlib.suppress(OSError):
            port = 0
            for address in addresses:
                door = taken.enter_context(socket.socket())
                door.bind((address, port))
                port = door.getsockname()[1]
            return port
    raise DemoError(f"No TCP port is free at {', '.join(addresses)}.")


# --- the story ----------------------------------------------------------------------------------------------------


@dataclass
class Story:
    """The lines that are told, and the checks for the summary."""

    say: Callable[[str, str], None]
    started: float = field(default_factory=monotonic)
    checks: list[tuple[str, bool, str]] = field(default_factory=list)

    def tell(self, who: str, text: str) -> None:
        self.say(f"{monotonic() - self.started:5.1f} s  {who:<9}", text)

    def check(self, what: str, holds: bool, detail: str) -> None:
        self.checks.append((what, holds, detail))

    @property
    def good(self) -> bool:
        return bool(self.checks) and all(holds for _, holds, _ in self.checks)


async def tell(story: Story, directory: Path) -> None:
    """Tell the whole story."""
    port = free_port(SHOP, STORE, LINK)
    link = Relay((LINK, port), (STORE, port))
    async with (
        queue_manager(directory, "SHOP", SHOP, port) as shop_starts,
        queue_manager(directory, "STORE", STORE, port) as store_starts,
        shop_starts as shop,
        store_starts as store,
    ):
        story.tell("both", f"two queue managers run: SHOP at {SHOP} and STORE at {STORE}, TCP port {port}")
        await link.restore()
        try:
            await _orders(story, shop, store, link)
            await _replies(story, shop, store)
            await _dead_letter(story, shop)
        finally:
            await link.cut()


async def _orders(story: Story, shop: msmq.Connection, store: msmq.Connection, link: Relay) -> None:
    """Send orders to the warehouse while the link is cut and restored."""
    import msmq

    orders = await store.create_queue(r".\private$\orders", transactional=True, label="Orders")
    await shop.create_queue(r".\private$\replies", transactional=True)
    story.tell("STORE", r"has a transactional queue .\private$\orders")
    way = shop.queue(f"DIRECT=TCP:{LINK}\\private$\\orders")

    async def send(numbers: range) -> None:
        for number in numbers:
            await way.send(
                {"order": number, "coffee": _COFFEES[number % len(_COFFEES)]},
                label=f"order {number}",
                delivery=msmq.Delivery.TRANSACTIONAL,
                response_queue=f"DIRECT=TCP:{SHOP}\\private$\\replies",
            )

    await send(range(1, BEFORE_THE_CUT + 1))
    story.tell("SHOP", f"sent orders 1 to {BEFORE_THE_CUT}")
    await _until(lambda: _holds(store, orders.name, 1), "the first orders to arrive")
    await link.cut()
    arrived = (await store.queue_info(orders)).messages
    under_way = "their acknowledgments were" if arrived == BEFORE_THE_CUT else "the others were"
    story.tell("link", f"CUT. {arrived} of {BEFORE_THE_CUT} orders had arrived, {under_way} on the way")
    await send(range(BEFORE_THE_CUT + 1, ORDERS + 1))
    story.tell(
        "SHOP", f"sent orders {BEFORE_THE_CUT + 1} to {ORDERS} all the same: they are safe on its disk"
    )
    await _until(lambda: _fails(shop), "the shop to notice")
    waiting = (await shop.outgoing_queues())[0]
    story.tell(
        "SHOP",
        f"keeps {waiting.messages} messages until they are read there; {LINK}: {waiting.last_error_words}",
    )
    await link.restore()
    story.tell("link", "RESTORED")
    await _until(lambda: _holds(store, orders.name, ORDERS), "all orders to arrive")
    numbers = [message.json()["order"] async for message in orders.browse()]
    story.tell(
        "STORE", f"has {len(numbers)} orders: {numbers[0]}, {numbers[1]}, {numbers[2]} ... {numbers[-1]}"
    )
    story.check(
        "every order arrived once", sorted(numbers) == list(range(1, ORDERS + 1)), f"{len(numbers)} orders"
    )
    story.check("in the order they were sent", numbers == sorted(numbers), f"{numbers[0]} to {numbers[-1]}")


async def _holds(mq: msmq.Connection, queue: str, count: int) -> bool:
    return (await mq.queue_info(queue)).messages >= count


async def _fails(shop: msmq.Connection) -> bool:
    outgoing = await shop.outgoing_queues()
    return bool(outgoing and outgoing[0].last_error)


async def _replies(story: Story, shop: msmq.Connection, store: msmq.Connection) -> None:
    """Answer each order from the warehouse; receiving and answering are one transaction."""
    import msmq

    asked = []
    for _ in range(ORDERS):
        async with store.transaction() as transaction:
            order = await transaction.receive(r".\private$\orders", timeout=PATIENCE_S)
            answer = order.reply(
                {"order": order.json()["order"], "status": "on its way"}, label=f"re: {order.label}"
            )
            await transaction.send(order.response_queue, answer.with_(delivery=msmq.Delivery.TRANSACTIONAL))
            asked.append(order.message_id)
    story.tell("STORE", f"answered {ORDERS} orders, each in one transaction with its receipt")
    answers: list[ReceivedMessage] = []
    for _ in range(ORDERS):
        answers.append(await shop.queue(r".\private$\replies").receive(timeout=PATIENCE_S))
    last = answers[-1]
    story.tell("SHOP", f"received {len(answers)} replies; the last: {last.label!r} {last.json()['status']!r}")
    matched = [answer.correlation_id for answer in answers] == asked
    story.check("a reply came back for each", matched, f"{len(answers)} replies, each names its order")


async def _dead_letter(story: Story, shop: msmq.Connection) -> None:
    """Send an undeliverable message, and find it in the dead-letter queue with the reason."""
    import msmq

    await shop.queue(f"DIRECT=TCP:{LINK}\\private$\\tea").send(
        "one pot of tea", label="no such queue", delivery=msmq.Delivery.TRANSACTIONAL
    )
    story.tell("SHOP", r"sent a message to .\private$\tea of the warehouse, which does not exist")
    letter = await shop.transactional_dead_letters.receive(timeout=PATIENCE_S)
    story.tell("SHOP", f"found {letter.label!r} in its dead-letter queue: {letter.dead_letter_reason}")
    right = letter.message_class == 0x8000 and letter.text == "one pot of tea"
    story.check("the dead letter says why", right, letter.dead_letter_reason)


async def _until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    deadline = monotonic() + PATIENCE_S
    while not await holds():
        if monotonic() > deadline:
            raise DemoError(f"Waited {PATIENCE_S:.0f} seconds in vain for {what}.")
        await asyncio.sleep(0.05)


# --- the command --------------------------------------------------------------------------------------------------


def run() -> bool:
    """Tell the story on the terminal. Returns whether all checks passed."""
    from msmq.cli.output import console
    from msmq.server.web_settings import DEFAULT_ADDRESS

    screen = console()
    story = Story(lambda when, text: screen.print(f"{when} {text}"))
    screen.print("OpenMSMQ: orders for a warehouse, over a link that breaks.\n")
    with tempfile.TemporaryDirectory(prefix="msmq-demo-") as directory:
        asyncio.run(tell(story, Path(directory)))
    screen.print("\nSummary")
    for what, holds, detail in story.checks:
        screen.print(f"  {'yes' if holds else 'NO '}  {what:<28} {detail}")
    screen.print(f"  done in {monotonic() - story.started:.1f} seconds, nothing was left behind\n")
    screen.print(
        "Next, start one for keeps:        make serve     (or: msmq serve --data msmq-data)\n"
        "and in another terminal:          . .venv/bin/activate\n"
        "                                  msmq queue create '.\\private$\\orders'\n"
        "                                  msmq send '.\\private$\\orders' --body 'two coffees'\n"
        "                                  msmq receive '.\\private$\\orders'\n"
        f"and in a browser:                 the console, http://{DEFAULT_ADDRESS}/\n"
        "                                  (msmq token create me --as BUILTIN_ADMINISTRATORS lets you in)"
    )
    return story.good
