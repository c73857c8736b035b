"""What all calls share: the queue manager, its durability, and the transactions of applications."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from msmq.api.generated import msmq_pb2 as pb
from msmq.api.line import Conversation
from msmq.api.lineage import Lineage
from msmq.api.names import Names
from msmq.errors import MQError, QueueNotFoundError, TransactionSequenceError
from msmq.manager.chores import Chore
from msmq.manager.messages.transactions import Transaction
from msmq.manager.model import QueueAccessType
from msmq.manager.queue_manager import QueueManager
from msmq.manager.queues.queue import OutgoingQueue
from msmq.security.access import Token
from msmq.security.outbound import Signer
from msmq.security.sid import Sid
from msmq.wire.names import parse_format_name

_T = TypeVar("_T")
_MAX_UNSENT: Final = 64
"""How many answers may wait for a slow reader before its requests are no longer read."""


class Session(NamedTuple):
    """A session with another host."""

    peer: str
    incoming: bool


class Resources(NamedTuple):
    """The resources of the system that the process uses."""

    descriptors: int
    descriptor_limit: int
    connections: int
    threads: int
    tasks: int


class Host(Protocol):
    """What the channel needs from its daemon."""

    @property
    def manager(self) -> QueueManager: ...

    def when_durable(self, action: Callable[[], None]) -> None:
        """Call ``action`` once everything done so far is durable."""

    async def ask(self, call: Callable[[], _T], *, anew: bool = False) -> _T:
        """Make a call that may need the directory, repeating it if necessary. The call must not change anything before
        it asks."""

    async def change(self, call: Callable[[], _T], *, anew: bool = False) -> _T:
        """Like :meth:`ask`, for a call that changes the directory: it is finished even if its caller has gone. With
        ``anew`` it reads from the directory again instead of using remembered answers."""

    def sessions(self) -> list[Session]:
        """The open sessions."""

    def resources(self) -> Resources:
        """The resources that the process uses."""

    def work_done(self) -> pb.Work:
        """What the process has done since it started, in figures."""

    def troubles(self) -> list[str]:
        """Messages about what the disk damaged or had no room for."""

    @property
    def account_file(self) -> Path | None:
        """The file of local accounts, if there can be any."""

    @property
    def recovered(self) -> Mapping[str, Any]:
        """The named values that were in the ledger at the start."""


@dataclass(slots=True)
class _OpenTransaction:
    transaction: Transaction
    owner: Sid


async def _called(when: Callable[[Callable[[], None]], object]) -> None:
    """Wait until something calls the function that ``when`` is given."""
    done = asyncio.Event()
    when(done.set)
    await done.wait()


class Desk:
    """The queue manager as the calls use it."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.manager = host.manager
        self.names = Names(host.manager)
        self.lineage = Lineage(host.manager.core, host.recovered)
        self.incarnation = bytes.fromhex(self.lineage.incarnation)
        self.signers: dict[Sid, Signer] = {}
        """The signers of users with an internal certificate, for whom the queue manager signs messages."""
        self._transactions: dict[bytes, _OpenTransaction] = {}

    async def durable(self) -> None:
        """Wait until everything done so far is durable."""
        await _called(self.host.when_durable)

    async def finished(self, chore: Chore) -> None:
        """Wait until a long operation is done and durable. It goes on if its caller has gone."""
        await _called(chore.when_done)
        if chore.error is not None:
            raise chore.error
        await self.durable()

    # --- transactions -------------------------------------------------------------------------------------------

    def begin(self, caller: Token) -> Transaction:
        transaction = self.manager.transactions.create()
        self._transactions[transaction.identifier] = _OpenTransaction(transaction, caller.user)
        return transaction

    def transaction(self, identifier: bytes, caller: Token) -> Transaction | None:
        """The open transaction that a call names; None if it names none. Other users' transactions are not found."""
        if not identifier:
            return None
        found = self._transactions.get(identifier)
        if found is None or found.owner != caller.user:
            raise TransactionSequenceError("This transaction has ended, or was never begun here.")
        return found.transaction

    def commit(self, transaction: Transaction) -> None:
        self._transactions.pop(transaction.identifier, None)
        try:
            self.manager.transactions.commit(transaction.identifier)
        except MQError:  # there was no room for the commit, and nothing has happened
            self.abort(transaction)
            raise

    def abort(self, transaction: Transaction) -> None:
        """Abort a transaction if it has not ended yet."""
        self._transactions.pop(transaction.identifier, None)
        if transaction.identifier in self.manager.transactions.collection:
            self.manager.transactions.abort(transaction.identifier)

    # --- names --------------------------------------------------------------------------------------------------

    def reading_access(self, name: str, *, receive: bool) -> QueueAccessType:
        """The access with which a queue is opened for reading: messages in an outgoing queue are only for
        administrators."""
        outgoing = isinstance(self.manager.naming.find(parse_format_name(name)), OutgoingQueue)
        if receive:
            return QueueAccessType.RECEIVE_ADMIN if outgoing else QueueAccessType.RECEIVE
        return QueueAccessType.PEEK_ADMIN if outgoing else QueueAccessType.PEEK

    def own_access(self, name: str, *, receive: bool) -> QueueAccessType:
        """The access with which an application reads a queue of this computer. Raises QueueNotFoundError for the name
        of an outgoing queue: whoever reads by that name wants the queue there, and not what waits here to be sent."""
        if isinstance(self.manager.naming.find(parse_format_name(name)), OutgoingQueue):
            raise QueueNotFoundError(f"There is no queue {name} on this computer.")
        return QueueAccessType.RECEIVE if receive else QueueAccessType.PEEK


class Outbox:
    """The answers of a stream, in order. Any task may add one; a single task writes them."""

    def __init__(self, conversation: Conversation) -> None:
        self._write = conversation.write
        self._replies: deque[Any] = deque()
        self._something = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._error: MQError | None = None
        self._closed = False

    def put(self, reply: Any) -> None:
        self._replies.append(reply)
        self._something.set()
        if len(self._replies) >= _MAX_UNSENT:
            self._room.clear()

    def fail(self, error: MQError) -> None:
        """End the stream with an error, after the answers that are waiting."""
        self._error = self._error or error
        self._something.set()

    def close(self) -> None:
        """End the stream after the answers that are waiting."""
        self._closed = True
        self._something.set()

    async def room(self) -> None:
        """Wait until the reader has kept up."""
        await self._room.wait()

    async def run(self) -> None:
        """Write the answers until the outbox is closed or has failed."""
        replies, write = self._replies, self._write
        while True:
            while replies:
                await write(replies.popleft())
                if len(replies) < _MAX_UNSENT and not self._room.is_set():
                    self._room.set()
            if self._error is not None:
                raise self._error
            if self._closed:
                return
            self._something.clear()
            await self._something.wait()
