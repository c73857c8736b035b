"""Who calls."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest

from msmq.admission.guesses import FREE_OF_ADDRESS, Guesses
from msmq.api.callers import Callers, Rules, token_digest
from msmq.errors import AccessDeniedError
from msmq.security.access import Privilege, Token
from msmq.security.sid import ADMINISTRATORS, ANONYMOUS, EVERYONE

ALICE = "S-1-5-21-1-2-3-1001"
NOBODY = 0x7FFFFFF0
"""A user that no computer has."""


class Call:
    """A call as gRPC shows it."""

    def __init__(
        self,
        peer: str = "ipv4:127.0.0.1:5",
        authorization: str = "",
        properties: Mapping[str, list[bytes]] | None = None,
    ) -> None:
        self._peer, self._authorization, self._properties = peer, authorization, properties or {}

    def peer(self) -> str:
        return self._peer

    def invocation_metadata(self) -> list[tuple[str, str | bytes]]:
        return [("authorization", self._authorization)] if self._authorization else []

    def auth_context(self) -> Mapping[str, list[bytes]]:
        return self._properties


def test_users_of_this_computer() -> None:
    callers = Callers(Rules(), own_uid=4711)
    token = callers.of_process(NOBODY, 12)
    assert str(token.user) == f"S-1-22-1-{NOBODY}"
    assert "S-1-22-2-12" in map(str, token.groups)
    assert EVERYONE in token.groups
    assert ADMINISTRATORS not in token.groups
    for uid in (0, 4711):
        boss = callers.of_process(uid, 12)
        assert boss.has(ADMINISTRATORS)
        assert Privilege.SECURITY in boss.privileges


def test_mapped_users_and_administrators() -> None:
    rules = Rules(users={str(NOBODY): ALICE, "root": "S-1-5-21-1-2-3-500"}, administrators=(ALICE,))
    callers = Callers(rules, own_uid=4711)
    alice = callers.of_process(NOBODY, 12)
    assert str(alice.user) == ALICE
    assert alice.has(ADMINISTRATORS)
    assert str(callers.of_process(0, 0).user) == "S-1-5-21-1-2-3-500"
    by_group = Callers(Rules(administrators=("@root",)), own_uid=4711).of_process(NOBODY, 0)
    assert by_group.has(ADMINISTRATORS)
    by_number = Callers(Rules(administrators=(str(NOBODY),)), own_uid=4711).of_process(NOBODY, 12)
    assert by_number.has(ADMINISTRATORS)


def test_our_own_user_is_the_default() -> None:
    assert Callers(Rules()).own_uid == os.geteuid()


def test_bearer_tokens() -> None:
    callers = Callers(Rules(tokens={token_digest("secret").upper(): ALICE}))
    assert str(callers.caller(Call(authorization="Bearer secret")).user) == ALICE
    for wrong in ("Bearer other", "Basic secret", "secret"):
        with pytest.raises(AccessDeniedError):
            callers.caller(Call(authorization=wrong))


def test_guessing_tokens() -> None:
    """Unknown tokens of one address make it wait; the log learns whence, and no token."""
    now_s, told = [0.0], list[str]()
    guesses = Guesses(lambda: now_s[0], told.append)
    callers = Callers(Rules(tokens={token_digest("secret"): ALICE}), guesses=guesses)
    for number in range(FREE_OF_ADDRESS):
        with pytest.raises(AccessDeniedError, match="not known"):
            callers.caller(Call(f"ipv4:10.0.0.7:{number + 1}", authorization=f"Bearer guess{number}"))
    known = Call("ipv4:10.0.0.7:99", authorization="Bearer secret")
    with pytest.raises(AccessDeniedError, match="again"):
        callers.caller(known)
    assert str(callers.caller(Call(authorization="Bearer secret")).user) == ALICE
    now_s[0] += 1
    assert str(callers.caller(known).user) == ALICE
    assert told[0] == "'' at ipv4:10.0.0.7 is not let in, attempt 1: an unknown bearer token"
    assert len(told) == FREE_OF_ADDRESS


def test_certificates() -> None:
    callers = Callers(Rules(certificates={"alice.example": ALICE}))
    named = Call(properties={"x509_common_name": [b"alice.example"]})
    assert str(callers.caller(named).user) == ALICE
    other = Call(properties={"x509_common_name": [b"mallory.example"]})
    with pytest.raises(AccessDeniedError):
        callers.caller(other)


def test_everybody_else_is_anonymous_where_that_is_allowed() -> None:
    with pytest.raises(AccessDeniedError, match="token"):
        Callers(Rules()).caller(Call())
    token = Callers(Rules(allow_anonymous=True)).caller(Call())
    assert token.user == ANONYMOUS
    assert token.groups == {EVERYONE}


def test_connections_of_the_relay_and_others_on_the_inner_socket() -> None:
    callers = Callers(Rules())
    alice = Token.authenticated(ADMINISTRATORS)
    callers.register("unix-abstract:x", alice)
    assert callers.caller(Call("unix-abstract:x", authorization="Bearer anything")) is alice
    callers.forget("unix-abstract:x")
    for peer in ("unix-abstract:x", "unix:"):
        with pytest.raises(AccessDeniedError):
            callers.caller(Call(peer))
