"""Plugins and settings of the whole test tree."""

from hypothesis import settings

pytest_plugins = ("tests.plugins.conformance", "tests.plugins.domain", "tests.plugins.no_skips")

# A busy machine is not a bug: no example fails for the time it takes.
settings.register_profile("msmq", deadline=None)
settings.load_profile("msmq")
