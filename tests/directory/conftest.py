"""The domain the tests of this room share."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator

import pytest

from scripts.samba_dc import DomainController
from tests.directory.support import ENTERPRISE_DN, Domain, domain_of


@pytest.fixture(scope="session")
def shared_domain(domain_controller: DomainController) -> Iterator[Domain]:
    yield from domain_of(domain_controller)


@pytest.fixture
def domain(shared_domain: Domain) -> Domain:
    """The domain, with nothing traced yet."""
    shared_domain.trace.clear()
    return shared_domain


@pytest.fixture
def enterprise(domain: Domain) -> Iterator[Domain]:
    """The domain, with its one enterprise to ourselves; it is as it was before and afterwards."""
    names = ("mSMQNameStyle", "mSMQCSPName", "mSMQLongLived", "mSMQVersion")
    with (domain.controller.directory / "enterprise.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = {name: domain.look(ENTERPRISE_DN).get(name, []) for name in names}
        yield domain
        domain.change(ENTERPRISE_DN, **before)
