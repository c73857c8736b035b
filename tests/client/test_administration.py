"""Looking after queues from a Python program."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

import msmq
from tests.api.authority import Authority
from tests.client.support import QUEUE, connected

FAR = "DIRECT=TCP:127.0.0.9\\private$\\far"


async def test_queues(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        assert not await mq.queue_exists(QUEUE)
        queue = await mq.create_queue(QUEUE, transactional=True, label="Orders", quota_kb=10)
        assert await mq.queue_exists(queue)
        info = await mq.queue_info(queue)
        assert (info.label, info.quota_kb, info.transactional) == ("Orders", 10, True)
        assert info.kind is msmq.QueueKind.PRIVATE
        assert (await mq.set_queue(queue, journaling=True)).journaling
        assert [found.path for found in await mq.queues()] == ["HOST\\private$\\q"]
        assert len(await mq.queues(system=True, journals=True)) > 4
        await mq.delete_queue(queue)
        assert await mq.queues() == []


async def test_security(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        old = await mq.security(queue)
        entry = msmq.AccessEntry("S-1-5-21-1-2-3-1001", 0x24)
        new = await mq.set_security(queue, entries=[*old.entries, entry])
        assert new.entries[-1] == entry
        assert new.owner == old.owner
        assert (await mq.set_security(queue, sddl="D:(A;;GA;;;WD)")).entries[0].sid == "S-1-1-0"
        assert (await mq.security()).owner


async def test_outgoing_and_manager(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        await mq.queue(FAR).send("x")
        assert (await mq.pause_outgoing(FAR)).state == "OnHold"
        await mq.resume_outgoing(mq.queue(FAR))
        assert [found.format_name for found in await mq.outgoing_queues()] == [
            "DIRECT=TCP:127.0.0.9\\PRIVATE$\\far"
        ]
        assert await mq.purge_outgoing(FAR) == 1
        assert (await mq.set_manager(quota_kb=9000)).quota_kb == 9000
        assert not (await mq.set_online(False)).online
        assert (await mq.set_online(True)).online


async def test_certificates_and_statistics(tmp_path: Path) -> None:
    pem, _ = Authority(tmp_path).issue("alice")
    der = x509.load_pem_x509_certificate(pem.read_bytes()).public_bytes(Encoding.DER)
    async with connected(tmp_path) as mq:
        made = await mq.register_certificate(der)
        internal, key = await mq.renew_internal_certificate()
        assert key
        assert await mq.certificates() == [made, internal]
        await mq.remove_certificate(made.digest)
        assert await mq.certificates() == [internal]
        await mq.create_queue(QUEUE)
        reports = [report async for report in mq.statistics(0.1, 2)]
        assert [len(report.queues) > 0 for report in reports] == [True, True]
