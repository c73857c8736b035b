"""What nothing in the source uses is dead, however many tests call it: a rule that only tests follow is not kept.

A public function, method or class counts as used when its name stands somewhere in the source besides its own
definition. That finds too little where two things share a name, and never too much, but for what is called from
outside; the tables below say who calls those.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from msmq.api import rpc
from msmq.errors import MQError, error_for

SOURCE = Path(__file__).resolve().parent.parent / "src" / "msmq"
# Tools for tests, and code that others generate.
EXEMPT = ("testing/", "api/generated/")

CALLED_FROM_OUTSIDE = {
    "applications": {
        "client/queue.py": ("Queue.consumer", "Queue.receive_by_id", "Queue.receive_by_correlation_id"),
        "client/sync.py": ("SyncQueue.receive_by_id", "SyncQueue.receive_by_correlation_id"),
        "remote_read/remote_queue.py": ("RemoteQueue.internal_transaction",),
        "rpc/client.py": ("RpcClient.cancel_calls",),
        "rpc/interface.py": ("Call.find_handle",),
        "rpc/ndr.py": ("Ref", "Union"),
        "telemetry/spans.py": ("Telemetry",),
        "wire/queue_format_ndr.py": ("encode_queue_format",),
        "wire/variant.py": ("encode_variant",),
    },
    "asyncio": {
        "api/intake.py": ("Intake.get_buffer", "Intake.buffer_updated"),
        "rpc/client.py": ("_Socket.get_buffer", "_Socket.buffer_updated"),
        "rpc/connection.py": ("Connection.get_buffer", "Connection.buffer_updated"),
        "server/ping_responder.py": ("_Asking.error_received",),
    },
    "urllib": {
        "web/oidc.py": ("_NoRedirect.redirect_request",),
    },
    "Python's files": {
        "spark/storage.py": ("_Parts.readinto", "_Parts.seekable"),
    },
    "pyspnego": {
        "rpc/ntlm.py": ("NtlmAcceptor.new_context",),
        "rpc/kerberos.py": ("KerberosAcceptor.new_context",),
    },
    "kombu and Celery": {
        "celery/transport.py": ("Channel.basic_ack", "Channel.basic_recover", "Transport.driver_version"),
    },
    "Spark": {
        "spark/metrics.py": (
            "Metrics.onQueryIdle",
            "Metrics.onQueryProgress",
            "Metrics.onQueryStarted",
            "Metrics.onQueryTerminated",
        ),
        "spark/source.py": (
            "MsmqDataSource",
            "MsmqDataSource.streamReader",
            "MsmqDataSource.streamWriter",
            "MsmqStreamReader.getDefaultReadLimit",
            "MsmqStreamReader.prepareForTriggerAvailableNow",
            "MsmqStreamReader.reportLatestOffset",
        ),
    },
}

ONLY_TESTS: dict[str, tuple[str, ...]] = {}
"""What only tests call is to be used, or to go with a reason for its row. Nothing is added here."""


class Definition(NamedTuple):
    file: str
    name: str
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def definitions(file: str, node: ast.AST, prefix: str = "") -> Iterator[Definition]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if not child.name.startswith("_"):
                yield Definition(file, prefix + child.name, child)
            if isinstance(child, ast.ClassDef):
                yield from definitions(file, child, f"{prefix}{child.name}.")


def words(tree: ast.AST) -> Iterator[str]:
    """Every name that is used; one as a text counts too where code looks names up, which `__all__` does not."""
    exported = {
        constant
        for statement in ast.walk(tree)
        if isinstance(statement, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == "__all__" for target in statement.targets)
        for constant in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in exported:
            yield node.value


def called_by_name(definition: Definition, calls: set[str], errors: set[str]) -> bool:
    """Commands of the command line, operations of the console, calls of the application channel, and errors by their
    code."""
    name = definition.node.name
    command = any(
        isinstance(each, ast.Call) and ast.unparse(each.func).endswith((".command", "TABLE.add"))
        for each in definition.node.decorator_list
    )
    return (
        command
        or (definition.file.startswith("api/") and name in calls)
        or (definition.file.startswith("errors/") and name in errors)
    )


def snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def test_what_nothing_uses_is_known() -> None:
    found: list[Definition] = []
    used: Counter[str] = Counter()
    for path in sorted(SOURCE.rglob("*.py")):
        file = path.relative_to(SOURCE).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        used.update(words(tree))
        if not file.startswith(EXEMPT):
            found += definitions(file, tree)
    calls = {snake(method.name) for method in rpc.methods()}
    errors = {each.__name__ for each in _below(MQError)}
    unused = {
        (each.file, each.name)
        for each in found
        if not used[each.node.name] and not called_by_name(each, calls, errors)
    }
    known = {
        (file, name)
        for table in (*CALLED_FROM_OUTSIDE.values(), ONLY_TESTS)
        for file, names in table.items()
        for name in names
    }
    assert unused == known


def _below(kind: type) -> Iterator[type]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)


def test_the_search_sees_a_use_and_a_lack_of_one() -> None:
    tree = ast.parse(
        '__all__ = ["alone"]\ndef alone(): ...\ndef used(): ...\nclass A:\n    def m(self): used()\n'
    )
    assert [each.name for each in definitions("a.py", tree)] == ["alone", "used", "A", "A.m"]
    assert {"used", "alone"} & set(words(tree)) == {"used"}
    assert error_for(0xC00E0003).code == 0xC00E0003  # errors are found by their code, not by their name
