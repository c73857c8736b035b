"""``msmq top``: a live view of queues, rates and sessions. The work is imported when it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from msmq.cli.calls import Json, perform
from msmq.cli.outgoing import shape

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    import msmq
    from msmq.client import Statistics

HELP = (
    "Watch queues, rates and sessions as they change, until interrupted.\n\n"
    "Rates are per second, over the last interval.\n\nExamples:\n\n"
    "  msmq top\n\n  msmq top --interval 5 --json >> figures.jsonl\n\n  msmq top --once"
)


def top(
    ctx: typer.Context,
    interval: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="Time between figures.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Measure for one interval, print, and end.")] = False,
    as_json: Json = False,
) -> None:
    async def action(mq: msmq.Connection) -> None:
        name = (await mq.manager()).computer_name
        figures = mq.statistics(interval, 2 if once else 0)
        before = await anext(figures)
        if as_json or once:
            async for now in figures:
                _print(name, before, now, as_json)
                before = now
        else:
            await _live(name, before, figures)

    perform(ctx, action)


def rates(before: Statistics, now: Statistics) -> dict[str, tuple[float, float]]:
    """Messages per second that came to each queue and left it; the empty name stands for the whole computer."""
    seconds = max((now.time - before.time).total_seconds(), 0.001)
    was = {queue.path: queue for queue in before.queues}
    found = {
        "": (
            (now.arrived_total - before.arrived_total) / seconds,
            (now.removed_total - before.removed_total) / seconds,
        )
    }
    for queue in now.queues:
        old = was.get(queue.path)
        arrived, removed = (old.arrived_total, old.removed_total) if old else (0, 0)
        found[queue.path] = (
            (queue.arrived_total - arrived) / seconds,
            (queue.removed_total - removed) / seconds,
        )
    return found


def _print(name: str, before: Statistics, now: Statistics, as_json: bool) -> None:
    from msmq.cli.output import console, print_json

    if as_json:
        print_json(figures(name, before, now))
    else:
        console().print(view(name, before, now))


def figures(name: str, before: Statistics, now: Statistics) -> dict[str, Any]:
    """The object for ``--json``."""
    from msmq.cli.output import plain

    rate = rates(before, now)

    def with_rates(shown: dict[str, Any], path: str) -> dict[str, Any]:
        arrived, removed = rate[path]
        return {**shown, "arrived_per_s": round(arrived, 1), "removed_per_s": round(removed, 1)}

    shown: dict[str, Any] = {"computer_name": name, **with_rates(plain(now), "")}
    shown["queues"] = [with_rates(plain(queue), queue.path) for queue in now.queues]
    shown["outgoing"] = [shape(queue) for queue in now.outgoing]
    return shown


def view(name: str, before: Statistics, now: Statistics) -> Group:
    """The contents of the screen."""
    from rich.console import Group

    from msmq.cli.output import cell, several, size

    rate = rates(before, now)
    arrived, removed = rate[""]
    head = (
        f"{name}  {cell(now.time)}  up since {cell(now.started_time)}\n"
        f"{several(now.messages, 'message')}, {size(now.bytes)} ({size(now.express_bytes)} in memory)  "
        f"in {arrived:,.1f}/s  out {removed:,.1f}/s  {several(now.transactions, 'transaction')}  "
        f"{several(len(now.sessions), 'session')}"
    )
    parts: list[Any] = [head, _queues(now, rate)]
    if now.outgoing:
        parts.append(_outgoing(now))
    if now.sessions:
        peers = (f"{peer.peer} ({'from there' if peer.incoming else 'to there'})" for peer in now.sessions)
        parts.append("sessions: " + ", ".join(peers))
    return Group(*parts)


def _queues(now: Statistics, rate: dict[str, tuple[float, float]]) -> Table:
    from rich.table import Table

    from msmq.cli.output import clean, size

    table = Table("queue", box=None, pad_edge=False)
    for title in ("messages", "size", "in/s", "out/s", "journal", "readers"):
        table.add_column(title, justify="right")
    for queue in sorted(now.queues, key=lambda queue: (-sum(rate[queue.path]), -queue.messages, queue.path)):
        arrived, removed = rate[queue.path]
        table.add_row(
            clean(queue.path),
            f"{queue.messages:,}",
            size(queue.bytes),
            f"{arrived:,.1f}",
            f"{removed:,.1f}",
            f"{queue.journal_messages:,}",
            str(queue.waiting_readers),
        )
    return table


def _outgoing(now: Statistics) -> Table:
    from rich.table import Table

    from msmq.cli.output import clean

    table = Table("outgoing to", "state", box=None, pad_edge=False)
    table.add_column("messages", justify="right")
    table.add_column("last error")
    for queue in now.outgoing:
        table.add_row(clean(queue.format_name), queue.state, f"{queue.messages:,}", queue.last_error_words)
    return table


async def _live(name: str, before: Statistics, given: AsyncIterator[Statistics]) -> None:
    from rich.live import Live

    from msmq.cli.output import console

    with Live(view(name, before, before), console=console(), screen=True, auto_refresh=False) as screen:
        async for now in given:
            screen.update(view(name, before, now), refresh=True)
            before = now
