"""Connections to the database: to its primary, with the settings that our promises need, and its errors translated."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final, TypeAlias
from urllib.parse import SplitResult, urlsplit, urlunsplit

import asyncpg

from msmq.ha import schema
from msmq.ha.errors import DatabaseError, HaError, NewerSchemaError, NotLeaderError
from msmq.store import StoreFullError

CONNECT_S: Final = 2.0
"""How long one node may take to accept an instance; as long as it is waited for, nobody leads."""
OPERATOR_S: Final = 15.0
"""How long it may take for an operator's command: a busy database is slow to accept connections."""
_OLDEST_SERVER: Final = 130_000
_FULL: Final = ("53100", "53200")
SESSION: Final = {
    "application_name": "msmq",
    # A commit must wait for the other nodes and must not be cancelled, whatever is set for the role or the database.
    "synchronous_commit": "on",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "search_path": "pg_catalog",
    "client_min_messages": "warning",
    "jit": "off",
}
_log = logging.getLogger(__name__)

Connection: TypeAlias = Any  # asyncpg has no type hints
Lost = (OSError, asyncpg.InterfaceError, asyncpg.PostgresConnectionError, TimeoutError)
"""Errors of a lost connection, after which a statement may or may not have been carried out."""


def nodes_of(address: str) -> list[str]:
    """The addresses of the nodes that one address names."""
    parts = urlsplit(address)
    user, at, hosts = parts.netloc.rpartition("@")
    if "," not in hosts:
        return [address]
    return [urlunsplit(parts._replace(netloc=f"{user}{at}{host}")) for host in hosts.split(",")]


def without_password(address: str) -> str:
    """The address without its password, for messages."""
    parts: SplitResult = urlsplit(address)
    user, at, hosts = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}{at}{hosts}", query=""))


class Database:
    """A database with the tables of a queue manager."""

    def __init__(self, address: str, schema_name: str, connect_s: float = CONNECT_S) -> None:
        """``connect_s`` is how long one node may take to accept us."""
        self._nodes = nodes_of(address)
        self.connect_s = connect_s
        self.where = without_password(address)
        self.schema = f'"{schema_name}"'
        self._schema_name = schema_name
        self.primary = self._nodes[0]
        """The address of the node that was last found to be the primary."""
        self.synchronous = ""
        """The primary's setting of which nodes have to confirm a commit; empty if none."""

    def sql(self, text: str, **names: object) -> str:
        """Fill the schema and other names into a statement."""
        return text.format(schema=self.schema, **names)

    async def connect(self) -> Connection:
        """Connect to the primary. All nodes are tried at once, since one of them may be silent.

        Raises:
            DatabaseError: the database is there and cannot be used.
            HaError: no node is a primary at the moment.
        """
        tries = [asyncio.create_task(self._try(node)) for node in self._nodes]
        found: list[tuple[str, str, str, Connection]] = []
        refusals: list[Exception] = []
        try:
            results = await asyncio.gather(*tries, return_exceptions=True)
        except asyncio.CancelledError:
            for each in tries:
                if each.done() and not each.cancelled() and each.exception() is None:
                    each.result()[3].terminate()
            raise
        for result in results:
            if isinstance(result, tuple):
                found.append(result)
            elif isinstance(result, Exception):
                refusals.append(result)
            elif isinstance(result, BaseException):
                raise result
        # A former primary that does not know yet that it was replaced has an older timeline.
        found.sort(key=lambda each: each[0])
        for *_, connection in found[:-1]:
            connection.terminate()
        if found:
            _, self.primary, self.synchronous, connection = found[-1]
            return connection
        for refusal in refusals:
            if isinstance(refusal, DatabaseError):
                raise refusal
        reasons = "; ".join(dict.fromkeys(str(each) or type(each).__name__ for each in refusals))
        raise HaError(f"{self.where} has no primary that answers: {reasons}")

    async def _try(self, node: str) -> tuple[str, str, str, Connection]:
        with translated(self.where):
            connection: Connection = await asyncpg.connect(
                node, timeout=self.connect_s, server_settings=SESSION
            )
        try:
            with translated(self.where):
                async with patience(connection, self.connect_s):
                    facts = await connection.fetchrow(schema.SETTINGS)
            assert facts is not None
            if facts["standby"]:
                raise HaError("a node is a standby")
            if facts["version"] < _OLDEST_SERVER:
                raise DatabaseError(
                    f"{self.where} is PostgreSQL {facts['version'] // 10_000}; 13 or newer is needed."
                )
            if facts["fsync"] == "off":
                raise DatabaseError(
                    f"{self.where} runs with fsync = off, so what it confirms does not survive."
                )
            return facts["timeline"], node, facts["synchronous"], connection
        except BaseException:
            connection.terminate()
            raise

    async def prepare(self, manager: str) -> None:
        """Create the tables of a queue manager, or bring them up to date.

        Raises:
            NewerSchemaError: a newer program has created them.
            DatabaseError: they cannot be created, or belong to another queue manager.
        """
        connection = await self.connect()
        try:
            with translated(self.where):
                await self._migrate(connection)
                await self._check_name(connection, manager)
        finally:
            connection.terminate()

    async def _migrate(self, connection: Connection) -> None:
        if await self._version(connection) == schema.VERSION:
            return
        async with connection.transaction():
            await connection.execute(schema.ONE_AT_A_TIME, self._schema_name)
            version = await self._version(connection)
            if not version and not await connection.fetchval(schema.FIND_SCHEMA, self._schema_name):
                await connection.execute(f"CREATE SCHEMA {self.schema}")
            for target in range(version + 1, schema.VERSION + 1):
                _log.info(
                    "%s: making version %d of the tables in schema %s", self.where, target, self._schema_name
                )
                await connection.execute(self.sql(schema.MIGRATIONS[target]))
                await connection.execute(self.sql(schema.SET_VERSION, version=target))

    async def _check_name(self, connection: Connection, manager: str) -> None:
        """Check that the tables belong to this queue manager: instances must have one name, or a take-over would
        change it."""
        await connection.execute(self.sql(schema.NAME_MANAGER), manager)
        known: str = await connection.fetchval(self.sql(schema.READ_MANAGER))
        if known.lower() != manager.lower():
            raise DatabaseError(
                f"{self.where} has the log of the queue manager {known} in schema {self._schema_name}; start "
                f"this instance with --name {known}, or give {manager} a schema of its own."
            )

    async def has_tables(self, connection: Connection) -> bool:
        """Whether the tables exist, because an instance was started before."""
        return await self._version(connection) > 0

    async def _version(self, connection: Connection) -> int:
        if not await connection.fetchval(schema.FIND, self._schema_name):
            return 0
        version: int = await connection.fetchval(self.sql(schema.READ_VERSION))
        if version > schema.VERSION:
            raise NewerSchemaError(
                f"{self.where} has version {version} of the tables in schema {self._schema_name}, but this program "
                f"knows versions up to {schema.VERSION}; use the program that made them, or a newer one."
            )
        return version


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Translate the errors of the database into ours."""
    try:
        yield
    except asyncpg.PostgresError as error:
        raise in_our_words(where, error.sqlstate or "", str(error)) from error
    except ssl.SSLCertVerificationError as error:
        raise DatabaseError(
            f"{where}: its certificate is not to be trusted ({error.verify_message}): look at sslrootcert, and at the "
            "names in the certificate."
        ) from error
    except Lost as error:
        raise HaError(f"{where} does not answer ({str(error) or type(error).__name__}).") from error


def in_our_words(where: str, state: str, error: str) -> HaError | StoreFullError:
    """Translate an error of the server, given its SQLSTATE and text. A statement that fails has changed nothing."""
    if state in _FULL:
        return StoreFullError(f"{where} has no room ({error}): free space on the database's disk.")
    if state.startswith("28"):
        return DatabaseError(
            f"{where} does not let us in ({error}): look at the user, the password and pg_hba.conf."
        )
    if state == "3D000":
        return DatabaseError(f"{where}: there is no such database ({error}); create it.")
    if state == "42501":
        return DatabaseError(
            f"{where}: the user has not the rights it needs ({error}); it must own the schema, or be allowed to create "
            "one in the database."
        )
    if state == "25006":
        return NotLeaderError(f"{where} takes no writes ({error}): it is read-only or no primary any more.")
    return HaError(f"{where}: {error} ({state}).")


@asynccontextmanager
async def patience(connection: Connection, seconds: float) -> AsyncIterator[None]:
    """Drop the connection if the block takes longer. Nothing is cancelled: the server would have to answer that as
    well, and a commit must not be cancelled."""
    hanging_up = asyncio.get_running_loop().call_later(seconds, connection.terminate)
    try:
        yield
    finally:
        hanging_up.cancel()


async def goodbye(connection: Connection) -> None:
    """Close a connection that has nothing under way."""
    with suppress(*Lost, asyncpg.PostgresError):
        async with patience(connection, CONNECT_S):
            await connection.close()
