"""One queue manager for all tests of the command line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.support import Live, serving


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with serving(tmp_path_factory.mktemp("m")) as running:
        yield running
