"""Plugins and settings of the whole test tree."""

import os
import signal
from functools import cache

import typer.testing
from hypothesis import settings

# gRPC's handlers of fork() reach into a child that is about to become Spark's Java process, and may end it. Nothing
# here uses gRPC in a forked child.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

# Programs that tests start run without a console, unless the test is about it.
os.environ.setdefault("MSMQ_WEB", "none")

# A background shell ignores SIGINT, and so would every program that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Typer's runner builds all commands for each run, which takes longer than most of the runs.
typer.testing._get_command = cache(typer.testing._get_command)  # type: ignore[attr-defined]

pytest_plugins = (
    "tests.plugins.conformance",
    "tests.plugins.constants",
    "tests.plugins.domain",
    "tests.plugins.keys",
    "tests.plugins.loops",
    "tests.plugins.memory",
    "tests.plugins.no_skips",
    "tests.plugins.order",
    "tests.plugins.quick",
)

# A busy machine is not a bug: no example fails for the time it takes.
settings.register_profile("msmq", deadline=None)
settings.load_profile("msmq")
