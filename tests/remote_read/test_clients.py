"""The table of clients that were tried is the one that their tests hold them to."""

from __future__ import annotations

from pathlib import Path

from tests.remote_read.clients import LEVELS, METHODS, SUCCEEDS, table

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "remote-read.md"


def test_the_table_on_the_page() -> None:
    shown = PAGE.read_text("utf-8").partition("<!-- clients -->\n")[2].partition("<!-- end of clients -->")[0]
    assert shown.strip() == table().strip(), f"write this there:\n{table()}"


def test_every_method_and_level_is_in_it() -> None:
    assert sorted(METHODS) == [number for number in range(16) if number != 1]  # which nobody uses
    for client, by_level in SUCCEEDS.items():
        assert tuple(by_level) == LEVELS[client]
        assert all(set(numbers) == set(METHODS) for numbers in by_level.values())
