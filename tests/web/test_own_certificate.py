"""The certificate that the console makes for itself."""

from __future__ import annotations

import logging
import ssl
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from msmq.server.web_settings import WebSettings
from msmq.web import own_certificate as module
from msmq.web.own_certificate import with_own_certificate
from tests.web.support import living


def test_one_is_made_kept_and_replaced_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    web = WebSettings("0.0.0.0:1811")
    with caplog.at_level(logging.WARNING):
        first = with_own_certificate(web, tmp_path / "web", "HOST")
    assert first.tls
    assert "SHA-256" in caplog.text
    certificate, key = Path(first.certificate), Path(first.private_key)
    assert key.stat().st_mode & 0o777 == 0o600
    made = certificate.read_bytes()
    assert with_own_certificate(web, tmp_path / "web", "HOST") == first
    assert certificate.read_bytes() == made
    monkeypatch.setattr(module, "_EARLY", timedelta(days=10_000))
    with_own_certificate(web, tmp_path / "web", "HOST")
    assert certificate.read_bytes() != made


def test_off_this_computer_there_is_nothing_without_tls(tmp_path: Path) -> None:
    with living(tmp_path, address="0.0.0.0") as live:
        assert live.url.startswith("https://0.0.0.0:")
        trusted = ssl.create_default_context(cafile=live.directory / "data" / "web" / "console.pem")
        url = f"https://localhost:{live.web_port}/api/health"
        with httpx.Client(verify=trusted, trust_env=False, timeout=60) as client:
            answer = client.get(url)
            assert answer.json() == {"status": "up"}
            assert "strict-transport-security" in answer.headers
            with pytest.raises(httpx.TransportError):
                client.get(f"http://localhost:{live.web_port}/api/health")
        with httpx.Client(trust_env=False, timeout=60) as distrustful, pytest.raises(httpx.ConnectError):
            distrustful.get(url)
