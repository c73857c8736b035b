"""Who calls."""

from __future__ import annotations

import os

import pytest

from msmq.admission.guesses import FREE_OF_ADDRESS, Guesses
from msmq.api.callers import ACT_AS, Callers, Peer, Rules, token_digest
from msmq.errors import AccessDeniedError
from msmq.security.access import Privilege, Token
from msmq.security.sid import ADMINISTRATORS, ANONYMOUS, EVERYONE

ALICE = "S-1-5-21-1-2-3-1001"
NOBODY = 0x7FFFFFF0
"""A user that no computer has."""
OUTSIDE = Peer(address="127.0.0.1")


class Call:
    """A call as gRPC shows it."""

    def __init__(self, peer: str, authorization: str = "", act_as: str = "") -> None:
        self._peer, self._authorization, self._act_as = peer, authorization, act_as

    def peer(self) -> str:
        return self._peer

    def invocation_metadata(self) -> list[tuple[str, str | bytes]]:
        given: list[tuple[str, str | bytes]] = [
            ("authorization", self._authorization),
            (ACT_AS, self._act_as),
        ]
        return [(key, value) for key, value in given if value]


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
    callers.register("unix-abstract:x", OUTSIDE)
    assert str(callers.caller(Call("unix-abstract:x", "Bearer secret")).user) == ALICE
    assert str(callers.of(OUTSIDE, "Bearer secret").user) == ALICE
    for wrong in ("Bearer other", "Basic secret", "secret", ALICE):
        with pytest.raises(AccessDeniedError):
            callers.of(OUTSIDE, wrong)


def test_guessing_tokens() -> None:
    """Unknown tokens of one address make it wait; the log learns whence, and no token."""
    now_s, told = [0.0], list[str]()
    guesses = Guesses(lambda: now_s[0], told.append)
    callers = Callers(Rules(tokens={token_digest("secret"): ALICE}), guesses=guesses)
    guessing = Peer(address="10.0.0.7")
    for number in range(FREE_OF_ADDRESS):
        with pytest.raises(AccessDeniedError, match="not known"):
            callers.of(guessing, f"Bearer guess{number}")
    with pytest.raises(AccessDeniedError, match="again"):
        callers.of(guessing, "Bearer secret")
    assert str(callers.of(OUTSIDE, "Bearer secret").user) == ALICE
    now_s[0] += 1
    assert str(callers.of(guessing, "Bearer secret").user) == ALICE
    assert told[0] == "'' at 10.0.0.7 is not let in, attempt 1: an unknown bearer token"
    assert len(told) == FREE_OF_ADDRESS


def test_certificates() -> None:
    callers = Callers(Rules(certificates={"alice.example": ALICE}))
    assert str(callers.of(Peer(names=("other", "alice.example")), "").user) == ALICE
    for names in ((), ("mallory.example",)):
        with pytest.raises(AccessDeniedError):
            callers.of(Peer(names=names), "")


def test_everybody_else_is_anonymous_where_that_is_allowed() -> None:
    with pytest.raises(AccessDeniedError, match="token"):
        Callers(Rules()).of(OUTSIDE, "")
    token = Callers(Rules(allow_anonymous=True)).of(OUTSIDE, "")
    assert token.user == ANONYMOUS
    assert token.groups == {EVERYONE}


def test_connections_of_the_relay_and_others_on_the_inner_socket() -> None:
    callers = Callers(Rules())
    alice = Token.authenticated(ADMINISTRATORS)
    callers.register("unix-abstract:x", Peer(alice))
    assert callers.caller(Call("unix-abstract:x", authorization="Bearer anything")) is alice
    callers.register("unix-abstract:y", Peer(address="10.0.0.1"))
    with pytest.raises(AccessDeniedError, match="token"):
        callers.caller(Call("unix-abstract:y"))
    callers.forget("unix-abstract:x")
    callers.forget("unix-abstract:y")
    for peer in ("unix-abstract:x", "unix-abstract:y", "unix:", "ipv4:127.0.0.1:5"):
        with pytest.raises(AccessDeniedError, match="door"):
            callers.caller(Call(peer))


def test_a_process_speaks_for_the_owner_of_a_token_and_administrators_for_anybody() -> None:
    wrong: list[str] = []
    rules = Rules(tokens={token_digest("sesame"): ALICE})
    callers = Callers(rules, own_uid=4711, guesses=Guesses(lambda: 0.0, wrong.append))
    callers.register("unix:own", Peer(callers.of_process(4711, 12)))
    callers.register("unix:other", Peer(callers.of_process(NOBODY, 12)))
    assert str(callers.caller(Call("unix:own")).user) == "S-1-22-1-4711"
    for peer in ("unix:own", "unix:other"):
        spoken_for = callers.caller(Call(peer, act_as="Bearer sesame"))
        assert str(spoken_for.user) == ALICE
        assert not spoken_for.has(ADMINISTRATORS), "the rights are those of the owner, and no more"
        with pytest.raises(AccessDeniedError):
            callers.caller(Call(peer, act_as="Bearer open"))
    assert len(wrong) == 1, "the console counts by itself who guesses there"
    assert str(callers.caller(Call("unix:own", act_as=ALICE)).user) == ALICE
    for peer, sid in (("unix:other", ALICE), ("unix:own", "nobody")):
        with pytest.raises(AccessDeniedError):
            callers.caller(Call(peer, act_as=sid))
