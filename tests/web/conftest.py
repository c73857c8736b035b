"""One queue manager with a console for all tests of this directory."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.web.support import Live, living


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with living(tmp_path_factory.mktemp("web")) as running:
        yield running


@pytest.fixture
def admin(live: Live) -> Iterator[httpx.Client]:
    with live.client() as client:
        yield client
