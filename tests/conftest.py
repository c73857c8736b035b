"""Plugins and settings of the whole test tree."""

import os
import signal

from hypothesis import settings

# gRPC's handlers of fork() reach into a child that is about to become Spark's Java process, and may end it. Nothing
# here uses gRPC in a forked child.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

# A background shell ignores SIGINT, and so would every program that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ("tests.plugins.conformance", "tests.plugins.domain", "tests.plugins.no_skips")

# A busy machine is not a bug: no example fails for the time it takes.
settings.register_profile("msmq", deadline=None)
settings.load_profile("msmq")
