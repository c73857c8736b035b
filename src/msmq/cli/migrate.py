"""``msmq migrate``: from an inventory of a Windows host to queues here. The work is imported when it runs.

The inventory is the file that ``packaging/windows/inventory.ps1`` writes. The plan is a script of ordinary commands,
which people can read, change and run as often as they like. The definitions are the same in a document, which ``msmq
definitions`` compares with the queues here and imports.
"""

from __future__ import annotations

import codecs
import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer

from msmq.cli.calls import REFUSED, fail

T = TypeVar("T")

HELP = "Move from Windows: from an inventory of a host to queues here."
PLAN_HELP = (
    "Print the commands that make the queues of a Windows host here.\n\n"
    "FILE is what packaging/windows/inventory.ps1 wrote on that host. The output is a script for sh; read it, change "
    "it, then run it. Nothing is changed by this command, and the script may be run twice. What has no equal here "
    "stands in it as a comment.\n\n"
    "Status: 0, or 1 when FILE is no inventory.\n\nExamples:\n\n"
    "  msmq migrate plan inventory.json > plan.sh"
)
DEFINITIONS_HELP = (
    "Print the queues of a Windows host as definitions, for 'msmq definitions diff' and 'import'.\n\n"
    "FILE is what packaging/windows/inventory.ps1 wrote on that host. Each queue gets the access list that it has "
    "there, and no other rights; 'msmq migrate plan' adds its rights to the usual ones instead. What has no equal here "
    "is left out and named on standard error.\n\n"
    "Status: 0, or 1 when FILE is no inventory.\n\nExamples:\n\n"
    "  msmq migrate definitions inventory.json > definitions.json\n\n"
    "  msmq definitions diff definitions.json"
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
"""The names of rights in System.Messaging, in lower case, and on the command line."""
_NO_LIMIT_KB: Final = 0xFFFFFFFF
_PUBLIC: Final = "a public queue: join the domain first, then create it by its name."
_PRIVACY: Final = ("none", "optional", "body")
"""Privacy levels by number."""
_File = Annotated[Path, typer.Argument(metavar="FILE", help="The inventory.", show_default=False)]

app = typer.Typer(help=HELP, no_args_is_help=True)


@app.command(help=PLAN_HELP, short_help="Print the commands that make the queues of a Windows host here.")
def plan(ctx: typer.Context, file: _File) -> None:
    for line in _made(ctx, file, lambda inventory: list(commands(inventory))):
        typer.echo(line)


@app.command(
    "definitions", help=DEFINITIONS_HELP, short_help="Print the queues of a Windows host as definitions."
)
def definitions_(ctx: typer.Context, file: _File) -> None:
    document, left_out = _made(ctx, file, definitions)
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
    for text in left_out:
        typer.echo(f"left out: {text}", err=True)


def _made(ctx: typer.Context, file: Path, make: Callable[[dict[str, Any]], T]) -> T:
    """Make something of the inventory in a file."""
    try:
        return make(read(file.read_bytes()))
    except OSError as error:
        fail(ctx, f"{file}: {error.strerror}", REFUSED)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        fail(
            ctx, f"{file} is no inventory: {error!r}. Write one with packaging/windows/inventory.ps1", REFUSED
        )


def read(content: bytes) -> dict[str, Any]:
    """Read an inventory from its file. PowerShell 5 writes UTF-16 when its output is redirected, newer versions
    UTF-8."""
    is_wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    inventory: dict[str, Any] = json.loads(content.decode("utf-16" if is_wide else "utf-8-sig"))
    return inventory


def commands(inventory: dict[str, Any]) -> Iterator[str]:
    """The lines of the script."""
    queues = inventory["queues"]
    yield "#!/bin/sh"
    yield f"# Queues of {_comment(inventory['computer'])}: {len(queues)} of them. Read it, change it, run it."
    yield "set -eu"
    for queue in queues:
        yield from _queue(queue)


def _queue(queue: dict[str, Any]) -> Iterator[str]:
    path = _private_path(queue)
    yield ""
    if path is None:
        yield f"# {_comment(queue['path'])} is {_PUBLIC}"
        return
    words = ["msmq", "queue", "create", path, "--if-missing"]
    words += ["--transactional"] if queue.get("transactional") else []
    words += ["--label", str(queue["label"])] if queue.get("label") else []
    words += ["--journal"] if queue.get("journal") else []
    for option, key in (("--quota", "quota_kb"), ("--journal-quota", "journal_quota_kb")):
        limit = _limit(queue, key)
        words += [option, str(limit)] if limit is not None else []
    words += ["--authenticated"] if queue.get("authenticate") else []
    privacy = _privacy(queue)
    words += ["--privacy", privacy] if privacy != "optional" else []
    yield shlex.join(words)
    if queue.get("messages"):
        yield f"# {int(queue['messages'])} messages wait in it on Windows; they are not copied."
    for entry in queue.get("acl", []):
        yield from _right(path, entry)


def _right(path: str, entry: dict[str, Any]) -> Iterator[str]:
    sid, known, unknown = _rights(entry)
    if unknown:
        yield f"# no equal for {_comment(', '.join(unknown))} of {_comment(entry['who'])}"
    if known:
        option = "--allow" if entry.get("allow", True) else "--deny"
        right = f"{sid}={','.join(known)}"
        yield f"{shlex.join(['msmq', 'queue', 'acl', 'set', path, option, right])}  # {_comment(entry['who'])}"


def definitions(inventory: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The document, and what was left out of it."""
    queues, left_out = [], []
    for queue in inventory["queues"]:
        path = _private_path(queue)
        if path is None:
            left_out.append(f"{_comment(queue['path'])} is {_PUBLIC}")
            continue
        made = {
            "path": path,
            "transactional": bool(queue.get("transactional")),
            "label": str(queue.get("label") or ""),
            "journaling": bool(queue.get("journal")),
            "quota_kb": _limit(queue, "quota_kb"),
            "journal_quota_kb": _limit(queue, "journal_quota_kb"),
            "authenticated_only": bool(queue.get("authenticate")),
            "privacy_level": _PRIVACY.index(_privacy(queue)),
        }
        entries = list(queue.get("acl", []))
        for entry in entries:
            if unknown := _rights(entry)[2]:
                left_out.append(f"{path}: {_comment(', '.join(unknown))} of {_comment(entry['who'])}")
        if entries:
            made["sddl"] = _access_list(entries)
        queues.append(made)
    return {"openmsmq_definitions": 1, "queues": queues}, left_out


def _access_list(entries: list[dict[str, Any]]) -> str:
    """An access list in SDDL, in the form that exports have, with denials first as in Windows."""
    from msmq.cli.access import rights_of
    from msmq.security.sddl import format_sddl, parse_sddl

    found = []
    for entry in sorted(entries, key=lambda each: bool(each.get("allow", True))):
        sid, known, _ = _rights(entry)
        if known:
            mask = rights_of(",".join(known), manager=False)
            found.append(f"({'A' if entry.get('allow', True) else 'D'};;0x{mask:x};;;{sid})")
    return format_sddl(parse_sddl("D:" + "".join(found)))


def _private_path(queue: dict[str, Any]) -> str | None:
    """The path of a private queue on this host, or None for a public queue."""
    name = str(queue["path"]).partition("\\")[2]
    return f".\\{name}" if name.lower().startswith("private$\\") else None


def _limit(queue: dict[str, Any], key: str) -> int | None:
    limit = queue.get(key)
    return int(limit) if limit is not None and int(limit) < _NO_LIMIT_KB else None


def _privacy(queue: dict[str, Any]) -> str:
    said = str(queue.get("privacy", "optional")).lower()
    return said if said in _PRIVACY else "optional"


def _rights(entry: dict[str, Any]) -> tuple[str, list[str], list[str]]:
    """The SID of an entry, its rights by their names on the command line, and those that have no equal.

    An account that the Windows host could no longer find has a name instead of a SID, and gets no rights here.
    """
    from msmq.cli.access import AccessError, sid_of

    asked = [each.strip() for each in str(entry["rights"]).split(",") if each.strip()]
    try:
        sid = sid_of(str(entry["sid"]))
    except AccessError:
        return "", [], asked
    known = [RIGHTS[each.lower()] for each in asked if each.lower() in RIGHTS]
    return sid, known, [each for each in asked if each.lower() not in RIGHTS]


def _comment(text: object) -> str:
    """A text that cannot break out of a comment: the inventory may come from somebody else."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text))
