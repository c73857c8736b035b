"""One protocol session of MS-MQQB: a TCP connection between two queue managers, without the TCP.

How it works. The owner passes what it reads to :meth:`Session.receive_data` and gets events; it writes what
:meth:`Session.data_to_send` returns; it calls :meth:`Session.handle_timer` when ``next_deadline_ms`` has come. The
machine knows no socket, no clock and no queue: messages are sent by :meth:`Session.send` with a token of the owner's
choice, and the tokens come back when the peer has acknowledged them or when the session closes. The owner judges and
stores what arrives; :meth:`Session.stored` tells the machine which recoverable messages are safe, and only then are
they acknowledged.

An acceptor's session is made when a connection is accepted. An initiator's is made once, told :meth:`Session.connected`
for every transport connection, and :meth:`Session.reconnect_later` when it has closed and there is still something to
deliver; ``RetryDue`` then says when to try again. Each connection resets the counters.

The states and their transitions are in :mod:`msmq.transfer.states`, the acknowledgments in
:mod:`msmq.transfer.acknowledgment`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

from msmq.errors import DecodeError
from msmq.transfer.acknowledgment import (
    Divisible,
    MiscountError,
    Outbox,
    Receipts,
    Window,
    with_session_header,
    without_session_header,
)
from msmq.transfer.events import (
    Answered,
    Closed,
    Established,
    Event,
    MessagesAcknowledged,
    MessagesReceived,
    RetryDue,
    WindowOpened,
)
from msmq.transfer.states import FIRST, REASONS, TABLES, Action, CloseReason, Input, Role, State
from msmq.transfer.timers import TimerSettings, earliest
from msmq.wire.framing import Packet, StreamReader, decode_packet
from msmq.wire.headers import BASE_IN, BASE_SH, NULL_GUID, USER_RECOVERABLE
from msmq.wire.incoming import Incoming, Row, row_of
from msmq.wire.layout import BASE, USER
from msmq.wire.optional_headers import DEFAULT_WINDOW_SIZE, SessionHeader
from msmq.wire.packets import (
    MAX_ACK_TIMEOUT_MS,
    MIN_RECOVERABLE_ACK_TIMEOUT_MS,
    ConnectionParameters,
    EstablishConnection,
    SessionAck,
)

T = TypeVar("T")

_BASE_FLAGS: Final = BASE["flags"]
_USER_FLAGS: Final = USER["flags"]
_PAUSED_WINDOW: Final = 1
_USER_MESSAGE: Final = Input.USER_MESSAGE
_OPEN, _CLOSED = State.OPEN, State.CLOSED


class _Message(NamedTuple):
    """A user message that was checked."""

    data: bytes
    row: Row
    header: SessionHeader | None


_Given = Packet | _Message | None
_Perform = Callable[[_Given, int], None] | None
_Step = tuple[_Perform, State]


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """The settings that all sessions of a queue manager share."""

    own_guid: bytes
    server_class: bool = True
    window_size: int = DEFAULT_WINDOW_SIZE
    tolerate_wrong_message_count: bool = False
    """True to accept a wrong UserMsgSequenceNumber, which some peers are known to send (MS-MQMQ note 14)."""
    timers: TimerSettings = field(default_factory=TimerSettings)


def admit_all(request: EstablishConnection) -> bool:
    """The policy of an acceptor without a limit."""
    return True


class Session(Generic[T]):
    """One session, as the side that opened the connection or the side that accepted it."""

    def __init__(
        self,
        role: Role,
        config: SessionConfig,
        now_ms: int,
        *,
        admit: Callable[[EstablishConnection], bool] = admit_all,
    ) -> None:
        """``admit`` decides for an acceptor whether a request may become a session."""
        self.role = role
        self.state = FIRST[role]
        self.remote_guid = NULL_GUID
        self.direct = False
        self.received_window_size = 0
        self._config = config
        self._admit = admit
        self._pinged = False
        self._earlier = 0  # recoverable messages of earlier connections
        self._opening_ms: int | None = None
        self._cleanup_ms: int | None = None
        self._retry_ms: int | None = None
        self._steps = self._bind()
        self._initialize()
        if role is Role.ACCEPTOR:
            self._opening_ms = now_ms + config.timers.opening_ms
            self._cleanup_ms = now_ms + config.timers.session_cleanup_ms

    def _bind(self) -> dict[tuple[State, Input], _Step]:
        """Return the table with the methods of this session in place of the actions' names."""
        actions: dict[Action, _Perform] = {
            Action.CLOSE: None,
            Action.ASK: self._ask,
            Action.ANSWER: self._answer,
            Action.REFUSE: self._refuse,
            Action.OFFER: self._offer,
            Action.CONFIRM: self._confirm,
            Action.ADOPT: self._adopt,
            Action.TAKE_MESSAGE: self._take_message,
            Action.TAKE_ACK: self._take_ack,
            Action.WAIT: self._wait,
            Action.RECONNECT: self._reconnect,
        }
        table = TABLES[self.role]
        return {key: (actions[action], state) for key, (action, state) in table.items()}

    def _initialize(self) -> None:
        """Session Initialization (3.1.3.2): reset what belongs to one transport connection."""
        timers = self._config.timers
        self.ack_wait_timeout_ms = timers.ack_wait_ms
        self.recoverable_ack_timeout_ms = 0xFFFFFFFF
        self.active = False
        self.direct_format = False  # DirectFormatSession: a message with a direct name has come
        self.reader = StreamReader()
        self._output: list[bytes | bytearray] = []
        self._events: list[Event[T]] = []
        self._packets: list[bytes] = []
        self._rows: list[Row] = []
        self._settled: list[T] = []
        self._announced = max(self._config.window_size, 1)  # through a window of zero nothing could ever come
        self._start_counting()

    def _start_counting(self) -> None:
        timers = self._config.timers
        factor = timers.direct_ack_wait_multiplier if self.direct else timers.ack_wait_multiplier
        window = min(self._config.window_size, max(self.received_window_size, 1))
        self._receipts = Receipts(window, self.ack_wait_timeout_ms, self.recoverable_ack_timeout_ms)
        window_left = Window(window, timers.window_growth_ms)
        self._outbox: Outbox[T] = Outbox(window_left, self.ack_wait_timeout_ms * factor)

    # What the owner calls

    @property
    def is_closed(self) -> bool:
        """True if there is no usable transport connection."""
        return self.state in (State.CLOSED, State.WAITING_RECONNECT)

    @property
    def by_address(self) -> bool:
        """True if the peer may be known by its address alone: by the opening of the session, or by the names in its
        messages."""
        return self.direct or self.direct_format

    def is_answered_by_address(self, source: bytes) -> bool:
        """True if acknowledgments for a sender of transactional messages go to the address of this session, which is
        the sender's own (3.1.7.17)."""
        return self.by_address and self.remote_guid == source

    @property
    def receipts(self) -> Receipts:
        """The counters of what was received."""
        return self._receipts

    @property
    def window_size(self) -> int:
        """The number of messages that the peer may send without an answer, as we announce it."""
        return self._config.window_size

    @property
    def outbox(self) -> Outbox[T]:
        """The counters of what was sent."""
        return self._outbox

    @property
    def room(self) -> int:
        """The number of messages that :meth:`send` takes now."""
        return self._outbox.room if self.state is State.OPEN else 0

    @property
    def next_deadline_ms(self) -> int | None:
        """When :meth:`handle_timer` must be called."""
        return earliest(
            self._opening_ms,
            self._cleanup_ms,
            self._retry_ms,
            self._receipts.deadline_ms,
            self._outbox.deadline_ms,
            self._outbox.window.deadline_ms,
        )

    def data_to_send(self) -> list[bytes | bytearray]:
        """Return everything that waits to be written; it is returned only once."""
        output, self._output = self._output, []
        return output

    def connected(self, now_ms: int, remote_guid: bytes | None = None, *, pinged: bool = False) -> None:
        """Open a session on a new transport connection (3.1.5.2.3).

        ``remote_guid`` is the queue manager that we expect there; None if a direct name gave only its address.
        """
        assert (self.state, Input.CONNECTED) in self._steps, "one transport connection at a time"
        self.direct = remote_guid is None
        self.remote_guid = remote_guid or NULL_GUID
        self.received_window_size = 0
        self._pinged = pinged
        self._retry_ms = None
        self._earlier += self._receipts.recoverable_received
        self._initialize()
        self._cleanup_ms = now_ms + self._config.timers.session_cleanup_ms
        self._step(Input.CONNECTED, None, now_ms)

    def reconnect_later(self, now_ms: int) -> None:
        """Ask for RetryDue later, because messages wait for this peer and there is no connection (3.1.5.9)."""
        assert (self.state, Input.MESSAGES_PENDING) in self._steps, "only a closed initiator reconnects"
        self._step(Input.MESSAGES_PENDING, None, now_ms)

    def disconnected(self, now_ms: int) -> list[Event[T]]:
        """Note that the transport connection is gone."""
        return self._end(Input.DISCONNECTED, "", now_ms)

    def close(self, now_ms: int, *, malformed: str | None = None) -> list[Event[T]]:
        """Close the session. ``malformed`` says what was wrong with a message, if the owner found an error."""
        if malformed is not None:
            return self._end(Input.MALFORMED, malformed, now_ms)
        return self._end(Input.STOPPED, "", now_ms)

    def _end(self, given: Input, detail: str, now_ms: int) -> list[Event[T]]:
        if (self.state, given) in self._steps:  # what is closed already stays closed
            self._step(given, None, now_ms, detail)
        return self._drain()

    def send(self, packet: bytes, token: T, now_ms: int) -> bool:
        """Send one message, a whole UserMessage packet. Returns False if the window is closed or the session is not
        open.

        It carries a SessionHeader if one is nearly due anyway (3.1.7.11), built now so that it has the latest counts;
        one from another session is removed.
        """
        outbox = self._outbox
        if self.state is not State.OPEN or not outbox.room:
            return False
        if packet[_BASE_FLAGS] & BASE_SH:
            packet = without_session_header(packet)
        outbox.record(token, packet[_USER_FLAGS] & USER_RECOVERABLE, now_ms)
        if self._receipts.deadline_ms is not None and self._receipts.late(now_ms):
            packet = with_session_header(packet, self._header(now_ms))
        self._output.append(packet)
        self.active = True
        return True

    def send_run(
        self,
        run: Divisible[T],
        packets: list[bytes],
        express: bytes | None,
        now_ms: int,
        joined: bytearray | None = None,
    ) -> int:
        """Send many messages, as :meth:`send` does with one. Returns how many the window took. The packets have no
        SessionHeader. ``run`` makes the tokens of those that are settled; ``express`` tells which are express, None
        means none. ``joined`` holds packets of the same sizes, joined, to be sent in place of these."""
        count = min(len(packets), self.room)
        if not count:
            return 0
        outbox, output = self._outbox, self._output
        alone = 0
        if self._receipts.deadline_ms is not None and self._receipts.late(now_ms):
            alone = 1
            outbox.record_run(run, 0, 1, express, now_ms)
            carrier = packets[0] if joined is None else bytes(joined[: len(packets[0])])
            output.append(with_session_header(carrier, self._header(now_ms)))  # it counts up to this one
        outbox.record_run(run, alone, count, express, now_ms)
        if joined is None:
            output += packets[alone:count]
        else:
            start, left = len(packets[0]) * alone, sum(map(len, packets[count:]))
            output.append(joined[start : len(joined) - left] if start or left else joined)
        self.active = True
        return count

    def stored(self, first_recoverable: int, recoverables: int, now_ms: int) -> None:
        """Note that these received messages are durable, so that they are acknowledged in due course.

        Messages of an earlier connection are ignored: the peer will send them again.
        """
        first = first_recoverable - self._earlier
        if self.state is State.OPEN and recoverables and first > 0:
            self._receipts.stored(first, recoverables, now_ms)
            self._acknowledge_if_due(now_ms)

    def pause(self, now_ms: int) -> None:
        """Acknowledge everything and ask the peer to hold back (Pause Queue, 3.1.7.13)."""
        if self.state is State.OPEN:
            self._send_ack(now_ms, _PAUSED_WINDOW)
            self.active = False

    def receive_data(self, data: bytes, now_ms: int) -> list[Event[T]]:
        """Handle data from the transport, in pieces of any size."""
        if self.is_closed:
            return []
        first = self._receipts.recoverable_received + 1
        was_open, room = self.state is State.OPEN, self.room
        try:
            packets = self.reader.feed(data)
            if packets:
                self._outbox.heard = True
            self._receive_all(packets, now_ms)
            if self.state is not _CLOSED:
                self._look_ahead(now_ms)
        except DecodeError as error:
            self._step(Input.MALFORMED, None, now_ms, str(error))
        if self.state is State.OPEN:
            self._acknowledge_if_due(now_ms)
            if was_open:
                self._tell_room(room)
        return self._drain(first)

    def _tell_room(self, before: int) -> None:
        if self.room > before and not self._settled:
            self._events.append(WindowOpened())

    def _look_ahead(self, now_ms: int) -> None:
        """Check the packet that is still incomplete, as far as its beginning allows."""
        reader = self.reader
        if reader.broken:
            reader.feed(b"")  # raises the error
        elif self.state is not State.OPEN and reader.buffered + reader.missing > EstablishConnection.SIZE:
            # Only a message is that long, and none may come now: a stranger gets no megabytes of memory.
            self._step(Input.USER_MESSAGE, None, now_ms)

    def handle_timer(self, now_ms: int) -> list[Event[T]]:
        """Do what has become due."""
        if _due(self._retry_ms, now_ms):
            self._step(Input.RETRY_DUE, None, now_ms)
        if _due(self._opening_ms, now_ms):
            self._step(Input.INITIALIZATION_EXPIRED, None, now_ms)
        if _due(self._cleanup_ms, now_ms):
            self._clean_up(now_ms)
        if self.state is State.OPEN:
            if _due(self._outbox.deadline_ms, now_ms) and self._outbox.expire(now_ms):
                self._step(Input.UNACKNOWLEDGED, None, now_ms)
                return self._drain()
            room = self.room
            self._outbox.window.grow(now_ms)
            self._tell_room(room)
            if _due(self._receipts.deadline_ms, now_ms):
                self._receipts.deadline_ms = None
                if self._receipts.pending:
                    self._send_ack(now_ms, self._announced)
        return self._drain()

    def _clean_up(self, now_ms: int) -> None:
        """Handle the Session Cleanup Timer (3.1.6.2)."""
        if not self.active:
            self._step(Input.IDLE, None, now_ms)
            return
        self.active = False
        self._cleanup_ms = now_ms + self._config.timers.session_cleanup_ms

    # Following the table

    def _receive_all(self, packets: list[bytes], now_ms: int) -> None:
        """Handle packets until one of them closes the session."""
        for data in packets:
            if self.state is _CLOSED:
                return
            if data[_BASE_FLAGS] & BASE_IN:
                self._receive_internal(data, now_ms)
                continue
            row, header = row_of(data)
            if self.state is _OPEN:  # here nearly all arrive, and the table says the same
                self._take(data, row, header, now_ms)
            else:
                self._step(_USER_MESSAGE, _Message(data, row, header), now_ms)

    def _receive_internal(self, data: bytes, now_ms: int) -> None:
        packet = decode_packet(data)
        if isinstance(packet, SessionAck):
            given = Input.SESSION_ACK
        elif isinstance(packet, ConnectionParameters):
            given = Input.PARAMETERS
        else:
            assert isinstance(packet, EstablishConnection)
            given = Input.ESTABLISH if self._suits(packet) else Input.UNSUITABLE_ESTABLISH
        self._step(given, packet, now_ms)

    def _step(self, given: Input, packet: _Given, now_ms: int, detail: str = "") -> None:
        """Make one transition of the table; an input that it does not have closes the session."""
        step = self._steps.get((self.state, given))
        if step is None:
            self._close(CloseReason.OUT_OF_PLACE, f"{given.name} in {self.state.name}")
            return
        perform, state = step
        if perform is None:
            self._close(REASONS[given], detail)
            return
        self.state = state
        perform(packet, now_ms)

    def _close(self, reason: CloseReason, detail: str) -> None:
        """Close the session (3.1.5.9): no packet announces it, and all timers stop."""
        self.state = State.CLOSED
        self._opening_ms = self._cleanup_ms = self._retry_ms = None
        self._receipts.deadline_ms = None
        returned = self._outbox.unsettled()
        self._outbox = Outbox(Window(1, 0), 0)
        self._events.append(Closed(reason, detail, returned))

    def _drain(self, first: int = 0) -> list[Event[T]]:
        """Return the events since the last call; a closing comes last, after the messages that arrived before it."""
        if not self._packets and not self._settled:
            events, self._events = self._events, []
            return events
        closing = [event for event in self._events if isinstance(event, Closed)]
        events = [event for event in self._events if not isinstance(event, Closed)]
        if self._packets:
            count = self._receipts.recoverable_received + 1 - first
            messages = Incoming(self._packets, self._rows)
            events.append(MessagesReceived(messages, self._earlier + first, count))
        if self._settled:
            events.append(MessagesAcknowledged(self._settled))
        self._events, self._settled = [], []
        self._packets, self._rows = [], []
        return events + closing

    def _suits(self, packet: EstablishConnection) -> bool:
        """True if a request may become a session (3.1.5.3.1), or a response admits us (3.1.5.3.2)."""
        if self.role is Role.ACCEPTOR:
            return packet.meant_for(self._config.own_guid) and self._admit(packet)
        header = packet.header
        return (
            not packet.internal.connection_refused
            and header.client_guid == self._config.own_guid
            and header.server_guid != NULL_GUID  # nobody has this GUID, whomever we expected
            and (self.direct or header.server_guid == self.remote_guid)
        )

    # The actions of the table

    def _ask(self, packet: _Given, now_ms: int) -> None:
        config = self._config
        request = EstablishConnection.request(
            config.own_guid,
            None if self.direct else self.remote_guid,
            now_ms,
            ping_sent=self._pinged,
            server_class=config.server_class,
        )
        self._output.append(request.encode())
        self._opening_ms = now_ms + config.timers.opening_ms

    def _answer(self, packet: _Given, now_ms: int) -> None:
        """Answer the opening. EstablishConnection.response decides which ServerGuid is returned: a zero one becomes
        ours, any other is echoed (MQQB-2.2.3.1-d). MQQB-3.1.5.3.1-c would return ours even if another was asked for."""
        assert isinstance(packet, EstablishConnection)
        self.remote_guid = packet.header.client_guid
        self.direct = packet.header.server_guid == NULL_GUID
        self._output.append(packet.response(self._config.own_guid).encode())
        self._opening_ms = now_ms + self._config.timers.opening_ms

    def _refuse(self, packet: _Given, now_ms: int) -> None:
        assert isinstance(packet, EstablishConnection)
        self._output.append(packet.response(self._config.own_guid, refuse=True).encode())
        self._close(CloseReason.REFUSED, "")

    def _offer(self, packet: _Given, now_ms: int) -> None:
        """Offer parameters to the acceptor, now that its identity and the round-trip time are known."""
        assert isinstance(packet, EstablishConnection)
        self.remote_guid = packet.header.server_guid
        timeout_ms = 8 * packet.round_trip_ms(now_ms & 0xFFFFFFFF)
        self.recoverable_ack_timeout_ms = min(
            max(timeout_ms, MIN_RECOVERABLE_ACK_TIMEOUT_MS), MAX_ACK_TIMEOUT_MS
        )
        offer = ConnectionParameters.of(
            self.recoverable_ack_timeout_ms, self.ack_wait_timeout_ms, self._config.window_size
        )
        self.ack_wait_timeout_ms = offer.header.ack_timeout_ms
        self._output.append(offer.encode())
        self._events.append(Answered(self.remote_guid))

    def _confirm(self, packet: _Given, now_ms: int) -> None:
        """Accept the initiator's times, and announce our own window."""
        assert isinstance(packet, ConnectionParameters)
        header = packet.header
        self.ack_wait_timeout_ms = header.ack_timeout_ms
        self.recoverable_ack_timeout_ms = header.recoverable_ack_timeout_ms
        answer = ConnectionParameters.of(
            header.recoverable_ack_timeout_ms, header.ack_timeout_ms, self._config.window_size
        )
        self._output.append(answer.encode())
        self._adopt(packet, now_ms)

    def _adopt(self, packet: _Given, now_ms: int) -> None:
        assert isinstance(packet, ConnectionParameters)
        self.received_window_size = packet.header.window_size
        self._opening_ms = None
        self._start_counting()
        self._outbox.heard = True
        self._events.append(
            Established(
                self.remote_guid,
                self.received_window_size,
                self.ack_wait_timeout_ms,
                self.recoverable_ack_timeout_ms,
            )
        )

    def _take_message(self, packet: _Given, now_ms: int) -> None:
        assert isinstance(packet, _Message)
        self._take(*packet, now_ms)

    def _take(self, data: bytes, row: Row, header: SessionHeader | None, now_ms: int) -> None:
        """Count a message first, because its SessionHeader counts the message that carries it."""
        self.active = True
        self._receipts.count(data[_USER_FLAGS] & USER_RECOVERABLE, now_ms, size=len(data))
        self._rows.append(row)
        if header is None:
            self._packets.append(data)
        else:
            self._packets.append(without_session_header(data))
            self._take_header(header, now_ms)

    def _take_ack(self, packet: _Given, now_ms: int) -> None:
        assert isinstance(packet, SessionAck)
        self._take_header(packet.session, now_ms)

    def _take_header(self, header: SessionHeader, now_ms: int) -> None:
        """Handle a SessionAck (3.1.5.5): release what it acknowledges, then compare the counts."""
        receipts = self._receipts
        try:
            self._settled += self._outbox.acknowledge(header, now_ms)
        except MiscountError as error:
            self._step(Input.MISCOUNTED, None, now_ms, str(error))
            return
        wrong_count = header.user_msg_sequence_number != receipts.received & 0xFFFF
        if wrong_count and not self._config.tolerate_wrong_message_count:
            detail = f"UserMsgSequenceNumber {header.user_msg_sequence_number}, received {receipts.received}"
            self._step(Input.MISCOUNTED, None, now_ms, detail)
        elif header.recoverable_msg_seq_number != receipts.recoverable_received & 0xFFFF:
            detail = (
                f"RecoverableMsgSeqNumber {header.recoverable_msg_seq_number},"
                f" received {receipts.recoverable_received}"
            )
            self._step(Input.MISCOUNTED, None, now_ms, detail)

    def _wait(self, packet: _Given, now_ms: int) -> None:
        self._retry_ms = now_ms + self._config.timers.retry_ms

    def _reconnect(self, packet: _Given, now_ms: int) -> None:
        self._retry_ms = None
        self._events.append(RetryDue())

    # Acknowledgments

    def _header(self, now_ms: int) -> SessionHeader:
        outbox = self._outbox
        return self._receipts.header(outbox.sent, outbox.recoverable_sent, self._announced, now_ms)

    def _send_ack(self, now_ms: int, window: int) -> None:
        outbox = self._outbox
        header = self._receipts.header(outbox.sent, outbox.recoverable_sent, window, now_ms)
        self._output.append(SessionAck.of(header).encode())

    def _acknowledge_if_due(self, now_ms: int) -> None:
        while self._receipts.due:
            self._send_ack(now_ms, self._announced)


def _due(deadline_ms: int | None, now_ms: int) -> bool:
    return deadline_ms is not None and deadline_ms <= now_ms
