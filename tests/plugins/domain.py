"""A domain controller for the tests that need one (scripts/samba_dc.py)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.samba_dc import DomainController, lease


@pytest.fixture(scope="session")
def domain_controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DomainController]:
    """The controller that all tests of a run share, whichever process they run in; use names of your own."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if _is_worker() else base
    with lease(shared / "domain_controller") as controller:
        yield controller


@pytest.fixture
def own_domain_controller(tmp_path: Path) -> Iterator[DomainController]:
    """A controller for one test, which may stop and start it."""
    with lease(tmp_path / "domain_controller") as controller:
        yield controller


def _is_worker() -> bool:
    """Whether pytest-xdist runs us beside others."""
    return "PYTEST_XDIST_WORKER" in os.environ
