"""Fixtures of the tests, which those of research/ have as well: see `support/fixtures.py`."""

pytest_plugins = ["support.fixtures"]
