"""Calls about the bearer tokens of callers on TCP, which are made and revoked while the queue manager runs.

Only the SHA-256 of a token is kept, in the ledger: a copy of the disk is no use for logging in. Tokens of the
configuration are in the operator's file, and are not listed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msmq.api.callers import Callers, token_digest
from msmq.api.desk import Desk
from msmq.api.generated import msmq_pb2 as pb
from msmq.errors import DecodeError, EncodeError, InsufficientResourcesError, InvalidParameterError
from msmq.security.access import QueueManagerOperation, Token
from msmq.security.sid import Sid

KEY: Final = "token/"
_SECRET_BYTES: Final = 32
_LONGEST_NAME: Final = 64
_MOST_TOKENS: Final = 10_000


class TokenCalls:
    """The calls about tokens, for callers who may change permissions of the queue manager."""

    def __init__(self, desk: Desk, callers: Callers, recovered: Mapping[str, Any]) -> None:
        self._desk = desk
        self._callers = callers
        self._tokens: dict[str, dict[str, Any]] = {
            key.removeprefix(KEY): value for key, value in recovered.items() if key.startswith(KEY)
        }
        for value in self._tokens.values():
            callers.own_tokens[value["digest"]] = value["sid"]

    async def create_token(self, request: pb.CreateTokenRequest, caller: Token) -> pb.NewToken:
        manager, name = self._desk.manager, request.name
        manager.guard.check_manager(caller, QueueManagerOperation.CHANGE_PERMISSIONS)
        if not 0 < len(name) <= _LONGEST_NAME:
            raise InvalidParameterError(f"The name of a token has 1 to {_LONGEST_NAME} characters.")
        if name in self._tokens:
            raise InvalidParameterError(
                f"There is a token {name} already; remove it first, or take another name."
            )
        if len(self._tokens) >= _MOST_TOKENS:
            raise InsufficientResourcesError(
                f"There are {_MOST_TOKENS:,} tokens, the most that a queue manager keeps.",
                advice="Remove one that nobody uses any more: `msmq token list`, `msmq token remove NAME`.",
            )
        environment = manager.core.environment
        secret = environment.random_bytes(_SECRET_BYTES).hex()
        value: dict[str, Any] = {
            "digest": token_digest(secret),
            "sid": _sid(request.sid) or self._new_sid(),
            "created": int(environment.now()),
        }
        manager.core.ledger.put_value(f"{KEY}{name}", value)
        self._tokens[name] = value
        await self._desk.durable()
        self._callers.own_tokens[token_digest(secret)] = value["sid"]
        return pb.NewToken(token=_described(name, value), secret=secret)

    def _new_sid(self) -> str:
        """A new SID, for a token whose creator names none: made of this queue manager's identifier and a random
        number."""
        core = self._desk.manager.core
        words = [int.from_bytes(core.record.identifier[at : at + 4], "little") for at in (0, 4, 8)]
        number = int.from_bytes(core.environment.random_bytes(4), "little") | 1 << 31
        return f"S-1-5-21-{words[0]}-{words[1]}-{words[2]}-{number}"

    async def list_tokens(self, request: pb.ListTokensRequest, caller: Token) -> pb.ListTokensReply:
        self._desk.manager.guard.check_manager(caller, QueueManagerOperation.CHANGE_PERMISSIONS)
        return pb.ListTokensReply(tokens=[_described(*item) for item in sorted(self._tokens.items())])

    async def remove_token(self, request: pb.RemoveTokenRequest, caller: Token) -> pb.Done:
        self._desk.manager.guard.check_manager(caller, QueueManagerOperation.CHANGE_PERMISSIONS)
        value = self._tokens.pop(request.name, None)
        if value is None:
            raise InvalidParameterError(f"There is no token {request.name}; see `msmq token list`.")
        self._callers.own_tokens.pop(value["digest"], None)
        self._desk.manager.core.ledger.drop_value(f"{KEY}{request.name}")
        await self._desk.durable()
        return pb.Done()


def _sid(text: str) -> str:
    try:
        return str(Sid.parse(text)) if text else ""
    except (DecodeError, EncodeError, ValueError):
        raise InvalidParameterError(f"{text!r} is no SID, which looks like S-1-5-21-1-2-3-1000.") from None


def _described(name: str, value: Mapping[str, Any]) -> pb.Token:
    return pb.Token(name=name, sid=value["sid"], created_time=value["created"])
