"""Log lines for people and for programs, and how many of them."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from msmq.server.logs import JsonFormatter, Repeats, set_up


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield logger
    logger.handlers[:], logger.level = handlers, level


def record(
    message: str = "session with %s closed", *args: object, level: int = logging.INFO
) -> logging.LogRecord:
    return logging.LogRecord("msmq.test", level, "file.py", 1, message, args, None)


def test_text_and_json(root: logging.Logger) -> None:
    for form in ("text", "json"):
        stream = io.StringIO()
        set_up("info", form, stream)
        logging.getLogger("msmq.test").info("session with %s closed", "10.0.0.1\n")
        logging.getLogger("msmq.test").debug("not shown")
        lines = stream.getvalue()
        if form == "json":
            entry = json.loads(lines)
            assert (entry["level"], entry["logger"]) == ("info", "msmq.test")
            assert entry["message"] == "session with 10.0.0.1\n closed"
            assert entry["time"].endswith("Z")
            assert lines.count("\n") == 1, "one line, whatever the message holds"
        else:
            assert "INFO msmq.test session with 10.0.0.1" in lines
        assert "not shown" not in lines


def test_a_traceback_is_part_of_the_object() -> None:
    try:
        raise ValueError("broken")
    except ValueError as error:
        failed = record("it failed")
        failed.exc_info = (ValueError, error, error.__traceback__)
    assert "ValueError: broken" in json.loads(JsonFormatter().format(failed))["exception"]


def test_the_same_message_is_written_a_few_times_and_then_counted() -> None:
    now = 0.0
    repeats = Repeats(lambda: now, repeats=3)
    assert [repeats.filter(record("%s came", number)) for number in range(10)] == [True] * 3 + [False] * 7
    assert repeats.filter(record("something else"))
    assert all(repeats.filter(record("%s came", 1, level=logging.ERROR)) for _ in range(10))
    now = 61.0
    late = record("%s came", 11)
    assert repeats.filter(late)
    assert late.getMessage() == "11 came (and 7 more like this)"
    following = record("%s came", 12)
    assert repeats.filter(following)
    assert following.getMessage() == "12 came"


def test_templates_that_are_data_take_no_memory() -> None:
    repeats = Repeats(lambda: 0.0)
    for number in range(5_000):
        repeats.filter(record(f"message {number}"))
    assert len(repeats._seen) <= 1_000
