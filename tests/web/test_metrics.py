"""Metrics: names that dashboards know, figures that agree with the store, files that Prometheus itself accepts."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

import msmq
from msmq.client.connection import Connection
from tests.server.support import free_port
from tests.web.support import LOOKER, Live, living

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "packaging" / "monitoring"
PAGE = ROOT / "docs" / "how-to" / "monitor.md"


@pytest.fixture(scope="module")
def promtool() -> Path:
    subprocess.run([ROOT / "scripts" / "prometheus.sh"], check=True, timeout=600)
    return ROOT / "build" / "prometheus" / "usr" / "bin" / "promtool"


def _value(text: str, name: str, /, **labels: str) -> float:
    for line in text.splitlines():
        found = re.fullmatch(rf"{name}(?:{{(.*)}})? (\S+)", line)
        if found and all(f'{key}="{value}"' in (found[1] or "") for key, value in labels.items()):
            return float(found[2])
    raise AssertionError(f"{name} {labels} is not told")


def test_prometheus_finds_nothing_to_complain_of(live: Live, admin: httpx.Client, promtool: Path) -> None:
    live.queue("strange{name='x'}", "x")
    text = admin.get("/metrics?per_queue=true").text
    done = subprocess.run(
        [promtool, "check", "metrics"], input=text.encode(), capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_alert_rules_the_dashboard_and_the_page_name_what_there_is(
    admin: httpx.Client, promtool: Path
) -> None:
    rules = MONITORING / "alerts.yml"
    done = subprocess.run([promtool, "check", "rules", rules], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    dashboard = json.loads((MONITORING / "grafana-dashboard.json").read_text())
    asked = (
        rules.read_text()
        + PAGE.read_text(encoding="utf-8")
        + " ".join(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    )
    told = set(re.findall(r"^# TYPE (\S+)", admin.get("/metrics?per_queue=true").text, re.MULTILINE))
    names = {re.sub("_bucket$", "", name) for name in re.findall(r"\b(?:openmsmq|windows_msmq)_\w+", asked)}
    assert names <= told


class Prometheus:
    """A Prometheus that scrapes a console every second, with the alert rules of the package."""

    def __init__(self, directory: Path, promtool: Path, live: Live) -> None:
        port = free_port()
        directory.mkdir()
        rules = yaml.safe_load((MONITORING / "alerts.yml").read_text())
        for rule in rules["groups"][0]["rules"]:
            rule["for"] = "0s"  # nobody waits a quarter of an hour here
        (directory / "rules.yml").write_text(yaml.safe_dump(rules))
        (directory / "token").write_text(live.token())
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(directory / "rules.yml")],
            **yaml.safe_load(self.documented(directory, live)),
        }
        (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
        checked = subprocess.run(
            [promtool, "check", "config", directory / "prometheus.yml"], capture_output=True
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr
        command = [
            promtool.with_name("prometheus"),
            f"--config.file={directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        with (directory / "log").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}/api/v1", trust_env=False, timeout=60)

    @staticmethod
    def documented(directory: Path, live: Live) -> str:
        """The configuration of docs/how-to/monitor.md, with the token and the address of this console."""
        (text,) = re.findall(
            r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        )
        for old, new in (
            ("/etc/prometheus/msmq.token", str(directory / "token")),
            ("127.0.0.1:1811", live.url.removeprefix("http://")),
        ):
            assert old in text
            text = text.replace(old, new)
        return text

    def query(self, text: str) -> list[Any]:
        answer = self.client.get("/query", params={"query": text}).raise_for_status().json()
        assert answer["status"] == "success", (text, answer)
        found: list[Any] = answer["data"]["result"]
        return found

    def until(self, holds: Callable[[], bool]) -> None:
        for _ in range(600):
            assert self.process.poll() is None
            try:
                if holds():
                    return
            except httpx.HTTPError:
                pass  # it is not up yet
            time.sleep(0.1)
        raise AssertionError(self.client.get("/targets").text)

    def close(self) -> None:
        self.client.close()
        self.process.terminate()
        self.process.wait(60)


def test_a_real_prometheus_scrapes_draws_and_alerts(promtool: Path, tmp_path: Path) -> None:
    async def fill(mq: Connection) -> None:
        queue = await mq.create_queue(".\\private$\\drawn")
        await queue.send_many(["x"] * 25)
        gone = await mq.create_queue(".\\private$\\gone", transactional=True)
        await gone.send_many(["dead"] * 2)
        await mq.delete_queue(gone)

    with living(tmp_path / "host") as live:
        live.do(fill)
        prometheus = Prometheus(tmp_path / "prometheus", promtool, live)
        try:
            name = 'windows_msmq_messages_in_queue{name="HOST\\\\private$\\\\drawn"}'
            prometheus.until(lambda: [each["value"][1] for each in prometheus.query(name)] == ["25"])
            # Two scrapes later there are rates, too.
            prometheus.until(lambda: len(prometheus.query("rate(openmsmq_commits_total[1m])")) == 1)
            dashboard = json.loads((MONITORING / "grafana-dashboard.json").read_text())
            for panel in dashboard["panels"]:
                for target in panel["targets"]:
                    asked = target["expr"].replace("$instance", ".*")
                    assert prometheus.query(asked), f"{panel['title']} would be empty"

            def alerts() -> set[str]:
                told = prometheus.client.get("/alerts").json()["data"]["alerts"]
                return {each["labels"]["alertname"] for each in told if each["state"] == "firing"}

            prometheus.until(lambda: {"DeadLetters", "QueueWithoutReader"} <= alerts())
            groups = prometheus.client.get("/rules").json()["data"]["groups"]
            assert {rule["health"] for group in groups for rule in group["rules"]} == {"ok"}
            live.stop(kill=True)
            prometheus.until(lambda: "QueueManagerDown" in alerts())
            live.start()
            prometheus.until(lambda: "QueueManagerDown" not in alerts())
        finally:
            prometheus.close()


def test_figures_agree_with_themselves_while_messages_come_and_go(live: Live, admin: httpx.Client) -> None:
    path, name = ".\\private$\\flowing", r"HOST\\private$\\flowing"
    over = threading.Event()

    async def traffic(mq: Connection) -> tuple[int, int]:
        queue = await mq.create_queue(path, if_missing=True)
        sent = received = 0
        async with queue.receiver() as receiver:
            while not over.is_set():
                await queue.send_many(["x" * 50] * 20)
                sent += 20
                for _ in range(15):
                    await (await receiver.receive(timeout=120)).acknowledge()
                    received += 1
        return sent, received

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(live.do, traffic)
        try:
            seen = 0.0
            for _ in range(25):
                text = admin.get("/metrics?per_queue=true&limit=10000").text
                if name not in text:
                    continue
                there, arrived, left = (
                    _value(text, each, name=name)
                    for each in (
                        "windows_msmq_messages_in_queue",
                        "openmsmq_queue_arrived_total",
                        "openmsmq_queue_removed_total",
                    )
                )
                assert arrived - left == there
                assert left >= seen, "a counter never falls"
                seen = left
        finally:
            over.set()
        sent, received = running.result(120)
    assert seen > 0
    text = admin.get("/metrics?per_queue=true&limit=10000").text
    assert _value(text, "openmsmq_queue_arrived_total", name=name) == sent
    assert _value(text, "openmsmq_queue_removed_total", name=name) == received
    assert _value(text, "windows_msmq_messages_in_queue", name=name) == sent - received
    assert _value(text, "openmsmq_commit_records_count") > 0
    assert _value(text, "openmsmq_memory_bytes") > 1 << 20
    assert _value(text, "openmsmq_connection_attempts_total", status="DnsFailure") >= 0


def test_the_names_of_windows_exporter_with_zeros(live: Live, admin: httpx.Client) -> None:
    live.queue("empty-one")
    text = admin.get("/metrics?per_queue=true").text
    for name in (
        "messages_in_queue",
        "bytes_in_queue",
        "messages_in_journal_queue",
        "bytes_in_journal_queue",
    ):
        assert _value(text, f"windows_msmq_{name}", name=r"HOST\\private$\\empty-one") == 0
        assert _value(text, f"windows_msmq_{name}", name="Computer Queues") >= 0


def test_the_number_of_series_is_not_in_the_hands_of_strangers(live: Live, admin: httpx.Client) -> None:
    assert "private$" not in admin.get("/metrics").text
    limited = admin.get("/metrics?per_queue=true&limit=2").text
    assert limited.count("windows_msmq_messages_in_queue{") == 3
    with live.client(None) as stranger:
        assert stranger.get("/metrics").status_code == 401


def test_figures_agree_with_the_store_also_after_a_kill(tmp_path: Path) -> None:
    path = ".\\private$\\counted"

    async def traffic(mq: Connection) -> None:
        queue = await mq.create_queue(path, journaling=True)
        await queue.send_many([msmq.Message("x" * 100, label=str(at)) for at in range(500)])
        async with queue.receiver() as receiver:
            for _ in range(120):
                await (await receiver.receive(timeout=120)).acknowledge()
        gone = await mq.create_queue(".\\private$\\gone", transactional=True)
        await gone.send_many(["dead"] * 3)
        await mq.delete_queue(gone)

    config = "[web]\nmetrics_open = true\n"
    with living(tmp_path, config=config) as live:
        live.do(traffic)
        with live.client(
            LOOKER
        ) as looker:  # who may not read dead letters does not keep others from counting them
            assert "openmsmq_dead_letters{" not in looker.get("/metrics").text
        with live.client(None) as scraper:
            before = scraper.get("/metrics?per_queue=true").text
        _agree(live, before)
        assert _value(before, "openmsmq_queue_removed_total", name=r"HOST\\private$\\counted") == 120
        assert _value(before, "openmsmq_commit_seconds_count") > 0
        live.stop(kill=True)
        live.start()
        with live.client(None) as scraper:
            after = scraper.get("/metrics?per_queue=true").text
        _agree(live, after)
        for name in (
            "messages_in_queue",
            "bytes_in_queue",
            "messages_in_journal_queue",
            "bytes_in_journal_queue",
        ):
            labels = {"name": r"HOST\\private$\\counted"}
            assert _value(before, f"windows_msmq_{name}", **labels) == _value(
                after, f"windows_msmq_{name}", **labels
            )


def _agree(live: Live, text: str) -> None:
    info = live.do(lambda mq: mq.queue_info(".\\private$\\counted"))
    counted = {"name": r"HOST\\private$\\counted"}
    assert _value(text, "windows_msmq_messages_in_queue", **counted) == info.messages == 380
    assert _value(text, "windows_msmq_bytes_in_queue", **counted) == info.bytes
    assert _value(text, "windows_msmq_messages_in_journal_queue", **counted) == info.journal_messages == 120
    assert _value(text, "windows_msmq_bytes_in_journal_queue", **counted) == info.journal_bytes
    dead = live.do(lambda mq: mq.queue_info(".\\xactdeadletter$")).messages
    told = sum(
        float(line.split()[-1]) for line in text.splitlines() if line.startswith("openmsmq_dead_letters{")
    )
    assert told == dead == 3
