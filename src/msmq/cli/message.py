"""``msmq message``: the commands about messages, which are also commands themselves (``msmq send``)."""

from __future__ import annotations

import typer

from msmq.cli import export_import, receive, send

HELP = "Send, receive, look at, move, export and import messages."

COMMANDS = (
    ("send", send.send, send.SEND_HELP, "Send a message, or many."),
    ("receive", receive.receive, receive.RECEIVE_HELP, "Take messages out of a queue."),
    ("peek", receive.peek, receive.PEEK_HELP, "Look at messages and leave them there."),
    ("follow", receive.follow, receive.FOLLOW_HELP, "Show messages as they come."),
    ("move", receive.move, receive.MOVE_HELP, "Move messages to another queue."),
    ("export", export_import.export, export_import.EXPORT_HELP, "Write messages to a file."),
    ("import", export_import.import_, export_import.IMPORT_HELP, "Send the messages of a file."),
)
"""Name, function, help and summary of the commands that exist both in this group and outside it."""

app = typer.Typer(help=HELP, no_args_is_help=True)
app.command("new", help=send.NEW_HELP, short_help="Write a message as JSON.")(send.new)
app.command("show", help=receive.SHOW_HELP)(receive.show)


def register(target: typer.Typer, panel: str | None = None) -> None:
    """Register the commands with ``target``."""
    for name, function, text, summary in COMMANDS:
        target.command(name, help=text, short_help=summary, rich_help_panel=panel)(function)


register(app)
