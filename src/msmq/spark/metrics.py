"""Metrics of queries for Prometheus: how far they are behind, and what they have read.

``spark.streams.addListener(Metrics(9464))`` on the driver serves it at ``http://127.0.0.1:9464/metrics``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from msmq.spark.progress import Lag, lag_of

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_GAUGES: Final = (
    ("msmq_spark_lag_messages", "messages", "Messages behind the last batch."),
    ("msmq_spark_lag_bytes", "bytes", "Bytes of them."),
    ("msmq_spark_lag_seconds", "oldest_s", "How long the oldest of them has waited."),
)
_COUNTERS: Final = (
    ("msmq_spark_read_messages_total", "batch_messages", "Messages that batches had."),
    ("msmq_spark_read_bytes_total", "batch_bytes", "Bytes of them."),
)


class Metrics(StreamingQueryListener):
    """Listens to all queries of a session; with a ``port`` it serves their metrics. Port 0 means any free one."""

    def __init__(self, port: int | None = None, host: str = "127.0.0.1") -> None:
        self._lock = Lock()
        self._lags: dict[str, list[Lag]] = {}
        self._names: dict[str, str] = {}
        self._read: Counter[tuple[str, str, str, str]] = Counter()
        self._seen: dict[str, int] = {}
        self._server: ThreadingHTTPServer | None = None
        if port is not None:
            from http.server import ThreadingHTTPServer  # the workers of Spark need not import it

            self._server = ThreadingHTTPServer((host, port), _handler(self))
            Thread(target=self._server.serve_forever, name="metrics of msmq", daemon=True).start()

    @property
    def port(self) -> int | None:
        return None if self._server is None else self._server.server_address[1]

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    # --- what Spark tells -------------------------------------------------------------------------------------------

    def onQueryStarted(self, event: Any) -> None:
        with self._lock:
            self._names[str(event.id)] = event.name or str(event.id)

    def onQueryProgress(self, event: Any) -> None:
        self.take(event.progress)

    def onQueryIdle(self, event: Any) -> None:
        """Note that the query has nothing new to read."""

    def onQueryTerminated(self, event: Any) -> None:
        with self._lock:
            self._lags.pop(str(event.id), None)

    def take(self, progress: Mapping[str, Any]) -> None:
        """Take the figures of one batch of a query; a repeated batch counts once."""
        query, number = str(progress["id"]), int(progress["batchId"])
        lags = lag_of(progress)
        with self._lock:
            self._names.setdefault(query, progress["name"] or query)
            self._lags[query] = lags
            if number <= self._seen.get(query, -1) or not progress["numInputRows"]:
                return
            self._seen[query] = number
            for lag in lags:
                for name, field, _ in _COUNTERS:
                    self._read[name, query, lag.server, lag.queue] += getattr(lag, field)

    # --- for Prometheus ---------------------------------------------------------------------------------------------

    def text(self) -> str:
        """Write all metrics in the text form of Prometheus."""
        lines: list[str] = []
        with self._lock:
            for name, field, meaning in _GAUGES:
                lines += [f"# HELP {name} {meaning}", f"# TYPE {name} gauge"]
                lines += [
                    f"{name}{self._labels(query, lag.server, lag.queue)} {getattr(lag, field)}"
                    for query, lags in self._lags.items()
                    for lag in lags
                ]
            for name, _, meaning in _COUNTERS:
                lines += [f"# HELP {name} {meaning}", f"# TYPE {name} counter"]
                lines += [
                    f"{name}{self._labels(*whose)} {value}"
                    for (which, *whose), value in self._read.items()
                    if which == name
                ]
        return "\n".join([*lines, ""])

    def _labels(self, query: str, server: str, queue: str) -> str:
        pairs = {"query": self._names.get(query, query), "server": server, "queue": queue}
        return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _handler(metrics: Metrics) -> type[BaseHTTPRequestHandler]:
    from http.server import BaseHTTPRequestHandler

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path.partition("?")[0] == "/metrics"
            body = metrics.text().encode() if found else b"It is at /metrics.\n"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Do nothing: requests are not worth a log line."""

    return Handler
