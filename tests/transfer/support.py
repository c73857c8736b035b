"""Two machines joined in memory, and messages for them to exchange."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from msmq.transfer.events import Closed, Event, MessagesAcknowledged, MessagesReceived
from msmq.transfer.session import Session, SessionConfig
from msmq.transfer.states import Role, State
from msmq.transfer.timers import TimerSettings
from msmq.wire.framing import Packet, StreamReader, decode_packet
from msmq.wire.headers import BaseHeader, MessagePropertiesHeader, UserHeader
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import SessionHeader, TransactionHeader
from msmq.wire.packets import ConnectionParameters, EstablishConnection, SessionAck
from tests.wire import builders

E = TypeVar("E")

OURS = bytes(range(16))
THEIRS = bytes(range(16, 32))
FOREIGN = bytes(range(32, 48))
START_MS = 1_000_000


def packet(
    number: int = 0, *, recoverable: bool = False, transaction: TransactionHeader | None = None
) -> bytes:
    """A message whose MessageID is its number."""
    user = builders.user_header(recoverable=recoverable or transaction is not None)
    user.message_id = number
    return builders.build(user=user, transaction=transaction, body=b"%d" % number).data


def journaled(
    number: int, *, positive: bool = False, negative: bool = False, final_ack: bool = False
) -> UserMessage:
    """A transactional message of ours that asks for source journaling or for a final acknowledgment."""
    user: UserHeader = builders.user_header(recoverable=True)
    user.source_queue_manager = OURS
    user.message_id = number
    user.positive_journaling = int(positive)
    user.negative_journaling = int(negative)
    return UserMessage.build(
        base=BaseHeader(),
        user=user,
        properties=MessagePropertiesHeader(),
        transaction=TransactionHeader(flags=2 * final_ack),
    )


def numbers(messages: Iterable[UserMessage]) -> list[int]:
    return [message.user.message_id for message in messages]


def config(guid: bytes = OURS, *, window: int = 64, tolerate: bool = False, **timers: int) -> SessionConfig:
    settings = TimerSettings(**timers)
    return SessionConfig(guid, window_size=window, tolerate_wrong_message_count=tolerate, timers=settings)


def packets(chunks: Iterable[bytes]) -> list[Packet]:
    """What a peer makes of our output."""
    reader = StreamReader()
    return [decode_packet(each) for chunk in chunks for each in reader.feed(chunk)]


def headers(chunks: Iterable[bytes]) -> list[SessionHeader]:
    """The stand-alone acknowledgments among some output."""
    return [each.session for each in packets(chunks) if isinstance(each, SessionAck)]


def ack(
    counted: int = 0,
    *,
    base: int = 0,
    flags: int = 0,
    sent: int = 0,
    recoverable_sent: int = 0,
    window: int = 64,
) -> bytes:
    """A SessionAck as a peer would send it."""
    return SessionAck.of(SessionHeader(counted, base, flags, sent, recoverable_sent, window)).encode()


def found(events: Iterable[Any], kind: type[E]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


def received(events: Iterable[Event[Any]]) -> list[int]:
    return [n for event in found(events, MessagesReceived) for n in event.messages.message_ids]


def settled(events: Iterable[Event[Any]]) -> list[Any]:
    return [token for event in found(events, MessagesAcknowledged) for token in event.tokens]


def only_closing(events: list[Event[Any]]) -> Closed[Any]:
    (closing,) = found(events, Closed)
    assert events[-1] is closing
    return closing


def acceptor(now_ms: int = START_MS, **options: Any) -> Session[Any]:
    """A session that was just accepted."""
    admit = options.pop("admit", None)
    chosen = config(THEIRS, **options)
    if admit is None:
        return Session(Role.ACCEPTOR, chosen, now_ms)
    return Session(Role.ACCEPTOR, chosen, now_ms, admit=admit)


def initiator(
    now_ms: int = START_MS, remote: bytes | None = THEIRS, *, pinged: bool = False, **options: Any
) -> Session[Any]:
    """A session that has asked."""
    session: Session[Any] = Session(Role.INITIATOR, config(OURS, **options), now_ms)
    session.connected(now_ms, remote, pinged=pinged)
    return session


def open_acceptor(
    now_ms: int = START_MS,
    *,
    peer_window: int = 64,
    ack_timeout_ms: int = 20_000,
    recoverable_timeout_ms: int = 500,
    server: bytes | None = THEIRS,
    **options: Any,
) -> Session[Any]:
    """An open session whose peer is the test; nothing of the opening is left to send."""
    session = acceptor(now_ms, **options)
    session.receive_data(EstablishConnection.request(OURS, server, now_ms).encode(), now_ms)
    offer = ConnectionParameters.of(recoverable_timeout_ms, ack_timeout_ms, peer_window)
    session.receive_data(offer.encode(), now_ms)
    assert session.state is State.OPEN
    session.data_to_send()
    return session


def open_initiator(now_ms: int = START_MS, *, peer_window: int = 64, **options: Any) -> Session[Any]:
    session = initiator(now_ms, **options)
    complete(session, now_ms, peer_window=peer_window)
    return session


def complete(session: Session[Any], now_ms: int, *, peer_window: int = 64) -> None:
    """Play the acceptor's part of an opening."""
    (request,) = packets(session.data_to_send())
    assert isinstance(request, EstablishConnection)
    session.receive_data(request.response(THEIRS).encode(), now_ms)
    (offer,) = packets(session.data_to_send())
    assert isinstance(offer, ConnectionParameters)
    answer = ConnectionParameters.of(
        offer.header.recoverable_ack_timeout_ms, offer.header.ack_timeout_ms, peer_window
    )
    session.receive_data(answer.encode(), now_ms)
    assert session.state is State.OPEN


Cutter = Callable[[bytes], list[bytes]]


def whole(data: bytes) -> list[bytes]:
    return [data] if data else []


def byte_by_byte(data: bytes) -> list[bytes]:
    return [data[n : n + 1] for n in range(len(data))]


def at_random(data: bytes) -> list[bytes]:
    chosen = random.Random(len(data))
    cuts = sorted(chosen.randrange(len(data) + 1) for _ in range(9))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


class Pair:
    """An initiator and an acceptor on a perfect wire. Everything recoverable is stored as soon as it arrives."""

    def __init__(
        self, cut: Cutter = whole, now_ms: int = START_MS, *, durable: bool = True, **options: Any
    ) -> None:
        self.now_ms = now_ms
        self.cut = cut
        self.durable = durable
        self.trace: list[tuple[str, Packet]] = []
        self.left: Session[Any] = Session(Role.INITIATOR, config(OURS, **options), now_ms)
        self.right: Session[Any] = Session(Role.ACCEPTOR, config(THEIRS, **options), now_ms)
        self.events: dict[str, list[Event[Any]]] = {"left": [], "right": []}
        self.readers = {"left": StreamReader(), "right": StreamReader()}
        self.left.connected(now_ms, THEIRS)

    def side(self, name: str) -> Session[Any]:
        return self.left if name == "left" else self.right

    def run(self) -> None:
        """Carry bytes until both sides are silent."""
        moved = True
        while moved:
            moved = self._carry("left", "right") + self._carry("right", "left") > 0

    def _carry(self, source: str, target: str) -> int:
        data = b"".join(self.side(source).data_to_send())
        self.trace += [(source, decode_packet(each)) for each in self.readers[source].feed(data)]
        session = self.side(target)
        for piece in self.cut(data):
            events = session.receive_data(piece, self.now_ms)
            self.events[target] += events
            if self.durable:
                for event in found(events, MessagesReceived):
                    session.stored(event.first_recoverable, event.recoverables, self.now_ms)
        return len(data)

    def wait(self, ms: int) -> None:
        """Let time pass, timers and all."""
        end = self.now_ms + ms
        while True:
            deadlines = [self.left.next_deadline_ms, self.right.next_deadline_ms]
            due = min((each for each in deadlines if each is not None), default=end + 1)
            if due > end:
                break
            self.now_ms = max(due, self.now_ms)
            for name in ("left", "right"):
                self.events[name] += self.side(name).handle_timer(self.now_ms)
            self.run()
        self.now_ms = end

    def kinds(self) -> list[str]:
        return [f"{source} {type(each).__name__}" for source, each in self.trace]


HEADER_FIELDS = (
    "ack_sequence_number",
    "recoverable_msg_ack_seq_number",
    "recoverable_msg_ack_flags",
    "user_msg_sequence_number",
    "recoverable_msg_seq_number",
    "window_size",
)


def fields(header: SessionHeader) -> tuple[int, ...]:
    return tuple(getattr(header, name) for name in HEADER_FIELDS)


def opened(**options: Any) -> Pair:
    pair = Pair(**options)
    pair.run()
    return pair
