"""``import msmq`` gives the client, and loads it only when it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import msmq
from msmq import client


def test_every_name_of_the_client() -> None:
    for name in client.__all__:
        if name != "Body":
            assert getattr(msmq, name) is getattr(client, name)
    assert msmq.errors.MQError
    assert msmq.client is client
    for name in ("nothing", "Nothing"):
        with pytest.raises(AttributeError, match=name):
            getattr(msmq, name)


def test_other_rooms_need_no_grpc() -> None:
    program = (
        "import sys, msmq, msmq.wire.message, msmq.manager.queue_manager; sys.exit('grpc' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


def test_a_client_needs_no_grpc() -> None:
    program = "import sys, msmq.client.connection, msmq.client.line, msmq.client.sync; sys.exit('grpc' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
