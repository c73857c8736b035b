"""Differences between a host and a real directory, over HTTP."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from playwright.async_api import async_playwright, expect

import msmq
from msmq.server.web_settings import WebSettings
from msmq.web.plan import Plan, bound
from msmq.web.process import run as serve
from scripts.samba_dc import DomainController
from tests.directory.support import Domain, domain_of
from tests.server.members import members
from tests.server.members import run as run_loop
from tests.server.support import ALICE
from tests.web.support import ADMINISTRATORS, Live
from tests.web.test_console import FLAGS, PATIENCE_MS, ROOT


@pytest.fixture(scope="module")
def domain(domain_controller: DomainController) -> Iterator[Domain]:
    yield from domain_of(domain_controller)


@asynccontextmanager
async def differing(domain: Domain, directory: Path, *lost: str) -> AsyncIterator[tuple[str, str, str]]:
    """A host in a domain whose directory has lost some of its queues, with a console: its name, the console's address
    and a token."""
    name, door = domain.computer(), f"unix:{directory}/door"
    async with members(directory, domain) as here:
        alice = await here.join(ALICE, name, door=door, watch_s=3600)
        for queue in ("kept", *lost):
            await alice.publish(queue)
        for queue in lost:
            domain.remove(domain.directory.objects.names.queue(f"{name}\\{queue}"))
        listening, over = bound("127.0.0.1", 0), asyncio.Event()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        serving = asyncio.create_task(serve(Plan(WebSettings(), {name: door}), [listening], over))
        try:
            async with msmq.connect(door) as mq:
                _, token = await mq.create_token("test", ADMINISTRATORS)
            yield name, url, token
        finally:
            over.set()
            await serving


def test_differences_are_listed_and_mended(domain: Domain, tmp_path: Path) -> None:
    async def test() -> None:
        async with differing(domain, tmp_path, "lost") as (name, url, token):
            bearer = {"authorization": f"Bearer {token}"}
            async with httpx.AsyncClient(base_url=url, headers=bearer, trust_env=False, timeout=60) as client:
                (found,) = (await client.get("/api/directory/differences")).json()["items"]
                assert found["queue"].lower() == f"{name}\\lost".lower()
                assert found["kind"] == "only here"
                assert "publish" in found["choices"]
                wanted = {"queue": found["queue"], "choice": "nonsense"}
                refused = await client.post("/api/directory/repair", json=wanted)
                assert (refused.status_code, "nonsense" in refused.json()["detail"]) == (400, True)
                done = await client.post("/api/directory/repair", json=wanted | {"choice": "publish"})
                assert done.status_code == 204
                assert (await client.get("/api/directory/differences")).json()["items"] == []

    run_loop(test)


def test_differences_are_mended_in_a_browser(domain: Domain, tmp_path: Path) -> None:
    subprocess.run([ROOT / "scripts" / "chromium.sh"], check=True, timeout=600)

    async def test() -> None:
        async with (
            differing(domain, tmp_path, "lost", "unwanted") as (_, url, token),
            async_playwright() as playwright,
        ):
            browser = await playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
            page = await browser.new_page(base_url=url)
            page.set_default_timeout(PATIENCE_MS)
            expect.set_options(timeout=PATIENCE_MS)
            await page.goto("/")
            await page.get_by_label("Token").fill(token)
            await page.keyboard.press("Enter")
            await page.get_by_role("link", name="Network").click()
            row, dialog = page.get_by_role("row"), page.get_by_role("dialog")
            lost, unwanted = row.filter(has_text="lost"), row.filter(has_text="unwanted")
            await expect(lost).to_contain_text("only here")
            publish = lost.get_by_role("button", name="publish")
            for _ in range(100):
                await page.keyboard.press("Tab")
                if await publish.evaluate("element => element === document.activeElement"):
                    break
            await page.keyboard.press("Enter")
            await dialog.get_by_role("button", name="Do it").press("Enter")
            await expect(dialog).to_have_count(0)
            await expect(lost).to_have_count(0)
            await unwanted.get_by_role("button", name="delete-here").click()
            typed = await unwanted.get_by_role("cell").first.inner_text()
            await dialog.get_by_label("to confirm").fill(typed)
            await dialog.get_by_role("button", name="Do it").click()
            await expect(page.get_by_text("Nothing differs.")).to_be_visible()
            await browser.close()
            async with msmq.connect(f"unix:{tmp_path}/door") as mq:
                left = {queue.path.rpartition("\\")[2].lower() for queue in await mq.queues()}
                assert {"kept", "lost"} <= left
                assert "unwanted" not in left

    run_loop(test)


def test_a_host_without_a_directory_differs_from_none(admin: httpx.Client, live: Live) -> None:
    assert admin.get("/api/directory/differences").json()["items"] == []
