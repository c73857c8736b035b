"""The connection that sends rows, in order, without waiting for answers.

How it works
------------
Rows that are sent together are one transaction, which ends with a *sync* of the protocol. PostgreSQL works on one
transaction of a connection at a time and begins the next when the other nodes have confirmed the last; by then it has
received the next one already. asyncpg sends nothing before it has the last answer, so this uses the pipeline mode of
libpq, by way of psycopg. It needs no thread and no loop of its own: the loop of the queue manager tells when there is
something to read, or :meth:`Writer.wait` waits for it.

Every statement has two conditions. The epoch must be ours, or else another instance leads. And the row before must
have been inserted on this connection: each statement records the number of its row in a setting of the session, which
is undone with its transaction. So when one transaction finds no room, those behind it change nothing.

A transaction is answered when its sync is. If a commit no longer waits for other nodes, PostgreSQL sends a warning
after the number of rows and before the sync.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo

from msmq.ha import schema
from msmq.ha.database import SESSION, Database, in_our_words
from msmq.ha.errors import HaError, NotLeaderError
from msmq.ha.log import Row, in_pieces
from msmq.store import Answered, StoreError, StoreFullError

_SLOWEST_BYTES_PER_S: Final = 1 << 20
_POLL_S: Final = 1.0
_BIGINT: Final = Struct(">q").pack
_TEXT, _BINARY = 0, 1
_FORMATS: Final = (_BINARY, _BINARY, _BINARY, _BINARY, _TEXT)


@dataclass(slots=True)
class _Sent:
    """A transaction that is under way."""

    rows: list[Row]
    answered: Answered
    new_segments: set[int]
    """Segments whose tables it creates."""
    inserted: int = 0
    error: tuple[str, str] | None = None
    """SQLSTATE and text of its error."""
    drops: list[int] = field(default_factory=list)
    """Segments to drop once it is answered."""


def connect(database: Database, end: int) -> pq.abc.PGconn:
    """Connect to the primary, for rows that follow row ``end``. Blocks, but not for long."""
    settings = {**SESSION, "msmq.end": str(end)}
    options = " ".join(f"-c {name}={value}".replace(" ", "\\ ") for name, value in settings.items())
    options = options.replace("-c\\ ", "-c ")
    information = make_conninfo(database.primary, options=options, connect_timeout=round(database.connect_s))
    connection = pq.PGconn.connect(information.encode())
    if connection.status != pq.ConnStatus.OK:
        reason = connection.error_message.decode(errors="replace").strip()
        connection.finish()
        raise HaError(f"{database.where} does not answer ({reason}).")
    connection.nonblocking = 1
    connection.enter_pipeline_mode()
    return connection


class Writer:
    """Sends rows under one epoch. One thread uses it, except for :attr:`is_overdue` and :meth:`hang_up`.

    ``lose`` is called with a reason when it is unclear what became of rows, and returns the error to answer them with.
    ``drop`` is called with each segment to be dropped, once all its rows have been answered.
    """

    def __init__(
        self,
        database: Database,
        connection: pq.abc.PGconn,
        epoch: int,
        end: int,
        segments: set[int],
        lease_s: float,
    ) -> None:
        self._database = database
        self._connection = connection
        # Stays valid after libpq has closed its own socket; through it another thread may end the connection.
        self._line = socket.fromfd(connection.socket, socket.AF_INET, socket.SOCK_STREAM)
        self._epoch = _BIGINT(epoch)
        self.end = end
        """The number of the last confirmed row."""
        self.due: float | None = None
        """When the oldest transaction under way has to be answered, by the monotonic clock."""
        self.failure: NotLeaderError | None = None
        self.lose: Callable[[str], NotLeaderError]
        self.drop: Callable[[int], None]
        self._lease_s = lease_s
        self._last = end
        """The number of the last row sent."""
        self._last_segment: int | None = None
        self._end_segment: int | None = None
        """The segments of the last row sent, and of the last row confirmed; None if this leader has not sent any."""
        self._drop_next: list[int] = []
        """Segments to drop once the next row is answered."""
        self._segments = set(segments)
        self._prepared: dict[int, bytes] = {}
        """The names of prepared statements by segment."""
        self._forget = False
        """True if it is unknown which statements are prepared."""
        self._under_way: deque[_Sent] = deque()
        self._refusal: StoreFullError | None = None
        """The answer for transactions sent behind one that found no room."""
        self._warning = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unsent = False
        connection.notice_handler = self._warned

    # --- sending ------------------------------------------------------------------------------------------------

    def send(self, rows: list[Row], answered: Answered) -> None:
        """Implement :class:`~msmq.ha.log.SharedLog`."""
        if self.failure is not None:
            answered(self.failure)
            return
        pieces = list(in_pieces(rows))
        sent = _Sent(pieces, answered, {row.segment for row in pieces} - self._segments)
        if pieces:
            self._last_segment = pieces[-1].segment
            sent.drops, self._drop_next = self._drop_next, []
        self._under_way.append(sent)
        if len(self._under_way) == 1:
            self._expect()
        try:
            self._put(sent)
            self._connection.pipeline_sync()
            self._flush()
        except psycopg.Error as error:
            self._broken(error)

    def _put(self, sent: _Sent) -> None:
        send, sql = self._connection.send_query_params, self._database.sql
        if sent.new_segments or self._forget:
            # Statements for earlier segments would stay in the server's memory.
            send(b"DEALLOCATE ALL", None)
            self._prepared.clear()
            self._forget = False
        if sent.new_segments:
            send(sql(schema.HOLD_TERM).encode(), [self._epoch, b"%d" % self._last], None, (_BINARY, _TEXT))
        for segment in sorted(sent.new_segments):
            for statement in schema.CREATE_SEGMENT:
                send(sql(statement, segment=segment).encode(), None)
        self._segments |= sent.new_segments
        for row in sent.rows:
            before, self._last = self._last, self._last + 1
            values = (self._epoch, _BIGINT(self._last), _BIGINT(row.offset), row.data, b"%d" % before)
            self._connection.send_query_prepared(self._statement(row.segment), values, _FORMATS)

    def _statement(self, segment: int) -> bytes:
        name = self._prepared.get(segment)
        if name is None:
            name = self._prepared[segment] = b"insert_%d" % segment
            self._connection.send_prepare(name, self._database.sql(schema.INSERT, segment=segment).encode())
        return name

    def _expect(self) -> None:
        """Set the time when the next answer is due, later for large transactions: one that is too slow once would be
        too slow again."""
        if not self._under_way:
            self.due = None
            return
        size = sum(row.size for row in self._under_way[0].rows)
        self.due = time.monotonic() + self._lease_s + size / _SLOWEST_BYTES_PER_S

    def _flush(self) -> None:
        unsent = bool(self._connection.flush())
        if self._loop is not None and unsent != self._unsent:
            if unsent:
                self._loop.add_writer(self._line, self._readable)
            else:
                self._loop.remove_writer(self._line)
        self._unsent = unsent

    # --- answers ------------------------------------------------------------------------------------------------

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have a loop, in whose thread everything happens from now on, tell of answers."""
        self._loop = loop
        if self.failure is None:
            loop.add_reader(self._line, self._readable)

    def wait(self) -> None:
        """Return once everything that was sent is answered."""
        while self._under_way:
            with selectors.DefaultSelector() as selector:
                writable = selectors.EVENT_WRITE if self._unsent else 0
                selector.register(self._line, selectors.EVENT_READ | writable)
                selector.select(_POLL_S)
            self._readable()

    def _readable(self) -> None:
        connection = self._connection
        ends = 0
        try:
            connection.consume_input()
            if self._unsent:
                self._flush()
            while self._under_way and not connection.is_busy():
                result = connection.get_result()
                if result is not None:
                    ends = 0
                    self._hear(result)
                    continue
                ends += 1  # the end of one statement; two in a row mean that the server is gone
                if ends == 2:
                    raise psycopg.OperationalError(connection.error_message.decode(errors="replace").strip())
        except psycopg.Error as error:
            self._broken(error)

    def _hear(self, result: pq.abc.PGresult) -> None:
        sent, status = self._under_way[0], result.status
        if status == pq.ExecStatus.PIPELINE_SYNC:
            self._settle()
        elif status == pq.ExecStatus.FATAL_ERROR:
            state = result.error_field(pq.DiagnosticField.SQLSTATE) or b""
            sent.error = (state.decode(), result.error_message.decode(errors="replace").strip())
        elif (result.command_status or b"").startswith(b"INSERT"):
            sent.inserted += result.command_tuples or 0

    def _settle(self) -> None:
        """Answer the oldest transaction, whose sync has come."""
        error = self._outcome(self._under_way[0])
        sent = self._under_way.popleft()
        if error is None:
            self.end += len(sent.rows)
            self._end_segment = sent.rows[-1].segment if sent.rows else self._end_segment
        elif isinstance(error, StoreFullError):
            self._segments -= sent.new_segments
            self._forget = True
            self._refusal = error
            later = self._under_way[0].drops if self._under_way else self._drop_next
            later[:0] = sent.drops
            sent.drops = []
        if not self._under_way:
            self._refusal = None
            self._last, self._last_segment = self.end, self._end_segment
        self._expect()
        for segment in sent.drops:
            self.drop(segment)
        sent.answered(error)
        if isinstance(error, NotLeaderError):
            self._end(error)

    def _outcome(self, sent: _Sent) -> StoreError | None:
        if self.failure is not None:
            return self.failure
        if self._warning:
            return self.lose(f"a commit was answered with a warning: {self._warning}")
        if self._refusal is not None and (sent.error is not None or not sent.inserted):
            return self._refusal  # as expected: the row before it is missing
        if sent.error is not None:
            meaning = in_our_words(self._database.where, *sent.error)
            return meaning if isinstance(meaning, StoreFullError) else self.lose(str(meaning))
        if self._refusal is not None or sent.inserted != len(sent.rows):
            return self.lose("another instance leads")
        return None

    def _warned(self, notice: pq.abc.PGresult) -> None:
        """Note a warning: with one, PostgreSQL reports success for a commit that no longer waits for other nodes."""
        if not self._warning:
            message = notice.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"?"
            self._warning = message.decode(errors="replace")

    # --- segments -----------------------------------------------------------------------------------------------

    def drop_later(self, segment: int) -> None:
        """Drop a segment once what was sent so far is answered, since some of its rows may be under way. A segment
        with the last row has to wait for the next row, since the log ends with its last row."""
        self._segments.discard(segment)
        if segment == self._last_segment or self._drop_next:
            self._drop_next.append(segment)
        elif self._under_way:
            self._under_way[-1].drops.append(segment)
        else:
            self.drop(segment)

    # --- the end ------------------------------------------------------------------------------------------------

    @property
    def is_overdue(self) -> bool:
        """Whether the database takes too long to answer; any thread may ask. An answer that has arrived but was not
        read yet is in time: then the queue manager is busy."""
        due = self.due
        if due is None or time.monotonic() <= due:
            return False
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(self._line, selectors.EVENT_READ)
                return not selector.select(0)
        except (OSError, ValueError):
            return False  # it was closed meanwhile

    def hang_up(self, failure: NotLeaderError) -> None:
        """End the connection, from any thread, without a cancel request, which would make the server show what only
        one node has. The thread that sent what is under way answers it with ``failure``."""
        self.failure = failure
        with suppress(OSError):  # it may be closed already
            self._line.shutdown(socket.SHUT_RDWR)

    def _broken(self, error: psycopg.Error) -> None:
        reason = str(error).strip() or type(error).__name__
        self._end(self.failure or self.lose(f"rows stayed unanswered ({reason})"))

    def _end(self, failure: NotLeaderError) -> None:
        """Answer everything under way, and stop using the connection."""
        self.due = None
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._line)
            self._loop.remove_writer(self._line)
        self._loop = None
        under_way, self._under_way = self._under_way, deque()
        for sent in under_way:
            sent.answered(failure)

    def close(self) -> None:
        """Free the connection after :meth:`hang_up`, in the thread that used it."""
        assert self.failure is not None
        if self._line.fileno() >= 0:
            self._end(self.failure)
            self._line.close()
            self._connection.finish()
