"""The program that ``test_killed_process`` kills: a queue manager on a real store, in a tight loop.

For each line on its standard input, a directory and a seed, it forks a worker and says the worker's process
number. The worker opens the store, then enqueues, receives, moves and commits until it is killed. Before a
commit it says what it is ``doing``, after it that this is ``durable``; it never says so before the store does.
Forking saves the start of an interpreter for every life.
"""

from __future__ import annotations

import json
import os
import select
import sys
from pathlib import Path
from random import Random
from typing import Any

from msmq.manager.core import Environment
from msmq.manager.initialization import Identity
from msmq.manager.ledger.retention import Cleaning
from msmq.manager.mailbox.batch import Batch
from msmq.manager.mailbox.stored import StoredMessage
from msmq.manager.messages.transactions import Transaction
from msmq.manager.model import QueueAccessType
from msmq.manager.queue_manager import QueueManager
from msmq.manager.queues.queue import Queue, ReadResult
from msmq.manager.queues.queues import QueueRequest
from msmq.store import RealDisk, Store, StoreOptions
from tests.manager.support import message

NOW = 1_700_000_000
PLAIN, ORDERS, DONE = "plain", "orders", "done"
"""The first queue takes any message; the others are transactional, and one journals."""
SUBQUEUE = "later"
PLACES = (PLAIN, ORDERS, DONE, f"{ORDERS};{SUBQUEUE}", f"{ORDERS};journal")
MOST_MESSAGES = 60

Change = tuple[Any, ...]


class Host:
    """A queue manager on a directory, as the worker and the test see it."""

    def __init__(self, directory: Path, random: Random) -> None:
        self.random = random
        options = StoreOptions(smallest_segment_bytes=1 << 14, largest_segment_bytes=1 << 16)
        self.store = Store.open(RealDisk(directory), options)
        environment = Environment(lambda: NOW, random.randbytes)
        self.manager = QueueManager(self.store, environment, lambda: Identity("HOST"))
        self.manager.start()
        self.cleaning = Cleaning(self.manager.core, self.manager.mailbox, self.manager.transactions)

    def queue(self, name: str) -> Queue:
        root, _, subqueue = name.partition(";")
        found = self.manager.core.by_path.get(f"host\\private$\\{root}")
        if found is None:
            request = QueueRequest(
                f".\\private$\\{root}", transactional=root != PLAIN, journaling=root == ORDERS
            )
            found = self.manager.queues.create(request)
        if subqueue == "journal":
            assert found.journal is not None
            return found.journal
        return self.manager.queues.subqueue(found, subqueue) if subqueue else found

    def contents(self) -> dict[str, list[str]]:
        """What the queues hold, in their order."""
        load = self.manager.mailbox.load
        queues = {name: self.queue(name) for name in PLACES}
        return {
            name: [text_of(load(queue, entry.lookup_id)) for entry in queue.positions]
            for name, queue in queues.items()
        }

    def close(self) -> None:
        self.manager.stop()
        self.store.close()


def text_of(message: StoredMessage) -> str:
    return bytes(message.packet.body).decode().strip("\0")


class Worker(Host):
    """Works and says what it does."""

    def __init__(self, directory: Path, seed: int) -> None:
        super().__init__(directory, Random(seed))
        self.life = seed
        self.sent = 0

    def work(self) -> None:
        say({"found": self.contents()})
        while True:
            events = [self.any_event() for _ in range(self.random.randint(1, 8))]
            if self.random.random() < 0.3:
                self.store.clean_step(self.cleaning, 20000)
            self.do([event for event in events if event])

    def do(self, events: list[list[Change]]) -> None:
        """Make events durable, and let the world know."""
        mark = self.store.appended
        say({"doing": events})
        self.store.commit()
        assert self.store.durable >= mark
        say({"durable": len(events)})

    def any_event(self) -> list[Change]:
        full = sum(len(self.queue(name).positions) for name in PLACES) > MOST_MESSAGES
        if full or self.random.random() < 0.3:
            return self.receive(self.random.choice(PLACES))
        return self.random.choice((self.send, self.transact, self.transact, self.move))()

    def send(self) -> list[Change]:
        return [self.put(PLAIN, self.random.randint(0, 7), None)]

    def transact(self) -> list[Change]:
        """Take one order and send up to three messages to two queues, together or not at all."""
        transaction = self.manager.transactions.create()
        changes = []
        for _ in range(self.random.randint(1, 3)):
            changes.append(self.put(self.random.choice((ORDERS, DONE)), 3, transaction))
        taken = self.take(DONE, transaction=transaction)
        if taken is not None:
            changes.append(("gone", DONE, taken))
        self.manager.transactions.commit(transaction.identifier)
        return changes

    def put(self, name: str, priority: int, transaction: Transaction | None) -> Change:
        self.sent += 1
        text = f"{self.life}.{self.sent}"
        body = text.encode() + bytes(self.random.choice((0, 100, 3000)))
        made = message(
            body, priority=priority, recoverable=True, transactional=transaction is not None, sent_time=NOW
        )
        batch = Batch.of((made,), self.manager.core.record.identifier)
        self.manager.sending.enqueue(self.queue(name), batch, transaction)
        return ("put", name, text, priority)

    def receive(self, name: str) -> list[Change]:
        text = self.take(name)
        if text is None:
            return []
        return [("moved", ORDERS, text, f"{ORDERS};journal")] if name == ORDERS else [("gone", name, text)]

    def take(self, name: str, **options: Any) -> str | None:
        queue = self.queue(name)
        descriptor = self.manager.queues.open(f"DIRECT=OS:{queue.pathname}", QueueAccessType.RECEIVE)
        results: list[ReadResult] = []
        self.manager.reading.dequeue(descriptor, results.append, timeout_s=0, **options)
        self.manager.queues.close(descriptor)
        message = results[0].message
        return None if message is None else text_of(message)

    def move(self) -> list[Change]:
        """Put an order aside, or take it up again."""
        names = [ORDERS, f"{ORDERS};{SUBQUEUE}"]
        self.random.shuffle(names)
        source, target = map(self.queue, names)
        entry = source.positions.next_available(-1)
        if entry is None:
            return []
        text = text_of(self.manager.mailbox.load(source, entry.lookup_id))
        self.manager.move_message(source.position(entry.lookup_id), target)
        return [("moved", names[0], text, names[1])]


def say(value: object) -> None:
    data = json.dumps(value).encode() + b"\n"
    assert len(data) <= select.PIPE_BUF, "the pipe could tear it"
    os.write(sys.stdout.fileno(), data)


def main() -> None:
    for line in sys.stdin:
        directory, _, seed = line.rstrip("\n").rpartition(" ")
        pid = os.fork()
        if not pid:
            say({"worker": os.getpid()})
            Worker(Path(directory), int(seed)).work()
        _, status = os.waitpid(pid, 0)
        say({"ended": os.waitstatus_to_exitcode(status)})


if __name__ == "__main__":
    main()
