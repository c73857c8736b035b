"""The table ``[ha]``."""

from __future__ import annotations

import pytest

from msmq.ha.settings import HaSettings
from msmq.server.config import ConfigError, from_table


def test_the_defaults_are_fine_and_mean_no_shared_log() -> None:
    assert HaSettings().problem is None
    assert not HaSettings().store
    assert HaSettings().instance


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"store": "mysql://x"}, "begins with postgresql://"),
        ({"lease_ms": 1000, "renew_ms": 500}, "at least three renewals fit"),
        ({"schema": "a;b"}, "letters, digits and underscores"),
        ({"health": "127.0.0.1"}, "HOST:PORT"),
    ],
)
def test_what_cannot_be_is_said(table: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        from_table({"ha": table})
