"""Samba's RPC client, which we did not write, reads a queue of ours."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from msmq.wire.classes import MessageClass
from tests.remote_read.support import serving_in_a_thread
from tests.rpc.support import PASSWORD

HERE = Path(__file__).parent


@pytest.fixture(scope="module", autouse=True)
def samba() -> None:
    subprocess.run([HERE.parent.parent / "scripts" / "samba.sh"], check=True, timeout=600)


@pytest.mark.parametrize("level", ["none", "sign", "seal"])
@pytest.mark.spec("MQRR-3.1.4.2-m", "MQRR-6-c", "MQRR-4.2-a")
def test_reading(level: str, tmp_path: Path) -> None:
    (tmp_path / "smb.conf").write_text("[global]\n")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "SMB_CONF_PATH": str(tmp_path / "smb.conf"),
    }
    with serving_in_a_thread() as served:
        queue = served.queue("orders", b"hello from far away")
        acks = served.queue("acks")
        work = served.queue("work", b"to be moved", transactional=True)
        admin = {"admin": "OS:HOST\\private$\\acks", "acknowledge": 0x0E}
        served.host.send(work, b"to be rejected", **admin)
        served.host.fill(work, b"to be purged")
        done = subprocess.run(
            ["/usr/bin/python3", str(HERE / "samba_client.py"), str(served.port), level, PASSWORD],
            env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        assert done.stdout.split("ok ")[1].strip() == "[3, 4, 5, 6, 7, 10, 11, 13, 14, 15]"
        (told,) = acks.positions
        rejection = served.manager.mailbox.load(acks, told.lookup_id).packet.properties.message_class
        assert rejection == MessageClass.NACK_RECEIVE_REJECTED
        assert served.host.contents(work) == []
        assert served.host.contents(work.subqueue_collection["later"]) == [b"to be moved"]
        assert not len(queue.positions)
        assert not served.service.handles.open
