"""``msmq definitions``: export and import what is set up. The work is imported when it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from msmq.cli.calls import Json, fail, perform, with_examples

if TYPE_CHECKING:
    import msmq
    from msmq.web.definitions import Change

HELP = "Export, compare and import queues, access lists, accounts, tokens and alarms as one document."
EXPORT_HELP = with_examples(
    "Write the definitions of the queue manager as JSON, or as YAML where the file is called so. Messages, owners, "
    "passwords and the secrets of tokens are not part of them.",
    "msmq definitions export > definitions.json",
    "msmq definitions export --output definitions.yaml",
)
DIFF_HELP = with_examples(
    "Say what importing a document would change. Status: 0 when nothing would, 1 when something would.",
    "msmq definitions diff definitions.json",
)
IMPORT_HELP = with_examples(
    "Set up what a document says: make what is missing, change what differs. What it does not name stays.",
    "msmq definitions import definitions.json --dry-run",
    "msmq definitions import definitions.yaml",
)

app = typer.Typer(help=HELP, no_args_is_help=True)
_File = Annotated[Path, typer.Argument(metavar="FILE", help="JSON or YAML; - for standard input.")]


@app.command("export", help=EXPORT_HELP, short_help="Write the definitions.")
def export_(
    ctx: typer.Context,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to; standard output when not given.")
    ] = None,
) -> None:
    from msmq.web.definitions import export

    document = perform(ctx, export)
    text = _written(ctx, document, output is not None and output.suffix in (".yaml", ".yml"))
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(ctx, f"{output}: {error.strerror}")


@app.command("diff", help=DIFF_HELP, short_help="Compare with a document.")
def diff_(ctx: typer.Context, file: _File, as_json: Json = False) -> None:
    from msmq.web.definitions import diff

    document = _read(ctx, file)

    async def action(mq: msmq.Connection) -> list[Change]:
        return await diff(mq, document)

    changes = perform(ctx, action)
    _print(changes, as_json)
    if any(change.what != "extra" for change in changes):
        raise typer.Exit(1)


@app.command("import", help=IMPORT_HELP, short_help="Set up what a document says.")
def import_(
    ctx: typer.Context,
    file: _File,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
    as_json: Json = False,
) -> None:
    from msmq.cli.output import print_json
    from msmq.web.definitions import bring, diff

    document = _read(ctx, file)

    async def action(mq: msmq.Connection) -> tuple[list[Change], dict[str, str]]:
        return (await diff(mq, document), {}) if dry_run else await bring(mq, document)

    changes, secrets = perform(ctx, action)
    _print(changes, as_json)
    for name, secret in secrets.items():
        if as_json:
            print_json({"name": name, "secret": secret})
        else:
            print(f"the new {name} has the secret {secret}; it is not told again")


def _print(changes: list[Change], as_json: bool) -> None:
    from dataclasses import asdict

    from msmq.cli.output import print_json

    for change in changes:
        print_json(asdict(change)) if as_json else print(change)
    if not changes and not as_json:
        print("nothing differs")


def _written(ctx: typer.Context, document: dict[str, Any], as_yaml: bool) -> str:
    import json

    if not as_yaml:
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    from msmq.web.definitions import write_yaml

    try:
        return write_yaml(document)
    except ImportError:
        fail(ctx, "YAML needs `pip install msmq[web]`; JSON needs nothing")


def _read(ctx: typer.Context, file: Path) -> Any:
    from msmq.web.definitions import read

    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(ctx, f"{file}: {error}")
    try:
        return read(text)
    except ImportError:
        fail(ctx, f"{file} is no JSON, and YAML needs `pip install msmq[web]`")
    except ValueError as error:
        fail(ctx, f"{file} is neither JSON nor YAML: {error}")
