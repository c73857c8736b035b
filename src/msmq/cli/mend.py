"""``msmq directory check`` and ``repair``: find differences between a host and its directory, and mend them."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from msmq.cli.calls import Json, Server, server_of, with_examples
from msmq.cli.domain import REFUSED, AsUser, ConfigFile, joining, refusals

if TYPE_CHECKING:
    import msmq
    from msmq.client import Difference
    from msmq.directory.join import Finding, Joining
    from msmq.server.config import Config

T = TypeVar("T")

_AT_ONCE = 16
"""The most queues mended at a time: their requests to the directory go together."""

CHECK_HELP = with_examples(
    "List every difference between this host and its directory, with what can be done about it. The queue manager may "
    "run or not. Status: 1 if there are any.",
    "msmq directory check --config /etc/msmq/msmq.toml",
)
REPAIR_HELP = with_examples(
    "Mend differences between this host and its directory, each in the way that was chosen: publish (make an object "
    "again that the directory has lost), adopt (have a queue here that only the directory has), delete-here, "
    "delete-there, take-theirs or write-ours (whose properties count). A difference that none of the choices is for is "
    "left and listed. The queue manager must run.",
    "msmq directory repair --choose publish --choose adopt --config /etc/msmq/msmq.toml",
    "msmq directory repair 'QM1\\orders' --choose delete-here --discard-messages --config /etc/msmq/msmq.toml",
)


def check(ctx: typer.Context, config: ConfigFile, user: AsUser = "", as_json: Json = False) -> None:
    with refusals(), joining(config, user) as here:
        findings = [finding for finding in everything(ctx, config, here) if as_json or not finding.good]
    show(findings, as_json)
    if not findings:
        print("no differences")
    if any(not finding.good for finding in findings):
        raise typer.Exit(REFUSED)


def show(findings: list[Finding], as_json: bool) -> None:
    """Print findings, with the remedy of each that is wrong."""
    from msmq.cli.output import print_json

    for finding in findings:
        if as_json:
            print_json(finding._asdict())
            continue
        print(f"{'ok' if finding.good else 'WRONG':5} {finding.what}: {finding.detail}")
        if finding.remedy:
            print(f"      {finding.remedy}")


def everything(ctx: typer.Context, file: Path, here: Joining) -> Iterator[Finding]:
    """Check what a queue manager in a domain needs, then the differences between this host and the directory."""
    from msmq.directory.join import Finding
    from msmq.server.config import load

    manager = ""
    reached = True
    for finding in here.inspect():
        yield finding
        reached = finding.what != "domain controller" or finding.good
        if finding.what == "queue manager" and finding.good:
            manager = finding.detail
    if not reached:
        return
    config = load(file)
    identifier, found = _host(ctx, config, here)
    if identifier and manager and identifier != manager:
        yield Finding(
            "identity",
            False,
            f"this host is {identifier}, and the directory has {manager}",
            "Start the queue manager again: it takes over the identifier that the directory has.",
        )
    for each in found:
        how = " or ".join(f"--choose {choice}" for choice in each.choices)
        remedy = f"msmq directory repair '{each.queue}' {how} --config {file}"
        yield Finding(f"queue {each.queue}", False, f"{each.kind}: {each.detail}", remedy)


def _host(ctx: typer.Context, config: Config, here: Joining) -> tuple[str, list[Difference]]:
    """The identifier of the host, and the differences, from the queue manager if it runs, else from its store."""
    from msmq.client import Difference, ServerNotAvailableError
    from msmq.manager.differences import differences
    from msmq.server.stored_queues import stored_queues
    from msmq.store.errors import NotAStoreError
    from msmq.wire.guid import guid_text

    async def ask(mq: msmq.Connection) -> tuple[str, list[Difference]]:
        return (await mq.manager()).identifier, await mq.check_directory()

    try:
        return _call(ctx, config, ask)
    except ServerNotAvailableError:
        pass
    try:
        identifier, queues = stored_queues(config.data / "store")
    except (NotAStoreError, FileNotFoundError):
        identifier, queues = b"", []
    there = here.published() if identifier or here.is_there() else []
    found = [
        Difference(each.kind, each.queue, each.detail, tuple(each.choices))
        for each in differences(queues, there)
    ]
    return guid_text(identifier) if identifier else "", found


def _call(ctx: typer.Context, config: Config, action: Callable[[msmq.Connection], Awaitable[T]]) -> T:
    """Call the queue manager of a configuration; ``--server`` says where it is if the configuration does not."""
    import asyncio

    server = server_of(ctx)
    if server.address is None and config.api.plate.listen:
        server = Server(config.api.plate.listen[0], token=server.token)

    async def connected() -> T:
        async with server.connection() as mq:
            return await action(mq)

    return asyncio.run(connected())


def repair(
    ctx: typer.Context,
    queues: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUEUE...", help="Only these; all of them without.", show_default=False),
    ] = None,
    *,
    config: ConfigFile,
    choose: Annotated[
        list[str],
        typer.Option(
            metavar="CHOICE",
            help="publish, adopt, delete-here, delete-there, take-theirs or write-ours; several may be given.",
        ),
    ],
    discard_messages: Annotated[
        bool, typer.Option("--discard-messages", help="delete-here also deletes queues with messages.")
    ] = False,
) -> None:
    import asyncio

    from msmq.directory.join import JoiningError
    from msmq.errors import MQError
    from msmq.manager.differences import Choice
    from msmq.server.config import load

    with refusals():
        unknown = [choice for choice in choose if choice not in list(Choice)]
        if unknown:
            raise JoiningError(f"{', '.join(unknown)} is none of {', '.join(Choice)}.")
        wanted = {name.lower() for name in queues or ()}
        left = False

        async def mend(mq: msmq.Connection) -> None:
            nonlocal left
            computer = (await mq.manager()).computer_name.lower()
            named = {name.replace(".\\", f"{computer}\\", 1) for name in wanted}
            turns = asyncio.Semaphore(_AT_ONCE)

            async def one(each: Difference) -> None:
                nonlocal left
                choice = next((choice for choice in choose if choice in each.choices), None)
                if choice is None:
                    left = True
                    print(f"left {each.queue}, {each.kind}: choose {' or '.join(each.choices)}")
                    return
                try:
                    async with turns:
                        await mq.repair_queue(each.queue, choice, discard_messages=discard_messages)
                except MQError as error:
                    left = True
                    print(f"left {each.queue}, {each.kind}: {error}", file=sys.stderr)
                else:
                    print(f"{choice} {each.queue}: done")

            found = await mq.check_directory()
            await asyncio.gather(*(one(each) for each in found if not named or each.queue.lower() in named))

        _call(ctx, load(config), mend)
    if left:
        raise typer.Exit(REFUSED)
