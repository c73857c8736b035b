"""Ping (MS-MQQB 3.1.7.6 to 3.1.7.9, 3.1.6.8): the request, its answer, and the decision to refuse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.transfer.ping import TRANSITIONS, PingCookies, PingInput, PingRequest, PingResponder, PingState
from msmq.wire.packets import Ping
from tests.transfer.support import OURS, START_MS, THEIRS


def request(cookies: PingCookies | None = None) -> PingRequest:
    return PingRequest(cookies or PingCookies(), OURS, START_MS, server_class=True)


def response(cookie: int = 1, *, refuse: bool = False) -> bytes:
    return Ping.request(cookie, OURS).answer(THEIRS, refuse=refuse).encode()


@pytest.mark.spec("MQQB-3.1.1.3-q", "MQQB-3.1.7.6-a")
def test_each_request_has_its_own_cookie() -> None:
    cookies = PingCookies()
    for cookie in (1, 2, 3):
        ping = request(cookies)
        assert ping.datagram == bytes.fromhex("0000 4855") + cookie.to_bytes(4, "little") + OURS
        assert ping.deadline_ms == START_MS + 1_000
        assert ping.status is None
    cookies.last = 0xFFFFFFFF
    assert cookies.next() == 0


@pytest.mark.spec("MQQB-3.1.1.1.1.9-a", "MQQB-3.1.7.6-b", "MQQB-3.1.7.9-a")
def test_the_three_results() -> None:
    silent, welcome, refused = request(), request(), request()
    assert {each.state for each in (silent, welcome, refused)} == {PingState.WAITING}
    silent.handle_timer(START_MS + 1_000)
    assert (silent.state, silent.status) == (PingState.SILENT, False)
    welcome.receive(response())
    assert (welcome.state, welcome.status) == (PingState.WELCOME, True)
    refused.receive(response(refuse=True))
    assert (refused.state, refused.status) == (PingState.REFUSED, False)
    assert silent.deadline_ms is welcome.deadline_ms is refused.deadline_ms is None


@pytest.mark.spec("MQQB-3.1.2.9-a", "MQQB-3.1.6.8-a")
def test_after_a_second_without_an_answer_it_is_over() -> None:
    cookies = PingCookies()
    first = request(cookies)
    second = PingRequest(cookies, OURS, START_MS + 600, server_class=True)
    first.handle_timer(START_MS + 999)
    assert first.status is None
    first.handle_timer(START_MS + 1_000)
    second.handle_timer(START_MS + 1_000)
    assert (first.status, second.status) == (False, None)
    second.handle_timer(START_MS + 1_600)
    assert second.status is False


@pytest.mark.spec("MQQB-3.1.7.8-a")
def test_what_is_not_the_answer_is_ignored() -> None:
    ping = request()
    wrong_signature = response()[:2] + b"HV" + response()[4:]
    for datagram in (wrong_signature, response(2), response()[:-1], b""):
        ping.receive(datagram)
        assert ping.status is None
    ping.handle_timer(START_MS + 1_000)
    ping.receive(response())  # nobody waits any more
    assert ping.status is False
    welcome = request()
    welcome.receive(response())
    welcome.receive(response(refuse=True))
    welcome.handle_timer(START_MS + 5_000)
    assert welcome.status is True


@pytest.mark.spec("MQQB-3.1.7.7-a")
def test_the_answer() -> None:
    responder = PingResponder(THEIRS, enabled=True)
    asked = bytes.fromhex("0100 4855 2a000000") + OURS
    assert responder.answer(asked, 0) == bytes.fromhex("0100 4855 2a000000") + THEIRS
    assert responder.answer(asked[:2] + b"HV" + asked[4:], 0) is None
    assert responder.answer(asked + b"\0", 0) is None
    full = PingResponder(THEIRS, enabled=True, max_in_sessions=0)
    assert full.answer(asked, 0) == bytes.fromhex("0300 4855 2a000000") + THEIRS


@pytest.mark.spec("MQQB-3.1.7.7-b")
@pytest.mark.parametrize(("open_sessions", "status"), [(0, True), (9, True), (10, False), (11, False)])
def test_a_full_house_refuses(open_sessions: int, status: bool) -> None:
    ping = request()
    answer = PingResponder(THEIRS, enabled=True, max_in_sessions=10).answer(ping.datagram, open_sessions)
    assert answer is not None
    ping.receive(answer)
    assert ping.status is status


def test_nobody_answers_unless_told_to() -> None:
    assert PingResponder(THEIRS).answer(request().datagram, 0) is None


@given(st.binary(max_size=40))
def test_no_datagram_does_harm(datagram: bytes) -> None:
    ping = request()
    ping.receive(datagram)
    answer = PingResponder(THEIRS, enabled=True).answer(datagram, 0)
    assert answer is None or len(answer) == 24


def test_every_input_in_every_state() -> None:
    for state in PingState:
        for given_input in PingInput:
            assert ((state, given_input) in TRANSITIONS) is (state is PingState.WAITING)
