"""Rules of alarms that make sense, and others."""

from __future__ import annotations

from typing import Any

import pytest

from msmq.api.alarm_rules import KINDS, check
from msmq.api.generated import msmq_pb2 as pb
from msmq.errors import InvalidParameterError


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_rules(kind: str) -> None:
    check(
        pb.AlarmRule(
            name="a", kind=kind, threshold=1, webhooks=["https://a.example/b"], mail_to=["a@b.example"]
        )
    )


@pytest.mark.parametrize(
    "given",
    [
        {"name": ""}, {"name": "x" * 101}, {"kind": "nonsense"}, {"threshold": -1}, {"threshold": float("nan")},
        {"for_s": 1e9}, {"queue": "x" * 300}, {"webhooks": ["file:///etc/passwd"]}, {"webhooks": ["http://a b"]},
        {"mail_to": ["a@b\nBcc: c@d"]}, {"mail_to": ["a@b"] * 11},
    ],
    ids=str,
)  # fmt: skip
def test_rules_that_make_no_sense(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameterError):
        check(pb.AlarmRule(**({"name": "a", "kind": "depth"} | given)))
