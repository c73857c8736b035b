"""Spans that stay in memory."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Book:
    """A provider whose spans are kept."""

    def __init__(self) -> None:
        self.provider = TracerProvider()
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def named(self, word: str) -> list[ReadableSpan]:
        """Those whose name begins with a word."""
        return [span for span in self.spans if span.name.partition(" ")[0] == word]

    def only(self, word: str) -> ReadableSpan:
        (found,) = self.named(word)
        return found


@pytest.fixture
def book() -> Book:
    return Book()
