"""All calls together: identifies the caller of each call and converts its errors."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import grpc

from msmq.api import rpc
from msmq.api.accounts import AccountCalls
from msmq.api.administration import AdministrationCalls
from msmq.api.alarms import AlarmCalls
from msmq.api.browse import BrowseCalls
from msmq.api.callers import Callers
from msmq.api.certificates import CertificateCalls
from msmq.api.desk import Desk, Host, Outbox
from msmq.api.exchange import ExchangeCalls
from msmq.api.find import FindCalls
from msmq.api.line import Conversation
from msmq.api.properties import PropertyCalls
from msmq.api.receive import ReceiveCalls
from msmq.api.rows import RowCalls
from msmq.api.send import SendCalls
from msmq.api.spans import SpanCalls
from msmq.api.statistics import StatisticsCalls
from msmq.api.status import grpc_code, to_mq_error, trailing_metadata
from msmq.api.tokens import TokenCalls
from msmq.api.transact import TransactCalls
from msmq.errors import InvalidParameterError, MQError, MsmqError
from msmq.security.access import Token

_Context = grpc.aio.ServicerContext[Any, Any]


class Service:
    """The handlers of every method of ``msmq.proto``."""

    def __init__(self, host: Host, callers: Callers) -> None:
        self._callers = callers
        desk = Desk(host)
        self._calls = (
            SendCalls(desk),
            RowCalls(desk, host.recovered),
            ReceiveCalls(desk),
            BrowseCalls(desk),
            SpanCalls(desk),
            FindCalls(desk),
            TransactCalls(desk),
            ExchangeCalls(desk),
            AdministrationCalls(desk),
            PropertyCalls(desk),
            CertificateCalls(desk, host.recovered),
            TokenCalls(desk, callers, host.recovered),
            AccountCalls(desk),
            AlarmCalls(desk, host.recovered),
            StatisticsCalls(desk),
        )

    def handlers(self) -> list[grpc.GenericRpcHandler]:
        """The handlers for a gRPC server."""
        tables: dict[str, dict[str, grpc.RpcMethodHandler[Any, Any]]]
        tables = {name: {} for name in rpc.service_names()}
        for method in rpc.methods():
            make = getattr(grpc, f"{method.kind}_rpc_method_handler")
            tables[method.service][method.name] = make(
                self._handler(method),
                request_deserializer=method.deserialize_request,
                response_serializer=method.serialize_reply,
            )
        return [grpc.method_handlers_generic_handler(service, table) for service, table in tables.items()]

    async def answer(self, method: rpc.Method, conversation: Conversation, caller: Token) -> None:
        """Carry out a call of the short line."""
        call = self._call(method)
        if method.client_streaming:
            await _converse(call, conversation, caller)
            return
        request = await conversation.read()
        if request is grpc.aio.EOF:
            raise InvalidParameterError("There was no request.")
        if not method.server_streaming:
            await conversation.write(await call(request, caller))
            return
        async with aclosing(call(request, caller)) as replies:
            async for reply in replies:
                await conversation.write(reply)

    def _call(self, method: rpc.Method) -> Callable[..., Any]:
        found: Callable[..., Any] = next(
            getattr(calls, method.attribute) for calls in self._calls if hasattr(calls, method.attribute)
        )
        return found

    def _handler(self, method: rpc.Method) -> Callable[..., Any]:
        call = self._call(method)
        make = {
            "unary_unary": self._unary,
            "unary_stream": self._server_stream,
            "stream_stream": self._both_streams,
        }
        return make[method.kind](call)

    def _unary(self, call: Callable[..., Any]) -> Callable[[Any, _Context], Any]:
        async def handler(request: Any, context: _Context) -> Any:
            try:
                with _reporting():
                    return await call(request, self._callers.caller(context))
            except MsmqError as error:
                await _abort(context, to_mq_error(error))

        return handler

    def _server_stream(self, call: Callable[..., Any]) -> Callable[[Any, _Context], AsyncIterator[Any]]:
        async def handler(request: Any, context: _Context) -> AsyncIterator[Any]:
            try:
                with _reporting():
                    async for reply in call(request, self._callers.caller(context)):
                        yield reply
            except MsmqError as error:
                await _abort(context, to_mq_error(error))

        return handler

    def _both_streams(self, call: Callable[..., Any]) -> Callable[[Any, _Context], Any]:
        async def handler(_: Any, context: _Context) -> None:
            try:
                with _reporting():
                    await _converse(call, context, self._callers.caller(context))
            except MsmqError as error:
                await _abort(context, to_mq_error(error))

        return handler


async def _converse(call: Callable[..., Any], conversation: Conversation, caller: Token) -> None:
    """Run a call and the writer of its answers; the first failure ends both."""
    outbox = Outbox(conversation)
    writer = asyncio.ensure_future(outbox.run())
    reader = asyncio.ensure_future(call(conversation, outbox, caller))
    try:
        await asyncio.wait({writer, reader}, return_when=asyncio.FIRST_COMPLETED)
        if not writer.done():
            error = reader.exception()
            if isinstance(error, MsmqError):
                outbox.fail(to_mq_error(error))
            else:
                outbox.close()
            await writer
        else:
            writer.result()  # only an error ends it before the reader
        if reader.done():
            reader.result()
    finally:
        raised = sys.exception()
        for task in (reader, writer):
            task.cancel()
        for error in await asyncio.gather(reader, writer, return_exceptions=True):
            if error is not raised:
                _report(error)


@contextmanager
def _reporting() -> Iterator[None]:
    """Report what a call raises, which gRPC would only log."""
    try:
        yield
    except Exception as error:
        _report(error)
        raise


def _report(error: BaseException | None) -> None:
    """Report an error that nobody expects to the owner of the loop, who decides whether the queue manager can go on."""
    if isinstance(error, Exception) and not isinstance(error, MsmqError | grpc.aio.BaseError):
        asyncio.get_running_loop().call_exception_handler({"message": "a call failed", "exception": error})


async def _abort(context: _Context, error: MQError) -> None:
    await context.abort(grpc.StatusCode[grpc_code(error)], str(error), trailing_metadata(error))
