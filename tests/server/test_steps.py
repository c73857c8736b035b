"""The steps of MS-MQQB in their order, on a daemon and a peer whose every packet the test decides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from msmq.api.administration import AdministrationCalls
from msmq.api.desk import Desk
from msmq.api.generated import msmq_pb2 as pb
from msmq.security.access import Token
from msmq.security.sid import ADMINISTRATORS
from msmq.server.alarm import now_ms
from msmq.server.daemon import Daemon
from msmq.store import StoreLockedError
from msmq.transfer.session import Session, SessionConfig
from msmq.transfer.states import Role
from msmq.wire.framing import StreamReader, decode_packet
from msmq.wire.guid import guid_from_text
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import SecurityHeader, SessionHeader, TransactionHeader
from msmq.wire.packets import SessionAck
from tests.server.support import (
    ALICE,
    BOB,
    Peer,
    eventually,
    free_port,
    name_of,
    neighbourhood,
    stream_from,
)

SEQUENCE = 1 << 32 | 7


def place(number: int) -> TransactionHeader:
    return TransactionHeader(
        tx_sequence_id=SEQUENCE, tx_sequence_number=number, previous_tx_sequence_number=number - 1
    )


class Acceptor:
    """A host that lets a session open and then only listens: what it answers is what the test writes."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.session: Session[Any] = Session(Role.ACCEPTOR, SessionConfig(Peer.GUID), now_ms())
        self.messages: list[UserMessage] = []
        self.ended = asyncio.Event()

    @asynccontextmanager
    async def listening(self, address: str, port: int) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._accept, address, port)
        async with server:
            yield

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        frames = StreamReader()
        while data := await reader.read(1 << 16):
            for frame in frames.feed(data):
                packet = decode_packet(frame)
                if isinstance(packet, UserMessage):
                    self.messages.append(packet)
                else:
                    self.session.receive_data(frame, now_ms())
                    writer.writelines(self.session.data_to_send())
        self.ended.set()
        writer.close()

    def acknowledge(self, counted: int, stored: int, sent: int = 0) -> None:
        """A SessionAck: so many messages are counted, so many recoverable ones stored; ``sent`` we claim to have
        sent ourselves."""
        header = SessionHeader(counted, 1 if stored else 0, (1 << stored) - 1, sent, 0, 64)
        self.writer.write(SessionAck.of(header).encode())


@pytest.mark.spec("MQQB-3.1.5.5-b")
async def test_what_a_session_header_acknowledges_is_settled_before_its_counts_are_compared(
    tmp_path: Path,
) -> None:
    """Marked, deleted, journaled; and the session closes for the count, the last of the five steps."""
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), Acceptor()
        async with bob.listening(BOB, here.port):
            options = {"positive_journaling_requested": True}
            alice.send(name_of(BOB), b"express", **options)
            alice.send(name_of(BOB), b"stored", recoverable=True, **options)
            alice.send(name_of(BOB), b"only counted", recoverable=True, **options)
            await eventually(lambda: len(bob.messages) == 3)
            queue = alice.outgoing(BOB)
            assert len(queue.positions) == 3
            bob.acknowledge(3, 1, sent=5)
            await bob.ended.wait()
            await eventually(lambda: alice.bodies(queue) == [b"only counted"])
            assert alice.bodies(alice.core.journal_queue) == [b"express", b"stored"]


@pytest.mark.spec("MQQB-3.1.1.3.1.2-a", "MQQB-3.1.1.3.1.2-b", "MQQB-3.1.7.12-d", "MQQB-3.1.7.1.6-a")
async def test_what_is_known_of_a_message_on_its_way(tmp_path: Path) -> None:
    """Its place in the queue, its packet, its numbers in session, of recoverables and of transactions; whether it was
    sent, awaits its acknowledgment, and has the one of the session and the one of the order. All of it is seen in what
    leaves: the numbers in the packets, and what is sent again, or is not, after each acknowledgment."""
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), Acceptor()
        async with bob.listening(BOB, here.port):
            alice.send(name_of(BOB), b"express")
            await eventually(lambda: len(bob.messages) == 1)
            alice.send(name_of(BOB), b"recoverable", recoverable=True)
            await eventually(lambda: len(bob.messages) == 2)
            alice.send_together(name_of(BOB), b"transactional")
            await eventually(lambda: len(bob.messages) == 3)
            assert [packet.body for packet in bob.messages] == [
                b"express",
                b"recoverable",
                b"transactional",
            ]
            transaction = bob.messages[2].transaction
            assert transaction is not None
            assert [packet.transaction for packet in bob.messages[:2]] == [None, None]
            assert (transaction.tx_sequence_number, transaction.previous_tx_sequence_number) == (1, 0)
            link = next(iter(alice.daemon.outgoing.links.values()))
            assert link._connection is not None
            outbox = link._connection.session.outbox
            assert (outbox.sent, outbox.recoverable_sent, outbox.unacked) == (3, 2, 3)
            queue = alice.outgoing(BOB)
            bob.acknowledge(2, 0)  # the second one counts as received, and is not stored
            await eventually(lambda: outbox.unacked == 1)
            await eventually(lambda: sorted(alice.bodies(queue)) == [b"recoverable", b"transactional"])
            bob.acknowledge(3, 2)  # the transactional one goes on waiting for its OrderAck
            await eventually(lambda: alice.bodies(queue) == [b"transactional"])
            await alice.daemon.commit.drain()
            await alice.crash()
            bob.forget()
            await alice.start()
            await eventually(lambda: bob.messages)
            assert [packet.body for packet in bob.messages] == [b"transactional"]
            assert bob.messages[0].transaction is not None
            assert bob.messages[0].transaction.tx_sequence_number == 1
            assert bob.messages[0].transaction.tx_sequence_id == transaction.tx_sequence_id


@pytest.mark.spec("MQQB-6-c")
async def test_what_the_text_leaves_to_us_is_not_done(tmp_path: Path) -> None:
    """A daemon as it comes neither asks by a ping before it connects nor answers one."""
    asked: list[bytes] = []

    class Door(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, _: object) -> None:
            asked.append(data)

    async with neighbourhood(tmp_path, ping_port=free_port()) as here:
        loop, ping_port = asyncio.get_running_loop(), here.options["ping_port"]
        alice, bob = await here.node(ALICE), Acceptor()
        doors = [
            (await loop.create_datagram_endpoint(Door, local_addr=(address, ping_port)))[0]
            for address in (ALICE, BOB)  # at Alice's, too: she has left the port to others
        ]
        async with bob.listening(BOB, here.port):
            alice.send(name_of(BOB), b"x")
            await eventually(lambda: bob.messages)
        assert asked == []
        for door in doors:
            door.close()


@pytest.mark.spec("MQQB-3.1.5.8.1-a")
async def test_a_transactional_duplicate_is_known_by_its_place_and_not_by_its_identifier(
    tmp_path: Path,
) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, peer = await here.node(ALICE), Peer()
        orders = alice.queue(transactional=True)
        await peer.connect(ALICE, here.port)
        first = peer.message(b"1", transaction=place(1))
        peer.send(first)
        peer.send(peer.message(b"1 under another identifier", transaction=place(1)))
        same = peer.message(b"2", transaction=place(2), message_id=first.user.message_id)
        assert same.user.message_id == first.user.message_id
        peer.send(same)
        peer.send(first)
        peer.send(peer.message(b"3", transaction=place(3)))
        await eventually(lambda: len(orders.positions) >= 3)
        await eventually(lambda: len(peer.acknowledged) == 5)
        assert alice.bodies(orders) == [b"1", b"2", b"3"]
        await peer.close()


@pytest.mark.spec("MQQB-3.1.5.8-b")
async def test_the_steps_of_an_arrival_in_their_order(tmp_path: Path) -> None:
    """Each message below fails at two steps; which refusal its sender hears tells which step came first. What the
    last steps do, storing and acknowledging, happens only to what has passed the others."""
    async with neighbourhood(tmp_path, send_insecure_nacks=True) as here:
        alice, peer = await here.node(ALICE), Peer()
        orders, admin = alice.queue(transactional=True), alice.queue("admin")
        await peer.connect(ALICE, here.port)
        unreadable = SecurityHeader(encryption_key=bytes(16))
        unreadable.body_encrypted = 1
        asked: dict[str, Any] = {"admin": "OS:alice\\private$\\admin", "acknowledge": 0x5}

        def heard() -> list[int]:
            return [packet.properties.message_class for packet in alice.packets(admin)]

        # Duplicates go before anything is asked about them: the second is refused by nobody.
        peer.send(peer.message(b"1", transaction=place(1), **asked))
        await eventually(lambda: heard() == [0x0002])
        peer.send(peer.message(b"1", transaction=place(1), security=unreadable, **asked))
        # General processing (the queue) before security, security before order and room.
        peer.send(
            peer.message(b"?", "OS:alice\\private$\\absent", security=unreadable, recoverable=True, **asked)
        )
        await eventually(lambda: heard() == [0x0002, 0x8000])
        orders.quota_kb = 0
        peer.send(peer.message(b"2", transaction=place(2), security=unreadable, **asked))
        await eventually(lambda: heard() == [0x0002, 0x8000, 0x8007])
        # Order before room: the gap is not even looked at, the next one is refused for want of room.
        peer.send(peer.message(b"9", transaction=place(9), **asked))
        peer.send(peer.message(b"3", transaction=place(3), **asked))
        await eventually(lambda: heard() == [0x0002, 0x8000, 0x8007, 0x8003])
        # The steps of the session count and acknowledge all of them, whatever the others said.
        await eventually(lambda: len(peer.acknowledged) == 6)
        assert alice.bodies(orders) == [b"1"]
        assert stream_from(orders, peer.guid).sequence_number == 3
        await peer.close()


@pytest.mark.spec("DMPR-3.1.1-e")
async def test_one_queue_manager_serves_all_protocols_of_a_host(tmp_path: Path) -> None:
    """Whoever asks is told of the same one, and a second one finds its store taken."""
    async with neighbourhood(tmp_path) as here:
        alice, peer = await here.node(ALICE), Peer()
        await peer.connect(ALICE, here.port)
        assert peer.session.remote_guid == alice.core.record.identifier
        calls = AdministrationCalls(Desk(alice.daemon))
        info = await calls.get_manager(pb.GetManagerRequest(), Token.authenticated(ADMINISTRATORS))
        assert guid_from_text(info.identifier) == alice.core.record.identifier
        with pytest.raises(StoreLockedError):
            await Daemon(alice.config).start()
        await peer.close()


@pytest.mark.spec("MQQB-3.1.1.3.1-t")
async def test_no_sequence_is_begun_twice(tmp_path: Path) -> None:
    """All of a sequence was acknowledged, so that nothing but its identifier is left; then the host is killed."""
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        orders = bob.queue(transactional=True)
        used = []
        for number in range(3):
            alice.send_together(name_of(BOB), b"%d" % number)
            await eventually(lambda number=number: len(orders.positions) == number + 1)
            await eventually(lambda: not len(alice.outgoing(BOB).positions))
            used.append(stream_from(orders, alice.core.record.identifier).sequence_identifier)
            await alice.daemon.commit.drain()
            await alice.crash()
            await alice.start()
        assert used == sorted(set(used))
        assert bob.bodies(orders) == [b"0", b"1", b"2"]
