"""Both ends of a connection joined in memory."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from msmq.rpc import acceptor, initiator
from msmq.rpc.acceptor import ServerConnection
from msmq.rpc.channel import Limits
from msmq.rpc.client import CLIENT_LIMITS
from msmq.rpc.initiator import ClientConnection
from msmq.rpc.mgmt import MGMT
from msmq.rpc.pdu import AuthLevel, AuthType, Fragment, Syntax, read_fragment
from msmq.rpc.security import Authentication, Credentials
from tests.rpc.echo import ECHOES
from tests.rpc.support import PASSWORD, Known

SERVED: dict[Syntax, AuthLevel] = {ECHOES.syntax: AuthLevel.NONE, MGMT.syntax: AuthLevel.INTEGRITY}
_groups = count(100)


def server(
    limits: Limits | None = None, served: Callable[[Syntax], AuthLevel | None] = SERVED.get
) -> ServerConnection:
    return ServerConnection(
        limits or Limits(), served, lambda group: next(_groups) if not group else None, Authentication(Known()), b"2103"
    )  # fmt: skip


def client(credentials: Credentials | None = None, limits: Limits = CLIENT_LIMITS) -> ClientConnection:
    return ClientConnection(limits, credentials.initiate("host", 1) if credentials is not None else None)


def ntlm(level: AuthLevel, auth_type: AuthType = AuthType.NTLM) -> Credentials:
    return Credentials("alice", PASSWORD, auth_type, level)


class Pair:
    """A client and a server; `run` carries bytes until both are silent, in pieces of ``cut`` bytes."""

    def __init__(
        self,
        credentials: Credentials | None = None,
        limits: Limits | None = None,
        client_limits: Limits = CLIENT_LIMITS,
        cut: int = 1 << 20,
    ) -> None:
        self.client = client(credentials, client_limits)
        self.server = server(limits)
        self.cut = cut

    def run(self) -> tuple[list[initiator.Event], list[acceptor.Event]]:
        at_client: list[initiator.Event] = []
        at_server: list[acceptor.Event] = []
        while True:
            out, back = self.client.data_to_send(), self.server.data_to_send()
            if not out and not back:
                return at_client, at_server
            for start in range(0, len(out), self.cut):
                at_server += self.server.receive_data(out[start : start + self.cut])
            for start in range(0, len(back), self.cut):
                at_client += self.client.receive_data(back[start : start + self.cut])

    def bound(self, interface: Syntax = ECHOES.syntax) -> int:
        self.client.bind(interface)
        at_client, _ = self.run()
        (answer,) = at_client
        assert isinstance(answer, initiator.Bound), answer
        assert answer.context_id is not None
        return answer.context_id


def take_fragments(data: bytes, max_fragment: int) -> list[Fragment]:
    """The whole PDUs at the front of ``data``."""
    found: list[Fragment] = []
    offset = 0
    while (fragment := read_fragment(data, offset, max_fragment)) is not None:
        offset += len(fragment.raw)
        found.append(fragment)
    return found
