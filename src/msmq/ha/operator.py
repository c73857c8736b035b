"""What operators do with the shared log, whichever instance leads."""

from __future__ import annotations

from dataclasses import dataclass

from msmq.ha import schema
from msmq.ha.database import Connection, Database, patience, translated
from msmq.ha.errors import HaError
from msmq.ha.standby import ANYBODY, View, look


@dataclass(frozen=True, slots=True)
class Status:
    """The state of the shared log."""

    view: View
    synchronous: str
    """The primary's setting of which nodes have to confirm a commit; empty if none."""
    segments: int

    @property
    def leader(self) -> str:
        """The instance that leads; empty if none does."""
        return self.view.holder if self.view.left_ms > 0 else ""


async def _connected(database: Database) -> Connection:
    connection = await database.connect()
    try:
        with translated(database.where):
            if not await database.has_tables(connection):
                raise HaError(
                    f"{database.where} has no tables in {database.schema}: no instance was started yet."
                )
    except BaseException:
        connection.terminate()
        raise
    return connection


async def status(database: Database) -> Status:
    """The state of the log: who leads, until when, and where the log ends."""
    connection = await _connected(database)
    try:
        with translated(database.where):
            async with patience(connection, database.connect_s):
                view = await look(database, connection)
                segments = await connection.fetch(database.sql(schema.SEGMENTS))
        return Status(view, database.synchronous, len(segments))
    finally:
        connection.terminate()


async def switch_over(database: Database, to: str = "") -> str:
    """Ask the leader to hand over to the instance ``to``, or to the first that is ready. Returns who leads until then.

    Raises:
        HaError: nobody leads, or the instance ``to`` leads already.
    """
    connection = await _connected(database)
    try:
        with translated(database.where):
            before = await look(database, connection)
            if before.left_ms > 0 and before.holder == to:
                raise HaError(f"{to} leads already.")
            holder: str | None = await connection.fetchval(
                database.sql(schema.ASK_TO_HAND_OVER), to or ANYBODY
            )
        if holder is None:
            raise HaError(
                "Nobody leads, so nobody can hand over; the next free instance takes over by itself."
            )
        return holder
    finally:
        connection.terminate()


async def fence(database: Database) -> tuple[str, int]:
    """Take the lead away at once, without asking the leader, whose rows then change nothing. Returns the leader and
    the new epoch; the next free instance takes over."""
    connection = await _connected(database)
    try:
        with translated(database.where):
            async with connection.transaction():
                await connection.execute(database.sql(schema.LOCK_LEASE))
                before = await look(database, connection)
                epoch: int = await connection.fetchval(database.sql(schema.RAISE))
                end = (await look(database, connection)).end
                await connection.execute(database.sql(schema.BEGIN_EPOCH), epoch, end + 1, "")
                await connection.execute(database.sql(schema.VACATE), epoch)
        return before.holder if before.left_ms > 0 else "", epoch
    finally:
        connection.terminate()
