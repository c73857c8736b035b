"""The queue manager: one object that owns the shared state and offers every event of MS-MQDMPR.

How it works
------------
Everything runs in one thread, one event at a time, and changes memory at once. Records of what must survive are
appended to the store at the same time; the owner of this object commits the store (many events share one commit) and
lets nothing leave the process (no acknowledgment, no message to a reader, no answer) before the records made so far
are durable. It waits until ``store.durable`` has reached ``store.appended``.

The rooms inside: :class:`Core` is the state, :class:`Mailbox` puts messages into queues and takes them out,
:class:`Reading` reads and waits, :class:`Transactions` groups operations, :class:`Queues` opens and closes,
:class:`Sending` judges and delivers, :class:`Credentials` verifies, decrypts, signs and encrypts,
:class:`Acknowledging` tells senders, :class:`Administration` shows and changes
properties, :class:`DirectoryEvents` publishes, :class:`Naming` finds.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable

from msmq.errors import IllegalOperationError, MessageNotFoundError
from msmq.manager.access.credentials import Credentials
from msmq.manager.access.guard import Guard
from msmq.manager.access.keys import KeyRing
from msmq.manager.core import Core, Environment, Subscriber
from msmq.manager.directory import Change, Directory, DirectoryEvents, DirectoryObject
from msmq.manager.initialization import (
    KEYS,
    Identity,
    Initialization,
    Settings,
    create_system_queues,
    set_outgoing_states,
)
from msmq.manager.ledger import attributes
from msmq.manager.ledger.ledger import (
    Kind,
    Ledger,
    LostRecord,
    RecordStore,
    RecoveredOperation,
)
from msmq.manager.ledger.queue_records import queue_from_record
from msmq.manager.ledger.recovered import (
    NEVER,
    PEEKABLE_WHEN_LOCKED,
    Recovered,
    Standing,
    front_in,
    marks_in,
)
from msmq.manager.ledger.retention import Cleaning
from msmq.manager.mailbox.mailbox import Mailbox, is_destination
from msmq.manager.mailbox.positions import PositionState
from msmq.manager.mailbox.stored import LARGEST_ENVELOPE
from msmq.manager.messages.acknowledgments import Acknowledging
from msmq.manager.messages.delivery import Sending
from msmq.manager.messages.drafts import Posting
from msmq.manager.messages.readers import Reading
from msmq.manager.messages.transactions import Transaction, TransactionalOperation, Transactions
from msmq.manager.model import OperationType, OutgoingState, QueueManagerState, QueueType
from msmq.manager.queues.administration import Administration
from msmq.manager.queues.elsewhere import Elsewhere
from msmq.manager.queues.mending import Mending
from msmq.manager.queues.queue import MessagePosition, OutgoingQueue, Queue
from msmq.manager.queues.queues import DELETING, Queues
from msmq.manager.queues.resolution import Naming

_DELETING = DELETING.rstrip("/")


class QueueManager:
    """LocalQueueManager and its events."""

    def __init__(
        self,
        store: RecordStore,
        environment: Environment,
        identity: Callable[[], Identity],
        settings: Settings | None = None,
        directory: Directory | None = None,
        notify: Callable[[Change, DirectoryObject], None] | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self._identity = identity
        ledger = Ledger(store)
        self.core = core = Core(ledger, environment, express_limit_bytes=self.settings.express_limit_bytes)
        self.directory = DirectoryEvents(core, directory, notify)
        self.naming = Naming(core, self.directory)
        self.naming.local_addresses.update(self.settings.local_addresses)
        self.mailbox = Mailbox(core)
        self.transactions = Transactions(core, self.mailbox)
        self.reading = Reading(core, self.mailbox, self.transactions)
        self.guard = Guard(core, self.directory)
        self.cleaning = Cleaning(core, self.mailbox, self.transactions)
        self.queues = Queues(
            core,
            self.mailbox,
            self.reading,
            self.naming,
            self.directory,
            self.guard,
            strict_default_security=self.settings.strict_default_security,
            computer_sid=self.settings.computer_sid,
        )
        self.administration = Administration(core, self.queues, self.directory, self.guard)
        self.elsewhere = Elsewhere(core, self.directory, self.guard)
        self.mending = Mending(core, self.queues, self.directory, self.guard)
        self.queues.adopt = self.mending.adopt_by_identifier
        self.sending = Sending(core, self.mailbox, self.transactions, self.guard)
        self.credentials = Credentials(core, self.directory, self.settings.crypto)
        self.posting = Posting(core, self.sending, self.credentials)
        self.acknowledging = Acknowledging(
            core, self.queues, self.sending, send_insecure_nacks=self.settings.send_insecure_nacks
        )
        self.subscribe(self.acknowledging)
        self.keys = KeyRing()
        self._unfinished: list[Queue] = []
        """Queues that were deleted before the last stop and still have messages."""

    def subscribe(self, subscriber: Subscriber) -> None:
        self.core.subscribe(subscriber)

    # --- life ---------------------------------------------------------------------------------------------------

    def start(self, *, provisioning: bool | None = False) -> Recovered:
        """Queue Manager Started: recover everything, then serve. With ``provisioning``, the first start of a host in
        its directory, it gets its keys and is published; None means to do that if it has not been done yet."""
        core = self.core
        if core.state is not QueueManagerState.STOPPED:
            raise IllegalOperationError("The queue manager runs already.")
        core.state = QueueManagerState.INITIALIZING
        try:
            found = core.ledger.recover()
            self._restore(found, provisioning)
        except BaseException:
            core.state = QueueManagerState.STOPPED
            raise
        core.state = QueueManagerState.READY
        for subscriber in core.subscribers:
            subscriber.queue_manager_started()
        return found

    def read_directory_again(self) -> None:
        """Take over the current contents of a workgroup's directory.

        Raises:
            DsError: it has another identifier for this host.
        """
        Initialization(self.core, self.directory, self._identity, self.settings).join_again()

    def stop(self) -> None:
        """Queue Manager Stopped: protocols close down, then everything written is made durable."""
        core = self.core
        core.state = QueueManagerState.STOPPING
        for subscriber in core.subscribers:
            subscriber.queue_manager_stopped()
        core.ledger.store.commit()
        core.state = QueueManagerState.STOPPED

    def _restore(self, found: Recovered, provisioning: bool | None) -> None:
        core = self.core
        if provisioning is None:
            kept = found.values.get(attributes.VALUE) or {}
            joins = bool(self.settings.directory_integrated) and not kept.get("directory_integrated")
            provisioning = joins or not found.values.get(KEYS)
        found.check(attributes.VALUE)  # the identity cannot be guessed
        core.lost_records += [LostRecord(Kind.VALUE, 0, key, str(why)) for key, why in found.damaged.values()]
        core.lost_records += [LostRecord(Kind.DELETE_ALL, 0, "", str(why)) for why in found.damaged_deletions]
        core.restore_numbers(*found.values.get("numbers", (0, 0)), uncertain=bool(found.damaged))
        initialization = Initialization(core, self.directory, self._identity, self.settings)
        initialization.begin(found.values, provisioning=provisioning)
        self.keys = initialization.keys
        self.credentials.use(self.keys)
        self._restore_queues(found)
        create_system_queues(core)
        self._restore_messages(found)
        set_outgoing_states(core)
        self._restore_transactions(found)
        initialization.end()
        for queue in self._unfinished:
            core.chores.start(self.queues.finish_deleting(queue))
        self._unfinished.clear()

    def _restore_queues(self, found: Recovered) -> None:
        core = self.core
        for key, record in found.values.items():
            kind, _, number = key.partition("/")
            if kind not in ("queue", _DELETING):
                continue
            queue = queue_from_record(int(number), record)
            if kind == "queue":
                core.register(queue)
            for member in queue.family:
                core.queues[member.number] = member
            if kind == _DELETING:
                self._unfinished.append(queue)
        self.queues.restore_number(max(core.queues, default=0))

    def _restore_messages(self, found: Recovered) -> None:
        """Give all messages their places again, queue by queue. Messages whose queue was lost to damage have no place,
        but stay in the log."""
        core = self.core
        core.moved = found.moved
        for (number, _), parts in found.lanes().items():
            queue = core.queues.get(number)
            core.skip_sequential_ids(parts[-1].ids[-1])
            parts.reverse()
            while parts:
                places = parts.pop()
                if queue is None:
                    known = zip(places.ids, places.addresses, strict=True)
                    core.orphans.update((lookup_id, (number, address)) for lookup_id, address in known)
                else:
                    queue.positions.add(*places)
                    core.total_bytes += sum(places.sizes)
        for number, ids, expiries in found.expiring():
            if number in core.queues:
                self.mailbox.watch_expiries(core.queues[number], ids, expiries)
        for number, lookup_id in found.peekable():
            if number in core.queues:
                core.queues[number].peekable_when_locked.add(lookup_id)
        self._report_orphans()

    def _report_orphans(self) -> None:
        core = self.core
        for number, count in Counter(number for number, _ in core.orphans.values()).items():
            what = f"{count} messages stand in a queue whose record is damaged; they are kept in the log"
            core.lost_records.append(LostRecord(Kind.VALUE, 0, f"queue/{number}", what))
            self.queues.restore_number(number)  # no other queue may get their number

    def _restore_transactions(self, found: Recovered) -> None:
        """Restore prepared transactions with their locks, and undo all others."""
        for identifier in {**found.open_transactions, **found.prepared}:
            operations = found.open_transactions[identifier]
            transaction = self.transactions.create(identifier, single_phase=identifier not in found.prepared)
            transaction.prepared_at = found.prepared.get(identifier)
            restored = [self._restore_sent(*each) for each in operations.sent.items()]
            restored += map(self._restore_other, operations.others.values())
            transaction.operations += (operation for operation in restored if operation is not None)
            if transaction.single_phase:
                self.transactions.abort(identifier)

    def _restore_sent(self, lookup_id: int, message: Standing) -> TransactionalOperation | None:
        core, queue = self.core, self.core.queues.get(message.queue)
        if queue is None:
            return None
        front = front_in(message.flags)
        size, marks = message.payload_size - front, bytes((marks_in(message.flags),))
        queue.positions.add((lookup_id,), (message.address,), (size,), (front,), marks, PositionState.LOCKED)
        core.total_bytes += size
        if message.flags & PEEKABLE_WHEN_LOCKED:
            queue.peekable_when_locked.add(lookup_id)
        if message.expiry != NEVER:
            self.mailbox.watch_expiries(queue, (lookup_id,), (message.expiry,))
        taken = message.payload_size if is_destination(queue) else 0
        place = array("Q", (lookup_id,)), array("Q", (message.address,)), (message.payload_size,)
        return TransactionalOperation(OperationType.ENQUEUE, queue, *place, None, taken, [lookup_id])

    def _restore_other(self, operation: RecoveredOperation) -> TransactionalOperation | None:
        core, head = self.core, operation.head
        kind = OperationType.DEQUEUE if operation.kind is Kind.DELETE else OperationType.MOVE
        for queue in core.queues.values():
            entry = queue.positions.get(head.lookup_id)
            if entry is not None:
                break
        else:
            return None
        queue.positions.set_state(head.lookup_id, PositionState.LOCKED)
        target = core.queues.get(head.queue) if kind is OperationType.MOVE else None
        place = array("Q", (head.lookup_id,)), array("Q", (operation.address,)), (operation.payload_size,)
        return TransactionalOperation(kind, queue, *place, target, entry.size + LARGEST_ENVELOPE, [])

    # --- administration -----------------------------------------------------------------------------------------

    def take_offline(self) -> None:
        """Take Offline (3.1.4.12)."""
        self._set_connection_active(False)

    def bring_online(self) -> None:
        """Bring Online (3.1.4.13)."""
        self._set_connection_active(True)

    def _set_connection_active(self, active: bool) -> None:
        self.core.connection_active = active
        for subscriber in self.core.subscribers:
            subscriber.connection_active(active)

    def pause_queue(self, queue: OutgoingQueue) -> None:
        """Pause Queue (3.1.4.14, 3.1.7.2.3): nothing leaves it until it is resumed."""
        self.queues.change(queue, state=OutgoingState.ON_HOLD)
        for subscriber in self.core.subscribers:
            subscriber.pause_queue(queue)

    def resume_queue(self, queue: OutgoingQueue) -> None:
        """Resume Queue (3.1.4.15, 3.1.7.2.4)."""
        self.queues.change(queue, state=OutgoingState.INACTIVE)
        for subscriber in self.core.subscribers:
            subscriber.resume_queue(queue)

    def begin_flow_control(self) -> None:
        """Begin Flow Control (3.1.7.2.5)."""
        self._throttle(True)

    def end_flow_control(self) -> None:
        """End Flow Control (3.1.7.2.6)."""
        self._throttle(False)

    def _throttle(self, throttled: bool) -> None:
        self.core.throttled = throttled
        for subscriber in self.core.subscribers:
            subscriber.flow_control(throttled)

    def move_message(
        self, position: MessagePosition, target: Queue, transaction: Transaction | None = None
    ) -> None:
        """Move Message (3.1.7.1.16) between a queue and its subqueues, or to a system queue."""
        queue, lookup_id = position
        if target.queue_type is QueueType.SYSTEM:
            if transaction is not None:
                raise IllegalOperationError("A move to a system queue cannot be part of a transaction.")
            self.sending.move_to_system_queue(queue, (lookup_id,), target)
        elif target.root is not queue.root:
            raise IllegalOperationError("Messages are moved between a queue and its subqueues.")
        elif transaction is not None:
            self.transactions.move(transaction, queue, lookup_id, target)
        elif not self.mailbox.move(queue, (lookup_id,), target):
            raise MessageNotFoundError("The disk has damaged this message; it was set aside.")

    # --- time ---------------------------------------------------------------------------------------------------

    @property
    def next_deadline(self) -> float | None:
        """The time when :meth:`run_timers` has something to do."""
        return self.core.timers.next_deadline

    def run_timers(self) -> int:
        return self.core.timers.run(self.core.environment.now())
