"""An application's channel to the simulated queue manager: the real calls of :mod:`msmq.api`, without a socket.

The simulator uses the channel through this module only. Replies that wait for the disk come when the store confirms, as
they do in the daemon.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from msmq.api.desk import Desk, Outbox, Resources, Session
from msmq.api.frames import METHODS
from msmq.api.generated import msmq_pb2 as pb
from msmq.api.packet_columns import PacketColumns
from msmq.api.receive import Receiver
from msmq.api.send import Sender
from msmq.api.spans import SpanCalls
from msmq.errors import MQError
from msmq.manager.mailbox.retries import NO_RETRY, Retry
from msmq.manager.queue_manager import QueueManager
from msmq.security.access import Token
from msmq.security.sid import ADMINISTRATORS, Sid
from msmq.store import Store
from msmq.testing.loop import SimulatedLoop
from msmq.testing.network import SimulatedNetwork

_T = TypeVar("_T")
CALLER = Token.authenticated(Sid(5, (21, 1, 2, 3, 1000)), [ADMINISTRATORS])


class _Clock:
    """A clock that stands still: the calls that are made here wait for nothing but the disk."""

    now = 0.0


def as_received(method: str, reply: object) -> PacketColumns:
    """Read a reply with packets as a client does."""
    assert isinstance(reply, list), "packets come written"
    read = METHODS[method].deserialize_reply(b"".join(reply))
    assert isinstance(read, PacketColumns)
    return read


class KeptAnswers:
    """Keeps the replies of a call until somebody looks; it replaces an Outbox."""

    def __init__(self) -> None:
        self.packets: list[PacketColumns] = []
        self.others: list[Any] = []
        self.error: MQError | None = None

    def put(self, reply: pb.ReceiveReply | list[bytes]) -> None:
        if isinstance(reply, list):
            self.packets.append(as_received("Receive", reply))
        else:
            self.others.append(reply)

    def fail(self, error: MQError) -> None:
        self.error = error


class Reader:
    """An application that receives in two steps: it holds messages until it acknowledges or rejects them."""

    def __init__(self, channel: Channel, path: str, retry: Retry) -> None:
        self.path = path
        self.retry = retry
        self.settled = 0
        """The number of messages whose settlement was durably confirmed to it."""
        self._channel = channel
        self._outbox = KeptAnswers()
        request = pb.OpenToReceive(queue=f"DIRECT=OS:{path}", mode=pb.HOLD, form=pb.PACKET)
        if retry != NO_RETRY:
            request.retry_delay_ms, request.max_deliveries = retry.delay_ms, retry.max_deliveries
            request.poison_subqueue = retry.poison_subqueue
        self._receiver = channel.do(
            lambda: Receiver(channel.desk, request, cast(Outbox, self._outbox), CALLER)
        )

    @property
    def open(self) -> bool:
        """True if its queue still exists, and its call has not failed."""
        return self._receiver.descriptor.queue is not None and self._outbox.error is None

    @property
    def begun(self) -> set[int]:
        return self._receiver.descriptor.begun

    @property
    def waits(self) -> bool:
        """True if it has asked for messages that have not come yet."""
        return self.open and bool(self._receiver.descriptor.waiting)

    def prefetch(self, most: int, *, wait: bool = False) -> None:
        """Ask for up to ``most`` of the messages that are there now, and with ``wait`` also of those that come later.
        Without it, a wait that was under way ends."""
        timeout_ms = None if wait else 0
        self._channel.do(lambda: self._receiver.credit(pb.Credit(messages=most, timeout_ms=timeout_ms)))

    def acknowledge(self, lookup_ids: list[int]) -> None:
        self._channel.do(lambda: self._receiver.acknowledge(lookup_ids))

    def reject(self, lookup_ids: list[int], subqueue: str) -> None:
        self._channel.do(lambda: self._receiver.reject(lookup_ids, subqueue))

    def disconnect(self) -> None:
        self._channel.do(self._receiver.close)

    def deliveries(self) -> list[tuple[int, bytes]]:
        """Return the lookup identifiers and packets that have come since the last call and are durable."""
        found: list[tuple[int, bytes]] = []
        for given in self._outbox.packets:
            found += zip(given.lookup_ids, given.packets, strict=True)
        self.settled += sum(reply.settled.messages for reply in self._outbox.others)
        self._outbox.packets.clear()
        self._outbox.others.clear()
        return found


class Channel:
    """The channel of one run of a queue manager."""

    def __init__(self, manager: QueueManager, store: Store) -> None:
        self._manager = manager
        self._store = store
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        self._loop = SimulatedLoop(cast(SimulatedNetwork, _Clock()), "host")
        self.desk = Desk(self)

    # --- what the calls need of a daemon ------------------------------------------------------------------------

    @property
    def manager(self) -> QueueManager:
        return self._manager

    def when_durable(self, action: Callable[[], None]) -> None:
        self._waiting.append((self._store.appended, action))

    async def ask(self, call: Callable[[], _T], *, anew: bool = False) -> _T:
        return call()

    async def change(self, call: Callable[[], _T], *, anew: bool = False) -> _T:
        return call()

    def sessions(self) -> list[Session]:
        return []

    def troubles(self) -> list[str]:
        return []

    def work_done(self) -> pb.Work:
        return pb.Work()

    def resources(self) -> Resources:
        return Resources(0, 0, 0, 0, 0)

    @property
    def account_file(self) -> None:
        return None

    @property
    def recovered(self) -> Mapping[str, Any]:
        return {}

    # --- progress -----------------------------------------------------------------------------------------------

    def do(self, call: Callable[[], _T]) -> _T:
        """Make a call, and let everything happen that follows from it without the disk."""
        with self._loop.running():
            result = call()
        self.go_on()
        return result

    def go_on(self) -> None:
        """Let calls go on that are under way, as far as they get without the disk."""
        while self._loop.run_one():
            pass
        if self._loop.failures:
            raise self._loop.failures.pop()

    def end(self) -> None:
        """End with the process. What calls have left open is closed now, and not when the interpreter comes to it: that
        may be in the middle of another step."""
        self._loop.die()

    def became_durable(self) -> None:
        """Deliver the replies that were waiting for the disk."""
        waiting, self._waiting = self._waiting, []
        with self._loop.running():
            for mark, action in waiting:
                if mark <= self._store.durable:
                    action()
                else:
                    self._waiting.append((mark, action))
        self.go_on()

    # --- calls --------------------------------------------------------------------------------------------------

    def reader(self, path: str, retry: Retry = NO_RETRY) -> Reader:
        return Reader(self, path, retry)

    def span(self, path: str, after: int, upto: int, commit: Callable[[], None]) -> list[tuple[int, bytes]]:
        """Read a part of a queue. Returns lookup identifiers and packets. ``commit`` writes what the call waits for."""
        request = pb.ReadSpanRequest(
            queue=f"DIRECT=OS:{path}", span=pb.Span(after=after, upto=upto), form=pb.PACKET
        )
        found: list[tuple[int, bytes]] = []

        async def read() -> None:
            async for reply in SpanCalls(self.desk).read_span(request, CALLER):
                given = as_received("ReadSpan", reply)
                found.extend(zip(given.lookup_ids, given.packets, strict=True))

        with self._loop.running():
            task = self._loop.create_task(read())
        self.go_on()
        while not task.done():
            commit()
            self.became_durable()
        return found

    def send(self, path: str, batch: list[pb.Message]) -> pb.SendReply:
        """Send a batch as a client does."""

        def send() -> pb.SendReply:
            sender = Sender(self.desk, f"DIRECT=OS:{path}", CALLER)
            try:
                return sender.send(pb.SendRequest(messages=batch), None)
            finally:
                sender.close()

        return self.do(send)
