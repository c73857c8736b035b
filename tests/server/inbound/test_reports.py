"""Report messages of traced messages (MS-MQQB 3.1.5.8.9, 3.1.7.1.7)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from msmq.manager.queues.queues import QueueRequest
from msmq.server.inbound.reports import label
from msmq.wire.classes import MessageClass
from msmq.wire.guid import guid_text
from msmq.wire.headers import BaseHeader
from msmq.wire.message import UserMessage
from tests.server.enterprise import BY_WAY_OF_BOB, enterprise, post, private_name
from tests.server.support import ALICE, BOB, CAROL, Node, eventually, name_of, neighbourhood
from tests.wire.builders import build, user_header

REPORTS = '[[queues]]\npath = "ALICE\\\\reports"\n'
LABEL = re.compile(
    r"([0-9A-F]{4}):([0-9A-F]{8}):([0-9A-F]{2}) received by ([0-9A-F-]{36}) at "
    r"\d\d:\d\d:\d\d [AP]M (Mon|Tue|Wed|Thu|Fri|Sat|Sun),(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d\d \d\d"
)


def reports_of(node: Node) -> Any:
    return node.manager.queues.create(QueueRequest(".\\reports"))


def text_of(packet: UserMessage) -> str:
    return packet.body.decode("utf-16-le")


@pytest.mark.spec(
    "MQQB-1.3.6-a", "MQQB-3.1.5.8.9-a", "MQQB-3.1.5.8.9-b", "MQQB-3.1.5.8.9-c", "MQQB-3.1.5.8.9-d",
    "MQQB-3.1.7.1.7-a", "MQQB-3.1.7.1.7-b", "DMPR-3.1.1.12-n", "MQMQ-2.2.18.1.6-c", "MQMQ-2.2.20.8-c",
)  # fmt: skip
async def test_every_hop_reports(tmp_path: Path) -> None:
    options = enterprise(tmp_path, {"ALICE": "", "BOB": ""}, REPORTS)
    async with neighbourhood(tmp_path, enable_report_messages=True, **options) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        reports, orders = reports_of(alice), bob.queue()
        name = private_name(bob, orders)
        post(alice, name, b"x", tracing_requested=True, tracing_queue_identifier=reports.identifier)
        post(alice, name, b"untraced")
        await eventually(lambda: len(orders.positions) == 2 and len(reports.positions) == 2)
        traced = next(packet for packet in bob.packets(orders) if packet.body == b"x")
        number = f"{traced.user.message_id:08X}"
        head = f"<MESSAGE ID>{number}</MESSAGE ID>\r\n<TARGET QUEUE>{name}</TARGET QUEUE>\r\n"
        hop = f"<NEXT HOP>{BOB}</NEXT HOP>\r\n<HOP COUNT>00 </HOP COUNT>\r\n"
        received, sent = sorted(alice.packets(reports), key=lambda packet: len(packet.body))
        assert text_of(received) == head
        assert text_of(sent) == head + hop
        source = guid_text(alice.core.record.identifier)
        for packet, reporter in ((received, bob), (sent, alice)):
            assert packet.properties.message_class == MessageClass.REPORT == 1
            assert packet.user.destination_queue == reports.identifier
            assert packet.user.delivery_mode == 0
            assert packet.user.source_queue_manager == reporter.core.record.identifier
            found = LABEL.fullmatch(packet.label)
            assert found is not None, packet.label
            assert found.groups()[:4] == (source[:4], number, "00", source)


async def test_who_passes_a_message_on_reports_twice(tmp_path: Path) -> None:
    options = enterprise(tmp_path, BY_WAY_OF_BOB, REPORTS)
    async with neighbourhood(tmp_path, enable_report_messages=True, **options) as here:
        alice, bob, carol = await here.node(ALICE), await here.node(BOB), await here.node(CAROL)
        reports, orders = reports_of(alice), carol.queue()
        post(
            alice,
            private_name(carol, orders),
            tracing_requested=True,
            tracing_queue_identifier=reports.identifier,
        )
        await eventually(lambda: len(reports.positions) == 4)
        assert len(orders.positions) == 1
        told = [packet.user.source_queue_manager for packet in alice.packets(reports)]
        assert sorted(map(told.count, (node.core.record.identifier for node in (alice, bob, carol)))) == [
            1,
            1,
            2,
        ]
        hops = sorted(re.findall("<HOP COUNT>(..) ", "".join(map(text_of, alice.packets(reports)))))
        assert hops == ["00", "01"]


@pytest.mark.spec("MQQB-3.1.5.8.9-f", "MQMQ-6-o")
async def test_nobody_reports_unless_told_to(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path, **enterprise(tmp_path, {"ALICE": "", "BOB": ""}, REPORTS)) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        assert not alice.config.enable_report_messages
        reports, orders = reports_of(alice), bob.queue()
        name = private_name(bob, orders)
        for _ in range(2):
            post(alice, name, tracing_requested=True, tracing_queue_identifier=reports.identifier)
        await eventually(lambda: len(orders.positions) == 2)
        await eventually(lambda: not any(len(queue.positions) for queue in bob.core.outgoing.values()))
        assert len(reports.positions) == 0
        assert bob.core.outgoing == {}


@pytest.mark.spec("MQQB-3.1.5.8.9-e")
async def test_a_report_queue_that_nobody_knows(tmp_path: Path) -> None:
    options = enterprise(tmp_path, {"ALICE": "", "BOB": ""})
    async with neighbourhood(tmp_path, enable_report_messages=True, **options) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        orders = bob.queue()
        for identifier in (bytes(range(16)), bytes(16)):
            post(alice, name_of(BOB), tracing_requested=True, tracing_queue_identifier=identifier)
        await eventually(lambda: len(orders.positions) == 2)
        assert [queue.label for queue in alice.core.outgoing.values()] == [
            name_of(BOB).replace("private", "PRIVATE")
        ]
        assert bob.core.outgoing == {}


@pytest.mark.parametrize(
    ("now_s", "text"),
    [
        (0, "12:00:00 AM Thu,Jan 01 70"),
        (1_700_000_000, "10:13:20 PM Tue,Nov 14 23"),
        (1_700_049_599, "11:59:59 AM Wed,Nov 15 23"),
    ],
)
def test_dates(now_s: int, text: str) -> None:
    packet = build(base=BaseHeader(), user=user_header())
    assert label(packet, now_s).endswith(" at " + text)
