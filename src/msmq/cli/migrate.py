"""``msmq migrate``: from an inventory of a Windows host to queues here. The work is imported when it runs.

The inventory is the file that ``packaging/windows/inventory.ps1`` writes. The plan is a script of ordinary commands:
people read it, change it and run it, as often as they like.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from msmq.cli.calls import REFUSED, fail

HELP = "Move from Windows: from an inventory of a host to queues here."
PLAN_HELP = (
    "Print the commands that make the queues of a Windows host here.\n\n"
    "FILE is what packaging/windows/inventory.ps1 wrote on that host. The output is a script for sh; read it, change "
    "it, then run it. Nothing is changed by this command, and the script may be run twice. What has no equal here "
    "stands in it as a comment.\n\n"
    "Status: 0, or 1 when FILE is no inventory.\n\nExamples:\n\n"
    "  msmq migrate plan inventory.json > plan.sh"
)
RIGHTS: Final = {
    "fullcontrol": "full",
    "receivemessage": "receive",
    "receivejournalmessage": "receive-journal-message",
    "peekmessage": "peek",
    "writemessage": "send",
    "deletequeue": "delete-queue",
    "setqueueproperties": "set-queue-properties",
    "getqueueproperties": "get-queue-properties",
    "getqueuepermissions": "get-queue-permissions",
    "changequeuepermissions": "change-queue-permissions",
    "takequeueownership": "take-queue-ownership",
}
"""What System.Messaging calls a right, in small letters, and what the command line calls it."""
_NO_LIMIT_KB: Final = 0xFFFFFFFF
_PRIVACY: Final = {"none": "none", "optional": "optional", "body": "body"}

app = typer.Typer(help=HELP, no_args_is_help=True)


@app.callback()
def group() -> None:
    """A group with one command is a group all the same."""


@app.command(help=PLAN_HELP, short_help="Print the commands that make the queues of a Windows host here.")
def plan(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The inventory.", show_default=False)],
) -> None:
    try:
        inventory = json.loads(file.read_text(encoding="utf-8-sig"))
        lines = list(commands(inventory))
    except OSError as error:
        fail(ctx, f"{file}: {error.strerror}", REFUSED)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        fail(
            ctx, f"{file} is no inventory: {error!r}. Write one with packaging/windows/inventory.ps1", REFUSED
        )
    for line in lines:
        typer.echo(line)


def commands(inventory: dict[str, Any]) -> Iterator[str]:
    """The script, line by line."""
    queues = inventory["queues"]
    yield "#!/bin/sh"
    yield f"# Queues of {_comment(inventory['computer'])}: {len(queues)} of them. Read it, change it, run it."
    yield "set -eu"
    for queue in queues:
        yield from _queue(queue)


def _queue(queue: dict[str, Any]) -> Iterator[str]:
    name = str(queue["path"]).partition("\\")[2]
    yield ""
    if not name.lower().startswith("private$\\"):
        yield f"# {_comment(queue['path'])} is a public queue: join the domain first, then create it by its name."
        return
    path = f".\\{name}"
    words = ["msmq", "queue", "create", path, "--if-missing"]
    words += ["--transactional"] if queue.get("transactional") else []
    words += ["--label", str(queue["label"])] if queue.get("label") else []
    words += ["--journal"] if queue.get("journal") else []
    for option, key in (("--quota", "quota_kb"), ("--journal-quota", "journal_quota_kb")):
        limit = queue.get(key)
        words += [option, str(int(limit))] if limit is not None and int(limit) < _NO_LIMIT_KB else []
    words += ["--authenticated"] if queue.get("authenticate") else []
    privacy = _PRIVACY.get(str(queue.get("privacy", "optional")).lower())
    words += ["--privacy", privacy] if privacy and privacy != "optional" else []
    yield shlex.join(words)
    if queue.get("messages"):
        yield f"# {int(queue['messages'])} messages wait in it on Windows; they are not copied."
    for entry in queue.get("acl", []):
        yield from _right(path, entry)


def _right(path: str, entry: dict[str, Any]) -> Iterator[str]:
    asked = [each.strip() for each in str(entry["rights"]).split(",") if each.strip()]
    known = [RIGHTS[each.lower()] for each in asked if each.lower() in RIGHTS]
    if unknown := [each for each in asked if each.lower() not in RIGHTS]:
        yield f"# no equal for {_comment(', '.join(unknown))} of {_comment(entry['who'])}"
    if known:
        option = "--allow" if entry.get("allow", True) else "--deny"
        right = f"{entry['sid']}={','.join(known)}"
        yield f"{shlex.join(['msmq', 'queue', 'acl', 'set', path, option, right])}  # {_comment(entry['who'])}"


def _comment(text: object) -> str:
    """A text that cannot leave its comment: the inventory may come from somebody else."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text))
