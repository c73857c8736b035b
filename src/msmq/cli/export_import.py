"""``msmq export`` and ``msmq import``: messages to a file and back. The work is imported when it runs.

A file holds one message per line, as JSON. Both commands may be interrupted at any moment and can be continued:

* ``export`` writes a line, makes it durable, and only then removes the message, if asked to. With
  ``--resume`` an incomplete line is dropped, and messages that the file has are not written again.
* ``import`` gives the row of messages a name, stores it beside the file, and then sends the row in parts. The
  queue manager records the progress of the row in the same step in which it takes a part, so that each message is sent
  once, whatever is interrupted: this program, the connection or the queue manager.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

import typer

from msmq.cli.calls import MISUSED, Json, QueueName, fail, guarded, perform

if TYPE_CHECKING:
    import msmq
    from msmq.client import Message, ReceivedMessage, Receiver

BATCH: Final = 128
_PART_BYTES: Final = 1 << 19

EXPORT_HELP = (
    "Write the messages of a queue to a file, one JSON object per line.\n\n"
    "Messages stay in the queue; with --remove each leaves it once its line is on the disk. An export that was "
    "interrupted goes on with --resume; nothing is lost and nothing is written twice.\n\nExamples:\n\n"
    "  msmq export '.\\private$\\orders' orders.jsonl\n\n"
    "  msmq export '.\\deadletter$' dead.jsonl --remove\n\n"
    "  msmq export '.\\private$\\orders' - | jq .label"
)
IMPORT_HELP = (
    'Send the messages of a file that export wrote, or of any file with one JSON object per line; only "body" is '
    "asked for.\n\n"
    "Each message is sent once, whatever interrupts the command. The queue manager remembers how far an import has "
    "come, and a file beside FILE, FILE.*.state, one for each queue, which import it was; one that ended early goes "
    "on when it is started again, and the file is removed when all is sent. What is read from standard input (-) "
    "begins at its first line every time.\n\nExamples:\n\n"
    "  msmq import '.\\private$\\orders' orders.jsonl\n\n"
    "  echo '{\"body\": \"two coffees\"}' | msmq import '.\\private$\\orders' -"
)

_File = Annotated[
    str, typer.Argument(metavar="FILE", help="The file; - for standard output or input.", show_default=False)
]


class FileError(ValueError):
    """A file has unexpected contents."""


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on a terminal, and nothing elsewhere."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from msmq.cli.output import console

    terminal = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)


# --- export -------------------------------------------------------------------------------------------------------


def export(
    ctx: typer.Context,
    queue: QueueName,
    file: _File,
    remove: Annotated[bool, typer.Option("--remove", help="Remove what was written from the queue.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a file that is there.")] = False,
    as_json: Json = False,
) -> None:
    from msmq.cli.output import print_json, several

    with closing(guarded(ctx, lambda: _Target(file, resume=resume))) as target:
        try:
            written = perform(ctx, lambda mq: _export(mq, queue, target, remove))
        except BaseException:
            target.leave()
            raise
    if file == "-":
        return
    if as_json:
        print_json({"queue": queue, "file": file, "messages": written, "removed": remove})
    else:
        print(f"wrote {several(written, 'message')} of {queue} to {file}")


class _Target:
    """The file that is written, and the messages that it has."""

    def __init__(self, file: str, *, resume: bool) -> None:
        self.known: set[tuple[int, str]] = set()
        self._made: Path | None = None
        """The file, if it was not there before."""
        self._stream: BinaryIO
        if file == "-":
            self._stream = sys.stdout.buffer
            return
        path = Path(file)
        is_there = path.exists()
        if is_there and not path.is_file():
            raise FileError(f"{file} is no file to write to; - is standard output.")
        if is_there and path.stat().st_size and not resume:
            raise FileError(f"{file} is there already. Add --resume to go on with it, or take another name.")
        self._stream = path.open("r+b" if is_there else "w+b")
        self._made = None if is_there else path
        try:
            self._read()
        except BaseException:
            self.close()
            raise

    def _read(self) -> None:
        """Read the messages that the file has, and drop an incomplete last line."""
        end = 0
        for number, line in enumerate(self._stream, 1):
            if not line.endswith(b"\n"):
                break
            try:
                record = json.loads(line)
                self.known.add((record["lookup_id"], record["message_id"]))
            except (ValueError, KeyError, TypeError):
                raise FileError(f"Line {number} of the file was not written by export.") from None
            end += len(line)
        self._stream.seek(end)
        self._stream.truncate()

    def write(self, messages: list[ReceivedMessage]) -> int:
        """Write messages that the file does not have. They are on the disk when this returns. Returns how many there
        were."""
        from msmq.client.records import to_record

        written = 0
        for message in messages:
            key = (message.lookup_id, message.id)
            if key in self.known:
                continue
            self.known.add(key)
            self._stream.write(
                json.dumps(to_record(message, exact=True), ensure_ascii=False).encode() + b"\n"
            )
            written += 1
        self._stream.flush()
        if self._stream is not sys.stdout.buffer:
            os.fsync(self._stream.fileno())
        return written

    def leave(self) -> None:
        """Remove a file in which there is nothing, after an export that failed: it would be in the way of the next."""
        if self._made is not None and not self.known:
            self._made.unlink(missing_ok=True)

    def close(self) -> None:
        if self._stream is not sys.stdout.buffer:
            self._stream.close()


async def _export(mq: msmq.Connection, queue: str, target: _Target, remove: bool) -> int:
    total = (await mq.queue_info(queue)).messages
    written = 0
    with progress(f"exporting {queue}", total) as advance:
        if remove:
            async with mq.queue(queue).receiver(prefetch=BATCH) as receiver:
                while batch := await _held(receiver):
                    written += target.write(batch)
                    await receiver.acknowledge(*batch)
                    advance(len(batch))
            return written
        batch = []
        async for message in mq.queue(queue).browse():
            batch.append(message)
            if len(batch) == BATCH:
                written += target.write(batch)
                advance(len(batch))
                batch = []
        return written + target.write(batch)


async def _held(receiver: Receiver) -> list[ReceivedMessage]:
    """Up to a batch of messages that are available now."""
    from msmq.errors import IoTimeoutError

    batch: list[ReceivedMessage] = []
    while len(batch) < BATCH:
        try:
            batch.append(await receiver.receive(0))
        except IoTimeoutError:
            break
    return batch


# --- import -------------------------------------------------------------------------------------------------------


def import_(
    ctx: typer.Context,
    queue: QueueName,
    file: _File,
    restart: Annotated[bool, typer.Option("--restart", help="Begin at the first line again.")] = False,
    as_json: Json = False,
) -> None:
    from msmq.cli.output import print_json, several

    if file == "-" and restart:
        fail(ctx, "standard input cannot be read again", MISUSED)
    with closing(guarded(ctx, lambda: _Source(file, queue, restart=restart))) as source:
        sent, skipped = perform(ctx, lambda mq: _import(mq, queue, source))
    if as_json:
        print_json({"queue": queue, "file": file, "messages": sent, "skipped": skipped})
    else:
        before = f" ({several(skipped, 'message')} before)" if skipped else ""
        print(f"sent {several(sent, 'message')} of {file} to {queue}{before}")


class _Source:
    """A file of messages, and the name of the row that they form."""

    def __init__(self, file: str, queue: str, *, restart: bool) -> None:
        self.row = os.urandom(16).hex()
        self._state: Path | None = None
        if file == "-":
            self._stream: BinaryIO = sys.stdin.buffer
            return
        path = Path(file)
        self._stream = path.open("rb")
        name = hashlib.sha256(queue.lower().encode()).hexdigest()[:8]
        self._state = path.with_name(f"{path.name}.{name}.state")
        self._mark = hashlib.sha256(self._stream.read(4096)).hexdigest()
        self._stream.seek(0)
        try:
            if restart or not self._state.exists():
                self._begin(self._state)
            else:
                self._resume(self._state, queue)
        except BaseException:
            self.close()
            raise

    def _begin(self, path: Path) -> None:
        """Store the name of the row before any of it is sent."""
        draft = path.with_name(path.name + ".new")
        with draft.open("w", encoding="utf-8") as stream:
            json.dump({"row": self.row, "begins": self._mark}, stream)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)

    def _resume(self, path: Path, queue: str) -> None:
        try:
            state = json.loads(path.read_text("utf-8"))
            self.row, mark = str(state["row"]), state["begins"]
        except (ValueError, KeyError, TypeError):
            raise FileError(f"{path} cannot be read. Remove it to begin anew.") from None
        if mark != self._mark:
            raise FileError(
                f"The file has changed since its import to {queue} was interrupted. Add --restart to begin at the "
                "first line."
            )

    def messages(self, skip: int) -> Iterator[tuple[int, Message]]:
        """Messages with their line numbers, without the first ``skip``, which were sent before."""
        from msmq.client.records import RecordError, to_message

        for line, text in enumerate(self._stream, 1):
            if not text.strip():
                continue
            if skip:
                skip -= 1
                continue
            try:
                record = json.loads(text)
            except ValueError as error:
                raise FileError(f"Line {line} is no JSON: {error}.") from error
            try:
                yield line, to_message(record)
            except (ValueError, RecordError) as error:
                raise FileError(f"Line {line}: {error}") from error

    def finish(self) -> None:
        """Remove the state, because everything is sent; the next import begins at the first line."""
        if self._state is not None:
            self._state.unlink(missing_ok=True)

    def close(self) -> None:
        if self._state is not None:
            self._stream.close()


async def _import(mq: msmq.Connection, queue: str, source: _Source) -> tuple[int, int]:
    """Send the messages that were not sent before. Returns how many these were, and how many were sent before."""
    from msmq.client import RowError
    from msmq.client.records import suited, transactional

    target, kind = mq.queue(queue), await transactional(mq, queue)
    skipped = sent = await target.send_once((), row=source.row, place=0)
    part: list[tuple[int, Message]] = []
    size = 0

    async def send() -> None:
        nonlocal sent, size
        try:
            sent = await target.send_once(
                [suited(message, kind) for _, message in part], row=source.row, place=sent
            )
        except RowError as error:
            line = part[error.sent - sent][0]
            sent = error.sent
            raise FileError(f"Line {line} was refused: {error.error} {error.error.advice}") from error
        advance(len(part))
        part.clear()
        size = 0

    with progress(f"importing to {queue}", None) as advance:
        try:
            try:
                for line, message in source.messages(skipped):
                    weight = _weight(message)
                    if part and (len(part) == BATCH or size + weight > _PART_BYTES):
                        await send()
                    part.append((line, message))
                    size += weight
            finally:
                if part:  # also what comes before an invalid line
                    await send()
        except FileError:
            if not sent:  # there is nothing to go on with
                await _forget(target, source)
            raise
    await _forget(target, source)
    return sent - skipped, skipped


async def _forget(target: msmq.Queue, source: _Source) -> None:
    source.finish()
    await target.forget_row(source.row)


def _weight(message: Message) -> int:
    encoded = message.to_proto()
    return len(encoded.body) + len(encoded.extension) + 1024
