"""Hold the tests of all packages to the same rules: see ``packages/muster/tests/harness.py``."""

pytest_plugins = ["harness"]
