"""Ping (MS-MQQB 3.1.7.6 to 3.1.7.9): asks whether a queue manager is there and would accept one more session.

Optional on both sides and off by default, as in every Windows since Vista. A request waits for its answer in one state
and leaves it by one of the three inputs in :data:`TRANSITIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from msmq.errors import DecodeError
from msmq.wire.packets import UNLIMITED_SESSIONS, Ping, session_quota_reached


class PingState(Enum):
    """The state of a request; the three final states are its results."""

    WAITING = "waiting for the answer"
    WELCOME = "a session would be accepted"
    REFUSED = "a session would be refused"
    SILENT = "no answer in time"


class PingInput(Enum):
    ACCEPTING_RESPONSE = "response with RF 0"
    REFUSING_RESPONSE = "response with RF 1"
    TIMER = "Ping Response Timer"


TRANSITIONS: Final[Mapping[tuple[PingState, PingInput], PingState]] = {
    (PingState.WAITING, PingInput.ACCEPTING_RESPONSE): PingState.WELCOME,
    (PingState.WAITING, PingInput.REFUSING_RESPONSE): PingState.REFUSED,
    (PingState.WAITING, PingInput.TIMER): PingState.SILENT,
}
"""Once a request has its result, it ignores whatever still comes."""


class PingCookies:
    """PingCookie: one counter per queue manager, incremented before each request (note 27)."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0

    def next(self) -> int:
        self.last = self.last + 1 & 0xFFFFFFFF
        return self.last


class PingRequest:
    """One request and the wait for its answer."""

    __slots__ = ("_request", "deadline_ms", "state")

    def __init__(
        self,
        cookies: PingCookies,
        own_guid: bytes,
        now_ms: int,
        *,
        server_class: bool,
        response_ms: int = 1_000,
    ) -> None:
        self._request = Ping.request(cookies.next(), own_guid, server_class=server_class)
        self.state = PingState.WAITING
        self.deadline_ms: int | None = now_ms + response_ms

    @property
    def datagram(self) -> bytes:
        """The datagram for the acceptor's ping port."""
        return self._request.encode()

    @property
    def status(self) -> bool | None:
        """rStatus: whether to go on and connect; None while the answer is awaited."""
        return None if self.state is PingState.WAITING else self.state is PingState.WELCOME

    def receive(self, datagram: bytes) -> None:
        """Handle a datagram that came to our port; it is ignored unless it answers this request."""
        try:
            response = Ping.parse(datagram)
        except DecodeError:
            return
        if response.answers(self._request):
            self._step(PingInput.REFUSING_RESPONSE if response.refused else PingInput.ACCEPTING_RESPONSE)

    def handle_timer(self, now_ms: int) -> None:
        if self.deadline_ms is not None and self.deadline_ms <= now_ms:
            self._step(PingInput.TIMER)

    def _step(self, given: PingInput) -> None:
        self.state = TRANSITIONS.get((self.state, given), self.state)
        if self.state is not PingState.WAITING:
            self.deadline_ms = None


@dataclass(frozen=True, slots=True)
class PingResponder:
    """The answering side; it has no state."""

    own_guid: bytes
    enabled: bool = False
    """EnablePingService: whether requests are answered at all."""
    max_in_sessions: int = UNLIMITED_SESSIONS

    def answer(self, datagram: bytes, open_sessions: int) -> bytes | None:
        """Return the response, to be sent to the address that the request came from; None if there is none."""
        if not self.enabled:
            return None
        try:
            request = Ping.parse(datagram)
        except DecodeError:
            return None
        refuse = session_quota_reached(open_sessions, self.max_in_sessions)
        return request.answer(self.own_guid, refuse=refuse).encode()
