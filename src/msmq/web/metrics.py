"""``/metrics``: figures in the text form of Prometheus.

The names of windows_exporter (``windows_msmq_*``) come first, so that dashboards made for MSMQ on Windows keep working;
figures that only OpenMSMQ has begin with ``openmsmq_``. A series for each queue is written on request, up to a limit:
users who may create queues must not decide the number of series.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

from starlette.responses import Response

from msmq.api.generated import msmq_pb2 as pb
from msmq.client.info import ManagerInfo
from msmq.errors import MsmqError
from msmq.manager.model import ConnectionStatus
from msmq.web.application import Call, ProblemError
from msmq.web.hosts import statistics
from msmq.web.job_calls import tallies_of
from msmq.web.operations import BOOLEAN, HOST, Parameter, Table
from msmq.web.people import Credential, Role

TABLE: Final = Table()
KIND: Final = "text/plain; version=0.0.4; charset=utf-8"
_ALL: Final = "Computer Queues"
"""The name of the sum in the performance counters of Windows."""
_MOST_QUEUES: Final = 1_000

_OF_WINDOWS: Final = {
    "messages": ("messages_in_queue", "Messages in the queue."),
    "bytes": ("bytes_in_queue", "Bytes in the queue."),
    "journal_messages": ("messages_in_journal_queue", "Messages in the journal of the queue."),
    "journal_bytes": ("bytes_in_journal_queue", "Bytes in the journal of the queue."),
}
_OF_QUEUES: Final = {
    "arrived_total": ("counter", "Messages that arrived in the queue."),
    "removed_total": ("counter", "Messages that left the queue."),
    "waiting_readers": ("gauge", "Reads that wait for a message."),
}

Sample = tuple[Mapping[str, str], float]


class Page:
    """Lines of metrics, grouped by name."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, name: str, kind: str, help_text: str, samples: Iterable[Sample]) -> None:
        self._lines += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]
        self._lines += [f"{name}{_labels(labels)} {_number(value)}" for labels, value in samples]

    def histogram(self, name: str, help_text: str, given: pb.Histogram) -> None:
        self._lines += [f"# HELP {name} {help_text}", f"# TYPE {name} histogram"]
        total = 0
        for bound, number in zip([*given.bounds, float("inf")], given.counts or [0], strict=False):
            total += number
            edge = "+Inf" if bound == float("inf") else _number(bound)
            self._lines.append(f'{name}_bucket{{le="{edge}"}} {total}')
        self._lines += [f"{name}_sum {_number(given.sum)}", f"{name}_count {total}"]

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    text = value.encode("utf-8", "replace").decode()
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def written(
    given: pb.Statistics,
    manager: ManagerInfo,
    dead: Mapping[str, int],
    *,
    per_queue: bool,
    most_queues: int = _MOST_QUEUES,
) -> str:
    """Write all metrics of one host."""
    page = Page()
    queues = list(given.queues)
    shown = queues[:most_queues] if per_queue else []
    for column, (name, what) in _OF_WINDOWS.items():
        samples: list[Sample] = [({"name": _ALL}, sum(getattr(each, column) for each in queues))]
        samples += [({"name": each.path}, getattr(each, column)) for each in shown]
        page.add(f"windows_msmq_{name}", "gauge", what, samples)
    _totals(page, given, manager)
    _outgoing(page, given)
    _work(page, given.work)
    page.add(
        "openmsmq_dead_letters",
        "gauge",
        "Messages in the dead-letter queues, by reason.",
        [({"reason": reason}, number) for reason, number in sorted(dead.items())],
    )
    for column, (kind, what) in _OF_QUEUES.items():
        page.add(
            f"openmsmq_queue_{column}",
            kind,
            what,
            [({"name": each.path}, getattr(each, column)) for each in shown],
        )
    return page.text()


def _totals(page: Page, given: pb.Statistics, manager: ManagerInfo) -> None:
    one: Mapping[str, str] = {}
    incoming = sum(each.incoming for each in given.sessions)
    for name, kind, what, value in (
        ("up", "gauge", "Whether the queue manager answers.", 1),
        ("online", "gauge", "Whether it sends and receives over the network.", int(manager.online)),
        ("start_time_seconds", "gauge", "When it started, since 1970.", given.started_ms / 1000),
        ("queues", "gauge", "Queues there are.", len(given.queues)),
        ("messages", "gauge", "Messages in all queues, outgoing ones and journals included.", given.messages),
        ("bytes", "gauge", "Bytes of all messages.", given.bytes),
        ("quota_bytes", "gauge", "Bytes that all messages may take.", manager.quota_kb * 1024),
        ("express_bytes", "gauge", "Bytes of messages in memory.", given.express_bytes),
        ("messages_arrived_total", "counter", "Messages that arrived in local queues.", given.arrived_total),
        ("messages_removed_total", "counter", "Messages that left local queues.", given.removed_total),
        ("transactions", "gauge", "Transactions under way.", given.transactions),
        ("connections", "gauge", "Connections that were accepted.", manager.resources.connections),
        ("file_descriptors", "gauge", "File descriptors in use.", manager.resources.descriptors),
        ("losses", "gauge", "Kinds of damage that the disk has done.", len(manager.losses)),
    ):
        page.add(f"openmsmq_{name}", kind, what, [(one, value)])
    page.add(
        "openmsmq_sessions",
        "gauge",
        "Sessions with other hosts.",
        [({"direction": "in"}, incoming), ({"direction": "out"}, len(given.sessions) - incoming)],
    )


def _outgoing(page: Page, given: pb.Statistics) -> None:
    states: dict[str, int] = {}
    for each in given.outgoing:
        states[each.state] = states.get(each.state, 0) + 1
    outgoing = given.outgoing
    page.add(
        "openmsmq_outgoing_queues",
        "gauge",
        "Outgoing queues, by state.",
        [({"state": state}, number) for state, number in sorted(states.items())],
    )
    page.add(
        "openmsmq_outgoing_messages",
        "gauge",
        "Messages on their way to other hosts.",
        [({}, sum(each.messages for each in outgoing))],
    )
    page.add("openmsmq_outgoing_bytes", "gauge", "Their bytes.", [({}, sum(each.bytes for each in outgoing))])
    page.add(
        "openmsmq_outgoing_unacknowledged",
        "gauge",
        "Messages that were sent and not acknowledged yet.",
        [({}, sum(each.unacknowledged for each in outgoing))],
    )
    failed = sum(bool(attempt.error) for each in outgoing for attempt in each.attempts)
    page.add(
        "openmsmq_outgoing_failed_attempts",
        "gauge",
        "Failures among the last attempts to connect.",
        [({}, failed)],
    )


def _attempts(work: pb.Work) -> dict[str, int]:
    """Return every status, also those not seen yet, because a rate needs a series that existed before."""
    return {status.value: 0 for status in ConnectionStatus} | dict(work.connection_attempts)


def _work(page: Page, work: pb.Work) -> None:
    page.add("openmsmq_store_bytes", "gauge", "What the store takes on the disk.", [({}, work.store_bytes)])
    page.add(
        "openmsmq_store_live_bytes", "gauge", "How much of that is of use.", [({}, work.store_live_bytes)]
    )
    page.add("openmsmq_memory_bytes", "gauge", "Memory of the process.", [({}, work.memory_bytes)])
    page.add("openmsmq_disk_free_bytes", "gauge", "What is free on its disk.", [({}, work.disk_free_bytes)])
    page.add(
        "openmsmq_connection_attempts_total",
        "counter",
        "Attempts to open sessions with other hosts, by how they went.",
        [({"status": status}, number) for status, number in sorted(_attempts(work).items())],
    )
    page.add("openmsmq_commits_total", "counter", "Commits to the disk.", [({}, work.commits_total)])
    page.histogram("openmsmq_commit_seconds", "How long a commit took.", work.commit_seconds)
    page.histogram("openmsmq_commit_bytes", "How much a commit wrote.", work.commit_bytes)
    page.histogram("openmsmq_commit_records", "How many records a commit wrote.", work.commit_records)
    page.histogram(
        "openmsmq_loop_lag_seconds", "How late the loop came to what was due.", work.loop_lag_seconds
    )


@TABLE.add(
    "GET", "/metrics", "Figures in the text form of Prometheus.", role=None, kind=KIND,
    parameters=(
        Parameter("per_queue", BOOLEAN, "Whether each queue has series of its own."),
        Parameter("limit", {"type": "integer", "minimum": 0, "maximum": 10_000}, "Most queues; 1000 when not given."),
        HOST,
    ),
)  # fmt: skip
async def metrics(call: Call) -> Any:
    if call.person is None and not call.around.metrics_open:
        raise ProblemError(
            401, "Nobody is logged in", "Prometheus brings a token: authorization.credentials_file."
        )
    if call.person is not None and call.person.role < Role.LOOK:
        raise ProblemError(403, "Not allowed")
    credential = call.person.credential if call.person is not None else Credential()
    try:
        mq = await call.around.people.connection(call.host, credential)
        given, manager = await asyncio.gather(statistics(mq), mq.manager())
    except MsmqError:
        return Response(
            "# HELP openmsmq_up Whether the queue manager answers.\n# TYPE openmsmq_up gauge\nopenmsmq_up 0\n",
            media_type=KIND,
        )
    dead = await tallies_of(call).dead_letters(mq, call.host, credential, given)
    text = written(
        given,
        manager,
        dead,
        per_queue=call.given.get("per_queue", False),
        most_queues=call.given.get("limit", _MOST_QUEUES),
    )
    return Response(text, 200, {"cache-control": "no-store"}, KIND)
