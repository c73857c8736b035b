"""Orders that cannot be carried out are refused before anything happens."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.web.support import Live

QUEUE = ".\\private$\\ordered"


@pytest.mark.parametrize(
    ("order", "status"),
    [
        ({"action": "move", "queue": QUEUE, "everything": True}, 400),
        ({"action": "delete", "queue": QUEUE}, 400),
        ({"action": "delete", "queue": QUEUE, "everything": True, "filters": {"label": "x"}}, 400),
        ({"action": "burn", "queue": QUEUE, "everything": True}, 400),
        ({"action": "delete", "queue": QUEUE, "filters": {"nonsense": "x"}}, 400),
        ({"action": "delete", "queue": QUEUE, "lookup_ids": ["99999999999999999999"]}, 400),
        ({"action": "delete", "queue": ".\\private$\\missing", "everything": True}, 404),
    ],
)
def test_orders_that_make_no_sense(
    live: Live, admin: httpx.Client, order: dict[str, Any], status: int
) -> None:
    live.queue("ordered")
    assert admin.post("/api/jobs", json=order).status_code == status
