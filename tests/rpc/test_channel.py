"""What both ends share: fragments and their sizes."""

from __future__ import annotations

import pytest

from msmq.rpc.pdu import AuthLevel, Bind, ContextElement, PduFlags, PduType, Request, Response, build
from msmq.rpc.syntaxes import NDR
from tests.rpc.echo import ECHOES
from tests.rpc.machines import Pair, ntlm, take_fragments


@pytest.mark.parametrize("level", [None, AuthLevel.INTEGRITY, AuthLevel.PRIVACY], ids=str)
@pytest.mark.parametrize("size", [0, 1, 5_000, 5_816, 5_817, 60_000])
def test_a_long_answer_goes_out_in_fragments(level: AuthLevel | None, size: int) -> None:
    pair = Pair(ntlm(level) if level is not None else None)
    call_id = pair.client.call(pair.bound(), 0, b"")
    pair.run()
    pair.server.respond(call_id, bytes(size))
    data = pair.server.data_to_send()
    fragments = take_fragments(data, 5_840)
    assert pair.server.data_to_send() == b""
    flags = [fragment.flags for fragment in fragments]
    assert flags[0] & PduFlags.FIRST_FRAG
    assert flags[-1] & PduFlags.LAST_FRAG
    assert not any(flag & PduFlags.FIRST_FRAG for flag in flags[1:])
    assert not any(flag & PduFlags.LAST_FRAG for flag in flags[:-1])
    hints = [Response.decode(fragment.body).alloc_hint for fragment in fragments]
    assert hints[0] == size
    assert hints == sorted(hints, reverse=True)
    for fragment in fragments:
        assert (fragment.trailer is not None) is (level is not None)
        stub = len(fragment.body) - Response.SIZE
        assert fragment is fragments[-1] or stub % 16 == 0
    (arrived,) = pair.client.receive_data(data)
    assert arrived.stub == bytes(size)  # type: ignore[union-attr]


def test_a_response_names_the_low_byte_of_its_context_and_the_cancels() -> None:
    pair = Pair()
    offer = Bind(5_840, 5_840, contexts=(ContextElement(0x1001, ECHOES.syntax, (NDR,)),))
    pair.server.receive_data(build(PduType.BIND, 1, offer.write_body()))
    pair.server.receive_data(build(PduType.REQUEST, 2, Request(0, 0x1001, 0).write_body()))
    for _ in range(2):
        pair.server.receive_data(build(PduType.CO_CANCEL, 2, b""))
    pair.server.data_to_send()
    pair.server.respond(2, b"")
    (fragment,) = take_fragments(pair.server.data_to_send(), 5_840)
    assert Response.decode(fragment.body) == Response(0, 1, 2)


@pytest.mark.parametrize("level", [None, AuthLevel.PRIVACY], ids=str)
def test_one_pdu_is_written_at_a_time_until_the_client_makes_several_calls_with_one_write(
    level: AuthLevel | None,
) -> None:
    pair = Pair(ntlm(level) if level is not None else None)
    context_id = pair.bound()
    alone = pair.client.call(
        context_id, 0, bytes(10_000)
    )  # its fragments are one call, however they are written
    pair.run()
    pair.server.respond(alone, bytes(60_000))
    written = pair.server.writes()
    assert len(written) > 10
    assert all(len(take_fragments(each, 5_840)) == 1 for each in written)
    pair.client.receive_data(b"".join(written))

    calls = [pair.client.call(context_id, 0, b"") for _ in range(2)]
    for piece in pair.client.writes():  # two writes, which is nothing new
        pair.server.receive_data(piece)
    for call_id in calls:
        pair.server.respond(call_id, b"")
    assert [len(take_fragments(each, 5_840)) for each in pair.server.writes()] == [1, 1]

    calls = [pair.client.call(context_id, 0, b"") for _ in range(2)]
    pair.server.receive_data(pair.client.data_to_send())
    for call_id in calls:
        pair.server.respond(call_id, bytes(60_000))
    (together,) = pair.server.writes()
    assert len(take_fragments(together, 5_840)) > 20
