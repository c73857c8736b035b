"""A transport for kombu, and so for Celery: ``import msmq.celery`` registers ``msmq://`` as the address of a broker.

``msmq://`` is the default queue manager, ``msmq:///run/msmq/api.sock`` the one at a unix socket, ``msmq://host:port``
one elsewhere and ``msmqs://:token@host:port`` one that is reached by TLS with a token. A queue ``tasks`` of kombu is
the private queue ``.\\private$\\tasks``. The queue manager holds a message until it is acknowledged: when a worker
dies it goes back to its queue. A message rejected for good goes to the subqueue ``rejected``, because Celery also
rejects a task whose retry it could not send, which must not be lost.

Exchanges are shared by all processes: each binding of an exchange ``name`` is a message in the private queue
``kombu.exchange.name``. For topic and fanout exchanges, as events and remote control of Celery use them, the bindings
are looked up there every time; for a direct exchange the memory of the process comes first. Broadcasts expire after a
minute, so that no queue of a worker that was killed keeps growing.
"""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from queue import Empty
from typing import Any, Final

from kombu.exceptions import InconsistencyError
from kombu.transport import TRANSPORT_ALIASES, virtual

from msmq.api.addresses import server_address
from msmq.client.message import Delivery
from msmq.client.sync import SyncConnection, SyncMessage, SyncReceiver, connect_sync
from msmq.client.target import Tls
from msmq.errors import IoTimeoutError, MsmqError, QueueExistsError, QueueNotFoundError

_HIGHEST_PRIORITY: Final = 7
_REJECTED: Final = "rejected"
_SECURE: Final = "msmqs"
_EXCHANGE: Final = "kombu.exchange."
_BROADCAST_S: Final = 60.0
_TRANSIENT: Final = 1


def address_of(hostname: str | None, port: int | None, path: str | None) -> str:
    """The address of a queue manager from the parts of a kombu address."""
    if hostname and port:
        return f"{hostname}:{port}"
    if path and path != "/":
        return f"unix:/{path.lstrip('/')}"
    return server_address()


def tls_of(given: dict[str, Any] | bool | None, *, wanted: bool) -> Tls | None:
    """The TLS settings of kombu's option ``ssl``, from ``broker_use_ssl`` or the query of an address."""
    if not given and not wanted:
        return None
    options = given if isinstance(given, dict) else {}
    named = {name.removeprefix("ssl_"): value for name, value in options.items()}
    unknown = sorted(named.keys() - {"ca_certs", "certfile", "keyfile", "cert_reqs"})
    if unknown:
        raise ValueError(f"TLS takes ssl_ca_certs, ssl_certfile and ssl_keyfile, not ssl_{unknown[0]}.")
    return Tls(named.get("ca_certs"), named.get("certfile"), named.get("keyfile"))


class Channel(virtual.Channel):  # type: ignore[misc]  # kombu has no types
    """Queues of kombu as queues of the queue manager."""

    do_restore = False  # the queue manager itself gives back what was not acknowledged
    supports_fanout = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        client = self.connection.client
        address = address_of(client.hostname, client.port, client.virtual_host)
        tls = tls_of(client.ssl, wanted=client.transport_cls == _SECURE)
        self._mq: SyncConnection = connect_sync(address, token=client.password or None, tls=tls)
        self._mq.open()
        self._receivers: dict[str, SyncReceiver] = {}
        self._held: dict[str, SyncMessage] = {}
        self._unacknowledged: set[str] = set()
        """Queues whose consumers acknowledge nothing."""
        self._temporary: set[str] = set()
        """Queues that exist only as long as this channel."""

    @staticmethod
    def _path(queue: str) -> str:
        return f".\\private$\\{queue}"

    # --- queues ---------------------------------------------------------------------------------------------------

    def _new_queue(self, queue: str, auto_delete: bool = False, **_: Any) -> None:
        if auto_delete:
            self._temporary.add(queue)
        if not self._has_queue(queue):
            try:
                self._mq.create_queue(self._path(queue), label="kombu")
            except QueueExistsError:  # another process was quicker
                return

    def _has_queue(self, queue: str, **_: Any) -> bool:
        return self._mq.queue_exists(self._path(queue))

    def _size(self, queue: str) -> int:
        return self._mq.queue_info(self._path(queue)).messages

    def _purge(self, queue: str) -> int:
        return self._mq.queue(self._path(queue)).purge()

    def _delete(self, queue: str, exchange: str = "", *_: Any, **__: Any) -> None:
        self._close_receiver(queue)
        self._temporary.discard(queue)
        if exchange:
            self._unbind(exchange, queue)
        try:
            self._mq.delete_queue(self._path(queue))
        except QueueNotFoundError:
            return

    # --- exchanges ------------------------------------------------------------------------------------------------

    def _bindings(self, exchange: str) -> dict[tuple[str, str, str], int]:
        """The bindings of an exchange as routing key, pattern and queue, with the lookup identifiers of their
        messages."""
        written = self._mq.queue(self._path(f"{_EXCHANGE}{exchange}")).browse()
        try:
            return {tuple(json.loads(message.body)): message.lookup_id for message in written}
        except QueueNotFoundError:
            return {}

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        binding = routing_key or "", pattern or "", queue
        if binding not in self._bindings(exchange):
            self._new_queue(f"{_EXCHANGE}{exchange}")
            self._mq.queue(self._path(f"{_EXCHANGE}{exchange}")).send(json.dumps(binding).encode())

    def _unbind(self, exchange: str, queue: str) -> None:
        gone = [at for binding, at in self._bindings(exchange).items() if binding[2] == queue]
        if gone:
            self._mq.queue(self._path(f"{_EXCHANGE}{exchange}")).remove(gone)

    def _lookup(self, exchange: str, routing_key: str, default: str | None = None) -> list[str]:
        if not exchange:
            return [routing_key]
        kind = self.typeof(exchange)
        found: set[str] = set()
        if kind.type == "direct" and exchange in self.state.exchanges:
            found = kind.lookup(self.state.exchanges[exchange]["table"], exchange, routing_key, default)
        found = found or kind.lookup(self._bindings(exchange), exchange, routing_key, default)
        if not found and kind.type == "direct":
            raise InconsistencyError(f"No queue is bound to the exchange {exchange!r} with {routing_key!r}.")
        return sorted(found)

    def _put_fanout(self, exchange: str, message: dict[str, Any], routing_key: str, **options: Any) -> None:
        for queue in {queue for *_, queue in self._bindings(exchange)}:
            try:
                self._put(queue, message, time_to_be_received=_BROADCAST_S)
            except QueueNotFoundError:
                self._unbind(exchange, queue)

    # --- messages -------------------------------------------------------------------------------------------------

    def _put(
        self, queue: str, message: dict[str, Any], time_to_be_received: float | None = None, **_: Any
    ) -> None:
        properties = message["properties"]
        priority = min(max(int(properties.get("priority") or 0), 0), _HIGHEST_PRIORITY)
        passing = properties.get("delivery_mode") == _TRANSIENT
        self._mq.queue(self._path(queue)).send(
            json.dumps(message).encode(),
            priority=priority,
            delivery=Delivery.EXPRESS if passing else Delivery.DEFAULT,
            time_to_be_received=time_to_be_received,
            dead_letter=time_to_be_received is None,
        )

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:
        receiver = self._receivers.get(queue)
        if receiver is None:
            receiver = self._mq.queue(self._path(queue)).receiver(prefetch=1).__enter__()
            self._receivers[queue] = receiver
        try:
            message = receiver.receive(timeout or 0)
        except IoTimeoutError:
            raise Empty from None
        payload: dict[str, Any] = json.loads(message.body)
        tag = payload["properties"]["delivery_tag"] = str(uuid.uuid4())
        payload["properties"]["delivery_info"]["redelivered"] = message.returned_count > 0
        if queue in self._unacknowledged:
            message.acknowledge()
        else:
            self._held[tag] = message
        return payload

    def basic_consume(self, queue: str, no_ack: bool, *arguments: Any, **options: Any) -> Any:
        (self._unacknowledged.add if no_ack else self._unacknowledged.discard)(queue)
        return super().basic_consume(queue, no_ack, *arguments, **options)

    def basic_get(self, queue: str, no_ack: bool = False, **options: Any) -> Any:
        found = super().basic_get(queue, no_ack=no_ack, **options)
        if found is not None and no_ack:
            self._settle(found.delivery_tag)
        return found

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        self.qos.ack(delivery_tag)
        self._settle(delivery_tag)

    def basic_reject(self, delivery_tag: str, requeue: bool = False) -> None:
        self.qos.ack(delivery_tag)
        message = self._held.pop(delivery_tag, None)
        if message is not None:
            message.reject("" if requeue else _REJECTED)

    def _settle(self, delivery_tag: str) -> None:
        message = self._held.pop(delivery_tag, None)
        if message is not None:
            message.acknowledge()

    def basic_recover(self, requeue: bool = False) -> None:
        for tag in list(self._held):
            self.basic_reject(tag, requeue=True)

    # --- the end --------------------------------------------------------------------------------------------------

    def _close_receiver(self, queue: str) -> None:
        receiver = self._receivers.pop(queue, None)
        if receiver is not None:
            receiver.__exit__(None, None, None)

    def close(self) -> None:
        if not self.closed:
            for queue in list(self._temporary):
                with suppress(MsmqError):
                    self.queue_delete(queue)
            super().close()
            for queue in list(self._receivers):
                self._close_receiver(queue)
            self._mq.close()


class Transport(virtual.Transport):  # type: ignore[misc]
    """The kombu transport for ``msmq://``."""

    Channel = Channel
    driver_type = "msmq"
    driver_name = "msmq"
    default_port = None
    polling_interval = 0.1
    implements = virtual.Transport.implements.extend(exchange_type=frozenset(["direct", "topic", "fanout"]))
    connection_errors = (*virtual.Transport.connection_errors, MsmqError)
    channel_errors = (*virtual.Transport.channel_errors, MsmqError)

    def driver_version(self) -> str:
        from importlib.metadata import version

        return version("msmq")


for _scheme in ("msmq", _SECURE):
    TRANSPORT_ALIASES[_scheme] = "msmq.celery.transport:Transport"
