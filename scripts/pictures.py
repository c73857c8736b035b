"""Make the pictures of the console in docs/pictures, in Debian's Chromium: ``.venv/bin/python -m scripts.pictures``.

A queue manager of its own is started and filled with orders, some of which failed.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page, sync_playwright

import msmq
from msmq.client import AlarmRule

ROOT: Final = Path(__file__).resolve().parent.parent
TARGET: Final = ROOT / "docs" / "pictures"
WEB: Final = "127.0.0.1:18911"
_FLAGS: Final = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
_FAILED: Final = {
    "NServiceBus.ExceptionInfo.ExceptionType": "System.TimeoutException",
    "NServiceBus.FailedQ": "orders@SHOP",
    "NServiceBus.EnclosedMessageTypes": "Shop.PlaceOrder",
}


async def fill(address: str) -> str:
    """Make queues and messages; gives a token."""
    async with msmq.connect(address) as mq:
        for name, label in (
            ("orders", "All orders"),
            ("replies", "Answers of the warehouse"),
            ("error", "Failed"),
        ):
            await mq.create_queue(f".\\private$\\{name}", label=label, journaling=name == "orders")
        gone = await mq.create_queue(".\\private$\\old-orders", transactional=True)
        await gone.send_many([msmq.Message({"order": at}, label=f"order {at}") for at in range(12)])
        await mq.delete_queue(gone)
        orders = mq.queue(".\\private$\\orders")
        coffees = ("kenya", "sumatra", "antigua")
        await orders.send_many(
            msmq.Message({"order": at, "coffee": coffees[at % 3], "lines": [{"sku": f"C{at % 7}", "n": at % 4 + 1}]},
                         label=f"order {at}")
            for at in range(2_400)
        )  # fmt: skip
        await mq.queue(".\\private$\\error").send_many(
            msmq.Message({"order": at}, label=f"order {at}", extension=json.dumps(_FAILED).encode())
            for at in range(9)
        )
        await mq.queue("DIRECT=OS:store.invalid\\private$\\orders").send("x", label="order for the store")
        await mq.create_account("till-7")
        await mq.set_alarms(
            [
                AlarmRule(
                    "orders pile up", "depth", 1_000, "*orders*", webhooks=("https://chat.example/hook",)
                ),
                AlarmRule("disk nearly full", "disk_free", 5e9, mail_to=("ops@example.com",)),
            ]
        )
        await mq.create_token("reports")
        return (await mq.create_token("pictures", "S-1-5-32-544"))[1]


def take(browser: Browser, token: str) -> None:
    """All pictures."""
    TARGET.mkdir(exist_ok=True)
    for scheme in ("light", "dark"):
        context = browser.new_context(
            base_url=f"http://{WEB}", color_scheme=scheme, viewport={"width": 1280, "height": 800}
        )
        context.set_default_timeout(120_000)
        page = context.new_page()
        page.goto("/")
        page.get_by_label("Token").fill(token)
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="SHOP").wait_for()
        if scheme == "dark":
            page.goto("/queues")
            page.get_by_text("All orders").wait_for()
            page.screenshot(path=TARGET / "queues-dark.png")
        else:
            _light(page)
        context.close()


def _light(page: Page) -> None:
    page.get_by_text("Dead letters by reason").wait_for()
    page.wait_for_timeout(8_000)  # the charts need something to show
    page.screenshot(path=TARGET / "overview.png")
    page.goto("/messages?queue=SHOP%5Cprivate%24%5Corders")
    page.get_by_text("order 3", exact=True).wait_for()
    page.screenshot(path=TARGET / "messages.png")
    page.get_by_text("order 3", exact=True).click()
    page.get_by_test_id("body").wait_for()
    page.screenshot(path=TARGET / "message.png")
    page.goto("/failures")
    page.get_by_role("button", name="Resubmit").first.wait_for()
    page.screenshot(path=TARGET / "failures.png")
    for path, seen in (
        ("queues", "All orders"),
        ("network", "store.invalid"),
        ("alarms", "New alarm"),
        ("access", "New token"),
    ):
        page.goto(f"/{path}")
        page.get_by_text(seen).first.wait_for()
        page.wait_for_timeout(1_000)
        page.screenshot(path=TARGET / f"{path}.png")
    page.goto("/definitions")
    page.get_by_label("Form of the export").select_option("YAML")
    page.get_by_role("button", name="Export").click()
    page.wait_for_timeout(1_000)
    page.screenshot(path=TARGET / "definitions.png")
    page.goto("/queues")
    page.get_by_role("button", name="Change SHOP\\private$\\replies").click()
    page.get_by_role("dialog").get_by_label("Label").fill("Answers of all warehouses")
    page.get_by_role("dialog").get_by_role("button", name="Change").click()
    page.get_by_text("Answers of all warehouses").wait_for()
    page.goto("/activity")
    page.get_by_text("set queue").first.wait_for()
    page.screenshot(path=TARGET / "activity.png")


def main() -> None:
    subprocess.run([ROOT / "scripts" / "chromium.sh"], check=True)
    with tempfile.TemporaryDirectory() as directory:
        address = f"unix:{directory}/sock"
        command = [sys.executable, "-m", "msmq", "serve", "--data", f"{directory}/data", "--name", "SHOP"]
        command += ["--listen", "127.0.0.1", "--port", "0", "--rpc-port", "0", "--ping-port", "0"]
        command += ["--api", address, "--web", WEB]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"ready")
        try:
            token = asyncio.run(fill(address))
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=_FLAGS)
                take(browser, token)
                browser.close()
        finally:
            process.terminate()
            process.wait(30)


if __name__ == "__main__":
    main()
