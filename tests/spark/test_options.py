"""Options: what is asked for is checked before anything is done, and a token is in no text."""

from __future__ import annotations

from pathlib import Path

import pytest

from msmq.spark.offsets import FleetOffset, Offset
from msmq.spark.options import Access, OptionError, SourceOptions

QUEUE = {"queue": ".\\private$\\orders"}


def test_what_is_usual() -> None:
    options = SourceOptions.of(QUEUE)
    assert options.queues == (".\\private$\\orders",)
    assert (options.starting, options.ending) == ("earliest", "latest")
    assert (options.consume, options.fail_on_data_loss, options.extras) == (False, False, ())
    assert (options.body, options.partitions, options.max_messages, options.max_bytes) == (
        "bytes",
        None,
        0,
        128 << 20,
    )


def test_whoever_consumes_must_not_lose_by_default() -> None:
    assert SourceOptions.of({**QUEUE, "mode": "consume"}).fail_on_data_loss
    assert not SourceOptions.of({**QUEUE, "mode": "consume", "failOnDataLoss": "false"}).fail_on_data_loss


def test_several_queues() -> None:
    assert SourceOptions.of({"queues": "a, b,,a"}).queues == ("a", "b")
    assert SourceOptions.of({"queuePattern": ".*"}).pattern == ".*"


def test_offsets() -> None:
    given = FleetOffset.parse(Offset({QUEUE["queue"]: {3: 7}}).json())
    options = SourceOptions.of({**QUEUE, "startingOffsets": given.json(), "endingOffsets": "LATEST"})
    assert (options.starting, options.ending) == (given, "latest")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "none of them"),
        ({"queue": "a", "queues": "b"}, "queue and queues"),
        ({"queuePattern": "("}, "regular expression"),
        ({**QUEUE, "mode": "destroy"}, "browse, consume"),
        ({**QUEUE, "body": "morse"}, "bytes, text"),
        ({**QUEUE, "failOnDataLoss": "maybe"}, "true or false"),
        ({**QUEUE, "pushFilters": "some"}, "true or false"),
        ({**QUEUE, "partitions": "0"}, "at least 1"),
        ({**QUEUE, "maxMessagesPerTrigger": "many"}, "number"),
        ({**QUEUE, "startingOffsets": "{}"}, "no offset"),
        ({**QUEUE, "endingOffsets": "latest", "endingTimestamp": "5"}, "endingOffsets or by endingTimestamp"),
        ({**QUEUE, "endingOffsets": "earliest"}, "nothing lies before"),
        ({**QUEUE, "tokenFile": "/there/is/none"}, "tokenFile"),
        ({**QUEUE, "endingOffsets": Offset({"b": {3: 7}}).json()}, "queues that are not read: b"),
        ({"queuePattern": "shop.*", "startingOffsets": Offset({"b": {3: 7}}).json()}, "not read: b"),
        ({**QUEUE, "timeout": "-1"}, "timeout is at least"),
        ({**QUEUE, "timeout": "nan"}, "timeout is at least"),
        (
            {**QUEUE, "maxMesagesPerTriger": "5"},
            "no option maxMesagesPerTriger. Is maxMessagesPerTrigger meant",
        ),
        ({**QUEUE, "colour": "5"}, "no option colour. There are: server, "),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be(options: dict[str, str], why: str) -> None:
    with pytest.raises(OptionError, match=why):
        SourceOptions.of(options)


def test_a_token_is_in_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "token"
    kept.write_text("s3cret\n", encoding="utf-8")
    given = Access.of({"token": "s3cret"})
    read = Access.of({"tokenFile": str(kept)})
    monkeypatch.setenv("MSMQ_TOKEN", "s3cret")
    for access in (given, read, Access.of({})):
        assert access.token == "s3cret"
        assert "s3cret" not in f"{access!r} {access}"
    assert "s3cret" not in repr(SourceOptions.of({**QUEUE, "token": "s3cret"}))


def test_a_table_of_the_catalog_is_told_why_not() -> None:
    with pytest.raises(OptionError, match="CREATE TEMPORARY VIEW"):
        SourceOptions.of({**QUEUE, "provider": "msmq", "owner": "me"})
