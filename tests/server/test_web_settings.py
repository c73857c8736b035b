"""Where the console may be, and where not."""

from __future__ import annotations

import pytest

from msmq.server.config import ConfigError, from_table
from msmq.server.web_settings import WebError, WebSettings


def test_this_computer_needs_no_certificate_and_others_do() -> None:
    assert WebSettings().address == ("127.0.0.1", 1811)
    assert WebSettings("[::1]:80").address == ("::1", 80)
    assert WebSettings("localhost:80").address == ("localhost", 80)
    for inside in ("127.0.0.1:80", "[::1]:80", "localhost:80"):
        assert not WebSettings(inside).exposed
    for outside in ("0.0.0.0:80", "10.0.0.1:80", "host.example:80", "[::]:80"):
        assert WebSettings(outside).exposed
    for wrong in ("80", "host:", "127.0.0.1:99999"):
        with pytest.raises(WebError, match="no address"):
            _ = WebSettings(wrong).address
    assert not WebSettings("none").wanted


def test_the_configuration_is_checked_when_it_is_read() -> None:
    assert from_table({"web": {"listen": "none"}}).web == WebSettings("none")
    with pytest.raises(ConfigError, match="belong together"):
        from_table({"web": {"listen": "0.0.0.0:1", "certificate": "a.pem"}})
    with pytest.raises(ConfigError, match="king is none of"):
        from_table({"web": {"roles": {"S-1-1-0": "king"}}})
