"""Which messages a batch has, kept beside the checkpoint of its query until they are removed.

How ``consume`` works
---------------------
Spark writes down where a batch ends (``offsets/N`` of the checkpoint), asks the source for its messages, runs it, and
writes down that it is done (``commits/N``). Only then it may tell the source, and of the last batch of a run it never
does. So the source writes a *claim* before a batch runs: its end, and the lookup identifier of each message in it. A
claim whose end stands in the offsets of a committed batch is *settled*: exactly its messages are removed from the
queue, then the claim. Whoever comes by may do that, any number of times: the reader between batches and when it ends,
the next run when it starts, and :func:`settle`. A batch that is repeated after a crash writes its claim again.

A query may read from several queue managers, and each of its sources finds the claims of all. So a claim says which
queue its identifiers are of, and the queue manager itself refuses to remove those of another: such a claim is left to
the source that is connected to that one. A queue that was deleted took its messages with it, whether or not there is
another of its name now.

A claim is a file of JSON lines: the end, then a line for each queue.
"""

from __future__ import annotations

import base64
import hashlib
import json
import posixpath
import zlib
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.fs as files

from msmq.errors import QueueNotFoundError
from msmq.spark.durable import make_durable
from msmq.spark.offsets import Offset, OffsetError

if TYPE_CHECKING:
    from msmq.spark.doors import Door

FOLDER: Final = "msmq-claims"


class Claims:
    """The claims beside one checkpoint."""

    def __init__(self, checkpoint: str) -> None:
        system, root = files.FileSystem.from_uri(file_uri(checkpoint))
        self._system = system
        self._root = root
        self._folder = posixpath.join(root, FOLDER)

    def make(self, end: Offset, messages: Mapping[str, array[int]]) -> None:
        """Write down what a batch has, before anybody reads it. ``end`` says which queues the names are."""
        lines = [end.json()]
        for queue, ids in messages.items():
            packed = base64.b64encode(zlib.compress(ids.tobytes(), 1)).decode()
            lines.append(json.dumps({"queue": queue, "ids": packed}))
        self._system.create_dir(self._folder, recursive=True)
        final = self._path(end)
        with self._system.open_output_stream(f"{final}.new") as stream:
            stream.write("\n".join(lines).encode())
        self._system.move(f"{final}.new", final)

    def settle(self, door: Door) -> int:
        """Remove the messages of every committed batch, as far as the queue manager behind the door has them; gives
        how many were removed."""
        waiting = {self._name(end): end for end in self._committed()} if self.any() else {}
        return sum(self._settle(door, end) for end in waiting.values())

    def settle_end(self, door: Door, end: Offset) -> int:
        """Remove the messages of a batch that is known to be committed."""
        return self._settle(door, end)

    def _settle(self, door: Door, end: Offset) -> int:
        path = self._path(end)
        if self._system.get_file_info(path).type == files.FileType.NotFound:
            return 0
        for folder in (
            "offsets",
            "commits",
        ):  # a commit that a power failure undoes would want these messages again
            make_durable(self._system, posixpath.join(self._root, folder))
        lines = self._read(path).splitlines()
        removed = 0
        whole = True
        for line in lines[1:]:
            claimed = json.loads(line)
            ids = array("Q")
            ids.frombytes(zlib.decompress(base64.b64decode(claimed["ids"])))
            try:
                done = door.remove(claimed["queue"], ids, end.identity(claimed["queue"]))
            except QueueNotFoundError:  # it was deleted, with all that was in it
                continue
            removed += done.removed
            whole = whole and not done.held and not done.elsewhere
        if whole:  # else somebody looks at one of them, or another source has to remove them
            self._delete(path)
        return removed

    # --- the checkpoint of Spark ------------------------------------------------------------------------------------

    def _committed(self) -> Iterator[Offset]:
        """The ends, of sources of our kind, of the batches that are committed and still written down."""
        done = self._numbers("commits")
        if not done:
            return
        for number in self._numbers("offsets"):
            if number <= done[-1]:
                for line in self._read(posixpath.join(self._root, "offsets", str(number))).splitlines():
                    yield from _offsets(line)

    def belongs(self, end: Offset) -> bool:
        """Whether the last batch that Spark has planned in this checkpoint ends there."""
        planned = self._numbers("offsets")
        if not planned:
            return False
        lines = self._read(posixpath.join(self._root, "offsets", str(planned[-1]))).splitlines()
        return any(found == end for line in lines for found in _offsets(line))

    def _numbers(self, folder: str) -> list[int]:
        return sorted(int(name) for name in self._names(posixpath.join(self._root, folder)) if name.isdigit())

    def any(self) -> bool:
        """Whether there are claims that are not settled."""
        return any(not name.endswith(".new") for name in self._names(self._folder))

    def _names(self, folder: str) -> list[str]:
        found = self._system.get_file_info(files.FileSelector(folder, allow_not_found=True))
        return [info.base_name for info in found if info.type == files.FileType.File]

    def _read(self, path: str) -> str:
        try:
            with self._system.open_input_stream(path) as stream:
                return bytes(stream.read()).decode()
        except FileNotFoundError:  # Spark has tidied up, or somebody else has settled it
            return ""

    def _delete(self, path: str) -> None:
        try:
            self._system.delete_file(path)
        except FileNotFoundError:
            return

    @staticmethod
    def _name(end: Offset) -> str:
        return hashlib.sha256(end.json().encode()).hexdigest()[:32]

    def _path(self, end: Offset) -> str:
        return posixpath.join(self._folder, self._name(end))


def _offsets(line: str) -> Iterator[Offset]:
    """The offsets of ours in a line of Spark's log, which has one for each line, or a map of them."""
    try:
        value: Any = json.loads(line)
    except ValueError:
        return
    for candidate in (value, *(value.values() if isinstance(value, dict) else ())):
        try:
            yield Offset.parse(candidate)
        except OffsetError:
            continue


def file_uri(path: str) -> str:
    """A path or a URI as Arrow and Spark take it; Spark also writes ``file:/path``."""
    if path.startswith("file:") and not path.startswith("file://"):
        return "file://" + path.removeprefix("file:")
    return path if "://" in path else Path(path).absolute().as_uri()


def settle(checkpoint: str, **options: str) -> int:
    """Remove from the queues what committed batches of a stopped query have read; gives how many were removed.

    ``options`` are those of the source that say where the queue manager is: ``server``, ``token`` and so on.
    """
    from msmq.spark.doors import open_door
    from msmq.spark.options import Access

    with open_door(Access.of(options)) as door:
        return Claims(checkpoint).settle(door)
