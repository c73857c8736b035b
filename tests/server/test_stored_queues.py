"""The queues of a queue manager that does not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from msmq.manager.queues.queues import QueueRequest
from msmq.server.config import Config
from msmq.server.stored_queues import stored_queues
from msmq.store.errors import StoreLockedError
from tests.server.support import ALICE, Node


async def test_the_last_word_of_the_store_counts(tmp_path: Path) -> None:
    node = Node(Config(data=tmp_path / "a", name="ALICE", listen=(ALICE,), port=0))
    await node.start()
    queues = node.manager.queues
    kept = queues.create(QueueRequest(".\\kept", label="first"), skip_directory=True)
    queues.change(kept, label="second")
    gone = queues.create(QueueRequest(".\\gone"), skip_directory=True)
    node.queue("private")
    queues.delete(gone, skip_directory=True)
    with pytest.raises(StoreLockedError):
        stored_queues(node.config.data / "store")
    await node.stop()
    identifier, found = stored_queues(node.config.data / "store")
    assert identifier == node.core.record.identifier
    assert [(item.attributes["pathname"], item.attributes["label"]) for item in found] == [
        ("ALICE\\kept", "second")
    ]
    assert found[0].identifier == kept.identifier
