"""Connecting."""

from __future__ import annotations

from pathlib import Path

import pytest

import msmq
from msmq.api.callers import token_digest
from msmq.errors import AccessDeniedError, InsufficientResourcesError
from tests.api.authority import Authority
from tests.api.support import address, daemon
from tests.client.support import QUEUE, connected


async def test_nobody_is_there(tmp_path: Path) -> None:
    with pytest.raises(msmq.ServerNotAvailableError, match="msmq serve"):
        async with msmq.connect(f"unix:{tmp_path / 'none'}", timeout=0.2):
            pass
    closed = msmq.connect("unix:x")
    with pytest.raises(msmq.ConnectionLostError, match="not open"):
        await closed.manager()


async def test_the_environment_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with daemon(tmp_path) as running:
        monkeypatch.setenv("MSMQ_SERVER", address(running))
        async with msmq.connect() as mq:
            assert (await mq.manager()).computer_name == "HOST"
            assert address(running) in repr(mq)


async def test_tokens_and_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("localhost")
    options = {
        "listen": ("127.0.0.1:0", "tls:localhost:0"),
        "certificate": str(certificate),
        "private_key": str(key),
        "tokens": {token_digest("sesame"): "S-1-5-32-544"},
    }
    async with daemon(tmp_path, **options) as running:
        async with msmq.connect(address(running, "127")) as stranger:
            with pytest.raises(AccessDeniedError):
                await stranger.create_queue(QUEUE)
        tls = msmq.Tls(authorities=authority.file)
        async with msmq.connect(address(running, "tls"), token="sesame", tls=tls) as mq:
            await (await mq.create_queue(QUEUE)).send("x")
            assert (await mq.queue(QUEUE).receive(60)).text == "x"


async def test_certificates_that_are_not_trusted_are_said_at_once_and_in_one_line(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path / "other")
    certificate, key = authority.issue("localhost")
    options = {
        "listen": ("tls:localhost:0",),
        "certificate": str(certificate),
        "private_key": str(key),
        "client_authorities": str(authority.file),
    }
    async with daemon(tmp_path, **options) as running:
        for tls, told in (
            (msmq.Tls(authorities=other.file), "is not trusted: .*--tls-ca"),
            (msmq.Tls(authorities=authority.file), "asks for a client certificate.*--tls-certificate"),
            (msmq.Tls(authorities=authority.file, server_name="elsewhere"), "not valid for 'elsewhere'"),
        ):
            with pytest.raises(msmq.ServerNotAvailableError, match=told) as caught:
                await msmq.connect(address(running, "tls"), tls=tls, timeout=600).open()
            assert "\n" not in str(caught.value)


async def test_system_queues(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        for queue in (mq.dead_letters, mq.transactional_dead_letters, mq.journal):
            assert [message async for message in queue.browse()] == []
        queue = await mq.create_queue(QUEUE, quota_kb=1)
        with pytest.raises(InsufficientResourcesError):
            await queue.send(bytes(2000), label="too much")
        assert (await mq.dead_letters.receive(60)).label == "too much"
