"""The table of operations: what it checks, and the document it gives."""

from __future__ import annotations

from typing import Any

import pytest

from msmq.web.operations import MisuseError, check, document, from_text
from msmq.web.process import table

SCHEMA = {
    "type": "object", "required": ["a"], "additionalProperties": False,
    "properties": {
        "a": {"type": "integer", "minimum": 1, "maximum": 3}, "b": {"type": ["string", "null"], "maxLength": 2},
        "c": {"type": "array", "items": {"enum": ["x"]}, "maxItems": 1}, "d": {"type": "boolean"},
        "e": {"type": "string", "pattern": "^x+$"}, "f": {"type": "number"},
    },
}  # fmt: skip


@pytest.mark.parametrize("value", [{"a": 1}, {"a": 3, "b": None, "c": ["x"], "d": True, "e": "xx", "f": 1.5}])
def test_values_that_suit(value: Any) -> None:
    check(value, SCHEMA, "body")


@pytest.mark.parametrize(
    "value",
    [
        [], {}, {"a": 0}, {"a": 4}, {"a": True}, {"a": "1"}, {"a": 1, "b": "xxx"}, {"a": 1, "c": ["y"]},
        {"a": 1, "c": ["x", "x"]}, {"a": 1, "d": 1}, {"a": 1, "e": "y"}, {"a": 1, "f": False}, {"a": 1, "z": 1},
    ],
    ids=str,
)  # fmt: skip
def test_values_that_do_not(value: Any) -> None:
    with pytest.raises(MisuseError):
        check(value, SCHEMA, "body")


def test_parameters_are_texts() -> None:
    assert from_text("-5", {"type": "integer"}, "x") == -5
    assert from_text("true", {"type": "boolean"}, "x") is True
    assert from_text("a,,b", {"type": "array"}, "x") == ["a", "b"]
    for text, kind in (("٣", "integer"), ("1e3", "integer"), ("True", "boolean")):
        with pytest.raises(MisuseError):
            from_text(text, {"type": kind}, "x")


def test_the_document_has_every_operation_once() -> None:
    operations = table().operations
    told = document(table(), "1")
    named = [each["operationId"] for methods in told["paths"].values() for each in methods.values()]
    assert told["openapi"] == "3.1.0"
    assert len(named) == len(set(named)) == len(operations)
    for operation in operations:
        described = told["paths"][operation.path][operation.method.lower()]
        assert described["summary"].endswith(".")
        assert ("requestBody" in described) == (operation.body is not None)
        assert bool(described["security"]) == (operation.role is not None)
