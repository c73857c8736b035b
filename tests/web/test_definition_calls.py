"""Definitions over HTTP are for those who may."""

from __future__ import annotations

import httpx

from tests.web.support import LOOKER, Live


def test_who_looks_may_export_but_not_import(live: Live, admin: httpx.Client) -> None:
    document = admin.get("/api/definitions").json()
    assert document["openmsmq_definitions"] == 1
    assert admin.post("/api/definitions", json={"openmsmq_definitions": 9}).status_code == 400
    with live.client(LOOKER) as looker:
        assert looker.post("/api/definitions", json=document).status_code == 403
