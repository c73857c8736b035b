"""Write a small store with something of everything, as this version writes it: `make store-fixture`.

Each release commits one under ``tests/packaging/stores``, and ``tests/packaging/test_upgrade.py`` opens all of them
with the newest program for ever: what was released is a promise. The archive has the directory of a queue manager that
was killed, so that it is as a crash leaves it; beside it stands what must be found in it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from msmq import __version__
from msmq.cli import app
from msmq.store.layout import FORMAT_VERSION

ROOT = Path(__file__).resolve().parent.parent
STORES = ROOT / "tests" / "packaging" / "stores"
NAME = "UPGRADE"
NOWHERE = r"DIRECT=TCP:127.0.0.99\PRIVATE$\later"
"""Where messages wait to be sent: nobody is at that address."""
DOOMED = r"DIRECT=TCP:127.0.0.98\PRIVATE$\doomed"
STEADY = [
    *(
        "label",
        "priority",
        "delivery",
        "body",
        "body_encoding",
        "class",
        "application_tag",
        "dead_letter_reason",
    ),
    *("message_id", "correlation_id", "response_queue", "extension", "journal", "dead_letter"),
]
"""What of a message never changes while it lies there."""
KEPT = [
    *(
        "kind",
        "transactional",
        "label",
        "journaling",
        "quota_kb",
        "base_priority",
        "identifier",
        "created_time",
    ),
    *("retry_delay_ms", "max_deliveries", "poison_subqueue"),
]
"""What of a queue must be found again."""

Command = Callable[..., str]


@contextmanager
def serving(directory: Path, *, kill: bool) -> Iterator[Command]:
    """A queue manager over ``directory``, and its command line; at the end it is killed, or stopped in order."""
    door = f"unix:{directory / 'api.sock'}"
    base = [sys.executable, "-m", "msmq"]
    command = [*base, "serve", "--data", str(directory / "data"), "--name", NAME, "--listen", "127.0.0.1"]
    command += ["--port", "0", "--ping-port", "0", "--rpc-port", "0", "--api", door]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            if not process.stdout.readline().startswith("ready"):
                raise RuntimeError(process.stderr.read())

            def run(*arguments: str) -> str:
                done = CliRunner().invoke(app, ["--server", door, *arguments])
                if done.exit_code not in (0, 3):  # 3: an empty queue
                    raise RuntimeError(f"{arguments}: {done.stderr}")
                return done.stdout

            yield run
        finally:
            (process.kill if kill else process.terminate)()
            process.communicate()


def contents(run: Command) -> dict[str, Any]:
    """Everything that must be found again: queues with their properties and rights, and every message."""

    def objects(*arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in run(*arguments, "--json").splitlines()]

    queues: dict[str, dict[str, Any]] = {}
    for each in objects("queue", "list", "--system", "--journals", "--subqueues"):
        name = each["path"]
        found = [{key: message.get(key) for key in STEADY} for message in objects("peek", name, "--all")]
        queues[name] = {"messages": found}
        queues[name] |= {key: each[key] for key in KEPT}
        if each["kind"] == "private":
            queues[name]["acl"] = objects("queue", "acl", "show", name)
    outgoing = {each["format_name"]: each["messages"] for each in objects("outgoing", "list")}
    return {
        "queues": queues,
        "outgoing": outgoing,
        "tokens": [each["name"] for each in objects("token", "list")],
    }


def fill(run: Command) -> None:
    """Something of everything that a store keeps."""
    orders, payments = r".\private$\orders", r".\private$\payments"
    run(
        "queue",
        "create",
        orders,
        "--label",
        "All orders",
        "--journal",
        "--quota",
        "100000",
        "--priority",
        "3",
    )
    run("queue", "create", payments, "--transactional", "--max-deliveries", "3", "--poison-subqueue", "bad")
    run("queue", "acl", "set", orders, "--allow", "EVERYONE=send,peek", "--deny", "ANONYMOUS=receive")
    for priority in (0, 7, 3):
        run(
            "send",
            orders,
            "--body",
            f"order {priority}",
            "--label",
            f"p{priority}",
            "--priority",
            str(priority),
        )
    run(
        "send",
        orders,
        "--body",
        "Grüße, 注文",
        "--application-tag",
        "7",
        "--response-queue",
        payments,
        "--recoverable",
    )
    run("send", payments, "--body", "2.50", "--label", "a payment", "--transactional")
    run("send", payments, "--body", "3.50", "--label", "another", "--transactional", "--journal")
    run("send", orders, "--body", "goes to the journal", "--priority", "7")
    run("receive", orders)
    run("move", orders, f"{orders};later", "--label", "p0")
    run("send", DOOMED, "--body", "a dead letter", "--label", "dead")
    run("outgoing", "purge", DOOMED, "--yes")
    run("send", NOWHERE, "--body", "waits", "--label", "waits", "--transactional")
    run("send", NOWHERE, "--body", "waits too", "--recoverable")
    run("token", "create", "reports")


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        with serving(directory, kill=True) as run:
            fill(run)
            expected = contents(run)
        target = STORES / f"{__version__}-format{FORMAT_VERSION}"
        target.mkdir(parents=True, exist_ok=True)
        with tarfile.open(target / "data.tar.xz", "w:xz") as archive:
            archive.add(directory / "data", "data")
        (target / "expected.json").write_text(
            json.dumps(expected, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    print(f"wrote {target.relative_to(ROOT)}: {(target / 'data.tar.xz').stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
