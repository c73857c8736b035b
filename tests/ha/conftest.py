"""One PostgreSQL for all tests of a module that only need some tables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ha.postgres import Server, new_server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with new_server() as made:
        yield made
