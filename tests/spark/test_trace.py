"""One trace: from a sender in Python over two hosts to a consumer, and on into Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import propagate
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pyspark.sql import SparkSession

import msmq
from msmq.telemetry import Telemetry
from tests.server.support import free_port
from tests.spark.support import ORDERS, Server

HERE, THERE = "127.0.0.1", "127.0.0.31"


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    """Two queue managers that reach each other: one port, an address for each."""
    port, made = free_port(), []
    for name, address in (("HERE", HERE), ("THERE", THERE)):
        directory = tmp_path / name
        directory.mkdir()
        quiet = ("--rpc-port", "0", "--web", "none")
        made.append(Server(directory, *quiet, name=name, listen=address, port=port))
    try:
        for server in made:
            server.start()
        yield made[0], made[1]
    finally:
        for server in made:
            server.kill()


def test_from_a_sender_over_two_hosts_to_a_consumer_and_into_spark(
    spark: SparkSession, hosts: tuple[Server, Server]
) -> None:
    provider, kept = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    telemetry, tracer = Telemetry(provider, carry=True), provider.get_tracer("application")
    here, there = hosts
    reports = ".\\private$\\reports"
    there.create(ORDERS)
    there.create(reports)
    with (
        msmq.connect_sync(here.address, telemetry=telemetry) as mq,
        tracer.start_as_current_span("order") as order,
    ):
        mq.queue(f"DIRECT=TCP:{THERE}\\private$\\orders").send("two coffees")
    with msmq.connect_sync(there.address, telemetry=telemetry) as mq:
        message = mq.queue(ORDERS).receive(60)
        with telemetry.process(message):
            mq.queue(reports).send(message.text + ", served")

    read = spark.read.format("msmq").options(
        server=there.address, queue=reports, body="activex", includeHeaders="true"
    )
    (row,) = read.load().select("body", "headers").collect()
    assert row.body == "two coffees, served"
    with tracer.start_as_current_span("report", propagate.extract(row.headers)):
        pass

    spans = kept.get_finished_spans()
    trace = order.get_span_context().trace_id
    assert {span.context.trace_id for span in spans if span.context is not None} == {trace}
    words = [span.name.partition(" ")[0] for span in spans]
    assert words.count("send") == 2
    assert {"order", "send", "receive", "process", "report"} <= set(words)
