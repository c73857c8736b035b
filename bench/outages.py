"""How long a host in a domain waits when controllers and the DNS are stopped, frozen or slow.

Run: ``python bench/outages.py`` as root; it starts a Samba of its own and stands doors in front of it that refuse, hang
or delay (tests/directory/relay.py). A queue manager is started with two controllers in each state, and once more with
both working, which then change to that state while it runs. Then it has one controller, whose processes are stopped
(SIGSTOP) or ended, and then it knows its controllers by the DNS alone, which is ended, silent or slow. Each time it
tells the seconds of

* **start**: until it is ready,
* **create**: a public queue, or having that refused,
* **set**: the label of a public queue that was there before,
* **find**: queues by their label, in a search over the whole tree.

What was refused is marked with a minus: the directory cannot be asked, and the caller is told so.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from msmq.directory.settings import Settings  # noqa: E402
from msmq.errors import MQError, NoDsError  # noqa: E402
from msmq.manager.directory import DirectoryResult, Expression, ObjectClass, Relation  # noqa: E402
from msmq.server.directory_settings import DirectorySettings  # noqa: E402
from msmq.wire.variant import VT, Variant  # noqa: E402
from scripts.samba_dc import HOST, DomainController, lease  # noqa: E402
from tests.directory.fake_dns import fake_dns  # noqa: E402
from tests.directory.relay import Mode, Relay, relay  # noqa: E402
from tests.directory.support import Domain  # noqa: E402
from tests.server.members import Member, members  # noqa: E402
from tests.server.support import ALICE  # noqa: E402

LABEL = 108
STATES = (
    (Mode.OPEN, Mode.OPEN),
    (Mode.CLOSED, Mode.OPEN),
    (Mode.FROZEN, Mode.OPEN),
    (Mode.SLOW, Mode.OPEN),
    (Mode.SLOW, Mode.SLOW),
    (Mode.CLOSED, Mode.CLOSED),
    (Mode.FROZEN, Mode.FROZEN),
    (Mode.FROZEN, Mode.CLOSED),
)
SLOW_DNS_S = 2


@dataclass(frozen=True)
class KnownToDns(DirectorySettings):
    """A domain whose controllers only one DNS server knows."""

    name_server: tuple[str, int] = ("", 0)

    def connection(self) -> Settings:
        return replace(super().connection(), name_servers=(self.name_server,))


async def timed(operation: Callable[[], Awaitable[object]]) -> str:
    began = time.monotonic()
    mark = " "
    try:
        await operation()
    except MQError:
        mark = "-"
    return f"{time.monotonic() - began:7.2f}{mark}"


async def measure(node: Member) -> str:
    """Create, set and find on a host that runs."""
    queue = node.core.by_path[f"{node.config.name}\\before".lower()]
    administration = node.manager.administration
    labelled = (Expression("label", Relation.EQUALS, "outage"),)

    def find() -> None:
        result, query = node.manager.directory.read_begin(ObjectClass.QUEUE, labelled, ("pathname",))
        if result is not DirectoryResult.SUCCESS or query is None:
            raise NoDsError(result.value)
        node.manager.directory.read_end(query)

    return (
        await timed(lambda: node.publish(f"q{time.monotonic_ns()}"))
        + await timed(
            lambda: node.daemon.change(
                lambda: administration.set_properties(
                    queue, [LABEL], [Variant(VT.LPWSTR, f"{time.monotonic()}")]
                )
            )
        )
        + await timed(lambda: node.daemon.ask(find, anew=True))
    )


async def both(node: Member, begin: Callable[[], None], end: Callable[[], None]) -> str:
    """Started in a state, and in that state after a start without."""
    begin()
    line = await timed(node.start) + await measure(node)
    await node.stop()
    end()
    await node.start()
    begin()
    line += "   " + await measure(node)
    await node.stop()
    end()
    return line


def become(doors: list[Relay], modes: tuple[Mode, Mode]) -> None:
    for door, mode in zip(doors, modes, strict=True):
        door.become(mode)


def tell(state: str, line: str) -> None:
    print(f"{state:28} {line}", flush=True)


async def run(domain: Domain, doors: list[Relay], path: Path) -> None:
    servers = tuple(
        f"{name}@127.0.0.1:{door.port}" for name, door in zip((HOST, HOST.upper()), doors, strict=True)
    )
    async with members(path, domain) as here:
        node = await here.join(ALICE, servers=servers, recheck_s=3600, watch_s=3600)
        await node.publish("before")
        await node.stop()
        columns = " create    set    find "
        tell("controllers", f"  start {columns}    running: {columns}(s)")
        for modes in STATES:
            line = await both(
                node,
                lambda: become(doors, modes),  # noqa: B023
                lambda: become(doors, (Mode.OPEN, Mode.OPEN)),
            )
            tell(" and ".join(mode.value for mode in modes), line)
        await one_controller(node, domain.controller)
        await by_dns(node, doors[0])


async def one_controller(node: Member, controller: DomainController) -> None:
    """Real processes that are ended, or stopped in the middle of whatever they do."""
    place = f"{HOST}@{controller.address}:{controller.ports['ldap']}"
    node.config = replace(node.config, directory=replace(node.config.directory, servers=(place,)))
    tell("the only one ended", await both(node, controller.stop, controller.start))
    tell(
        "the only one, SIGSTOP",
        await both(node, lambda: send(controller, signal.SIGSTOP), lambda: send(controller, signal.SIGCONT)),
    )


def send(controller: DomainController, number: signal.Signals) -> None:
    """Send a signal to each process of the controller that this program has started."""
    mark = f"{controller.directory}/etc/smb.conf".encode()
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if b"unshare" in (words := (each / "cmdline").read_bytes()) and mark in words:
                for child in descendants(int(each.name)):
                    os.kill(child, number)


def descendants(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="utf-8")
    children = [int(each) for each in listed.split()]
    return [*children, *(deeper for child in children for deeper in descendants(child))]


async def by_dns(node: Member, door: Relay) -> None:
    given = node.config.directory
    records = {"_ldap._tcp.dc._msdcs.msmq.test.": [f"0 0 {door.port} localhost."]}

    async def known_to(state: str, address: tuple[str, int]) -> None:
        found = KnownToDns(
            kind="ldap",
            domain="msmq.test",
            principal=given.principal,
            password_file=given.password_file,
            mechanism="ntlm",
            recheck_s=3600,
            watch_s=3600,
            name_server=address,
        )
        node.config = replace(node.config, directory=found)
        tell(state, await timed(node.start) + await measure(node))
        await node.stop()

    with fake_dns(records) as quick:
        await known_to("DNS works", quick)
    await known_to("DNS ended", quick)
    with fake_dns(records, SLOW_DNS_S) as slow:
        await known_to(f"DNS slow ({SLOW_DNS_S} s)", slow)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        await known_to("DNS silent", silent.getsockname())


def main() -> None:
    logging.disable(logging.WARNING)
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as path,
        lease(Path(path)) as controller,
        ExitStack() as stack,
    ):
        place = (controller.address, controller.ports["ldap"])
        doors = [stack.enter_context(relay(*place)) for _ in range(2)]
        asyncio.run(run(Domain(controller), doors, Path(path)))


if __name__ == "__main__":
    main()
