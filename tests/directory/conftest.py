"""The domain the tests of this room share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scripts.samba_dc import DomainController
from tests.directory.support import Domain, domain_of


@pytest.fixture(scope="session")
def shared_domain(domain_controller: DomainController) -> Iterator[Domain]:
    yield from domain_of(domain_controller)


@pytest.fixture
def domain(shared_domain: Domain) -> Domain:
    """The domain, with nothing traced yet."""
    shared_domain.trace.clear()
    return shared_domain
