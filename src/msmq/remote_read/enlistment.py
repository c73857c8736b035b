"""Transactions that span a remote read and something else (MS-MQRR 3.1.4.12).

R_QMEnlistRemoteTransaction carries a token of the distributed transaction coordinator (MS-DTCO). MS-DTCO itself is not
implemented here: there is the coordinator of this process, and an interface for another one. A `TransactionManager`
decides whether we may take part. `LocalTransactionManager` accepts the transactions that were begun with it and
refuses all others, so a client with a token of a foreign coordinator learns at once that we cannot take part in its
transaction.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from msmq.errors import TransactionEnlistError, TransactionSequenceError
from msmq.manager.messages.coordinator import Coordinator, Decision, Participant, ResourceManager

_MARK: Final = b"OpenMSMQ transaction"


class TransactionManager(Protocol):
    """Coordinates transactions that other programs began."""

    def enlist(self, uow: bytes, token: bytes, resource: ResourceManager) -> None:
        """Make ``resource`` a participant of the transaction that ``token`` stands for. Raises MQError if it may not
        be."""


class LocalTransactionManager:
    """Coordinates the transactions of this process and makes their tokens."""

    def __init__(
        self,
        coordinator: Coordinator,
        new_identifier: Callable[[], bytes],
        durable: Callable[[], Awaitable[None]],
    ) -> None:
        self._coordinator = coordinator
        self._new_identifier = new_identifier
        self._durable = durable
        self._participants: dict[bytes, list[Participant]] = {}

    def begin(self) -> tuple[bytes, bytes]:
        """Begin a transaction. Returns its identifier and the token to enlist others with."""
        uow = self._new_identifier()
        self._participants[uow] = []
        return uow, token_of(uow)

    def enlist(self, uow: bytes, token: bytes, resource: ResourceManager) -> None:
        members = self._participants.get(uow)
        if members is None or token != token_of(uow):
            raise TransactionEnlistError(
                "Only transactions of this queue manager's own coordinator can be joined; distributed coordinators "
                "(MS-DTCO) are not supported."
            )
        if resource not in members:
            members.append(resource)

    async def commit(self, uow: bytes) -> Decision:
        """Decide and carry out the decision, which is durable when this returns."""
        members = self._take(uow)
        if not members:
            return Decision.COMMITTED
        decision = self._coordinator.decide(uow, members)
        await self._durable()
        if decision is Decision.COMMITTED and len(members) > 1:
            self._coordinator.complete(uow, members)
            await self._durable()
        return decision

    async def abort(self, uow: bytes) -> None:
        for member in self._take(uow):
            member.abort(uow)
        await self._durable()

    def _take(self, uow: bytes) -> list[Participant]:
        members = self._participants.pop(uow, None)
        if members is None:
            raise TransactionSequenceError(f"No transaction {uow.hex()} is open here.")
        return members


def token_of(uow: bytes) -> bytes:
    """The propagation token of a transaction of this process."""
    return _MARK + uow
