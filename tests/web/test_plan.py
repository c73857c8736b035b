"""A plan on its way to the process of a console, and the port it is given."""

from __future__ import annotations

import pytest

from msmq.server.web_settings import WebSettings
from msmq.web.plan import Plan, bound


def test_a_plan_survives_its_way_through_a_pipe() -> None:
    web = WebSettings(listen="[::1]:5", roles={"S-1": "look"}, hosts={"B": "tls:b:1"})
    plan = Plan(web, {"A": "unix:/a"}, {"alice": "S-1-5"}, "/state", (3, 4), log_level="debug")
    assert Plan.from_json(plan.to_json()) == plan


def test_a_taken_port_is_told() -> None:
    with bound("127.0.0.1", 0) as first, pytest.raises(OSError, match="in use"):
        bound("127.0.0.1", first.getsockname()[1])
