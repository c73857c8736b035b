"""Lists: filtered, sorted, cut into pages."""

from __future__ import annotations

from typing import Any

import pytest

from msmq.web.lists import page
from msmq.web.operations import MisuseError

ROWS = [{"name": f"q[{at}]", "messages": str(at), "big": at % 2 == 0} for at in (10, 9, 200, 0)]


def _names(**given: Any) -> list[str]:
    return [row["name"] for row in page(ROWS, given, ("name",))["items"]]


def test_numbers_that_are_text_are_sorted_as_numbers() -> None:
    assert _names(sort="messages") == ["q[0]", "q[9]", "q[10]", "q[200]"]
    assert _names(sort="-messages")[0] == "q[200]"
    assert _names(sort="name") == ["q[0]", "q[10]", "q[200]", "q[9]"]
    assert _names(sort="big")[0] == "q[9]"


def test_search_takes_texts_and_patterns_and_no_others() -> None:
    assert _names(search="Q[1") == ["q[10]"]
    assert _names(search="q[?]") == ["q[9]", "q[0]"]
    assert _names(search="*0]") == ["q[10]", "q[200]", "q[0]"]
    assert _names(hide_empty=True) == ["q[10]", "q[9]", "q[200]"]


def test_pages_and_columns() -> None:
    found = page(ROWS, {"page": 2, "page_size": 3, "columns": ["name", "nothing"]})
    assert found == {"items": [{"name": "q[0]"}], "total": 4, "page": 2, "page_size": 3}
    assert page(ROWS, {"page": 9})["items"] == []


def test_conditions_all_hold() -> None:
    assert _names(where=["messages>=10"]) == ["q[10]", "q[200]"]
    assert _names(where=["messages<200", "messages!=0"]) == ["q[10]", "q[9]"]
    assert _names(where=["big=true", "messages>0"]) == ["q[10]", "q[200]"]
    assert _names(where=["name=Q[9]"]) == ["q[9]"]
    assert _names(where=["name~0]"]) == ["q[10]", "q[200]", "q[0]"]
    assert [row["n"] for row in page([{"n": None}, {"n": 5}], {"where": ["n<9"]})["items"]] == [5]
    for wrong in ("colour=1", "messages", "=1"):
        with pytest.raises(MisuseError):
            page(ROWS, {"where": [wrong]})


def test_a_column_that_is_not_there() -> None:
    with pytest.raises(MisuseError):
        page(ROWS, {"sort": "colour"})
    assert page([], {"sort": "colour"})["items"] == []
