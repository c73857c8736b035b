"""A standby's work with the database: it copies new rows, and takes the lead when no other instance has it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import asyncpg

from msmq.ha import schema
from msmq.ha.cache import Cache
from msmq.ha.database import Connection, Database, patience, translated
from msmq.ha.errors import BehindError, HaError
from msmq.ha.leadership import Leadership
from msmq.ha.log import NumberedRow, Row
from msmq.ha.settings import HaSettings
from msmq.ha.worker import Worker
from msmq.ha.writer import Writer, connect
from msmq.store import StoreFullError

_FEWEST_ROWS, _MOST_ROWS, _BYTES_AT_ONCE = 16, 4_096, 1 << 22
"""How many rows are fetched at once, more of them while they are small."""
_SEGMENTS_EVERY_S: Final = 2.0
_KNOWN_FILE: Final = "known.json"
_UNANSWERED_LEASES: Final = 2
ANYBODY: Final = "*"
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Known:
    """What the database is known to have confirmed. It outlives the process, so that a database which has lost some of
    it is found out."""

    epoch: int = 0
    acknowledged: int = 0

    @classmethod
    def load(cls, directory: Path) -> Known:
        try:
            return cls(**json.loads((directory / _KNOWN_FILE).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return cls()

    def save(self, directory: Path) -> None:
        new = directory / f"{_KNOWN_FILE}.new"
        with new.open("w", encoding="utf-8") as file:
            file.write(json.dumps(asdict(self)))
            file.flush()
            os.fsync(file.fileno())  # after a power failure an empty file would know of nothing
        new.replace(directory / _KNOWN_FILE)

    def check(self, view: View, where: str) -> None:
        """Raise BehindError if the database lacks something that it had confirmed."""
        if view.epoch < self.epoch or view.end < self.acknowledged:
            raise BehindError(
                f"{where} has epoch {view.epoch} and ends with row {view.end}, but it had confirmed epoch {self.epoch} "
                f"and row {self.acknowledged}: a replica that was behind was promoted. Promote one that has all; "
                f"or, if the rest is lost for good, delete {_KNOWN_FILE} of every instance and start them again."
            )


@dataclass(frozen=True, slots=True)
class View:
    """The state of the lease and the log, as read from the primary."""

    epoch: int
    holder: str
    left_ms: int
    """How long the lease still lasts; if negative, it has run out."""
    handover: str
    acknowledged: int
    """The last row that a leader has recorded as safe."""
    end: int
    """The number of the last row."""
    confirmed: int = 0
    """The newest epoch whose leader has renewed its lease. An epoch that was only begun may be lost with a primary."""
    until: datetime = datetime.min
    """When the lease runs out, by the clock of the primary on which it was renewed."""

    def is_free_for(self, instance: str, lease_ms: int, unchanged_ms: float = 0) -> bool:
        """Whether an instance may take the lead, having seen the lease unchanged for ``unchanged_ms``. An instance
        that has just handed over lets others go first for a while.

        The primary's clock tells when a lease runs out, even to an instance that has just started. But the next
        primary's clock may be an hour behind; so a lease has also run out when nobody has renewed it here for its
        whole length, whatever that clock says.
        """
        over_ms = max(-self.left_ms, unchanged_ms - lease_ms)
        if over_ms < 0:
            return False
        chosen = self.handover in ("", instance) or (self.handover == ANYBODY and self.holder != instance)
        return chosen or over_ms > _UNANSWERED_LEASES * lease_ms


async def look(database: Database, connection: Connection) -> View:
    """Read who leads, and where the log ends."""
    row = await connection.fetchrow(database.sql(schema.VIEW))
    if row is None:
        raise HaError(f"{database.where}: the tables of schema {database.schema} are empty.")
    return View(
        row["epoch"],
        row["holder"],
        row["left_ms"],
        row["handover"],
        row["acknowledged"],
        row["log_end"],
        row["confirmed"],
        row["until"],
    )


class Standby:
    """An instance that waits. All its methods run in the loop of the worker."""

    def __init__(
        self, worker: Worker, database: Database, settings: HaSettings, cache: Cache, directory: Path
    ) -> None:
        self._worker = worker
        self._database = database
        self._settings = settings
        self._cache = cache
        self._directory = directory
        self.known = Known.load(directory)
        self._epoch = 0
        """The newest epoch whose beginning the cache has been compared with."""
        self._connection: Connection | None = None
        self._looked_at_segments = 0.0
        self._at_once = _FEWEST_ROWS
        self._left = False
        self._warning = ""
        self.complaint = ""
        """What keeps it from following; empty if nothing does."""
        self.view: View | None = None
        self._lease: tuple[int, datetime] | None = None
        """The lease as last seen."""
        self._lease_since = 0.0
        """Since when it has been unchanged, by the monotonic clock."""
        self.is_current = False
        """Whether the cache had everything when it was last checked."""

    async def lead(self) -> Leadership:
        """Wait until this instance leads; then the cache has everything."""
        while not self._left:
            try:
                with translated(self._database.where):
                    leadership = await self._step()
                self._complain("")
                if leadership is not None:
                    return leadership
            except (HaError, StoreFullError) as error:
                self.is_current = False
                self._complain(str(error))
                self._hang_up()
            if self.is_current or self._connection is None:
                await asyncio.sleep(self._settings.poll_ms / 1000)
        raise HaError("this instance ends")

    def leave(self) -> None:
        """Stop waiting."""
        self._left = True
        self._hang_up()

    def _complain(self, complaint: str) -> None:
        """Log a complaint once, and when it is over."""
        if complaint != self.complaint:
            _log.log(
                logging.WARNING if complaint else logging.INFO,
                "%s",
                complaint or f"following {self._database.where}",
            )
        self.complaint = complaint

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def _step(self) -> Leadership | None:
        if self._connection is None:
            self._warning = ""
            self._connection = await self._database.connect()
            self._connection.add_log_listener(self._warned)
        connection = self._connection
        await self._follow(connection)
        view = self.view
        if view is None or not self.is_current or not self._may_lead(view):
            return None
        return await self._take(connection)

    def _may_lead(self, view: View) -> bool:
        """Whether this instance may take the lead, according to what was read."""
        now, lease = time.monotonic(), (view.epoch, view.until)
        if lease != self._lease:
            self._lease, self._lease_since = lease, now
        unchanged_ms = (now - self._lease_since) * 1000
        return view.is_free_for(self._settings.instance, self._settings.lease_ms, unchanged_ms)

    async def _follow(self, connection: Connection) -> None:
        """Copy some of the new rows."""
        patient_s = self._settings.lease_ms / 1000 * _UNANSWERED_LEASES
        async with (
            patience(connection, patient_s),
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            self.view = view = await look(self._database, connection)
            self.known.check(view, self._database.where)
            await self._compare(connection, view)
            await self._restore(connection)
            fetched = await connection.fetch(
                self._database.sql(schema.ROWS), self._cache.applied, self._at_once
            )
            if time.monotonic() > self._looked_at_segments + _SEGMENTS_EVERY_S:
                segments = await self._segments(connection)
                with self._here():
                    self._cache.keep(segments)
                self._looked_at_segments = time.monotonic()
        rows = [
            NumberedRow(row["number"], Row(row["segment"], row["place"], row["bytes"])) for row in fetched
        ]
        with self._here():
            self._cache.apply(rows)
        self.is_current = len(rows) < self._at_once
        grows = sum(row.size for _, row in rows) < _BYTES_AT_ONCE
        self._at_once = min(self._at_once * 2, _MOST_ROWS) if grows else max(self._at_once // 2, _FEWEST_ROWS)
        if self.is_current:
            self._cache.applied = max(self._cache.applied, view.end)
        self._remember(view.confirmed, view.acknowledged)

    async def _segments(self, connection: Connection) -> set[int]:
        return {row[0] for row in await connection.fetch(self._database.sql(schema.SEGMENTS))}

    async def _compare(self, connection: Connection, view: View) -> None:
        """Empty the cache if it has rows that a new primary never got, which nobody was told are safe."""
        begun = await connection.fetch(self._database.sql(schema.HISTORY), self._epoch)
        if self._cache.compare(view.end, [row["started"] for row in begun]):
            _log.warning("%s lost rows before they were confirmed; fetching all", self._database.where)
        self._epoch = max([self._epoch, *(row["epoch"] for row in begun)])

    async def _restore(self, connection: Connection) -> None:
        """Fetch the segments that are missing in the cache."""
        if not self._cache.missing:
            return
        there = await self._segments(connection)
        with self._here():
            self._cache.keep(there)
        for segment in sorted(self._cache.missing & there):
            statement = self._database.sql(schema.SEGMENT_ROWS, segment=segment)
            rows: list[Row] = []
            last = 0
            while fetched := await connection.fetch(statement, last, self._cache.applied, _FEWEST_ROWS):
                rows += [Row(segment, row["place"], row["bytes"]) for row in fetched]
                last = fetched[-1]["number"]
            with self._here():
                self._cache.restore(segment, rows)

    def _remember(self, epoch: int, acknowledged: int) -> None:
        if epoch > self.known.epoch or acknowledged > self.known.acknowledged:
            self.known = Known(max(epoch, self.known.epoch), max(acknowledged, self.known.acknowledged))
            with self._here():
                self.known.save(self._directory)

    @contextmanager
    def _here(self) -> Iterator[None]:
        """Translate an error of this instance's directory, which is not the database's."""
        try:
            yield
        except OSError as error:
            raise HaError(
                f"{self._directory} cannot hold the copy of the log ({error.strerror or error}): look at its disk."
            ) from error

    # --- taking over --------------------------------------------------------------------------------------------

    async def _take(self, connection: Connection) -> Leadership | None:
        """Raise the epoch, unless another instance was faster, and copy the rest.

        Raising it waits for rows that the previous leader has under way, and its commit waits for the other nodes:
        everything visible afterwards is durable, including rows that were visible but not confirmed before.
        """
        settings, database = self._settings, self._database
        instance = settings.instance
        sent = time.monotonic()
        try:
            async with (
                patience(connection, settings.lease_ms / 1000 * _UNANSWERED_LEASES),
                connection.transaction(),
            ):
                await connection.execute(f"SET LOCAL lock_timeout = {settings.lease_ms}")
                await connection.execute(database.sql(schema.LOCK_LEASE))
                view = await look(database, connection)
                if not self._may_lead(view):
                    return None
                self.known.check(view, database.where)
                epoch: int = await connection.fetchval(database.sql(schema.RAISE))
                end: int = (await look(database, connection)).end
                sent = time.monotonic()
                await connection.execute(database.sql(schema.BEGIN_EPOCH), epoch, end + 1, instance)
                await connection.execute(database.sql(schema.TAKE), epoch, instance, settings.lease_ms)
        except asyncpg.LockNotAvailableError:
            _log.info("%s: the leader before still has rows under way", database.where)
            return None
        if self._warning:
            raise HaError(f"{database.where}: the epoch was raised with a warning: {self._warning}.")
        self._connection = None
        reading = None
        try:
            reading = await database.connect()
            self._connection = reading
            self.is_current = False
            while not self.is_current:
                await self._follow(reading)
            segments = await self._segments(reading)
            self._cache.keep(segments)
            self._cache.close()
            line = await asyncio.to_thread(connect, database, end)
            writer = Writer(database, line, epoch, end, segments, settings.lease_ms / 1000)
            leadership = Leadership(self._worker, database, settings, connection, writer, epoch)
            await leadership.begin(sent)
        except BaseException:
            connection.terminate()
            raise
        finally:
            self._connection = None
            if reading is not None:
                reading.terminate()
        self._remember(epoch, end)
        return leadership

    def _warned(self, connection: object, message: asyncpg.PostgresLogMessage) -> None:
        self._warning = self._warning or str(message)

    def give_back(self, leadership: Leadership, unsettled: set[int]) -> None:
        """Become a standby after having led; rows that were not confirmed are fetched again."""
        self._cache.applied = leadership.end
        self._cache.discard(unsettled)
        self._epoch = leadership.epoch
        self._remember(leadership.epoch, leadership.end)
