"""Values as JSON, and bodies in every form that they have."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import pytest

from msmq.client.info import QueueKind
from msmq.web.shapes import exception_of, home_of, plain, preview, views
from msmq.wire.bodies import HeaderDialect, write_body, write_headers


def test_wide_numbers_are_text_and_limits_are_none() -> None:
    assert plain({"messages": 1 << 60, "priority": 3, "quota_kb": 0xFFFFFFFF, "bytes": 0}) == {
        "messages": str(1 << 60), "priority": 3, "quota_kb": None, "bytes": "0",
    }  # fmt: skip
    assert plain([QueueKind.PRIVATE, b"\x01", datetime(2026, 1, 1, tzinfo=UTC)]) == [
        "private",
        "01",
        "2026-01-01T00:00:00Z",
    ]


@pytest.mark.parametrize(
    ("value", "formatter", "shown"),
    [("text", "xml", "text"), (7, "xml", 7), ({"a": 1}, "binary", {"a": 1}), (Decimal("1.5"), "activex", "1.5"),
     (UUID(int=5), "activex", str(UUID(int=5)))],
)  # fmt: skip
def test_net_bodies_are_read(value: object, formatter: str, shown: object) -> None:
    body, body_type = write_body(value, formatter)  # type: ignore[arg-type]
    assert views(body_type, body)["value"] == shown


def test_json_and_xml_are_written_out() -> None:
    assert json.loads(views(17, b'{"a":[1]}')["json"]) == {"a": [1]}
    assert "\n  <b />" in views(17, b"<a><b/></a>")["xml"]
    bomb = b'<!DOCTYPE a [<!ENTITY b "bbbbbbbb"><!ENTITY c "&b;&b;">]><a>&c;</a>'
    assert "xml" not in views(17, bomb)
    assert views(17, bomb)["text"].startswith("<!DOCTYPE")
    for body in (b"{", b"<a", b"[" * 50_000, b"\xff\xfe\x01", b""):
        found = views(17, body)
        assert "json" not in found
        assert "xml" not in found
    assert views(0, b"\x00A")["hex"] == f"00000000  {'00 41':<47}  .A"


def test_a_preview_is_short_and_never_half_a_letter() -> None:
    assert preview(17, b"abc", cut=False) == "abc"
    assert preview(17, "ä".encode() * 300, cut=True).endswith("ä…")
    assert preview(17, ("ä" * 300).encode()[:599], cut=True).startswith("ää")
    assert preview(31, "Grüße".encode("utf-16-le"), cut=False) == "Grüße"
    assert len(preview(17, b"x" * 10_000, cut=False)) == 513
    assert preview(0, b"\x00\xff", cut=False) == "00 ff"


def test_exceptions_are_found_in_both_dialects() -> None:
    nservicebus = write_headers(
        {"NServiceBus.ExceptionInfo.ExceptionType": "System.X"}, HeaderDialect.NSERVICEBUS
    )
    rebus = write_headers({"rbs2-error-details": "System.Y: no\n at Z"}, HeaderDialect.REBUS)
    assert exception_of(nservicebus) == "System.X"
    assert exception_of(rebus) == "System.Y: no"
    assert exception_of(b"\x00nothing") == ""


@pytest.mark.parametrize(
    ("headers", "home"),
    [
        ({"NServiceBus.FailedQ": "orders@HOST"}, ".\\private$\\orders"),
        ({"NServiceBus.FailedQ": "orders@far.example"}, "DIRECT=OS:far.example\\private$\\orders"),
        ({"rbs2-source-queue": "orders@HOST"}, ".\\private$\\orders"),
        ({"NServiceBus.FailedQ": "..\\evil@HOST"}, "as sent"),
        ({}, "as sent"),
    ],
)
def test_a_failed_message_goes_home(headers: dict[str, str], home: str) -> None:
    class Failed:
        extension = json.dumps(headers).encode()
        destination = "as sent"

    assert home_of(Failed(), "host") == home  # type: ignore[arg-type]
