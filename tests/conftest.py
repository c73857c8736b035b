"""Plugins of the whole test tree."""

pytest_plugins = ("tests.plugins.conformance", "tests.plugins.no_skips")
