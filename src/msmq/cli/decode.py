"""``msmq decode``: show what packets say. Help needs only this module; the work is imported when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from msmq.capture.format import Format

DAMAGED = 1
UNREADABLE = 2


HELP = (
    "Show what MSMQ packets say, field by field.\n\n"
    "FILE holds packets as hexadecimal text, as raw bytes, or as a pcap or pcapng capture; its first bytes "
    "tell which. Without FILE, or with -, standard input is read. In captures the TCP streams of the MSMQ "
    "port are put together again, and the Pings of the ping port are read too.\n\n"
    "Examples:\n\n"
    "  msmq decode capture.pcapng\n\n"
    "  msmq decode --brief capture.pcapng\n\n"
    "  msmq decode --checklist capture.pcapng\n\n"
    "  msmq decode --json capture.pcapng | jq 'select(.packet == \"UserMessage\")'\n\n"
    "  tcpdump -i any -U -w - 'port 1801 or port 3527' | msmq decode\n\n"
    "  echo '017d 4855 04000000 d1587355 50919595 4997b6e6 11ea26c6' | msmq decode\n\n"
    "  msmq decode --as PROPID_S_SECURITY descriptor.hex\n\n"
    "With --as the input is one structure instead, in NDR: a propvariant, a queue-format (the QUEUE_FORMAT of remote "
    "read and others), or the value of a property by its name, PROPID_Q_LABEL and so on.\n\n"
    "Status: 0 when everything was decoded, 1 when packets were malformed, bytes missing, or a row of --checklist is "
    "not as it should be, 2 when the input could not be read."
)


def decode(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What to decode.", show_default=False)] = "-",
    form: Annotated[Format, typer.Option("--format", help="How FILE is written.")] = Format.AUTO,
    kind: Annotated[
        str,
        typer.Option(
            "--as", metavar="KIND", help="The structure to read: propvariant, queue-format or PROPID_*."
        ),
    ] = "packets",
    ndr64: Annotated[bool, typer.Option("--ndr64", help="With --as: the input is NDR64.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per packet and line.")] = False,
    brief: Annotated[bool, typer.Option("--brief", help="Only a title and a sentence per packet.")] = False,
    checklist: Annotated[
        bool,
        typer.Option(
            "--checklist",
            help="Say which rows of the page 'Try it against Windows' a capture shows, and how they went.",
        ),
    ] = False,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="Give the place and size of each field.")
    ] = False,
    max_body: Annotated[
        int,
        typer.Option("--max-body", metavar="N", min=0, help="Show at most N characters of a body as text."),
    ] = 512,
    port: Annotated[
        int, typer.Option("--port", min=1, max=65535, help="The TCP port of MSMQ in captures.")
    ] = 1801,
    ping_port: Annotated[
        int, typer.Option("--ping-port", min=1, max=65535, help="The UDP port of Pings in captures.")
    ] = 3527,
) -> None:
    if kind != "packets":
        from msmq.cli.decode_value import run_value

        raise typer.Exit(run_value(file, form, kind, ndr64=ndr64, as_json=as_json))
    from msmq.cli.decode_work import Options, run

    options = Options(as_json, checklist, brief, offsets, max_body, port, ping_port)
    raise typer.Exit(run(file, form, options))
