"""The messages of each batch, recorded beside the checkpoint of the query until they are removed from their queues.

How ``consume`` works --------------------- Spark records where a batch ends (``offsets/N`` of the checkpoint), asks the
source for its messages, runs it, and records that it is done (``commits/N``). Only then may it tell the source, and for
the last batch of a run it never does. So the source writes a *claim* before a batch runs: its end, and the lookup
identifier of each message in it. A claim whose end is in the offsets of a committed batch is *settled*: exactly its
messages are removed from the queue, then the claim. This may be done any number of times and in several places: by the
reader between batches and when it ends, by the next run when it starts, and by :func:`settle`.

A batch that is repeated after a crash has the messages in its claim: those that are gone meanwhile count as missing,
and tasks are divided as before, on which a sink relies that has done some of them.

A query may read from several queue managers, by one source or by several, and each source finds the claims of all. So a
claim says to which queue its identifiers belong, and a queue manager refuses to remove those of another one, or those
from before its data were replaced by an older copy: such a claim is left to the source that is connected to the right
one. The claims on a server that is away are kept until it is back. If a queue was deleted, its messages are gone with
it, even if another has its name now.

Beside a checkpoint in a local folder a claim is a file of JSON lines: the end, then a line for each server and queue.
The claims of other checkpoints are kept by the queue managers (:mod:`msmq.spark.kept`).
"""

from __future__ import annotations

import base64
import hashlib
import json
import posixpath
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from msmq.client.queue import QueueIdentity, Removal
from msmq.errors import QueueNotFoundError
from msmq.spark.offsets import FleetOffset, OffsetError
from msmq.spark.planner import MessagesPartition
from msmq.spark.storage import Storage, is_local, storage_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER: Final = "msmq-claims"


class Servers(Protocol):
    """The servers from which messages are removed."""

    def remove(
        self, server: str, queue: str, lookup_ids: Iterable[int], identity: QueueIdentity | None
    ) -> Removal:
        """Take messages out of a queue of a server; the result says ``elsewhere`` if that server is not there now."""


class Log:
    """What Spark has recorded about a query: where its batches end, and which are done."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def committed(self) -> Iterator[FleetOffset]:
        """Yield the ends of committed batches, for sources of our kind, as far as Spark still has them; the last come
        last."""
        done = self._numbers("commits")
        if not done:
            return
        for number in self._numbers("offsets"):
            if number <= done[-1]:
                yield from self._ends(number)

    def is_last(self, end: FleetOffset) -> bool:
        """True if the last planned batch ends there."""
        return end in self.last()

    def last(self) -> list[FleetOffset]:
        """Return where the last planned batch ends, for each source of our kind."""
        planned = self._numbers("offsets")
        return list(self._ends(planned[-1])) if planned else []

    def keep(self) -> None:
        """Make sure that the record survives a power failure."""
        for folder in ("offsets", "commits"):
            self.storage.keep(folder)

    def _ends(self, number: int) -> Iterator[FleetOffset]:
        text = self.storage.read(posixpath.join("offsets", str(number)))  # None: Spark has deleted it
        for line in (text or b"").decode().splitlines():
            yield from _offsets(line)

    def _numbers(self, folder: str) -> list[int]:
        names = [posixpath.basename(entry.name) for entry in self.storage.files(folder)]
        return sorted(int(name) for name in names if name.isdigit())


class Claims:
    """The claims beside a checkpoint on this computer."""

    def __init__(self, checkpoint: str) -> None:
        self._storage = storage_of(checkpoint)
        self._log = Log(self._storage)

    def begin(self, queues: object) -> None:
        """Do nothing: claims are deleted together with the checkpoint."""

    def make(self, servers: object, end: FleetOffset, messages: Iterable[MessagesPartition]) -> None:
        """Record the messages of a batch before anybody reads them."""
        lines = [end.json()]
        for part in messages:
            lines.append(json.dumps({"server": part.server, "queue": part.queue, **said_of(part)}))
        name = self._path(end)
        self._storage.write(f"{name}.new", "\n".join(lines).encode())
        self._storage.replace(name, f"{name}.new")
        self._storage.keep(
            name
        )  # if a power failure undid a claim, its messages would stay in their queue for ever

    def begun(
        self, servers: object, end: FleetOffset, messages: Iterable[MessagesPartition]
    ) -> list[MessagesPartition]:
        """Return the messages of a batch as they were when it was first planned."""
        text = self._storage.read(self._path(end))
        lines = [] if text is None else [json.loads(line) for line in text.decode().splitlines()[1:]]

        def of(part: MessagesPartition) -> list[dict[str, Any]]:
            same = [line for line in lines if line["queue"] == part.queue and "identity" in line]
            return [line for line in same if line["identity"] or line["server"] == part.server]

        return [as_begun(part, of(part)) for part in messages]

    def settle(self, servers: Servers, committed: FleetOffset | None = None) -> int:
        """Remove the messages of every committed batch, as far as the servers have them. Returns how many were
        removed.
        """
        waiting = {self._name(end): end for end in self._log.committed()} if self.any() else {}
        return sum(self.settle_end(servers, end) for end in waiting.values())

    def settle_end(self, servers: Servers, end: FleetOffset) -> int:
        """Remove the messages of a batch that is known to be committed."""
        text = self._storage.read(self._path(end))
        if text is None:  # somebody else has settled it
            return 0
        self._log.keep()  # if a power failure undid the commit, these messages would be needed again
        removed = 0
        whole = True
        for line in text.decode().splitlines()[1:]:
            claimed = json.loads(line)
            ids = unpacked(claimed["ids"])
            try:
                done = servers.remove(
                    claimed.get("server", ""), claimed["queue"], ids, _identity(claimed, end)
                )
            except QueueNotFoundError:  # it was deleted with everything in it
                continue
            removed += done.removed
            whole = whole and not done.held and not done.elsewhere
        if whole:  # else somebody holds one of them, or another source has to remove them
            self._delete(self._path(end))
        return removed

    def belongs(self, end: FleetOffset) -> bool:
        """True if the last batch that Spark planned in this checkpoint ends there."""
        return self._log.is_last(end)

    def any(self) -> bool:
        """True if there are claims that are not settled."""
        return bool(self._names())

    def _names(self) -> list[str]:
        names = [posixpath.basename(entry.name) for entry in self._storage.files(FOLDER)]
        return [name for name in names if not name.endswith(".new")]

    def _delete(self, path: str) -> None:
        self._storage.delete(path)

    @staticmethod
    def _name(end: FleetOffset) -> str:
        return name_of(end)

    def _path(self, end: FleetOffset) -> str:
        return posixpath.join(FOLDER, self._name(end))


def name_of(end: FleetOffset) -> str:
    """Return the name that distinguishes the claim of a batch from others."""
    return hashlib.sha256(end.json().encode()).hexdigest()[:32]


def packed(lookup_ids: array[int]) -> str:
    """Write identifiers as compact text."""
    return base64.b64encode(zlib.compress(lookup_ids.tobytes(), 1)).decode()


def unpacked(text: str) -> array[int]:
    ids = array("Q")
    ids.frombytes(zlib.decompress(base64.b64decode(text)))
    return ids


def said_of(part: MessagesPartition) -> dict[str, Any]:
    """Return the line of a claim about some messages of a queue."""
    known = None if part.identity is None else part.identity._asdict()
    expiring = array("Q", sorted(part.expiring))
    return {
        "identity": known,
        "ids": packed(part.lookup_ids),
        "expiring": packed(expiring),
        "size": part.size,
    }


def as_begun(part: MessagesPartition, said: Sequence[dict[str, Any]]) -> MessagesPartition:
    """Return the messages that are there now, and those in earlier claims on the same queue that are not."""
    claims: dict[str, dict[str, Any]] = {}
    for claimed in said:
        identity = None if claimed["identity"] is None else QueueIdentity(**claimed["identity"])
        same = part.identity is None or (identity is not None and identity.is_same(part.identity))
        if same and "expiring" in claimed:  # earlier releases did not record this
            claims[claimed["ids"]] = claimed  # once, even if a killed run has made it twice
    if not claims:
        return part
    ids, expiring = set(part.lookup_ids), set(part.expiring)
    for claimed in claims.values():
        ids.update(unpacked(claimed["ids"]))
        expiring.update(unpacked(claimed["expiring"]))
    size = sum(claimed["size"] for claimed in claims.values())
    everything = array("Q", sorted(ids))
    return MessagesPartition(part.server, part.queue, part.identity, everything, frozenset(expiring), size)


def _identity(claimed: dict[str, Any], end: FleetOffset) -> QueueIdentity | None:
    """Return the queue that a line of a claim means; in earlier releases only the end identified it."""
    if "identity" not in claimed:
        return end.of("", "").identity(claimed["queue"])
    known = claimed["identity"]
    return None if known is None else QueueIdentity(**known)


def _offsets(line: str) -> Iterator[FleetOffset]:
    """Yield the offsets of our sources in a line of Spark's log, which has one for each line, or a map of them."""
    try:
        value: Any = json.loads(line)
    except ValueError:
        return
    for candidate in (value, *(value.values() if isinstance(value, dict) else ())):
        try:
            yield FleetOffset.parse(candidate)
        except OffsetError:
            continue


def settle(checkpoint: str, spark: SparkSession | None = None, /, **options: str) -> int:
    """Remove the messages from the queues that committed batches of a stopped query have read. Returns how many.

    ``options`` are those of the source that say where the queue managers are: ``server``, ``token`` and so on. A
    checkpoint that is not on this computer is read through a Spark session, by default the active one.
    """
    from msmq.spark.fleet import Fleet
    from msmq.spark.kept import KeptClaims
    from msmq.spark.options import SourceOptions

    given = SourceOptions.of({"queuePattern": ".*", **options})
    fleet = Fleet.of(given)
    try:
        if is_local(checkpoint):
            return Claims(checkpoint).settle(fleet)
        log, claims = Log(storage_of(checkpoint, spark)), KeptClaims(checkpoint)
        return sum(claims.settle(fleet, end) for end in log.committed())
    finally:
        fleet.close()
