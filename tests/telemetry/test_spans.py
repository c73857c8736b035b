"""Spans of what is done with messages, and the context of a trace that travels in them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import baggage, context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import SpanKind, StatusCode

import msmq
from msmq.errors import QueueNotFoundError
from msmq.telemetry import Telemetry
from tests.api.support import address, daemon
from tests.client.support import QUEUE, connected
from tests.telemetry.conftest import Book
from tests.test_pages import blocks, perform

FOREIGN = b"\x01\x02 somebody else's"
NSERVICEBUS = msmq.write_headers({"NServiceBus.MessageId": "1"}, "nservicebus")
REBUS = b'{"rbs2-msg-id": "7", "none": null}'


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.trace_id


def is_child(span: ReadableSpan, parent: ReadableSpan) -> bool:
    assert parent.context is not None
    return span.parent is not None and span.parent.span_id == parent.context.span_id


async def test_a_provider_that_fails_costs_no_message(
    book: Book, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(SpanProcessor):
        def on_start(self, span: Span, parent_context: context.Context | None = None) -> None:
            if span.name.startswith(("receive", "ack")):
                raise RuntimeError("the exporter is away")

        def on_end(self, span: ReadableSpan) -> None:
            if span.name.startswith("reject"):
                raise RuntimeError("the exporter is away")

    book.provider.add_span_processor(Broken())
    async with connected(tmp_path, telemetry=Telemetry(book.provider)) as mq:
        queue = await mq.create_queue(QUEUE)
        await queue.send_many(["order", "another"])
        async with queue.receiver() as receiver:
            await (await receiver.receive(10)).reject()
        assert (await queue.receive(timeout=60)).text == "order"
        async with queue.receiver() as receiver:
            await (await receiver.receive(10)).acknowledge()
        assert (await mq.queue_info(queue)).messages == 0
    assert "no span could be made for ack" in caplog.text
    assert "a span could not be ended" in caplog.text


async def test_send_process_and_settle_are_one_trace(book: Book, tmp_path: Path) -> None:
    async with connected(tmp_path, telemetry=Telemetry(book.provider, carry=True)) as mq:
        queue = await mq.create_queue(QUEUE)
        receipt = await queue.send("order", correlation_id=bytes(19) + b"\x01")
        consumer = queue.consumer()

        async def work(message: msmq.ReceivedMessage) -> None:
            consumer.stop()

        await consumer.run(work)
        send, receive, process, settle = map(book.only, ("send", "receive", "process", "ack"))
        assert {trace_of(span) for span in (send, receive, process, settle)} == {trace_of(send)}
        assert all(is_child(span, send) for span in (receive, process, settle))
        kinds = {SpanKind.PRODUCER, SpanKind.CLIENT, SpanKind.CONSUMER}
        assert {send.kind, receive.kind, process.kind} == kinds
        assert settle.kind is SpanKind.CLIENT
        for span, kind in (
            (send, "send"),
            (receive, "receive"),
            (process, "process"),
            (settle, "settle"),
        ):
            assert span.attributes is not None
            assert span.attributes["messaging.system"] == "msmq"
            assert span.attributes["messaging.operation.type"] == kind
            assert span.attributes["messaging.destination.name"] == QUEUE
            assert span.attributes["messaging.message.id"] == receipt.id
            assert str(span.attributes["messaging.message.conversation_id"]).endswith("\\16777216")
        assert send.attributes is not None
        assert send.attributes["server.address"] == mq.address.removeprefix("unix:")


@pytest.mark.parametrize("extension", [NSERVICEBUS, REBUS])
async def test_headers_of_service_buses_carry_the_context_in_their_own_dialect(
    book: Book, tmp_path: Path, extension: bytes
) -> None:
    async with connected(tmp_path, telemetry=Telemetry(book.provider)) as mq:
        queue = await mq.create_queue(QUEUE)
        await queue.send("one", extension=extension)
        first = await queue.receive(60)
        await queue.send("two", extension=first.extension)  # what was handed on is not there twice
        second = await queue.receive(60)
        for message, send in zip((first, second), book.named("send"), strict=True):
            assert message.extension[:1] == extension[:1]
            assert send.context is not None
            made = f"00-{send.context.trace_id:032x}-{send.context.span_id:016x}-"
            assert message.headers["traceparent"].startswith(made)
            assert message.extension.count(b"traceparent") == 1
            assert len(message.headers) == len(msmq.client.message.read_headers(extension) or {}) + 1


async def test_an_extension_of_somebody_else_is_left_alone(book: Book, tmp_path: Path) -> None:
    async with connected(tmp_path, telemetry=Telemetry(book.provider, carry=True)) as mq:
        queue = await mq.create_queue(QUEUE)
        await queue.send("one", extension=FOREIGN)
        await queue.send_many(["two"], extension=FOREIGN)
        found = [await queue.receive(60), await queue.receive(60)]
        assert [message.extension for message in found] == [FOREIGN, FOREIGN]
        traces = {trace_of(span) for span in book.named("receive")}
        assert not traces & {trace_of(span) for span in book.named("send")}


async def test_nothing_travels_unless_it_was_asked_for(book: Book, tmp_path: Path) -> None:
    async with connected(tmp_path, telemetry=Telemetry(book.provider)) as mq:
        queue = await mq.create_queue(QUEUE)
        await queue.send("plain")
        assert (await queue.receive(60)).extension == b""


async def test_messages_that_are_sent_together_have_a_span_each(book: Book, tmp_path: Path) -> None:
    async with connected(tmp_path, telemetry=Telemetry(book.provider, carry=True)) as mq:
        queue = await mq.create_queue(QUEUE)
        await queue.send_many(["a", "b", "c"])
        send, created = book.only("send"), book.named("create")
        assert len(created) == 3
        assert all(is_child(span, send) for span in created)
        assert send.attributes is not None
        assert send.attributes["messaging.batch.message_count"] == 3
        assert len(send.links) == 3
        await queue.send_once(["d"], row="row", place=0)
        async with queue.receiver() as receiver:
            held = [await receiver.receive(60) for _ in range(4)]
            await receiver.acknowledge(*held)
        settle = book.only("ack")
        assert [link.context.span_id for link in settle.links] == [
            span.context.span_id for span in book.named("create") if span.context is not None
        ]


async def test_what_goes_wrong_is_an_error_of_its_span(book: Book, tmp_path: Path) -> None:
    async with connected(tmp_path, telemetry=Telemetry(book.provider, carry=True)) as mq:
        queue = await mq.create_queue(QUEUE)
        with pytest.raises(QueueNotFoundError):
            await mq.queue(".\\private$\\missing").send("x")
        await queue.send("difficult")
        consumer = queue.consumer()
        tries = 0

        async def work(message: msmq.ReceivedMessage) -> None:
            nonlocal tries
            tries += 1
            if tries == 1:
                raise ValueError("not yet")
            consumer.stop()

        await consumer.run(work)
        refused = next(span for span in book.named("send") if "missing" in span.name)
        failed, done = book.named("process")
        for span, why in ((refused, "QueueNotFoundError"), (failed, "ValueError")):
            assert span.status.status_code is StatusCode.ERROR
            assert span.attributes is not None
            assert span.attributes["error.type"] == why
        assert done.status.status_code is StatusCode.UNSET
        assert len(book.named("reject")) == 1


async def test_a_transaction_settles_what_was_received_in_it(book: Book, tmp_path: Path) -> None:
    async with connected(tmp_path, telemetry=Telemetry(book.provider, carry=True)) as mq:
        queue = await mq.create_queue(QUEUE, transactional=True)
        for body in ("a", "b"):
            await queue.send(body)
        undone = await mq.transaction().begin()
        await undone.receive(queue, 60)
        await undone.abort()
        async with mq.transaction() as tx:
            await tx.receive(queue, 60)
            held = await queue.lookup(seek=msmq.Seek.LAST, receive=True, transaction=tx)
            assert held.text == "b"
        async with mq.transaction() as tx:
            await tx.send(queue, "c")
        assert len(book.only("abort").links) == 1
        assert len(book.only("commit").links) == 2


async def test_reading_by_a_cursor_is_receiving_and_looking_is_not(book: Book, tmp_path: Path) -> None:
    async with connected(tmp_path, telemetry=Telemetry(book.provider)) as mq:
        queue = await mq.create_queue(QUEUE)
        receipt = await queue.send("x")
        await queue.peek(60)
        assert [message.text async for message in queue.browse()] == ["x"]
        assert not book.named("receive")
        await queue.receive_by_id(receipt.id)
        assert len(book.named("receive")) == 1


async def test_work_goes_on_in_the_senders_trace_with_its_baggage(book: Book, tmp_path: Path) -> None:
    telemetry = Telemetry(book.provider, carry=True)
    tracer = book.provider.get_tracer("application")
    async with connected(tmp_path, telemetry=telemetry) as mq:
        queue = await mq.create_queue(QUEUE)
        token = context.attach(baggage.set_baggage("customer", "7"))
        with tracer.start_as_current_span("order"):
            await queue.send("x")
        context.detach(token)
        with tracer.start_as_current_span("loop"):
            message = await queue.receive(60)
            with telemetry.process(message):
                assert baggage.get_baggage("customer") == "7"
                await queue.send("answer")
        assert baggage.get_baggage("customer") is None
        order, loop = book.only("order"), book.only("loop")
        process = book.only("process")
        assert trace_of(process) == trace_of(order) == trace_of(book.named("send")[1])
        assert [link.context.trace_id for link in process.links] == [trace_of(loop)]
        assert is_child(book.only("receive"), loop)


async def test_without_an_event_loop(book: Book, tmp_path: Path) -> None:
    def sync(where: str) -> None:
        telemetry = Telemetry(book.provider, carry=True)
        with msmq.connect_sync(where, telemetry=telemetry) as mq:
            queue = mq.create_queue(QUEUE)
            with book.provider.get_tracer("application").start_as_current_span("order"):
                queue.send("x")
            message = queue.receive(60)
            with telemetry.process(message):
                pass
        assert {trace_of(book.only(word)) for word in ("send", "receive", "process")} == {
            trace_of(book.only("order"))
        }

    async with daemon(tmp_path) as running:
        await asyncio.to_thread(sync, address(running))


@pytest.mark.parametrize(
    "headers",
    [
        {"traceparent": "nonsense"},
        {"traceparent": "00-" + "0" * 32 + "-" + "0" * 16 + "-01"},
        {"traceparent": "\ud800" * 55},
        {
            "traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01",
            "tracestate": "=" * 5000,
            "baggage": "%ff;=,=%",
        },
    ],
)
async def test_what_strangers_write_into_headers_breaks_nothing(
    book: Book, tmp_path: Path, headers: dict[str, str]
) -> None:
    async with daemon(tmp_path) as running:
        extension = msmq.write_headers(
            {key: value.encode("utf-8", "replace").decode() for key, value in headers.items()}, "rebus"
        )
        if "\ud800" in headers["traceparent"]:
            extension = b'{"traceparent":"' + b"\\ud800" * 55 + b'"}'
        async with msmq.connect(address(running)) as stranger:
            await (await stranger.create_queue(QUEUE)).send("x", extension=extension)
        async with msmq.connect(address(running), telemetry=Telemetry(book.provider)) as mq:
            message = await mq.queue(QUEUE).receive(60)
            assert message.text == "x"
            assert book.only("receive").name == f"receive {QUEUE}"


async def test_the_page(book: Book, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    send, go_on = blocks("docs/how-to/trace.md")

    async with daemon(tmp_path) as running:
        monkeypatch.setenv("MSMQ_SERVER", address(running))
        async with msmq.connect(telemetry=Telemetry(book.provider, carry=True)) as mq:
            queue = await mq.create_queue(r".\private$\orders")
            await perform(send, {})
            assert (await queue.receive(60)).text == "two coffees"
            await queue.send("traced")
            rows = [
                SimpleNamespace(headers=(await queue.receive(60)).headers),
                SimpleNamespace(headers=None),
            ]
        names: dict[str, Any] = {"rows": rows}
        await perform(go_on, names)
        assert names["tracer"]


def test_a_plain_client_loads_nothing_of_it() -> None:
    program = "import sys, msmq.client; sys.exit(any('opentelemetry' in name for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], timeout=120).returncode == 0
