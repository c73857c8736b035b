"""Spans for send, receive, process and settle, following OpenTelemetry's conventions for messaging.

The context of a send travels in the message. If the extension holds headers of NServiceBus or Rebus, it is added to
them under the W3C names that both know (``traceparent``, ``tracestate``, ``baggage``). A message without an extension
gets it as a JSON object if the sender asked for that (``carry``): the form that Rebus writes, and that tools which
show headers can read. Any other extension is left as it is.

Processing a message continues the trace of its sender: the span of the send is the parent of that of the processing.
Receiving and settling belong to the span that is open where they are called, with a link to the send, or else to the
trace of the message.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry import context as contexts
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, Tracer, TracerProvider

from msmq import __version__
from msmq.client.message import Message, QueuedMessage, Receipt, id_text
from msmq.client.watcher import Watcher
from msmq.wire.bodies import HeaderDialect, read_headers, with_headers, write_headers

_log = logging.getLogger(__name__)
_SYSTEM: Final = "msmq"
_MOST_LINKS: Final = 128
"""The number of links that the SDK keeps for a span by default."""


class Telemetry:
    """Watches connections: ``msmq.connect(telemetry=Telemetry())``.

    ``provider`` takes the spans, by default the global one. With ``carry`` a message without an extension gets one
    with the context of its trace; otherwise such messages are not changed.
    """

    def __init__(self, provider: TracerProvider | None = None, *, carry: bool = False) -> None:
        self._tracer = trace.get_tracer("msmq", __version__, provider)
        self._carry = carry

    def watcher(self, server: str) -> Watcher:
        """The watcher of a connection to this address."""
        return Spans(self._tracer, server, carry=self._carry)

    def process(self, message: QueuedMessage) -> Any:
        """The span of processing a message, for programs with a loop of their own: ``with telemetry.process(message):
        ...``. :meth:`msmq.Consumer.run` makes it automatically."""
        return Spans(self._tracer).processing(message)


class Spans:
    """Makes the spans of one connection."""

    def __init__(self, tracer: Tracer, server: str = "", *, carry: bool = False) -> None:
        self._tracer = tracer
        self._carry = carry
        self._common = {"messaging.system": _SYSTEM}
        if server:
            self._common["server.address"] = server.removeprefix("unix:")

    def _said(self, kind: str, name: str, queue: str) -> dict[str, Any]:
        said: dict[str, Any] = {
            **self._common,
            "messaging.operation.type": kind,
            "messaging.operation.name": name,
        }
        if queue:
            said["messaging.destination.name"] = queue
        return said

    # --- sending ------------------------------------------------------------------------------------------------

    @contextmanager
    def sending(self, queue: str) -> Iterator[_Sending]:
        """The span of sending one message, whose context travels in it."""
        said = self._said("send", "send", queue)
        with self._open(f"send {queue}", SpanKind.PRODUCER, said) as span:
            yield _Sending(span, self._carry)

    @contextmanager
    def sending_many(self, queue: str) -> Iterator[_SendingMany]:
        """The span of sending several messages. Each also gets a span of its own, whose context travels in it."""
        make = self._said("create", "create", queue)
        together = _SendingMany(self._tracer, f"create {queue}", make, self._carry)
        said = self._said("send", "send", queue)
        with self._open(f"send {queue}", SpanKind.CLIENT, said) as span:
            together.span = span
            yield together

    # --- receiving ----------------------------------------------------------------------------------------------

    def now(self) -> int:
        return time.time_ns()

    def received(self, message: QueuedMessage, since: int) -> None:
        said = self._said("receive", "receive", message.queue) | _of(message)
        _Settlement(self._begin(f"receive {message.queue}", said, [message], since)).end()

    def settling(self, how: str, queue: str, messages: Sequence[QueuedMessage]) -> _Settlement:
        said = self._said("settle", how, queue)
        if len(messages) == 1:
            said |= _of(messages[0])
        else:
            said["messaging.batch.message_count"] = len(messages)
        return _Settlement(self._begin(f"{how} {queue}".rstrip(), said, messages))

    def _begin(
        self, name: str, said: dict[str, Any], messages: Sequence[QueuedMessage], since: int | None = None
    ) -> Span:
        """Begin a span of the caller's trace, or else of the message's. If a sampler or processor fails there is no
        span, so that it does not affect what has happened to the message."""
        links = [Link(sent) for message in messages[:_MOST_LINKS] if (sent := sent_by(message)) is not None]
        parent: Context | None = None
        if not trace.get_current_span().get_span_context().is_valid and len(messages) == 1:
            parent = _carried(messages[0])
        try:
            return self._tracer.start_span(
                name, parent, SpanKind.CLIENT, attributes=said, links=links, start_time=since
            )
        except Exception:
            _log.exception("no span could be made for %s", name)
            return trace.INVALID_SPAN

    @contextmanager
    def processing(self, message: QueuedMessage) -> Iterator[Span]:
        """The span of processing a message, in the trace of its sender; another span of the caller becomes a link."""
        said = self._said("process", "process", message.queue) | _of(message)
        around = trace.get_current_span().get_span_context()
        parent, links = contexts.get_current(), []
        if sent_by(message) is not None:
            parent = _carried(message, parent)
            links = [Link(around)] if around.is_valid else []
        attached = contexts.attach(parent)  # baggage comes with it
        try:
            with self._open(f"process {message.queue}", SpanKind.CONSUMER, said, links) as span:
                yield span
        finally:
            contexts.detach(attached)

    @contextmanager
    def _open(
        self, name: str, kind: SpanKind, said: dict[str, Any], links: Sequence[Link] = ()
    ) -> Iterator[Span]:
        with self._tracer.start_as_current_span(name, kind=kind, attributes=said, links=links) as span:
            try:
                yield span
            except BaseException as error:
                span.set_attribute("error.type", type(error).__qualname__)
                raise


class _Sending:
    """The span of sending one message."""

    def __init__(self, span: Span, carry: bool) -> None:
        self._span = span
        self._carry = carry

    def leave(self, message: Message) -> Message:
        if message.correlation_id:
            self._span.set_attribute("messaging.message.conversation_id", id_text(message.correlation_id))
        return _carrying(message, self._carry)

    def sent(self, receipts: Sequence[Receipt]) -> None:
        self._span.set_attribute("messaging.message.id", receipts[0].id)


class _SendingMany:
    """The span of sending several messages, however many there are."""

    span: Span

    def __init__(self, tracer: Tracer, name: str, said: dict[str, Any], carry: bool) -> None:
        self._tracer = tracer
        self._name = name
        self._said = said
        self._carry = carry
        self._links = 0

    def leave(self, message: Message) -> Message:
        made = self._tracer.start_span(self._name, kind=SpanKind.PRODUCER, attributes=self._said)
        made.end()
        if self._links < _MOST_LINKS:
            self._links += 1
            self.span.add_link(made.get_span_context())
        return _carrying(message, self._carry, trace.set_span_in_context(made))

    def sent(self, receipts: Sequence[Receipt]) -> None:
        self.span.set_attribute("messaging.batch.message_count", len(receipts))


class _Settlement:
    """The span of something that happens to a message whatever becomes of the span: it was received, acknowledged,
    rejected, or part of a transaction that has ended."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def end(self, error: BaseException | None = None) -> None:
        if error is not None:
            self._span.set_status(Status(StatusCode.ERROR, str(error)))
            self._span.set_attribute("error.type", type(error).__qualname__)
        try:
            self._span.end()
        except Exception:
            _log.exception("a span could not be ended")


def _of(message: QueuedMessage) -> dict[str, str]:
    said = {"messaging.message.id": message.id}
    if any(message.correlation_id):
        said["messaging.message.conversation_id"] = id_text(message.correlation_id)
    return said


def _carrying(message: Message, carry: bool, context: Context | None = None) -> Message:
    """The message with the context of a trace, if it has a place for it."""
    carried: dict[str, str] = {}
    propagate.inject(carried, context)
    if not carried:
        return message
    if message.extension:
        extension = with_headers(message.extension, carried)
        return message if extension is None else message.with_(extension=extension)
    return message.with_(extension=write_headers(carried, HeaderDialect.REBUS)) if carry else message


def _carried(message: QueuedMessage, context: Context | None = None) -> Context:
    """The context that a message carries, added to another."""
    return propagate.extract(read_headers(message.extension) or {}, context)


def sent_by(message: QueuedMessage) -> SpanContext | None:
    """The span that sent a message, or None if the message does not tell."""
    found = trace.get_current_span(_carried(message, Context())).get_span_context()
    return found if found.is_valid else None
