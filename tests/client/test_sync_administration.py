"""What administrators do with the queue manager itself, without an event loop."""

from __future__ import annotations

from pathlib import Path

from msmq.client import AlarmRule
from tests.client.test_sync import connected


def test_accounts_tokens_and_alarms(tmp_path: Path) -> None:
    with connected(tmp_path) as mq:
        made, password = mq.create_account("alice", ["S-1-5-32-545"])
        assert password
        mq.set_account_password("alice", "another")
        assert mq.accounts() == [made]
        mq.remove_account("alice")
        assert mq.accounts() == []
        rule = AlarmRule("deep", "depth", 10, webhooks=("http://a.example/b",))
        assert mq.set_alarms([rule]) == mq.alarms() == [rule]
        token, secret = mq.create_token("robot")
        assert len(secret) == 64
        assert [each.name for each in mq.tokens()] == [token.name]
        mq.remove_token("robot")
        assert mq.set_manager(quota_kb=5_000_000).quota_kb == mq.manager().quota_kb == 5_000_000
        assert next(mq.statistics(count=1)).messages == 0
