"""Tokens that are made and taken back while the queue manager runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from msmq.api import tokens
from msmq.api.generated import msmq_pb2 as pb
from msmq.errors import AccessDeniedError, InsufficientResourcesError, InvalidParameterError
from tests.api.support import QUEUE, address, calling, daemon


async def test_a_token_from_beginning_to_end(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        made = await call("CreateToken", pb.CreateTokenRequest(name="reports"))
        with pytest.raises(InvalidParameterError, match="already"):
            await call("CreateToken", pb.CreateTokenRequest(name="reports"))
        as_boss = pb.CreateTokenRequest(name="boss", sid="S-1-5-32-544")
        boss = (await call("CreateToken", as_boss)).secret
    log = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert made.secret.encode() not in log
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        target = address(running, "127")
        async with calling(target, made.secret) as reports:
            assert (await reports("GetManager", pb.GetManagerRequest())).caller == made.token.sid
            for name, request in (
                ("CreateToken", pb.CreateTokenRequest(name="more")),
                ("ListTokens", pb.ListTokensRequest()),
                ("RemoveToken", pb.RemoveTokenRequest(name="boss")),
            ):
                with pytest.raises(AccessDeniedError):
                    await reports(name, request)
            listed = await call("ListTokens", pb.ListTokensRequest())
            assert [token.name for token in listed.tokens] == ["boss", "reports"]
            await call("RemoveToken", pb.RemoveTokenRequest(name="reports"))
            with pytest.raises(AccessDeniedError, match="token"):
                await reports("GetManager", pb.GetManagerRequest())
        async with calling(target, boss) as operator:
            await operator("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        for name in ("reports", ""):
            with pytest.raises(InvalidParameterError):
                await call("RemoveToken", pb.RemoveTokenRequest(name=name))
        with pytest.raises(InvalidParameterError):
            await call("CreateToken", pb.CreateTokenRequest(name=""))
        with pytest.raises(InvalidParameterError):
            await call("CreateToken", pb.CreateTokenRequest(name="odd", sid="nobody"))
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        assert len((await call("ListTokens", pb.ListTokensRequest())).tokens) == 1


async def test_one_token_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_MOST_TOKENS", 1)
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateToken", pb.CreateTokenRequest(name="first"))
        with pytest.raises(InsufficientResourcesError, match="1 tokens, the most") as refused:
            await call("CreateToken", pb.CreateTokenRequest(name="second"))
        assert "msmq token remove" in refused.value.advice
        assert "Drain" not in refused.value.advice, "queues have nothing to do with it"
