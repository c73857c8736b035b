"""``msmq message``: the commands about messages, which also stand alone (``msmq send``)."""

from __future__ import annotations

import typer

from msmq.cli import carrying, receiving, sending

HELP = "Send, receive, look at, move, export and import messages."

COMMANDS = (
    ("send", sending.send, sending.SEND_HELP, "Send a message, or many."),
    ("receive", receiving.receive, receiving.RECEIVE_HELP, "Take messages out of a queue."),
    ("peek", receiving.peek, receiving.PEEK_HELP, "Look at messages and leave them there."),
    ("follow", receiving.follow, receiving.FOLLOW_HELP, "Show messages as they come."),
    ("move", receiving.move, receiving.MOVE_HELP, "Move messages to another queue."),
    ("export", carrying.export, carrying.EXPORT_HELP, "Write messages to a file."),
    ("import", carrying.import_, carrying.IMPORT_HELP, "Send the messages of a file."),
)
"""Name, function, help and summary of what is both a command and a command of this group."""

app = typer.Typer(help=HELP, no_args_is_help=True)
app.command("new", help=sending.NEW_HELP, short_help="Write a message as JSON.")(sending.new)
app.command("show", help=receiving.SHOW_HELP)(receiving.show)


def register(target: typer.Typer, panel: str | None = None) -> None:
    """Make the commands commands of ``target``."""
    for name, function, text, summary in COMMANDS:
        target.command(name, help=text, short_help=summary, rich_help_panel=panel)(function)


register(app)
