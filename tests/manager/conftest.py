"""Fixtures of the manager's tests."""

from __future__ import annotations

import pytest

from msmq.manager.queues.queue import Queue
from tests.manager.domain import DomainHost
from tests.manager.support import Host


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def queue(host: Host) -> Queue:
    return host.queue()


@pytest.fixture
def domain() -> DomainHost:
    return DomainHost()
