"""Messages in columns: what they say is what each packet says, and what is refused is what a packet is refused for."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError
from msmq.testing.traffic import Door
from msmq.transfer.events import MessagesReceived
from msmq.wire.headers import USER_AH
from msmq.wire.incoming import Incoming, row_of
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import SecurityHeader, SessionHeader, TransactionHeader
from tests.testing.test_traffic import sender, traffic
from tests.transfer import support
from tests.wire import builders, messages
from tests.wire.builders import QUEUE, SID, build, user_header

COLUMNS = tuple(name for name in Incoming.__slots__ if name not in ("packets", "decoded"))


def expected(data: bytes) -> dict[str, Any]:
    """What the columns have to say of a packet, read from its headers."""
    message = UserMessage.decode(data)
    base, user, transaction, security = message.base, message.user, message.transaction, message.security
    base.has_session_header = 0
    return {
        "base_flags": base.flags,
        "times_to_reach_queue_s": base.time_to_reach_queue_s,
        "sources": user.source_queue_manager,
        "addresses": user.queue_manager_address,
        "times_to_be_received_s": user.time_to_be_received_s,
        "sent_times": user.sent_time,
        "message_ids": user.message_id,
        "user_flags": user.flags,
        "names": data[base.SIZE + user.SIZE : message.user_end],
        "asks": message.properties.flags,
        "sequels": transaction,
        "proofs": message.properties.privacy_level not in (0, 1, 3, 5)
        or (
            security is not None
            and bool(security.signature or security.body_encrypted or user.has_multi_queue_format_header)
        ),
    }


def rows(incoming: Incoming) -> list[dict[str, Any]]:
    columns = [getattr(incoming, name) for name in COLUMNS]
    return [dict(zip(COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)]


def some_packets() -> st.SearchStrategy[list[bytes]]:
    return st.lists(builders.messages.map(lambda message: message.data), min_size=1, max_size=4)


@given(some_packets())
def test_the_columns_say_what_the_packets_say(packets: list[bytes]) -> None:
    incoming = Incoming.of(packets)
    assert rows(incoming) == [expected(data) for data in packets]
    assert list(incoming.names) == [message.user.write()[48:] for message in incoming.messages]
    assert list(incoming.packets) == packets
    assert len(incoming) == len(packets)
    assert incoming.size == sum(map(len, packets))
    assert [message.data for message in incoming.messages] == packets
    last = len(packets) - 1
    assert incoming.message(last).body == UserMessage.decode(packets[last]).body


FORMS = {
    "plain": build(),
    "labelled": build(label="label", extension=b"extension", body=bytes(1_000)),
    "private": build(user=user_header(7)),
    "public": build(user=user_header(QUEUE)),
    "answered": build(user=user_header("OS:host\\q", QUEUE, "OS:host\\private$\\answers")),
    "transactional": build(transaction=TransactionHeader(0x1C, 1 << 40, 7, 6)),
    "sender": build(security=SecurityHeader(flags=0x81, security_id=SID)),
    **{name: build(**{name: header}) for name, header in builders.optional_headers().items()},
    "everything": builders.all_headers(),
}


@pytest.mark.parametrize("message", FORMS.values(), ids=FORMS)
def test_every_form(message: UserMessage) -> None:
    assert rows(Incoming.of([message.data])) == [expected(message.data)]


@pytest.mark.parametrize(
    ("security", "multi_queue", "proof"),
    [
        (None, False, False),
        (None, True, False),
        (SecurityHeader(flags=0x81, security_id=SID), False, False),
        (SecurityHeader(flags=0x81, security_id=SID), True, True),
        (SecurityHeader(flags=0x81, security_id=SID, signature=b"s"), False, True),
        (SecurityHeader(flags=0xA1, security_id=SID, encryption_key=b"k"), False, True),
    ],
    ids=["nobody", "nobody to many", "sender", "sender to many", "signed", "encrypted"],
)
def test_what_there_is_to_prove(security: SecurityHeader | None, multi_queue: bool, proof: bool) -> None:
    many = builders.optional_headers()["multi_queue"] if multi_queue else None
    message = build(security=security, multi_queue=many)
    assert list(Incoming.of([message.data]).proofs) == [proof]


@given(some_packets(), st.data())
def test_some_of_them(packets: list[bytes], data: st.DataObject) -> None:
    incoming = Incoming.of(packets)
    chosen = data.draw(st.lists(st.integers(0, len(packets) - 1)))
    part = incoming.only(chosen)
    assert rows(part) == [rows(incoming)[index] for index in chosen]
    assert list(part.packets) == [packets[index] for index in chosen]
    assert len(part) == len(chosen)
    assert part.only([]).size == 0


def refusal(data: bytes) -> str | None:
    try:
        UserMessage.decode(data)
    except DecodeError as error:
        return str(error)
    return None


def check_like_a_packet(data: bytes) -> bool:
    """Whether the columns have it; they refuse what a packet is refused for, and Flags.AH."""
    why = refusal(data)
    if why is None and not UserMessage.decode(data).user.flags & USER_AH:
        assert rows(Incoming.of([data])) == [expected(data)]
        return True
    with pytest.raises(DecodeError) as refused:
        row_of(data)
    assert why is None or str(refused.value) == why
    return False


@given(
    builders.messages,
    st.lists(st.tuples(st.integers(0, 400), st.integers(1, 255)), max_size=3),
    st.integers(-20, 20),
    st.booleans(),
)
def test_what_is_refused_is_what_a_packet_is_refused_for(
    message: UserMessage, flips: list[tuple[int, int]], longer: int, honest: bool
) -> None:
    data = bytearray(
        message.data + bytes(longer) if longer > 0 else message.data[: len(message.data) + longer]
    )
    for offset, bits in flips:
        data[offset % len(data)] ^= bits
    check_like_a_packet(builders.resized(bytes(data)) if honest else bytes(data))


@pytest.mark.parametrize("message", FORMS.values(), ids=FORMS)
def test_every_flipped_bit_of_the_headers(message: UserMessage) -> None:
    """Each bit of every form by itself: the columns and the packet judge alike, and both answers occur."""
    data = message.data
    answers = set()
    for offset in range(min(len(data), 400)):
        for bit in range(8):
            changed = bytearray(data)
            changed[offset] ^= 1 << bit
            answers.add(check_like_a_packet(bytes(changed)))
    assert answers == {True, False}


@pytest.mark.parametrize("message", FORMS.values(), ids=FORMS)
def test_every_cut(message: UserMessage) -> None:
    for length in range(len(message.data)):
        data = message.data[:length]
        assert not check_like_a_packet(data)
        if length >= 16:
            check_like_a_packet(builders.resized(data))


def test_a_message_of_another_protocol() -> None:
    message = messages.message(**messages.srmp_headers())
    assert refusal(message.data) is None
    with pytest.raises(DecodeError, match="AH"):
        row_of(message.data)


def test_the_first_that_is_none_refuses_all() -> None:
    good = build(body=b"good").data
    with pytest.raises(DecodeError, match="signature"):
        Incoming.of([good, b"\x10" * 200, good])


# --- traffic like the world's -------------------------------------------------------------------------------


@pytest.mark.parametrize("door", [Door.WIRE, Door.FORWARDED])
def test_any_legal_message(door: Door) -> None:
    """Every choice of the generator, as it is and with a byte changed."""
    drawn, host, dice = traffic(1801, door), sender(), Random(1801)
    packets = [host.packet(drawn.draft()).data for _ in range(300)]
    assert rows(Incoming.of(packets)) == [expected(data) for data in packets]
    for data in packets:
        changed = bytearray(data)
        changed[dice.randrange(min(len(data), 300))] ^= 1 << dice.randrange(8)
        check_like_a_packet(bytes(changed))


# --- through a session --------------------------------------------------------------------------------------


@given(st.lists(st.tuples(builders.messages, st.booleans()), min_size=1, max_size=5), st.integers(1, 2_000))
def test_a_session_takes_the_session_headers_off(given_: list[tuple[UserMessage, bool]], cut: int) -> None:
    """Some of the messages carry one. What is handed over, in however many reads, is the messages without."""
    session = support.open_acceptor()
    bare = [message.with_session(None) for message, _ in given_]
    stream, recoverables = b"", 0
    for number, (message, (_, carries)) in enumerate(zip(bare, given_, strict=True), 1):
        recoverables += message.recoverable
        header = SessionHeader(user_msg_sequence_number=number, recoverable_msg_seq_number=recoverables)
        stream += message.with_session(header).data if carries else message.data
    events = [
        event
        for start in range(0, len(stream), cut)
        for event in support.found(
            session.receive_data(stream[start : start + cut], support.START_MS), MessagesReceived
        )
    ]
    assert [data for event in events for data in event.messages.packets] == [each.data for each in bare]
    assert [row for event in events for row in rows(event.messages)] == [expected(each.data) for each in bare]
    assert sum(event.recoverables for event in events) == recoverables
    assert not session.is_closed
