"""Rights and people by name."""

from __future__ import annotations

import pwd

import pytest

from msmq.cli.access import AccessError, names_of, rights_of, sid_of
from msmq.wire.access_masks import QueueAccessMask, QueueManagerAccessMask


def test_people() -> None:
    assert sid_of("everyone") == sid_of("Everyone") == "S-1-1-0"
    assert sid_of("Authenticated Users") == "S-1-5-11"
    assert sid_of("S-1-5-21-1-2-3-1000") == "S-1-5-21-1-2-3-1000"
    me = pwd.getpwuid(0)
    assert sid_of(f"user:{me.pw_name}") == "S-1-22-1-0"


@pytest.mark.parametrize("who", ["", "clerk", "user:no-such-user", "S-1"])
def test_nobody(who: str) -> None:
    with pytest.raises(AccessError):
        sid_of(who)


@pytest.mark.parametrize("right", list(QueueAccessMask), ids=lambda right: str(right.name))
def test_every_right_of_queues_has_its_name(right: QueueAccessMask) -> None:
    assert rights_of(str(right.name).lower().replace("_", "-"), manager=False) == int(right)
    assert rights_of(",".join(names_of(int(right), manager=False)), manager=False) == int(right)


def test_rights_together() -> None:
    assert rights_of("receive, send", manager=False) == 7
    assert rights_of("0x24", manager=False) == 0x24
    assert rights_of("create-queue", manager=True) == QueueManagerAccessMask.CREATE_QUEUE
    assert names_of(rights_of("full", manager=True), manager=True) == ["full"]
    assert names_of(0x80000000, manager=False) == ["0x80000000"]
    with pytest.raises(AccessError, match="These are known: receive"):
        rights_of("fly", manager=False)
