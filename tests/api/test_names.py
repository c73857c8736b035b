"""Names of queues as applications give them."""

from __future__ import annotations

from pathlib import Path

import pytest

from msmq.api.names import Names, format_name, is_format_name
from msmq.errors import IllegalFormatnameError, IllegalQueuePathnameError, QueueNotFoundError
from tests.api.support import QUEUE, daemon


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (".\\private$\\q", "DIRECT=OS:HOST\\private$\\q"),
        ("OTHER\\private$\\q", "DIRECT=OS:OTHER\\private$\\q"),
        (".\\private$\\q;sub", "DIRECT=OS:HOST\\private$\\q;sub"),
        (".\\private$\\q;journal", "DIRECT=OS:HOST\\private$\\q;journal"),
        (".\\DeadLetter$", "DIRECT=OS:HOST\\SYSTEM$;DEADLETTER"),
        (".\\XactDeadLetter$", "DIRECT=OS:HOST\\SYSTEM$;DEADXACT"),
        (".\\journal$", "DIRECT=OS:HOST\\SYSTEM$;JOURNAL"),
        ("DIRECT=TCP:10.0.0.7\\q", "DIRECT=TCP:10.0.0.7\\q"),
        ("direct=os:a\\q,direct=os:b\\q", "direct=os:a\\q,direct=os:b\\q"),
        ("FormatName:DIRECT=OS:.\\private$\\q", "DIRECT=OS:.\\private$\\q"),
        ("formatname: Direct=TCP:10.0.0.7\\q", "Direct=TCP:10.0.0.7\\q"),
        ("FORMATNAME:DIRECT=OS:a\\q,DIRECT=OS:b\\q", "DIRECT=OS:a\\q,DIRECT=OS:b\\q"),
    ],
)
def test_paths_become_direct_names(text: str, name: str) -> None:
    assert format_name(text, "HOST") == name


def test_what_is_neither() -> None:
    assert not is_format_name("HOST\\a=b")
    with pytest.raises(IllegalQueuePathnameError):
        format_name("orders", "HOST")


@pytest.mark.parametrize(
    "text",
    [
        "Format:DIRECT=OS:.\\private$\\q",
        "a:b\\private$\\q",
        "DIRECT=OS:a=b\\private$\\q",
        "FormatName:.\\private$\\q",
    ],
)
def test_what_cannot_be_a_host_is_refused_at_once(text: str) -> None:
    with pytest.raises((IllegalQueuePathnameError, IllegalFormatnameError)):
        format_name(text, "HOST")


async def test_queues_behind_names(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        names = Names(running.manager)
        with pytest.raises(QueueNotFoundError):
            names.local(QUEUE)
        assert names.local(".\\deadletter$") is running.manager.core.dead_letter_queue
        with pytest.raises(QueueNotFoundError):
            names.outgoing("FAR\\private$\\q")
