"""Applications that receive messages on a host of the simulated network in transactions, and take their time.

Meanwhile others read, purge and delete queues, and hosts end. Until such a transaction is committed, its messages
belong to nobody else, and they are in their queues again when it has ended otherwise.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from msmq.manager.model import QueueAccessType
from msmq.testing.network_book import QueueKey, number_in

if TYPE_CHECKING:
    from msmq.testing.network_host import NetworkHost

MOST_WORKS: Final = 2


class Work:
    """A transaction of an application, which ends with the queue manager at the latest."""

    def __init__(self, host: NetworkHost) -> None:
        self._host = host
        self._transaction = host.daemon.manager.transactions.create()
        self._taken: list[tuple[QueueKey, int]] = []

    def receive(self, name: str, most: int) -> None:
        """Receive up to ``most`` messages, which others cannot see from now on; they may receive later ones first."""
        host, manager = self._host, self._host.daemon.manager
        key = (host.address, name)
        descriptor = manager.queues.open(f"DIRECT=OS:.\\private$\\{name}", QueueAccessType.RECEIVE)
        try:
            found = manager.reading.take(descriptor, most, 1 << 20, transaction=self._transaction)
            for message in found.messages:
                number = number_in(message.packet)
                host.book.given(key, number)
                host.book.log(key).held.add(number)
                self._taken.append((key, number))
        finally:
            manager.queues.close(descriptor)

    def end(self, *, commit: bool) -> bool:
        """Commit or abort the transaction. What was deleted with its queue meanwhile is not received. If the disk has
        no room, an error says so and the transaction goes on."""
        host, transactions = self._host, self._host.daemon.manager.transactions
        if not commit:
            transactions.abort(self._transaction.identifier)
            return True
        logs = {key: host.book.log(key) for key, _ in self._taken}
        kept = [(key, number) for key, number in self._taken if number not in logs[key].gone]
        transactions.commit(self._transaction.identifier)
        life = host.book.lives[host.address]
        for key, number in kept:
            host.book.kept(key, number)
            host.daemon.commit.when_durable(partial(host.received, life, key, number))
        return True
