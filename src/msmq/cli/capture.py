"""``msmq capture``: captures that can be given to others. The work is imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from msmq.cli.calls import fail

HELP = "Prepare captures for others."
SCRUB_HELP = (
    "Copy a capture without its secrets, to send it to somebody.\n\n"
    "OUT has the packets of MSMQ and nothing else. Bodies, labels, extensions, keys, signatures and certificates are "
    "overwritten, addresses are replaced; sizes, flags, identifiers, times and the order of packets stay. Packets that "
    "cannot be decoded are left out and counted. Names of computers and queues, GUIDs and SIDs stay: look at OUT with "
    "'msmq decode OUT' before you send it.\n\n"
    "Status: 0, or 2 when IN could not be read as a capture or OUT could not be written.\n\n"
    "Examples:\n\n  msmq capture scrub msmq.pcap scrubbed.pcap"
)
UNREADABLE = 2

app = typer.Typer(help=HELP, no_args_is_help=True)


@app.callback()
def group() -> None:
    """Keep this a group, although it has only one command."""


@app.command(help=SCRUB_HELP, short_help="Copy a capture without its secrets.")
def scrub(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="IN", help="The capture.", show_default=False)],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The copy.", show_default=False)],
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="The TCP port of MSMQ.")] = 1801,
    ping_port: Annotated[
        int, typer.Option("--ping-port", min=1, max=65535, help="The UDP port of Pings.")
    ] = 3527,
) -> None:
    from msmq.capture import scrub as work
    from msmq.capture.format import Format
    from msmq.capture.inputs import Source, Tally, find_packets
    from msmq.capture.problems import UnreadableError

    try:
        # An existing file may be the only copy of something.
        with Source.open(source) as opened, target.open("xb") as out:
            done = work.scrub(find_packets(opened, Format.PCAP, port, ping_port, Tally()), out)
    except UnreadableError as error:
        target.unlink(missing_ok=True)
        fail(ctx, f"{source}: {error}", UNREADABLE)
    except OSError as error:
        fail(ctx, f"{target}: {error.strerror}", UNREADABLE)
    kinds = ", ".join(f"{count} {name}" for name, count in done.packets.items()) or "no packets"
    left_out = f"; {done.left_out} that could not be decoded were left out" if done.left_out else ""
    typer.echo(f"{target}: {kinds}; {done.overwritten:,} bytes of secrets overwritten{left_out}")
