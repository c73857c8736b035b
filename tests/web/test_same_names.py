"""Everything the command line does can be done over HTTP, except what has a reason not to."""

from __future__ import annotations

from collections.abc import Iterator

import typer

from msmq.cli import app
from msmq.web.process import table

OPERATIONS = {
    "send": "send_messages", "receive": "receive_messages", "peek": "find_messages", "follow": "tail",
    "move": "begin_job", "export": "export_messages", "import": "import_messages", "top": "events",
    "message show": "get_message", "dead-letter list": "list_failures", "dead-letter resend": "begin_job",
    "dead-letter purge": "purge_queue", "queue create": "create_queue", "queue list": "list_queues",
    "queue show": "get_queue", "queue locate": "locate_queue", "queue properties": "queue_properties",
    "queue set": "set_queue", "queue purge": "purge_queue", "queue delete": "delete_queue",
    "queue acl show": "queue_security", "queue acl set": "set_queue_security", "outgoing list": "list_outgoing",
    "outgoing properties": "outgoing_properties", "outgoing pause": "pause_outgoing",
    "outgoing resume": "resume_outgoing", "outgoing purge": "purge_outgoing", "manager show": "get_manager",
    "status": "get_manager",
    "manager properties": "manager_properties", "manager set": "set_manager", "manager online": "set_manager",
    "manager offline": "set_manager", "manager acl show": "manager_security", "manager acl set": "set_manager_security",
    "certificate list": "list_certificates", "certificate new": "renew_certificate",
    "certificate renew": "renew_certificate", "certificate enable": "enable_certificate",
    "certificate register": "enable_certificate", "certificate remove": "remove_certificate",
    "token create": "create_token", "token list": "list_tokens", "token remove": "remove_token",
    "user add": "add_user", "user password": "set_user_password", "user remove": "remove_user",
    "user list": "list_users", "definitions export": "export_definitions", "definitions diff": "import_definitions",
    "definitions import": "import_definitions", "directory check": "check_directory",
    "directory repair": "repair_queue",
}  # fmt: skip
LOCAL = {
    "serve": "is the queue manager", "demo": "shows two of its own", "ping": "asks from where it is run",
    "message new": "writes a text and sends nothing", "decode": "reads a file", "migrate plan": "reads a file",
    "migrate definitions": "reads a file",
    "capture scrub": "reads a file", "config show": "reads a file",
    "store info": "opens a store that nobody runs on", "store check": "opens a store that nobody runs on",
    "store compact": "opens a store that nobody runs on",
    **dict.fromkeys(
        ("ha status", "ha switchover", "ha fence"), "asks the database, also when no instance leads"
    ),
    **dict.fromkeys(
        (
            "directory join", "directory leave", "directory status", "directory find", "directory show",
            "directory export", "directory site create", "directory site set", "directory site delete",
            "directory link create", "directory link set", "directory link delete",
        ),
        "speaks LDAP with the rights of whoever runs it, which a queue manager does not have",
    ),
    **dict.fromkeys(
        ("pipeline archive", "pipeline replay", "pipeline report", "pipeline decode", "pipeline script"),
        "is a job of Spark",
    ),
}  # fmt: skip


def commands() -> Iterator[str]:
    def within(group: typer.main.TyperGroup, before: str) -> Iterator[str]:
        for name, command in group.commands.items():
            if isinstance(command, typer.main.TyperGroup):
                yield from within(command, f"{before}{name} ")
            else:
                yield f"{before}{name}"

    root = typer.main.get_command(app)
    assert isinstance(root, typer.main.TyperGroup)
    yield from within(root, "")


def test_every_command_is_an_operation_or_says_why_not() -> None:
    known = {operation.name for operation in table().operations}
    left = {command.removeprefix("message ") for command in commands()}  # `msmq message send` is `msmq send`
    left -= {command.removeprefix("message ") for command in (*OPERATIONS, *LOCAL)}
    assert left == set()
    assert set(OPERATIONS.values()) <= known


def test_the_tables_name_nothing_that_is_gone() -> None:
    assert {*OPERATIONS, *LOCAL} <= set(commands())
