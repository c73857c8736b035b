"""Distributed transactions (MS-MQDMPR 3.1.4.6 to 3.1.4.11): this queue manager as one participant of several.

:class:`ResourceManager` answers a transaction manager: prepare, commit, abort, and after a restart what became of a
transaction it had promised. Any coordinator can drive it; MS-DTCO is not implemented here. :class:`Coordinator` is the
one in this process: two phases, presumed abort. It records a decision to commit before it tells anybody, and forgets
it when all participants have committed; a transaction without a recorded decision was aborted.

Neither of them makes records durable. Their owner commits the store after each call and lets the answer out then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final, Protocol

from msmq.errors import TransactionEnlistError, TransactionSequenceError
from msmq.manager.ledger.ledger import Ledger
from msmq.manager.messages.transactions import Transaction, Transactions


class Vote(Enum):
    """The answer of a participant to a request to prepare."""

    PREPARED = "it will do whatever is decided"
    COMMITTED = "it was alone and has committed"
    ABORTED = "it cannot, and has undone everything"


class Decision(Enum):
    """How a distributed transaction ended."""

    COMMITTED = "Committed"
    ABORTED = "Aborted"


class Participant(Protocol):
    """A resource that takes part in distributed transactions."""

    def prepare(self, identifier: bytes, *, single_phase: bool = False) -> Vote: ...

    def commit(self, identifier: bytes) -> None: ...

    def abort(self, identifier: bytes) -> None: ...


class ResourceManager:
    """The queue manager's side of a distributed transaction."""

    def __init__(self, transactions: Transactions) -> None:
        self.transactions = transactions

    def enlist(self, identifier: bytes) -> Transaction:
        """Take part in a transaction that somebody else coordinates."""
        found = self.transactions.collection.get(identifier)
        return found or self.transactions.create(identifier, single_phase=False)

    def prepare(self, identifier: bytes, *, single_phase: bool = False) -> Vote:
        """DTC Transaction Prepare. Without other participants, preparing and committing are one step."""
        try:
            self.transactions.prepare(identifier, single_phase=False)
        except TransactionSequenceError:
            return Vote.ABORTED
        if single_phase:
            self.transactions.commit(identifier)
            return Vote.COMMITTED
        return Vote.PREPARED

    def commit(self, identifier: bytes) -> None:
        """DTC Transaction Commit."""
        self.transactions.commit(identifier)

    def abort(self, identifier: bytes) -> None:
        """DTC Transaction Abort. An unknown transaction was already undone."""
        if identifier in self.transactions.collection:
            self.transactions.abort(identifier)

    @property
    def in_doubt(self) -> list[bytes]:
        """Prepared transactions whose outcome is not known here."""
        collection = self.transactions.collection
        return [identifier for identifier, member in collection.items() if member.prepared_at is not None]

    def reenlist(self, outcome_of: Callable[[bytes], Decision | None]) -> None:
        """After a restart, ask for the outcome of each prepared transaction, and carry it out (3.1.4.9, 3.1.4.10).

        Without an answer of its transaction manager there is no safe way to continue (3.1.4.11).
        """
        for identifier in self.in_doubt:
            decision = outcome_of(identifier)
            if decision is None:
                raise TransactionEnlistError(
                    f"The outcome of transaction {identifier.hex()} cannot be learned: its coordinator does not "
                    "answer. Start the coordinator, then this queue manager again."
                )
            if decision is Decision.COMMITTED:
                self.transactions.commit(identifier)
            else:
                self.transactions.abort(identifier)


_DECISION: Final = "decision/"


def decisions_of(values: Iterable[str]) -> list[bytes]:
    """The commit decisions among the named values of a recovered ledger."""
    return [bytes.fromhex(key.removeprefix(_DECISION)) for key in values if key.startswith(_DECISION)]


class Coordinator:
    """Two-phase commit among participants of this process."""

    def __init__(self, ledger: Ledger, decisions: Iterable[bytes] = ()) -> None:
        self.ledger = ledger
        self._committed = set(decisions)

    @staticmethod
    def decision_key(identifier: bytes) -> str:
        return _DECISION + identifier.hex()

    def outcome_of(self, identifier: bytes) -> Decision:
        """The outcome of a transaction for participants that restart: without a recorded commit it was aborted."""
        return Decision.COMMITTED if identifier in self._committed else Decision.ABORTED

    def decide(self, identifier: bytes, participants: list[Participant]) -> Decision:
        """First phase: ask all participants, and record the decision if all are ready.

        The caller makes the store durable before it calls :meth:`complete`.
        """
        if len(participants) == 1:
            vote = participants[0].prepare(identifier, single_phase=True)
            return Decision.COMMITTED if vote is Vote.COMMITTED else Decision.ABORTED
        votes = []
        for participant in participants:
            votes.append(participant.prepare(identifier))
            if votes[-1] is not Vote.PREPARED:
                break
        if len(votes) == len(participants) and all(vote is Vote.PREPARED for vote in votes):
            self.ledger.put_value(self.decision_key(identifier), True)
            self._committed.add(identifier)
            return Decision.COMMITTED
        for participant, vote in zip(participants, votes, strict=False):
            if vote is Vote.PREPARED:
                participant.abort(identifier)
        for participant in participants[len(votes) :]:
            participant.abort(identifier)
        return Decision.ABORTED

    def complete(self, identifier: bytes, participants: list[Participant]) -> None:
        """Second phase of a committed transaction, after which nobody needs the decision any more."""
        for participant in participants:
            participant.commit(identifier)
        self.forget(identifier)

    def forget(self, identifier: bytes) -> None:
        self._committed.discard(identifier)
        self.ledger.drop_value(self.decision_key(identifier))
