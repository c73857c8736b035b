"""Looking after queues through the channel."""

from __future__ import annotations

from pathlib import Path

import pytest

from msmq.api.callers import token_digest
from msmq.api.generated import msmq_pb2 as pb
from msmq.errors import (
    AccessDeniedError,
    IllegalFormatnameError,
    IllegalPropertyValueError,
    InvalidParameterError,
    QueueExistsError,
    QueueNotFoundError,
)
from tests.api.support import QUEUE, address, calling, daemon

BOB = "S-1-5-21-1-2-3-1002"
FAR = "DIRECT=TCP:127.0.0.9\\private$\\far"


@pytest.mark.spec("MQMQ-2.2.24-g")
async def test_a_queue_is_shown_to_those_who_may_look_at_it(tmp_path: Path) -> None:
    tokens = {token_digest("bob"): BOB}
    async with (
        daemon(tmp_path, tokens=tokens) as running,
        calling(address(running)) as call,
        calling(address(running, "127"), "bob") as bob,
    ):
        for rights in (0x20, 0xF003F & ~0x20):
            path = f".\\private$\\q{rights}"
            sddl = f"D:(A;;{rights:#x};;;{BOB})"
            await call("CreateQueue", pb.CreateQueueRequest(path=path, sddl=sddl))
        assert (await bob("GetQueue", pb.QueueName(queue=".\\private$\\q32"))).path == "HOST\\private$\\q32"
        with pytest.raises(AccessDeniedError):
            await bob("GetQueue", pb.QueueName(queue=path))


@pytest.mark.spec("MQMQ-2.1.6-c", "MQMQ-2.2.11-b")
async def test_the_queues_of_a_foreign_system(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        name = "CONNECTOR=11111111-2222-3333-4444-555555555555"
        made = await call("CreateQueue", pb.CreateQueueRequest(path=name.lower()))
        assert (made.path, made.kind, made.transactional) == (name, pb.CONNECTOR, False)
        with pytest.raises(QueueExistsError):
            await call("CreateQueue", pb.CreateQueueRequest(path=name))
        ordered = await call("GetQueue", pb.QueueName(queue=f"{name};XACTONLY"))
        assert (ordered.kind, ordered.transactional) == (pb.CONNECTOR, True)
        for each in (name, f"{name};XACTONLY"):
            await call("DeleteQueue", pb.QueueName(queue=each))
            with pytest.raises(QueueNotFoundError):
                await call("GetQueue", pb.QueueName(queue=each))
        with pytest.raises(IllegalFormatnameError):
            await call("CreateQueue", pb.CreateQueueRequest(path="CONNECTOR=nobody"))


async def test_a_queue_from_the_cradle_to_the_grave(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        guid = "11111111-2222-3333-4444-555555555555"
        settings = pb.QueueSettings(
            label="Orders", journaling=True, quota_kb=100, type=guid, privacy_level=2, base_priority=0
        )
        made = await call(
            "CreateQueue", pb.CreateQueueRequest(path=QUEUE, transactional=True, settings=settings)
        )
        assert (made.path, made.transactional, made.kind) == ("HOST\\private$\\q", True, pb.PRIVATE)
        assert made.settings.label == "Orders"
        assert made.settings.type == guid
        with pytest.raises(QueueExistsError):
            await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        wanted = pb.QueueSettings(label="Other", journaling=False, quota_kb=7, privacy_level=1)
        changed = await call("SetQueue", pb.SetQueueRequest(queue=QUEUE, settings=wanted))
        assert changed == await call("GetQueue", pb.QueueName(queue=made.format_name))
        assert (changed.settings.label, changed.settings.quota_kb) == ("Other", 7)
        assert not changed.settings.journaling
        assert changed.settings.type == guid
        for bad in (pb.QueueSettings(label="x" * 125), pb.QueueSettings(privacy_level=9)):
            with pytest.raises(IllegalPropertyValueError):
                await call("SetQueue", pb.SetQueueRequest(queue=QUEUE, settings=bad))
        with pytest.raises(InvalidParameterError):
            await call(
                "CreateQueue",
                pb.CreateQueueRequest(path=".\\private$\\b", settings=pb.QueueSettings(privacy_level=9)),
            )
        with pytest.raises(InvalidParameterError):
            await call(
                "CreateQueue",
                pb.CreateQueueRequest(path=".\\private$\\b", settings=pb.QueueSettings(type="no guid")),
            )
        await call("DeleteQueue", pb.QueueName(queue=QUEUE))
        with pytest.raises(QueueNotFoundError):
            await call("GetQueue", pb.QueueName(queue=QUEUE))


async def test_lists(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        for path in (QUEUE, ".\\private$\\a"):
            await call("CreateQueue", pb.CreateQueueRequest(path=path))
        await call("Send", pb.SendRequest(queue=f"{QUEUE};sub", messages=[pb.Message(body=b"x")]))
        plain = await call("ListQueues", pb.ListQueuesRequest())
        assert [info.path for info in plain.queues] == ["HOST\\private$\\a", "HOST\\private$\\q"]
        everything = await call(
            "ListQueues", pb.ListQueuesRequest(system=True, journals=True, subqueues=True)
        )
        kinds = {info.path: info.kind for info in everything.queues}
        assert kinds["HOST\\private$\\q;JOURNAL"] == pb.JOURNAL
        assert kinds["HOST\\private$\\q;sub"] == pb.SUBQUEUE
        assert kinds["HOST\\system$;DEADLETTER"] == pb.SYSTEM
        assert "order_queue$" not in " ".join(kinds)  # those the queue manager keeps to itself


async def test_who_may_do_what(tmp_path: Path) -> None:
    tokens = {token_digest("bob"): BOB}
    async with (
        daemon(tmp_path, tokens=tokens) as running,
        calling(address(running)) as call,
        calling(address(running, "127"), "bob") as bob,
    ):
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        name = pb.QueueName(queue=QUEUE)
        for request in (
            ("DeleteQueue", name),
            ("Purge", name),
            ("SetQueue", pb.SetQueueRequest(queue=QUEUE, settings=pb.QueueSettings(label="mine"))),
            ("SetSecurity", pb.SetSecurityRequest(queue=QUEUE, owner=BOB)),
            ("SetManager", pb.SetManagerRequest(quota_kb=1)),
            ("SetOnline", pb.SetOnlineRequest(online=False)),
            ("Lookup", pb.LookupRequest(queue=QUEUE, seek=pb.SEEK_FIRST)),
            ("ListCertificates", pb.ListCertificatesRequest(sid="S-1-5-18")),
        ):
            with pytest.raises(AccessDeniedError):
                await bob(*request)
        everything = pb.AccessEntry(allow=True, sid=BOB, rights=0xF003F)
        given = await call(
            "SetSecurity",
            pb.SetSecurityRequest(queue=QUEUE, entries=pb.AccessList(entries=[everything])),
        )
        assert [(entry.sid, entry.rights) for entry in given.entries] == [(BOB, 0xF003F)]
        await bob("Purge", name)
        await bob("SetSecurity", pb.SetSecurityRequest(queue=QUEUE, owner=BOB))
        assert (await bob("GetSecurity", name)).owner == BOB
        sddl = "D:(D;;GA;;;S-1-5-7)(A;;GA;;;WD)"
        changed = await bob("SetSecurity", pb.SetSecurityRequest(queue=QUEUE, sddl=sddl))
        assert [entry.allow for entry in changed.entries] == [False, True]
        assert changed.entries[1].name == "EVERYONE"
        with pytest.raises(InvalidParameterError):
            await bob("SetSecurity", pb.SetSecurityRequest(queue=QUEUE))
        assert (await call("GetSecurity", pb.QueueName())).sddl.startswith("O:")


async def test_outgoing_queues(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        far = pb.QueueName(queue=FAR)
        with pytest.raises(QueueNotFoundError):
            await call("PauseOutgoing", far)
        await call("Send", pb.SendRequest(queue=FAR, messages=[pb.Message(body=b"x")]))
        paused = await call("PauseOutgoing", far)
        assert (paused.state, paused.messages) == ("OnHold", 1)
        assert "paused" in paused.explanation
        assert (await call("ResumeOutgoing", far)).state != "OnHold"
        found = await call("Lookup", pb.LookupRequest(queue=FAR, seek=pb.SEEK_FIRST))
        assert found.message.body == b"x"
        await call("PauseOutgoing", far)
        assert (await call("PurgeOutgoing", far)).messages == 1
        (listed,) = (await call("ListOutgoing", pb.ListOutgoingRequest())).queues
        assert listed.messages == 0


async def test_the_queue_manager(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        info = await call("GetManager", pb.GetManagerRequest())
        assert info.computer_name == "HOST"
        assert info.online
        assert info.dead_letter_queue.endswith(";DEADLETTER")
        changed = await call("SetManager", pb.SetManagerRequest(quota_kb=5000))
        assert (changed.quota_kb, changed.journal_quota_kb) == (5000, info.journal_quota_kb)
        assert not (await call("SetOnline", pb.SetOnlineRequest(online=False))).online
        assert (await call("SetOnline", pb.SetOnlineRequest(online=True))).online


async def test_where_a_queue_is(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        for here in (QUEUE, "HOST\\private$\\absent", "DIRECT=OS:host\\private$\\absent"):
            assert await call("LocateQueue", pb.QueueName(queue=here)) == pb.QueuePlace(here=True)
        for there, host, name in (
            ("other\\private$\\q", "other", "DIRECT=OS:other\\private$\\q"),
            ("other\\public", "other", "DIRECT=OS:other\\public"),
            (
                "FormatName:DIRECT=TCP:10.0.0.7\\private$\\q",
                "10.0.0.7",
                "DIRECT=TCP:10.0.0.7\\private$\\q",
            ),
        ):
            found = await call("LocateQueue", pb.QueueName(queue=there))
            assert found == pb.QueuePlace(host=host, format_name=name)
        unknown = "PUBLIC=01234567-89ab-cdef-0123-456789abcdef"
        with pytest.raises(IllegalFormatnameError):
            await call("LocateQueue", pb.QueueName(queue=unknown))
